"""`torch.nn.modules`' names: all of `lathe.nn`."""

from lathe.nn import *  # noqa: F403
