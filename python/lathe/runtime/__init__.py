"""A module path of tinygrad programs."""

from lathe.absent import absent

__getattr__ = absent(__name__)
