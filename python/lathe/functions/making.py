"""Functions that make tensors."""

import builtins
import math

from lathe._core import Tensor
from lathe.dtype import dtypes, to_dtype
from lathe.errors import TypeError as WrongCall
from lathe.errors import nearest

_SAID_ELSEWHERE = ("layout", "pin_memory", "memory_format", "generator", "names", "non_blocking")  # PyTorch's, without a meaning here


def _tensor(value):
    return value if isinstance(value, Tensor) else Tensor(value)


def _into(result, out):
    """The result, written to `out` where there is one."""
    if out is None:
        return result
    if isinstance(out, (tuple, list)):
        return type(out)(_into(r, o) for r, o in zip(result, out))
    out.assign(result.cast(out.dtype).reshape(*out.shape))
    return out


def _options(name, given, known=("dtype", "device", "requires_grad")):
    """The options that native makers take; PyTorch's others mean nothing here."""
    kept = {}
    for key, value in given.items():
        if key in _SAID_ELSEWHERE:
            continue
        if key not in known:
            raise WrongCall(f"lathe: {name}: there is no argument {key}{nearest(key, known)}\n  note: it takes {', '.join(known)}")
        if value is not None:
            kept[key] = _dtype(value) if key == "dtype" else value
    return kept


def _dtype(value):
    kinds = {float: dtypes.default_float, int: dtypes.int64, bool: dtypes.bool}
    return kinds[value] if isinstance(value, type) and value in kinds else value


def _shape(size, given):
    """zeros(2, 3), zeros((2, 3)), zeros(size=(2, 3))."""
    if not size and "size" in given:
        size = (given.pop("size"),)
    sizes = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    return tuple(n.item() if isinstance(n, Tensor) else n for n in sizes)


def _maker(name, text, example):
    native = getattr(Tensor, name)

    def function(*size, out=None, **kwargs):
        shape = _shape(size, kwargs)
        return _into(native(*shape, **_options(name, kwargs)), out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text}\n\n    >>> {example}\n    (2, 3)\n    "
    return function


zeros = _maker("zeros", "All zeros.", "lathe.zeros(2, 3).shape")
ones = _maker("ones", "All ones.", "lathe.ones((2, 3)).shape")
empty = _maker("empty", "Memory nobody filled.", "lathe.empty(size=(2, 3)).shape")
rand = _maker("rand", "Random numbers from [0, 1).", "lathe.rand(2, 3).shape")
randn = _maker("randn", "Random numbers of the normal distribution.", "lathe.randn(2, 3).shape")


def tensor(data, *, dtype=None, device=None, requires_grad=False, **ignored):
    """A new tensor with the values of numbers, lists, arrays or a tensor.

    >>> lathe.tensor([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    _options("tensor", ignored, ())
    if isinstance(data, Tensor):
        data = data.detach().clone()
        out = data if dtype is None else data.cast(_dtype(dtype))
        out = out if device is None else out.to(device)
        return out.requires_grad_(True) if requires_grad else out
    kept = _options("tensor", {"dtype": dtype, "device": device})
    return Tensor(_plain(data), **kept, **({"requires_grad": True} if requires_grad else {}))


def _plain(data):
    """Lists with tensors of one element in them as lists of numbers."""
    if isinstance(data, (list, tuple)):
        return [_plain(v) for v in data]
    return data.item() if isinstance(data, Tensor) and data.ndim == 0 else data.tolist() if isinstance(data, Tensor) else data


def as_tensor(data, dtype=None, device=None):
    """The tensor itself, or one of the values given.

    >>> x = lathe.ones(2)
    >>> lathe.as_tensor(x) is x, lathe.as_tensor([1.5]).tolist()
    (True, [1.5])
    """
    if not isinstance(data, Tensor):
        return tensor(data, dtype=dtype, device=device)
    out = data if dtype is None or data.dtype == dtype else data.cast(_dtype(dtype))
    return out if device is None else out.to(device)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    """As as_tensor; with copy=True a tensor of its own.

    >>> lathe.asarray([1.5], requires_grad=True).requires_grad
    True
    """
    out = as_tensor(obj, dtype, device)
    out = out.detach().clone() if copy and out is obj else out
    return out.requires_grad_(True) if requires_grad else out


def scalar_tensor(s, **kwargs):
    """A tensor without axes."""
    return tensor(s, **kwargs)


def from_numpy(ndarray):
    """A tensor with the values of an array.

    >>> import numpy
    >>> lathe.from_numpy(numpy.arange(3.0)).dtype
    dtypes.float64
    """
    return Tensor(ndarray)


def from_dlpack(ext_tensor):
    """A tensor over another library's memory."""
    return Tensor.from_dlpack(ext_tensor)


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """The numbers in a buffer of bytes.

    >>> lathe.frombuffer(bytes([1, 0, 2, 0]), dtype=lathe.int16).tolist()
    [1, 2]
    """
    data = memoryview(buffer).cast("B")[offset:]
    size = dtype.itemsize
    count = len(data) // size if count < 0 else count
    out = Tensor(bytes(data[: count * size])).bitcast(dtype) if count else Tensor.empty(0, dtype=dtype)
    return out.clone().requires_grad_(True) if requires_grad else out


def full(size, fill_value, *, out=None, **kwargs):
    """One value everywhere.

    >>> lathe.full((2,), 7.0).tolist()
    [7.0, 7.0]
    """
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    return _into(Tensor.full(_shape((size,) if isinstance(size, int) else tuple(size), {}), value, **_options("full", kwargs)), out)


def arange(start, end=None, step=1, *, out=None, **kwargs):
    """From start up to end by step.

    >>> lathe.arange(1, 7, 2).tolist()
    [1, 3, 5]
    """
    bounds = [v.item() if isinstance(v, Tensor) else v for v in ((0, start, step) if end is None else (start, end, step))]
    return _into(Tensor.arange(*bounds, **_options("arange", kwargs)), out)


def linspace(start, end, steps, *, out=None, **kwargs):
    """Evenly spaced from start to end, both counted.

    >>> lathe.linspace(0, 1, 3).tolist()
    [0.0, 0.5, 1.0]
    """
    return _into(Tensor.linspace(start, end, steps, **_options("linspace", kwargs)), out)


def logspace(start, end, steps, base=10.0, **kwargs):
    """Powers of a base with evenly spaced exponents.

    >>> lathe.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    dtype = dtypes.default_float if kwargs.get("dtype") is None else to_dtype(kwargs["dtype"])
    whole = dtypes.is_int(dtype)
    kwargs["dtype"] = dtypes.float64 if whole else dtype  # the exponents of whole numbers are none
    out = base ** linspace(start, end, steps, **kwargs)
    if whole:  # powers that are whole but for rounding are
        out = ((out - out.round()).abs() <= 1e-12 * out.abs()).where(out.round(), out)
    return out.cast(dtype)


def eye(n, m=None, *, out=None, **kwargs):
    """Ones on the diagonal.

    >>> lathe.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _into(Tensor.eye(n, n if m is None else m, **_options("eye", kwargs)), out)


def randint(*args, low=0, high=None, size=None, **kwargs):
    """Random integers: randint(high, size), randint(low, high, size).

    >>> lathe.randint(2, 3, (4,)).tolist()
    [2, 2, 2, 2]
    """
    args = list(args)
    size = args.pop() if size is None else size
    high = args.pop() if high is None else high
    low = args.pop() if args else low
    return Tensor.randint(*size, low=low, high=high, **_options("randint", {"dtype": dtypes.int64, **kwargs}))


def randperm(n, **kwargs):
    """The numbers below n in random order.

    >>> sorted(lathe.randperm(3).tolist())
    [0, 1, 2]
    """
    return Tensor.randperm(n, **_options("randperm", kwargs))


def normal(mean, std=1.0, size=None, **kwargs):
    """Random numbers of normal distributions.

    >>> lathe.normal(0.0, 1.0, (2, 3)).shape
    (2, 3)
    """
    if size is None:
        shape = (_tensor(mean) + _tensor(std)).shape
    return mean + std * Tensor.randn(*(shape if size is None else size), **_options("normal", kwargs))


def _like(name):
    make = globals()[name]

    def function(input, *rest, **kwargs):
        options = {"dtype": input.dtype, "device": input.device, **kwargs}
        return make(*((tuple(input.shape), *rest) if name != "randint" else (*rest, tuple(input.shape))), **options)

    function.__name__ = function.__qualname__ = f"{name}_like"
    value = {"full": ", 2.0", "randint": ", 2, 3"}.get(name, "")
    function.__doc__ = f"As {name}, with the shape, dtype and device of a tensor.\n\n    >>> lathe.{name}_like(lathe.ones(2, 3){value}).shape\n    (2, 3)\n    "
    return function


zeros_like, ones_like, empty_like, full_like, rand_like, randn_like, randint_like = map(
    _like, ("zeros", "ones", "empty", "full", "rand", "randn", "randint")
)


def tril_indices(row, col, offset=0, **kwargs):
    """Rows and columns of the places on and below a diagonal.

    >>> lathe.tril_indices(2, 2).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    places = [(i, j) for i in range(row) for j in range(col) if j - i <= offset]
    return tensor([[i for i, _ in places], [j for _, j in places]], **{"dtype": dtypes.int64, **kwargs})


def triu_indices(row, col, offset=0, **kwargs):
    """Rows and columns of the places on and above a diagonal.

    >>> lathe.triu_indices(2, 2).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    places = [(i, j) for i in range(row) for j in range(col) if j - i >= offset]
    return tensor([[i for i, _ in places], [j for _, j in places]], **{"dtype": dtypes.int64, **kwargs})


def vander(x, N=None, increasing=False):
    """Powers of the numbers of x in columns.

    >>> lathe.vander(lathe.tensor([2.0, 3.0]), 3).tolist()
    [[4.0, 2.0, 1.0], [9.0, 3.0, 1.0]]
    """
    count = x.shape[0] if N is None else N
    columns = [x**i for i in (range(count) if increasing else reversed(range(count)))]
    return columns[0].stack(*columns[1:], dim=-1) if columns else x.unsqueeze(-1)[:, :0]


def _window(name, text, weights):
    def function(window_length, periodic=True, **kwargs):
        points = window_length + 1 if periodic else window_length
        at = Tensor.arange(window_length).cast(dtypes.float32) * (2 * math.pi / builtins.max(points - 1, 1))
        if window_length == 1:
            return ones(1, **kwargs)
        total = weights[0] + builtins.sum((-1) ** k * w * (at * k).cos() for k, w in enumerate(weights[1:], 1))
        return total.cast(_dtype(kwargs["dtype"])) if kwargs.get("dtype") is not None else total

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{text}\n\n    >>> lathe.{name}(4).shape\n    (4,)\n    "
    return function


hann_window = _window("hann_window", "A raised cosine.", (0.5, 0.5))
hamming_window = _window("hamming_window", "A raised cosine on a step.", (0.54, 0.46))
blackman_window = _window("blackman_window", "Two cosines.", (0.42, 0.5, 0.08))


# Names of tensors of a dtype.
_TYPED = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16", "LongTensor": "int64",
    "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8", "BoolTensor": "bool",
}  # fmt: skip


def _typed(name):
    dtype = getattr(dtypes, _TYPED[name])

    def function(*data):
        if len(data) != 1 or isinstance(data[0], int):
            return Tensor.zeros(*data, dtype=dtype)
        return tensor(list(data[0]) if isinstance(data[0], range) else data[0], dtype=dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"A tensor of {dtype.name}: of values, or of zeros where sizes are given.\n\n    >>> lathe.{name}([1, 0]).dtype\n    dtypes.{dtype.name}\n    "
    return function
