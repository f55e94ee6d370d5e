"""As older tinygrad programs import it."""

from lathe.codegen.opt import KernelOptError, Opt, OptOps

__all__ = ["KernelOptError", "Opt", "OptOps"]
