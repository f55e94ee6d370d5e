"""As tinygrad programs import it."""

from lathe.absent import absent
from lathe.renderer import Renderer


class WGSLRenderer(Renderer):
    """A printer that no device of Lathe has under this name."""


__getattr__ = absent(__name__)
