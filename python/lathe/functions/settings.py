"""Questions about tensors and dtypes, and settings."""

import math
import random

from lathe import _core
from lathe._core import Tensor
from lathe.dtype import dtypes
from lathe.functions.making import _tensor
from lathe.helpers import no_grad

class Size(tuple):
    """A shape: a tuple with numel().

    >>> lathe.Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def numel(self):
        return math.prod(self)


def is_tensor(obj):
    """Whether it is a tensor.

    >>> lathe.is_tensor(lathe.ones(1)), lathe.is_tensor(1)
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj):
    """False: memory is not a separate object."""
    return False


def manual_seed(seed):
    """Starts the streams of random numbers again.

    >>> lathe.manual_seed(1); a = lathe.rand(2).tolist()
    >>> lathe.manual_seed(1); lathe.rand(2).tolist() == a
    True
    """
    Tensor.manual_seed(int(seed))


def seed():
    """Seeds the random numbers and returns the seed."""
    number = random.SystemRandom().getrandbits(31)
    Tensor.manual_seed(number)
    return number


class Generator:
    """A stream of random numbers by name; all share Lathe's, which manual_seed starts again."""

    def __init__(self, device="cpu"):
        self.device = device

    def manual_seed(self, seed):
        manual_seed(seed)
        return self


def result_type(a, b):
    """The dtype of what two meet in.

    >>> lathe.result_type(lathe.ones(1), 1)
    dtypes.float32
    """
    return (_tensor(a) + b).dtype if isinstance(a, Tensor) or not isinstance(b, Tensor) else (a + b).dtype


def promote_types(type1, type2):
    """The dtype that two dtypes meet in.

    >>> lathe.promote_types(lathe.float32, lathe.int32)
    dtypes.float32
    """
    return _core.least_upper_dtype(type1, type2)


def can_cast(from_, to):
    """Whether a dtype may become another without leaving its kind.

    >>> lathe.can_cast(lathe.float32, lathe.int32)
    False
    """
    order = [dtypes.is_bool, dtypes.is_int, dtypes.is_float]
    kind = [next(i for i, test in enumerate(order) if test(d)) for d in (from_, to)]
    return kind[0] <= kind[1]


def get_default_dtype():
    """The dtype of float literals.

    >>> lathe.get_default_dtype()
    dtypes.float32
    """
    return dtypes.default_float


def set_default_dtype(d):
    """Sets the dtype of float literals."""
    dtypes.default_float = d


def is_grad_enabled():
    """Whether operations take part in `backward()`.

    >>> lathe.is_grad_enabled()
    True
    """
    return _core.grad_enabled()


class set_grad_enabled:
    """Whether operations take part in `backward()`: from the call on, or inside a block.

    >>> with lathe.set_grad_enabled(False):
    ...     lathe.is_grad_enabled()
    False
    """

    def __init__(self, mode):
        self.before, self.mode = _core.grad_enabled(), bool(mode)
        _core.set_grad_enabled(self.mode)

    def __enter__(self):
        _core.set_grad_enabled(self.mode)
        return self

    def __exit__(self, *error):
        _core.set_grad_enabled(self.before)

    def __call__(self, function):
        _core.set_grad_enabled(self.before)
        return _within(lambda: set_grad_enabled(self.mode), function)


def _within(scope, function):
    import functools

    @functools.wraps(function)
    def inside(*args, **kwargs):
        with scope():
            return function(*args, **kwargs)

    return inside


class enable_grad:
    """Inside, operations take part in `backward()` again.

    >>> with lathe.no_grad(), lathe.enable_grad():
    ...     lathe.is_grad_enabled()
    True
    """

    def __init__(self):
        self.before = []

    def __enter__(self):
        self.before.append(_core.grad_enabled())
        _core.set_grad_enabled(True)
        return self

    def __exit__(self, *error):
        _core.set_grad_enabled(self.before.pop())

    def __call__(self, function):
        return _within(enable_grad, function)


class inference_mode(no_grad):
    """As no_grad.

    >>> with lathe.inference_mode():
    ...     lathe.is_grad_enabled()
    False
    """

    def __init__(self, mode=True):
        super().__init__()
        self.mode = mode

    def __enter__(self):
        return super().__enter__() if self.mode else self

    def __exit__(self, *error):
        if self.mode:
            super().__exit__(*error)


def compile(model=None, **ignored):
    """The model itself: what it computes is compiled in any case. `TinyJit` captures whole steps.

    >>> lathe.compile(abs) is abs
    True
    """
    return (lambda m: m) if model is None else model


class finfo:
    """The limits of a float dtype.

    >>> lathe.finfo(lathe.float32).eps == 2.0**-23, lathe.finfo(lathe.float16).max
    (True, 65504.0)
    """

    def __init__(self, dtype=None):
        self.dtype = dtypes.default_float if dtype is None else dtype
        exponent, mantissa, most = _core.finfo(self.dtype)[:3]
        self.bits, self.max, self.min = self.dtype.bitsize, most, -most
        self.eps = self.resolution = 2.0**-mantissa
        self.tiny = self.smallest_normal = 2.0 ** (2 - 2 ** (exponent - 1))


class iinfo:
    """The limits of an integer dtype.

    >>> lathe.iinfo(lathe.int8).max
    127
    """

    def __init__(self, dtype):
        self.dtype, self.bits, self.max, self.min = dtype, dtype.bitsize, dtype.max, dtype.min


def get_num_threads():
    """How many threads kernels on the CPU may use."""
    import os

    return int(os.environ.get("LATHE_THREADS", 0)) or os.cpu_count()


def _nothing(name, gives=None):
    def function(*args, **kwargs):
        return gives

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Takes PyTorch's call and does nothing: Lathe has no such setting.\n\n    >>> lathe.{name}(True)\n    "
    return function


use_deterministic_algorithms = _nothing("use_deterministic_algorithms")
set_float32_matmul_precision = _nothing("set_float32_matmul_precision")
set_flush_denormal = _nothing("set_flush_denormal")
set_num_interop_threads = _nothing("set_num_interop_threads")


def are_deterministic_algorithms_enabled():
    """True: results do not depend on threads or timing."""
    return True
