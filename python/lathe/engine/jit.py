"""As tinygrad programs import it."""

from lathe.errors import JitError
from lathe.jit import TinyJit

__all__ = ["JitError", "TinyJit"]
