"""Kernel options, as tinygrad programs import them."""

from lathe.errors import KernelOptError
from lathe.options import Opt, OptOps

__all__ = ["KernelOptError", "Opt", "OptOps"]
