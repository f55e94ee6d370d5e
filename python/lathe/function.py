"""As tinygrad programs import it."""

from lathe.jit import function

__all__ = ["function"]
