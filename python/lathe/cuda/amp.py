"""`torch.cuda.amp`'s names."""

from lathe import amp as _amp
from lathe.amp import GradScaler


class autocast(_amp.autocast):
    """As `lathe.autocast("cuda")`.

    >>> with lathe.cuda.amp.autocast():
    ...     (Tensor.ones(2, 2) @ Tensor.ones(2, 2)).dtype
    dtypes.float16
    """

    def __init__(self, enabled=True, dtype=None, cache_enabled=None):
        super().__init__("cuda", dtype, enabled)


__all__ = ["GradScaler", "autocast"]
