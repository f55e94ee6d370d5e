"""How devices print kernels. tinygrad programs ask which of its printers a device has; Lathe has its own, so none."""


class Renderer:
    """A way of printing kernels."""
