"""The Tensor class; what it needs beyond the native part is added here."""

import collections
import functools
import operator
import pickle
import sys
import types

from lathe import _core
from lathe._core import Tensor
from lathe.absent import absent
from lathe.device import device
from lathe.dtype import _from_np_dtype, _to_np_dtype, dtypes  # noqa: F401
from lathe.errors import UserError
from lathe.helpers import fetch, no_grad


class _Train:
    """Tensor.train(): training inside the block, or inside the function it decorates.

    >>> with Tensor.train():
    ...     print(Tensor.training)
    True
    """

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


class _Test(no_grad):
    """Tensor.test(): no gradients inside the block.

    >>> x = Tensor([1.0], requires_grad=True)
    >>> with Tensor.test():
    ...     (x * 2).requires_grad is True
    False
    """

    def __init__(self, mode=True):
        super().__init__()


def _rebuild(data, shape, dtype, device, requires_grad):
    return _core.rebuild_tensor(data, shape, dtype, device, requires_grad)


def _reduce_ex(self, protocol):
    """With protocol 5 the data may be passed outside the pickle (`buffer_callback`), without a copy."""
    function, (data, *rest) = self.__reduce__()
    return function, (pickle.PickleBuffer(data) if protocol >= 5 else data, *rest)


def _repr(self):
    from lathe.printing import tensor_text

    return tensor_text(self)


def _format(self, spec):
    """f"{loss:.3f}" of a tensor with one element is its value's."""
    return format(self.item() if self.numel() == 1 else self.tolist(), spec) if spec else str(self)


def _from_url(url, gunzip=False, **kwargs):
    """The file of a URL, or of a path, as a tensor of bytes on disk.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "file")
    >>> with open(path, "wb") as file: out = file.write(b"abc")
    >>> Tensor.from_url(path).tolist()
    [97, 98, 99]
    """
    return Tensor(fetch(url, gunzip=gunzip), **kwargs)


_native_device, _native_data = Tensor.device, Tensor.data
_devices = {}  # the objects that stand for names


def _device(self):
    name = _native_device.__get__(self)
    found = _devices.get(name)
    if found is None:
        found = _devices[name] = str.__new__(device, name)
    return found


class Values(Tensor):
    """`x.data`: the same memory without a gradient, as PyTorch has it; a call, `x.data()`, gives tinygrad's memoryview."""

    def __init__(self, tensor):
        super().__init__(tensor.detach(), requires_grad=False)

    def __call__(self):
        return _native_data(self)


def _set_data(self, value):
    """Makes the tensor refer to other values; whether it is trained does not change."""
    if not isinstance(value, Tensor):
        raise UserError(f"lathe: data: a tensor is needed, not {type(value).__name__}")
    wish = self.requires_grad
    self.replace(value.detach() if value.is_realized else value.detach().clone(), allow_shape_mismatch=True)
    if wish is not None:
        self.requires_grad_(wish)


Pair = collections.namedtuple("Pair", "values indices")


class Extremes(collections.namedtuple("Extremes", "values indices")):
    """Running extremes and their positions: a pair. What a pair has not is asked of the values, which are all that older
    programs expect."""

    __slots__ = ()

    def __getattr__(self, name):
        return getattr(self.values, name)


def _pair(method):
    @functools.wraps(method)
    def scan(self, axis=0):
        return Extremes(*method(self, axis))

    scan.__doc__ = method.__doc__
    return scan


Tensor.cummax, Tensor.cummin = _pair(Tensor.cummax), _pair(Tensor.cummin)


def _ordered(method):
    @functools.wraps(method)
    def order(self, *args, **kwargs):
        return Pair(*method(self, *args, **kwargs))

    return order


Tensor.sort, Tensor.topk = _ordered(Tensor.sort), _ordered(Tensor.topk)


# numpy's names of Python's operators.
_OPERATORS = {
    "true_divide": "truediv", "divide": "truediv", "floor_divide": "floordiv", "subtract": "sub", "multiply": "mul",
    "remainder": "mod", "power": "pow", "bitwise_and": "and_", "bitwise_or": "or_", "bitwise_xor": "xor", "left_shift": "lshift",
    "right_shift": "rshift", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq",
    "not_equal": "ne", "add": "add", "matmul": "matmul",
}  # fmt: skip


def _array_ufunc(self, ufunc, method, *inputs, **kwargs):
    """An operator between an array and a tensor is the tensors' and gives a tensor; numpy's other functions take the values."""
    own = _OPERATORS.get(ufunc.__name__)
    if own is not None and method == "__call__" and not kwargs:
        beside = next(x for x in inputs if isinstance(x, Tensor))

        def tensor(x):
            if isinstance(x, (list, tuple)):
                return Tensor(x, device=beside.device)
            if isinstance(x, Tensor) or not hasattr(x, "ndim"):
                return x
            return Tensor(x, device=beside.device) if x.ndim else x.item()

        return getattr(operator, own)(*map(tensor, inputs))
    if any(isinstance(x, Tensor) for x in kwargs.get("out", ())):
        return NotImplemented
    return getattr(ufunc, method)(*(x.numpy() if isinstance(x, Tensor) else x for x in inputs), **kwargs)


class Schedule(list):
    """Kernels in order; `tensors` are what they compute."""

    def __init__(self, kernels, tensors):
        super().__init__(kernels)
        self.tensors = tensors


_native_schedule = Tensor.schedule


def _schedule(self, *others):
    return Schedule(_native_schedule(self, *others), (self, *others))


def _schedule_with_vars(self, *others):
    """The schedule, and a dict for the values of its variables, which is empty: they are in the graph.

    >>> kernels, values = (Tensor([1.0]).realize() + 1).schedule_with_vars()
    >>> len(kernels), values
    (1, {})
    """
    return _schedule(self, *others), {}


_native_custom_kernel = Tensor.custom_kernel
_kernels_with_gradients = {}  # an op by its functions: what is registered stays


def _custom_kernel(self, *others, fxn, name="custom", options=None, grad_fxn=None):
    if grad_fxn is None:
        return _native_custom_kernel(self, *others, fxn=fxn, name=name, options=options)
    inputs = [t.contiguous() for t in (self, *others)]
    key = (fxn, grad_fxn, name, options)
    if key not in _kernels_with_gradients:

        def forward(before, *given):  # what a kernel finds in its output is the tensor's contents
            return _native_custom_kernel(before.detach().clone(), *given, fxn=fxn, name=name, options=options)[0]

        own = f"{name} {len(_kernels_with_gradients)}"
        _core.register_op(own, forward, lambda given, out, grad: [None, *grad_fxn(grad, *given[1:])])
        _kernels_with_gradients[key] = own
    self.replace(_core.custom(_kernels_with_gradients[key], inputs))
    return [self, *others]


_custom_kernel.__doc__ = _native_custom_kernel.__doc__
Tensor.custom_kernel = _custom_kernel
_schedule.__doc__ = _native_schedule.__doc__
Tensor.schedule = _schedule
Tensor.schedule_linear = _schedule
Tensor.schedule_with_vars = Tensor.linear_with_vars = _schedule_with_vars
Tensor.__repr__ = _repr
Tensor.device = property(_device, doc=_native_device.__doc__)
Tensor.data = property(Values, _set_data, doc=_native_data.__doc__)
Tensor.__format__ = _format
Tensor.__reduce_ex__ = _reduce_ex
Tensor.train = _Train
Tensor.test = _Test
Tensor.from_url = staticmethod(_from_url)
Tensor.__array_priority__ = 1000
Tensor.__array_ufunc__ = _array_ufunc

import lathe.methods  # noqa: E402, F401  (puts its methods on Tensor)

__getattr__ = absent(__name__)
__all__ = ["Tensor", "dtypes"]


class _Callable(types.ModuleType):
    """This module under tinygrad's name, and PyTorch's function `tensor(data)` under the same."""

    def __call__(self, data, **options):
        from lathe.functions import tensor

        return tensor(data, **options)


sys.modules[__name__].__class__ = _Callable
