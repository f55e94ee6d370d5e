"""`torch.nn.parameter`'s names."""

from lathe._core import Tensor
from lathe.nn.module import Parameter

__all__ = ["Parameter", "Tensor"]
