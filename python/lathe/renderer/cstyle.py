"""As tinygrad programs import it."""

from lathe.absent import absent
from lathe.renderer import Renderer


class CStyleLanguage(Renderer):
    """A printer that no device of Lathe has under this name."""


class ClangRenderer(CStyleLanguage):
    """Likewise."""


class CUDARenderer(CStyleLanguage):
    """Likewise."""


class MetalRenderer(CStyleLanguage):
    """Likewise."""


class OpenCLRenderer(CStyleLanguage):
    """Likewise."""


__getattr__ = absent(__name__)
