"""`torch.nn.modules.module`'s names."""

from lathe.nn import Module

__all__ = ["Module"]
