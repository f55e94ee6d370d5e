"""Kernel options, as tinygrad programs import them."""

from lathe.absent import absent
from lathe.errors import KernelOptError
from lathe.options import Opt, OptOps

__all__ = ["KernelOptError", "Opt", "OptOps"]


__getattr__ = absent(__name__)
