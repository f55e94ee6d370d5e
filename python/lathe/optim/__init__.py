"""`torch.optim`'s name for `lathe.nn.optim`."""

from lathe.nn.optim import *  # noqa: F403
from lathe.nn.optim import lr_scheduler  # noqa: F401
