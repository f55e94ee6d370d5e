"""As tinygrad programs import it."""

from lathe.absent import absent
from lathe.errors import JitError
from lathe.jit import TinyJit

__all__ = ["JitError", "TinyJit"]


__getattr__ = absent(__name__)
