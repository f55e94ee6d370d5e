"""As older tinygrad programs import it."""

from lathe.absent import absent
from lathe.codegen.opt import KernelOptError, Opt, OptOps

__all__ = ["KernelOptError", "Opt", "OptOps"]


__getattr__ = absent(__name__)
