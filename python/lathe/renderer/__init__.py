"""How devices print kernels. tinygrad programs ask which of its printers a device has; Lathe has its own, so none."""

from lathe.absent import absent


class Renderer:
    """A way of printing kernels."""


__getattr__ = absent(__name__)
