"""Mixed precision: loss scaling for gradients in half precision."""

from lathe._core import GradScaler

__all__ = ["GradScaler"]
