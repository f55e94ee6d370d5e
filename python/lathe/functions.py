"""Functions of tensors under PyTorch's names: `import lathe as torch` finds them. Most are a method of their first argument;
those that make tensors, join several or set something are written out here. Loaded when a program asks for one."""

import builtins
import math
import random

from lathe import _core
from lathe._core import Tensor
from lathe.dtype import dtypes, to_dtype
from lathe.errors import TypeError as WrongCall
from lathe.errors import UserError, nearest
from lathe.helpers import no_grad

# Methods that are functions too; the first argument may be called `input`, and `out=` takes the result.
METHODS = """
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr adjoint all allclose amax amin aminmax angle any arccos arccosh arcsin
    arcsinh arctan arctan2 arctanh argmax argmin argsort argwhere asin asinh atan atan2 atanh baddbmm bernoulli bincount bitwise_and
    bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bmm broadcast_to bucketize cdist ceil cholesky cholesky_inverse
    cholesky_solve chunk clamp clamp_max clamp_min clip clone conj conj_physical copysign corrcoef cos cosh cosine_similarity count_nonzero cov
    cross cummax cummin cumprod cumsum cumulative_trapezoid deg2rad dequantize det detach diag diag_embed diagflat diagonal diagonal_scatter diff digamma dist div
    divide dot dsplit eq equal erf erfc erfinv exp exp2 expm1 fix flatten flip fliplr flipud float_power floor floor_divide fmax fmin fmod
    frac frexp gather gcd ge ger get_device greater greater_equal gt hardshrink heaviside histc histogram hsplit hypot i0 index_add index_copy
    index_fill index_put index_reduce index_select inner inverse is_complex is_conj is_floating_point is_inference is_neg is_nonzero
    is_same_size is_signed isclose isfinite isinf isnan isneginf isposinf isreal kron kthvalue lcm ldexp le lerp less less_equal lgamma log
    log10 log1p log2 log_softmax logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logsumexp lstsq
    lt masked_fill masked_scatter masked_select matmul matrix_exp matrix_power maximum mean median minimum mm mode moveaxis movedim msort mul
    multinomial multiply mv mvlgamma nan_to_num nanmean nanmedian nanquantile nansum narrow narrow_copy ne neg negative nextafter norm
    not_equal numel outer permute pinverse polygamma positive pow prelu prod put qr quantile rad2deg ravel real reciprocal relu remainder
    renorm repeat_interleave reshape resolve_conj resolve_neg roll rot90 round rsqrt scatter scatter_add scatter_reduce searchsorted select
    select_scatter sgn sigmoid sign signbit sin sinc sinh slice_scatter slogdet softmax solve sort split split_with_sizes sqrt square squeeze
    std std_mean sub subtract sum svd swapaxes swapdims t take take_along_dim tan tanh tensor_split tensordot tile topk trace transpose
    trapezoid triangular_solve tril triu true_divide trunc unbind unflatten unique unique_consecutive unsafe_chunk unsafe_split
    unsafe_split_with_sizes unsqueeze var var_mean vdot vsplit xlogy
""".split()  # fmt: skip
# Functions of nn.functional that PyTorch has here too.
LAYERS = """
    adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d batch_norm bilinear binary_cross_entropy_with_logits celu
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss ctc_loss dropout embedding
    group_norm hinge_embedding_loss instance_norm kl_div layer_norm margin_ranking_loss max_pool1d max_pool2d max_pool3d
    pairwise_distance pdist pixel_shuffle pixel_unshuffle poisson_nll_loss rrelu selu threshold triplet_margin_loss
""".split()  # fmt: skip
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


def _method(name):
    def function(*args, out=None, **kwargs):
        if not args and "input" in kwargs:
            args = (kwargs.pop("input"),)
        if not args:
            raise WrongCall(f"lathe: {name}: a tensor is needed\n  help: lathe.{name}(x) or x.{name}()")
        first = _tensor(args[0])
        value = getattr(first, name)
        return _into(value(*args[1:], **kwargs) if callable(value) and not isinstance(value, Tensor) else value, out)

    function.__name__ = function.__qualname__ = name
    own = getattr(Tensor, name).__doc__ or ""
    function.__doc__ = f"x.{name}(...) as a function of x.\n\n{own}"
    return function


# ---- making tensors


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
    """A tensor of its own with the values of numbers, lists, arrays or a tensor.

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
    """As as_tensor."""
    return as_tensor(obj, dtype, device)


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
    return Tensor(bytes(data[: count * size])).bitcast(dtype) if count else Tensor.empty(0, dtype=dtype)


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
    return stack(columns, dim=-1)


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


# ---- several tensors


def cat(tensors, dim=0, *, axis=None, out=None):
    """Tensors one after the other along an axis.

    >>> lathe.cat([lathe.ones(1), lathe.zeros(2)]).tolist()
    [1.0, 0.0, 0.0]
    """
    tensors = list(tensors)
    if not tensors:
        raise UserError("lathe: cat: there are no tensors to join")
    dim = dim if axis is None else axis
    kept = [t for t in tensors if tuple(t.shape) != (0,)] or tensors[:1]  # an empty list fits beside everything
    return _into(kept[0].cat(*kept[1:], dim=dim) if len(kept) > 1 else kept[0].clone(), out)


concat = concatenate = cat


def stack(tensors, dim=0, *, axis=None, out=None):
    """Tensors of one shape side by side along a new axis.

    >>> lathe.stack([lathe.ones(2), lathe.zeros(2)]).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    tensors = list(tensors)
    if not tensors:
        raise UserError("lathe: stack: there are no tensors to join")
    return _into(tensors[0].stack(*tensors[1:], dim=dim if axis is None else axis), out)


def atleast_1d(*tensors):
    """With one axis at least.

    >>> lathe.atleast_1d(lathe.tensor(1.0)).shape
    (1,)
    """
    return _each(lambda t: t if t.ndim else t.reshape(1), tensors)


def atleast_2d(*tensors):
    """With two axes at least.

    >>> lathe.atleast_2d(lathe.ones(3)).shape
    (1, 3)
    """
    return _each(lambda t: t if t.ndim > 1 else t.reshape(1, -1), tensors)


def atleast_3d(*tensors):
    """With three axes at least.

    >>> lathe.atleast_3d(lathe.ones(3)).shape
    (1, 3, 1)
    """
    return _each(lambda t: t if t.ndim > 2 else t.unsqueeze(-1) if t.ndim == 2 else t.reshape(1, -1, 1), tensors)


def _each(function, tensors):
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tensors[0]
        return tuple(function(t) for t in tensors)
    return function(tensors[0]) if len(tensors) == 1 else tuple(function(t) for t in tensors)


def hstack(tensors):
    """Side by side: along the first axis of vectors, the second of others.

    >>> lathe.hstack([lathe.ones(1), lathe.zeros(1)]).tolist()
    [1.0, 0.0]
    """
    tensors = atleast_1d(list(tensors))
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1)


def vstack(tensors):
    """One under the other.

    >>> lathe.vstack([lathe.ones(2), lathe.zeros(2)]).shape
    (2, 2)
    """
    return cat(atleast_2d(list(tensors)), 0)


row_stack = vstack


def dstack(tensors):
    """One behind the other along the third axis.

    >>> lathe.dstack([lathe.ones(2), lathe.zeros(2)]).shape
    (1, 2, 2)
    """
    return cat(atleast_3d(list(tensors)), 2)


def column_stack(tensors):
    """Vectors as columns.

    >>> lathe.column_stack([lathe.ones(2), lathe.zeros(2)]).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    return cat([t.reshape(-1, 1) if t.ndim <= 1 else t for t in tensors], 1)


def block_diag(*tensors):
    """Matrices along a diagonal, zeros elsewhere.

    >>> lathe.block_diag(lathe.ones(1, 1), lathe.ones(1, 2)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
    """
    blocks = [atleast_2d(t) for t in tensors]
    width, at, rows = builtins.sum(b.shape[1] for b in blocks), 0, []
    for block in blocks:
        rows.append(block.pad(((0, 0), (at, width - at - block.shape[1]))))
        at += block.shape[1]
    return cat(rows, 0)


def meshgrid(*tensors, indexing="ij"):
    """The coordinates of a grid.

    >>> [t.tolist() for t in lathe.meshgrid(lathe.arange(2), lathe.arange(2), indexing="ij")]
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    return tensors[0].meshgrid(*tensors[1:], indexing=indexing)


def cartesian_prod(*tensors):
    """All pairs (triples, ...) of elements.

    >>> lathe.cartesian_prod(lathe.arange(2), lathe.arange(1)).tolist()
    [[0, 0], [1, 0]]
    """
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.reshape(-1) for g in meshgrid(*tensors)], dim=1)


def combinations(input, r=2, with_replacement=False):
    """All choices of r elements.

    >>> lathe.combinations(lathe.tensor([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    import itertools

    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(input.shape[0]), r))
    return input[Tensor(places)] if places else Tensor.empty(0, r, dtype=input.dtype)


def broadcast_tensors(*tensors):
    """All with the one shape that they broadcast to.

    >>> [t.shape for t in lathe.broadcast_tensors(lathe.ones(2, 1), lathe.ones(3))]
    [(2, 3), (2, 3)]
    """
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(t.expand(*shape) for t in tensors)


def broadcast_shapes(*shapes):
    """The shape that shapes broadcast to.

    >>> lathe.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    shapes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    out = [1] * builtins.max(map(len, shapes), default=0)
    for shape in shapes:
        for i, size in enumerate(shape, len(out) - len(shape)):
            if size != 1 and out[i] not in (1, size):
                raise UserError(f"lathe: broadcast_shapes: sizes {out[i]} and {size} of axis {i} do not fit in {shapes}")
            out[i] = size if out[i] == 1 else out[i]
    return Size(out)


def einsum(equation, *operands):
    """Sums of products by axis names.

    >>> lathe.einsum("ij,jk->ik", lathe.ones(2, 3), lathe.ones(3, 2)).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    return Tensor.einsum(equation, *operands)


def trapz(y, x=None, *, dx=1.0, dim=-1):
    """As trapezoid."""
    return y.trapezoid(x, dx=dx, dim=dim)


def gradient(input, *, spacing=1.0, dim=None, edge_order=1):
    """Slopes along axes by differences of neighbours, at the ends by those on one side: a tensor for each axis.

    >>> [t.tolist() for t in lathe.gradient(lathe.tensor([1.0, 2.0, 4.0]))]
    [[1.0, 1.5, 2.0]]
    """
    from lathe.methods.shapes import axis_of

    x = input if input.is_floating_point() else input.float()
    axes = [axis_of(x, d, "gradient") for d in (builtins.range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim)]
    gaps = list(spacing) if isinstance(spacing, (list, tuple)) else [1.0 if spacing is None else spacing] * len(axes)
    if len(gaps) != len(axes) or edge_order not in (1, 2):
        raise UserError(f"lathe: gradient: {len(gaps)} spacings for {len(axes)} axes, edge_order {edge_order}\n  help: one for each axis; edge_order is 1 or 2")
    return tuple(_slopes(x, axis, gap, edge_order) for axis, gap in zip(axes, gaps))


def _slopes(x, axis, gap, edge_order):
    from lathe.methods.shapes import at

    n, coordinates = x.shape[axis], isinstance(gap, Tensor)
    if n <= edge_order:
        raise UserError(f"lathe: gradient: axis {axis} of {tuple(x.shape)} needs at least {edge_order + 1} elements")

    def part(low, high):
        return at(x, axis, slice(low, high))

    def step(low, high):  # distances of neighbours
        if not coordinates:
            return gap
        return gap.diff()[low:high].cast(x.dtype).reshape(*[-1 if i == axis else 1 for i in builtins.range(x.ndim)])

    def edge(h, h2, first, second, third):
        if edge_order == 1:
            return (second - first) / h
        return (second - first) * ((h + h2) / (h * h2)) - (third - first) * (h / (h2 * (h + h2)))

    last = edge(-1 * step(n - 2, n - 1), -1 * step(n - 3, n - 2), part(n - 1, n), part(n - 2, n - 1), part(n - 3, n - 2) if edge_order == 2 else None)
    ends = [edge(step(0, 1), step(1, 2), part(0, 1), part(1, 2), part(2, 3) if edge_order == 2 else None), last]
    if n == 2:
        return Tensor.cat(*ends, dim=axis)
    before, after = step(0, n - 2), step(1, n - 1)
    if coordinates:
        rise = (part(2, n) - part(1, n - 1)) * (before / after) + (part(1, n - 1) - part(0, n - 2)) * (after / before)
        middle = rise / (before + after)
    else:
        middle = (part(2, n) - part(0, n - 2)) / (2 * gap)
    return Tensor.cat(ends[0], middle, ends[1], dim=axis)


def chain_matmul(*matrices):
    """The product of several matrices."""
    out = matrices[0]
    for matrix in matrices[1:]:
        out = out @ matrix
    return out


def where(condition, input=None, other=None, *, out=None):
    """One value or the other; of a condition alone, where it holds (a tensor for each axis).

    >>> lathe.where(lathe.tensor([True, False]), 1.0, lathe.tensor([2.0, 3.0])).tolist()
    [1.0, 3.0]
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    return _into(condition.where(input, other), out)


def nonzero(input, *, out=None, as_tuple=False):
    """Where values are not 0: a row for each, or a tensor for each axis.

    >>> lathe.nonzero(lathe.tensor([0, 3, 4])).tolist()
    [[1], [2]]
    """
    places = input.nonzero()
    return tuple(places[:, i] for i in range(input.ndim)) if as_tuple else places


def isin(elements, test_elements, *, invert=False, assume_unique=False):
    """Which elements are among others.

    >>> lathe.isin(lathe.tensor([1, 2, 3]), lathe.tensor([2])).tolist()
    [False, True, False]
    """
    elements, test = _tensor(elements), _tensor(test_elements).reshape(-1)
    if not test.numel():
        found = elements != elements
    else:
        found = (elements.unsqueeze(-1) == test).any(-1)
    return found.logical_not() if invert else found


def _largest(name, join):
    def function(input, dim=None, keepdim=False, *, axis=None, out=None):
        dim = axis if dim is None else dim
        if isinstance(dim, Tensor):
            return _into(getattr(input, join)(dim), out)
        if dim is None:
            return _into(getattr(input, name)(), out)
        return _into(getattr(input, name)(dim=dim, keepdim=keepdim), out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Of all elements; along an axis values and their places, as PyTorch has it (x.{name}(1) are values alone, as in tinygrad); of"
        f" two tensors the {join}.\n\n    >>> values, places = lathe.{name}(lathe.tensor([[1.0, 2.0]]), 1)\n    >>> values.shape\n    (1,)\n    "
    )
    return function


max, min = _largest("max", "maximum"), _largest("min", "minimum")


def vmap(func, in_dims=0, out_dims=0):
    """Calls a function for each row and puts the results together: a loop, whose kernels are shared.

    >>> lathe.vmap(lambda a, b: (a * b).sum())(lathe.ones(2, 3), lathe.ones(2, 3)).tolist()
    [3.0, 3.0]
    """

    def mapped(*args):
        axes = in_dims if isinstance(in_dims, (tuple, list)) else (in_dims,) * len(args)
        sizes = {a.shape[d] for a, d in zip(args, axes) if d is not None}
        if len(sizes) != 1:
            raise UserError(f"lathe: vmap: the mapped axes have sizes {sorted(sizes)}\n  help: they need one size")
        rows = [func(*(a if d is None else a.select(d, i) for a, d in zip(args, axes))) for i in range(sizes.pop())]
        if isinstance(rows[0], (tuple, list)):
            return tuple(stack(list(column), dim=out_dims) for column in zip(*rows))
        return stack(rows, dim=out_dims)

    return mapped


# ---- questions and settings


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
    """False: memory is not an object of its own."""
    return False


def manual_seed(seed):
    """Starts the streams of random numbers again.

    >>> lathe.manual_seed(1); a = lathe.rand(2).tolist()
    >>> lathe.manual_seed(1); lathe.rand(2).tolist() == a
    True
    """
    Tensor.manual_seed(int(seed))


def seed():
    """Starts the streams of random numbers anew and gives the number."""
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


# ---- names of dtypes and of tensors of a dtype

DTYPES = (
    "float16 float32 float64 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 half float double short int long "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
).split()
_FP8 = {"float8_e4m3fn": "fp8e4m3", "float8_e5m2": "fp8e5m2", "float8_e4m3fnuz": "fp8e4m3fnuz", "float8_e5m2fnuz": "fp8e5m2fnuz"}
_TYPED = {
    "FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16", "LongTensor": "int64",
    "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8", "BoolTensor": "bool",
}  # fmt: skip
FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d", "strided")  # of memory: names without a meaning
NUMBERS = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None}


def _typed(name):
    dtype = getattr(dtypes, _TYPED[name])

    def function(*data):
        if len(data) != 1 or isinstance(data[0], int):
            return Tensor.zeros(*data, dtype=dtype)
        return tensor(list(data[0]) if isinstance(data[0], range) else data[0], dtype=dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"A tensor of {dtype.name}: of values, or of zeros where sizes are given.\n\n    >>> lathe.{name}([1, 0]).dtype\n    dtypes.{dtype.name}\n    "
    return function


_made = {}


def find(name):
    """The function, dtype or number of a name; AttributeError where there is none."""
    if name in _made:
        return _made[name]
    if name in METHODS:
        value = _method(name)
    elif name in LAYERS:
        from lathe.nn import functional

        value = getattr(functional, name)
    elif name in DTYPES:
        value = getattr(dtypes, _FP8.get(name, name))
    elif name == "bool":
        value = dtypes.bool
    elif name in _TYPED:
        value = _typed(name)
    elif name in FORMATS:
        value = name
    elif name in NUMBERS:
        value = NUMBERS[name]
    elif not name.startswith("_") and getattr(globals().get(name), "__module__", None) == __name__:
        value = globals()[name]
    elif name.endswith("_") and not name.startswith("_") and hasattr(Tensor, name):  # in place
        value = _method(name)
    else:
        raise AttributeError(name)
    _made[name] = value
    return value


def names():
    """All that find knows."""
    own = [n for n, v in globals().items() if not n.startswith("_") and n != "find" and n != "names" and getattr(v, "__module__", None) == __name__]
    return sorted({*METHODS, *LAYERS, *DTYPES, *_TYPED, *FORMATS, *NUMBERS, *own, "bool"})
