"""As older tinygrad programs import it."""

from lathe.device import Device
from lathe.helpers import GlobalCounters
from lathe.uop.ops import UOp, Variable, resolve, sint, sym_infer

__all__ = ["Device", "GlobalCounters", "UOp", "Variable", "resolve", "sint", "sym_infer"]
