"""As tinygrad programs import it."""

from lathe.renderer import Renderer


class WGSLRenderer(Renderer):
    """A printer that no device of Lathe has under this name."""
