"""The Tensor class; what it needs beyond the native part is added here."""

from lathe import _core
from lathe._core import Tensor
from lathe.dtype import dtypes
from lathe.helpers import fetch




class _Train:
    """Tensor.train(): training inside the block."""

    def __init__(self, mode=True):
        self._scopes, self.mode = [], mode

    def __enter__(self):
        scope = _core.TrainingScope(self.mode)
        scope.enter()
        self._scopes.append(scope)
        return self

    def __exit__(self, *error):
        self._scopes.pop().leave()

    def __call__(self, function):
        def inside(*args, **kwargs):
            with _Train(self.mode):
                return function(*args, **kwargs)

        return inside


def _rebuild(data, shape, dtype, device, requires_grad):
    return _core.rebuild_tensor(data, shape, dtype, device, requires_grad)


def _repr(self):
    grad = self.grad
    return (
        f"<Tensor {self.shape} {str(self.dtype)[7:]} on {self.device} with grad "
        f"{None if grad is None else grad.shape}>"
    )


def _from_url(url, gunzip=False, **kwargs):
    """The file of a URL as a tensor of bytes on disk."""
    return Tensor(fetch(url, gunzip=gunzip), **kwargs)


def _to_np_dtype(dtype):
    """The numpy dtype of a dtype, or None where numpy has none."""
    import numpy

    return numpy.dtype(dtype.fmt).type if dtype.fmt is not None else None


def _from_np_dtype(dtype):
    """The dtype of a numpy dtype."""
    import numpy

    return getattr(dtypes, numpy.dtype(dtype).name)


Tensor.__repr__ = _repr
Tensor.train = _Train
Tensor.from_url = staticmethod(_from_url)
Tensor.__array_priority__ = 1000

__all__ = ["Tensor", "dtypes"]
