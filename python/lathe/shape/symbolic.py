"""As older tinygrad programs import it."""

from lathe.uop.ops import Variable, sint, sym_infer

__all__ = ["Variable", "sint", "sym_infer"]
