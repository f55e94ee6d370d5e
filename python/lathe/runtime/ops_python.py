"""As tinygrad programs import it."""

from lathe.absent import absent
from lathe.dtype import from_storage_scalar, to_storage_scalar  # noqa: F401

__getattr__ = absent(__name__)
