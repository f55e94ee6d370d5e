"""`torch.optim.lr_scheduler`'s name for `lathe.nn.lr_scheduler`."""

from lathe.nn.lr_scheduler import *  # noqa: F403
