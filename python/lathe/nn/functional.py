"""Functions on tensors under PyTorch's names, with its arguments and defaults: activations, windows, norms, distances.
The losses are in `losses.py`, and are here too."""

import itertools
import math

from lathe import _core
from lathe._core import Tensor, least_upper_dtype
from lathe.errors import UserError


TYPE_CHECKING = False  # which editors and type checkers take for true
if TYPE_CHECKING:
    from lathe.nn._typed_losses import *  # noqa: F403


def _in_training(function, training):
    """function() in training mode or out of it, whatever the mode is here."""
    scope = _core.TrainingScope(bool(training))
    scope.enter()
    try:
        return function()
    finally:
        scope.leave()


def _placed(input, output, inplace):
    return input.assign(output) if inplace else output


def _tuple(value, count):
    """One number for each axis."""
    if isinstance(value, int):
        return (value,) * count
    value = tuple(value)
    return value * count if len(value) == 1 else value


# ---- activations


def relu(input, inplace=False):
    """max(x, 0)."""
    return _placed(input, input.relu(), inplace)


def relu6(input, inplace=False):
    """x cut to 0 to 6."""
    return hardtanh(input, 0, 6, inplace)


def sigmoid(input):
    """1 / (1 + exp(-x))."""
    return input.sigmoid()


def tanh(input):
    """The hyperbolic tangent."""
    return input.tanh()


def gelu(input, approximate="none"):
    """x times the normal distribution at x; approximate="tanh" is quicker and less exact."""
    return input.gelu(approximate)


def silu(input, inplace=False):
    """x sigmoid(x)."""
    return _placed(input, input.silu(), inplace)


def mish(input, inplace=False):
    """x tanh(softplus(x))."""
    return _placed(input, input.mish(), inplace)


def elu(input, alpha=1.0, inplace=False):
    """x where it is positive, alpha (exp(x) - 1) elsewhere."""
    return _placed(input, input.elu(alpha), inplace)


def celu(input, alpha=1.0, inplace=False):
    """max(x, 0) + min(0, alpha (exp(x / alpha) - 1))."""
    return _placed(input, input.celu(alpha), inplace)


def selu(input, inplace=False):
    """elu with the scale that keeps mean and variance."""
    return _placed(input, input.selu(), inplace)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x where it is positive, negative_slope * x elsewhere. The gradient at 0 is that of the negative side, as in PyTorch."""
    return _placed(input, (input > 0).where(input, input * negative_slope), inplace)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """x cut to a range, with a gradient strictly inside alone, as PyTorch's."""
    cut = input.detach().hardtanh(min_val, max_val)
    return _placed(input, ((input > min_val) & (input < max_val)).where(input, cut), inplace)


def hardsigmoid(input, inplace=False):
    """relu6(x + 3) / 6."""
    return _placed(input, input.hardsigmoid(), inplace)


def hardswish(input, inplace=False):
    """x relu6(x + 3) / 6."""
    return _placed(input, input.hardswish(), inplace)


def logsigmoid(input):
    """log(sigmoid(x))."""
    return input.logsigmoid()


def softplus(input, beta=1.0, threshold=20.0):
    """log(1 + exp(beta x)) / beta."""
    return input.softplus(beta, threshold)


def softsign(input):
    """x / (1 + |x|)."""
    return input.softsign()


def tanhshrink(input):
    """x - tanh(x)."""
    return input - input.tanh()


def hardshrink(input, lambd=0.5):
    """x where |x| > lambd, 0 elsewhere."""
    return (input.abs() <= lambd).where(0, input)


def softshrink(input, lambd=0.5):
    """x brought nearer to 0 by lambd."""
    return (input > lambd).where(input - lambd, (input < -lambd).where(input + lambd, input * 0))


def threshold(input, threshold, value, inplace=False):
    """x where it is above the threshold, the value elsewhere."""
    return _placed(input, (input <= threshold).where(value, input), inplace)


def prelu(input, weight):
    """x where it is positive, weight * x elsewhere; one weight per channel (axis 1), or one for all."""
    weight = weight.reshape() if weight.numel() == 1 else weight.reshape(1, -1, *[1] * (input.ndim - 2))
    return (input > 0).where(input, input * weight)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """leaky_relu with a random slope in training, with the mean slope otherwise."""
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = Tensor.uniform(*input.shape, low=lower, high=upper, dtype=input.dtype, device=input.device)
    return _placed(input, (input >= 0).where(input, input * slope), inplace)


def glu(input, dim=-1):
    """The first half times the sigmoid of the second half, along an axis."""
    if input.shape[dim] % 2:
        raise UserError(f"lathe: glu: axis {dim} has {input.shape[dim]} elements, which have no halves")
    a, b = input.chunk(2, dim)
    return a * b.sigmoid()


def softmax(input, dim=-1, dtype=None):
    """exp(x), scaled to the sum 1 along an axis."""
    return input.softmax(dim, dtype)


def softmin(input, dim=-1, dtype=None):
    """softmax(-x)."""
    return input.softmin(dim, dtype)


def log_softmax(input, dim=-1, dtype=None):
    """log(softmax(x))."""
    return input.log_softmax(dim, dtype)


def gumbel_softmax(logits, tau=1.0, hard=False, dim=-1):
    """A random sample of the distribution of the logits: soft, or as one 1 per row with the soft one's gradient."""
    uniform = Tensor.rand(*logits.shape, dtype=logits.dtype, device=logits.device)
    noise = -(-(uniform + 1e-20).log() + 1e-20).log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    best = soft.argmax(dim, keepdim=True)
    one = Tensor.zeros(*soft.shape, dtype=soft.dtype, device=soft.device).scatter(dim, best, 1.0)
    return (one - soft.detach()) + soft


# ---- dropout


def dropout(input, p=0.5, training=True, inplace=False):
    """Zeroes elements with probability p and scales the others."""
    return _placed(input, _in_training(lambda: input.dropout(p), training), inplace)


def _channel_dropout(axes):
    def function(input, p=0.5, training=True, inplace=False):
        """Zeroes whole channels with probability p and scales the others."""
        if not training or p == 0:
            return input
        if input.ndim not in (axes + 1, axes + 2):
            raise UserError(f"lathe: dropout{axes}d: needs {axes + 1} or {axes + 2} axes, not {input.ndim}")
        ones = Tensor.ones(*input.shape[: input.ndim - axes], *[1] * axes, dtype=input.dtype, device=input.device)
        return _placed(input, input * _in_training(lambda: ones.dropout(p), True), inplace)

    function.__name__ = f"dropout{axes}d"
    return function


dropout1d, dropout2d, dropout3d = (_channel_dropout(axes) for axes in (1, 2, 3))
_ALPHA = -1.7580993408473766  # what selu tends to for -inf


def _alpha_dropout(input, shape, p, training):
    if not training or p == 0:
        return input
    keep = Tensor.rand(*shape, device=input.device) >= p
    a = ((1 - p) * (1 + p * _ALPHA**2)) ** -0.5
    return keep.where(input, _ALPHA) * a - a * _ALPHA * p


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps the mean and variance of what selu gives."""
    return _placed(input, _alpha_dropout(input, input.shape, p, training), inplace)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """alpha_dropout of whole channels."""
    return _placed(input, _alpha_dropout(input, (*input.shape[:2], *[1] * (input.ndim - 2)), p, training), inplace)


# ---- linear maps and convolutions


def linear(input, weight, bias=None):
    """x W^T + b."""
    return input.linear(weight.transpose(0, 1) if weight.ndim > 1 else weight, bias)


def bilinear(input1, input2, weight, bias=None):
    """x1 W x2 + b, for each output."""
    out = Tensor.einsum("...i,oij,...j->...o", input1, weight, input2)
    return out if bias is None else out + bias


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of a table; the row padding_idx gets no gradient."""
    if max_norm is not None or scale_grad_by_freq:
        raise UserError("lathe: embedding: max_norm and scale_grad_by_freq are not there\n  help: scale the weight before the call")
    out = weight[input]
    if padding_idx is not None:
        row = padding_idx % weight.shape[0]
        out = (input == row).unsqueeze(-1).where(out.detach(), out)
    return out


def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False,
                  per_sample_weights=None, include_last_offset=False, padding_idx=None):  # fmt: skip
    """Sums, means or maxima of rows of a table: of each row of a 2d index, or of a flat one from each of `offsets` to the next."""
    if max_norm is not None or scale_grad_by_freq:
        raise UserError("lathe: embedding_bag: max_norm and scale_grad_by_freq are not there\n  help: scale the weight before the call")
    if mode not in ("sum", "mean", "max"):
        raise UserError(f"lathe: embedding_bag: the mode is {mode!r}\n  help: sum, mean or max")
    if input.ndim != (2 if offsets is None else 1):
        raise UserError("lathe: embedding_bag: the index needs 2 axes, a row per bag, or 1 axis and offsets")
    rows = embedding(input, weight)
    if offsets is not None:
        return _bags(input, weight, rows, offsets[:-1] if include_last_offset else offsets, mode, per_sample_weights, padding_idx)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    used = None if padding_idx is None else (input != padding_idx % weight.shape[0]).unsqueeze(-1)
    if mode == "max":
        if used is None:
            return rows.max(1)
        return used.any(1).where(used.where(rows, -math.inf).max(1), 0)  # an empty bag is 0
    total = (rows if used is None else used.where(rows, 0)).sum(1)
    if mode == "sum":
        return total
    count = input.shape[1] if used is None else used.sum(1).maximum(1)
    return total / count


def _bags(input, weight, rows, offsets, mode, shares, padding_idx):
    """embedding_bag of a flat index: each bag goes from one offset to the next."""
    bag = offsets.searchsorted(Tensor.arange(input.shape[0], dtype=offsets.dtype, device=input.device), right=True).cast("int32") - 1
    used = Tensor.ones(*input.shape, dtype=rows.dtype, device=input.device)
    if padding_idx is not None:
        used = (input != padding_idx % weight.shape[0]).cast(rows.dtype)
    made = Tensor.zeros(offsets.shape[0], weight.shape[1], dtype=rows.dtype, device=rows.device)
    if mode == "max":
        rows = (used.unsqueeze(-1) > 0).where(rows, -math.inf)
        most = made.scatter_reduce(0, bag.unsqueeze(-1).expand(*rows.shape), rows, "amax", include_self=False)
        return (most == -math.inf).where(0, most)
    total = made.index_add(0, bag, rows * (used if shares is None else used * shares).unsqueeze(-1))
    if mode == "sum":
        return total
    return total / made[:, 0].index_add(0, bag, used).maximum(1).unsqueeze(-1)


def one_hot(tensor, num_classes=-1):
    """1 at the class, 0 elsewhere, along a new last axis."""
    return tensor.one_hot(num_classes)


def _same_padding(weight, stride, dilation, axes):
    if any(s != 1 for s in _tuple(stride, axes)):
        raise UserError("lathe: conv: padding 'same' needs stride 1")
    pairs = []
    for size, step in zip(reversed(weight.shape[2:]), reversed(_tuple(dilation, axes))):
        whole = step * (size - 1)
        pairs += [whole // 2, whole - whole // 2]
    return pairs


def border_of(weight, padding, stride, dilation):
    """What a convolution puts around an image, as `pad` takes it."""
    axes = weight.ndim - 2
    if padding == "same":
        return tuple(_same_padding(weight, stride, dilation, axes))
    return tuple(width for width in reversed(_tuple(0 if padding == "valid" else padding, axes)) for _ in range(2))


def _convolution(axes):
    def function(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        """Sums of products of windows with a kernel for each output channel."""
        if input.ndim == axes + 1:
            return function(input.unsqueeze(0), weight, bias, stride, padding, dilation, groups).squeeze(0)
        if input.ndim != axes + 2:
            raise UserError(f"lathe: conv{axes}d: needs {axes + 2} axes (batch, channels, ...), not {input.ndim}")
        if isinstance(padding, str):
            padding = 0 if padding == "valid" else _same_padding(weight, stride, dilation, axes)
        return input.conv2d(weight, bias, groups, stride, dilation, padding)

    function.__name__ = f"conv{axes}d"
    return function


conv1d, conv2d, conv3d = (_convolution(axes) for axes in (1, 2, 3))


def _transposed(axes):
    def function(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        """The gradient of a convolution with respect to its input: windows are added up."""
        if input.ndim == axes + 1:
            return function(input.unsqueeze(0), weight, bias, stride, padding, output_padding, groups, dilation).squeeze(0)
        return input.conv_transpose2d(weight, bias, groups, stride, dilation, padding, output_padding)

    function.__name__ = f"conv_transpose{axes}d"
    return function


conv_transpose1d, conv_transpose2d, conv_transpose3d = (_transposed(axes) for axes in (1, 2, 3))


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """softmax(q k^T / sqrt(d)) v."""
    attend = lambda: query.scaled_dot_product_attention(key, value, attn_mask, dropout_p, is_causal, enable_gqa, scale)  # noqa: E731
    return _in_training(attend, True) if dropout_p else attend()


# ---- windows


def _batched(function, input, axes):
    """A function of batches for a single element too."""
    if input.ndim == axes + 2:
        return function(input)
    if input.ndim != axes + 1:
        raise UserError(f"lathe: pool: needs {axes + 1} or {axes + 2} axes, not {input.ndim}")
    out = function(input.unsqueeze(0))
    return tuple(t.squeeze(0) for t in out) if isinstance(out, tuple) else out.squeeze(0)


def _max_pool(axes):
    def function(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        """Maxima of windows; with `return_indices` also where they are."""
        size = _tuple(kernel_size, axes)
        step = size if stride is None else _tuple(stride, axes)
        return _batched(
            lambda x: x.max_pool2d(size, step, _tuple(dilation, axes), _tuple(padding, axes), ceil_mode, return_indices), input, axes
        )

    function.__name__ = f"max_pool{axes}d"
    return function


max_pool1d, max_pool2d, max_pool3d = (_max_pool(axes) for axes in (1, 2, 3))


def _avg_pool(axes):
    def body(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override=None):
        size = _tuple(kernel_size, axes)
        step = size if stride is None else _tuple(stride, axes)
        pool = lambda x: x.avg_pool2d(size, step, 1, _tuple(padding, axes), ceil_mode, count_include_pad)  # noqa: E731
        if divisor_override is None:
            return _batched(pool, input, axes)
        if ceil_mode:
            raise UserError("lathe: avg_pool: divisor_override with ceil_mode is not there")
        whole = lambda x: x.avg_pool2d(size, step, 1, _tuple(padding, axes), False, True)  # noqa: E731
        return _batched(whole, input, axes) * (math.prod(size) / divisor_override)

    if axes == 1:

        def function(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
            """Means of windows."""
            return body(input, kernel_size, stride, padding, ceil_mode, count_include_pad)

    else:

        def function(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
            """Means of windows."""
            return body(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    function.__name__ = f"avg_pool{axes}d"
    return function


avg_pool1d, avg_pool2d, avg_pool3d = (_avg_pool(axes) for axes in (1, 2, 3))


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm of windows."""
    return _lp_pool(input, float(norm_type), _tuple(kernel_size, 1), stride, ceil_mode, avg_pool1d)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """The p-norm of windows."""
    return _lp_pool(input, float(norm_type), _tuple(kernel_size, 2), stride, ceil_mode, avg_pool2d)


def _lp_pool(input, p, size, stride, ceil_mode, pool):
    mean = pool(input.pow(p), size, stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu() * math.prod(size)).pow(1 / p)


def _bins(length, count):
    """Begin and end of each of `count` windows that cover a length."""
    return [(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]


def _adaptive(axes, reduce, kind):
    def function(input, output_size):
        sizes = [input.shape[i - axes] if s is None else s for i, s in enumerate(_tuple(output_size, axes))]
        if input.ndim not in (axes + 1, axes + 2):
            raise UserError(f"lathe: adaptive_{kind}_pool{axes}d: needs {axes + 1} or {axes + 2} axes, not {input.ndim}")
        out = input
        for i, count in reversed(list(enumerate(sizes))):  # the last axis first: among equals the first in memory is chosen
            axis = input.ndim - axes + i
            length = out.shape[axis]
            if length % count == 0:
                out = reduce(out.unflatten(axis, (count, length // count)), axis + 1, False)
                continue
            before = (slice(None),) * axis
            parts = [reduce(out[(*before, slice(a, b))], axis, True) for a, b in _bins(length, count)]
            out = parts[0].cat(*parts[1:], dim=axis) if len(parts) > 1 else parts[0]
        return out

    function.__name__ = f"adaptive_{kind}_pool{axes}d"
    function.__doc__ = f"{'Means' if kind == 'avg' else 'Maxima'} of as many windows as the output has elements."
    return function


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (
    _adaptive(axes, lambda x, axis, keep: x.mean(axis, keep), "avg") for axes in (1, 2, 3)
)
def _adaptive_max(axes):
    plain = _adaptive(axes, lambda x, axis, keep: x.max(dim=axis, keepdim=keep).values, "max")

    def function(input, output_size, return_indices=False):
        if not return_indices:
            return plain(input, output_size)
        sizes = [input.shape[i - axes] if s is None else s for i, s in enumerate(_tuple(output_size, axes))]
        spatial = tuple(input.shape[-axes:])
        places = Tensor.arange(math.prod(spatial), dtype="int32", device=input.device).reshape(*spatial)
        values, indices = [], []
        for window in itertools.product(*(_bins(n, count) for n, count in zip(spatial, sizes))):
            part = (..., *(slice(a, b) for a, b in window))
            flat = input[part].flatten(-axes)
            best = flat.argmax(-1, keepdim=True)
            values.append(flat.gather(-1, best))
            indices.append(places[part].reshape(-1)[best])
        shape = (*input.shape[:-axes], *sizes)
        return tuple(parts[0].cat(*parts[1:], dim=-1).reshape(*shape) if len(parts) > 1 else parts[0].reshape(*shape) for parts in (values, indices))

    function.__name__ = plain.__name__
    function.__doc__ = f"{plain.__doc__} With return_indices also where they are in the flat image."
    return function


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = map(_adaptive_max, (1, 2, 3))


def _unpool(axes):
    def function(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        """Puts maxima back to where they were; 0 elsewhere."""
        size = _tuple(kernel_size, axes)
        step = size if stride is None else _tuple(stride, axes)
        pad = _tuple(padding, axes)
        if output_size is None:
            spatial = [(n - 1) * s - 2 * p + k for n, s, p, k in zip(input.shape[-axes:], step, pad, size)]
        else:
            spatial = list(output_size)[-axes:]
        flat, index = input.flatten(-axes), indices.flatten(-axes)
        zeros = Tensor.zeros(*flat.shape[:-1], math.prod(spatial), dtype=input.dtype, device=input.device)
        return zeros.scatter(-1, index, flat).unflatten(-1, tuple(spatial))

    function.__name__ = f"max_unpool{axes}d"
    return function


max_unpool1d, max_unpool2d, max_unpool3d = (_unpool(axes) for axes in (1, 2, 3))


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The windows of images as columns: (N, C x window, windows)."""
    if input.ndim == 3:
        return unfold(input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    size, gap, pad, step = (_tuple(v, 2) for v in (kernel_size, dilation, padding, stride))
    x = input.pad((pad[1], pad[1], pad[0], pad[0])) if any(pad) else input
    count = [(x.shape[2 + i] - gap[i] * (size[i] - 1) - 1) // step[i] + 1 for i in range(2)]
    parts = []
    for i in range(size[0]):
        for j in range(size[1]):
            rows = slice(i * gap[0], i * gap[0] + (count[0] - 1) * step[0] + 1, step[0])
            columns = slice(j * gap[1], j * gap[1] + (count[1] - 1) * step[1] + 1, step[1])
            parts.append(x[:, :, rows, columns])
    stacked = parts[0].stack(*parts[1:], dim=2)
    return stacked.reshape(x.shape[0], x.shape[1] * len(parts), count[0] * count[1])


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Windows as columns added up to images: the transpose of unfold."""
    if input.ndim == 2:
        return fold(input.unsqueeze(0), output_size, kernel_size, dilation, padding, stride).squeeze(0)
    height, width = _tuple(output_size, 2)
    pad = _tuple(padding, 2)
    whole = (height + 2 * pad[0], width + 2 * pad[1])
    places = Tensor.arange(whole[0] * whole[1], dtype="int32", device=input.device).reshape(1, 1, *whole)
    places = unfold(places, kernel_size, dilation, 0, stride).reshape(-1)
    batch, channels = input.shape[0], input.shape[1] // math.prod(_tuple(kernel_size, 2))
    flat = input.reshape(batch, channels, -1)
    if flat.shape[-1] != places.shape[0]:
        raise UserError(f"lathe: fold: needs {places.shape[0] // math.prod(_tuple(kernel_size, 2))} windows, not {input.shape[-1]}")
    zeros = Tensor.zeros(batch, channels, whole[0] * whole[1], dtype=input.dtype, device=input.device)
    out = zeros.scatter_reduce(2, places.reshape(1, 1, -1).expand(*flat.shape), flat, "sum")
    out = out.reshape(batch, channels, *whole)
    return out[:, :, pad[0] : pad[0] + height, pad[1] : pad[1] + width]


def pad(input, pad, mode="constant", value=None):
    """Surrounded by values, from the last axis on: constant, reflect, replicate or circular."""
    return input.pad(tuple(pad), mode, 0.0 if value is None else value)


def pixel_shuffle(input, upscale_factor):
    """Channels moved into space: (C r^2, H, W) to (C, H r, W r)."""
    r = upscale_factor
    *batch, c, h, w = input.shape
    if c % (r * r):
        raise UserError(f"lathe: pixel_shuffle: {c} channels are no multiple of {r * r}")
    n = len(batch)
    out = input.reshape(*batch, c // (r * r), r, r, h, w)
    return out.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2).reshape(*batch, c // (r * r), h * r, w * r)


def pixel_unshuffle(input, downscale_factor):
    """Space moved into channels: the inverse of pixel_shuffle."""
    r = downscale_factor
    *batch, c, h, w = input.shape
    if h % r or w % r:
        raise UserError(f"lathe: pixel_unshuffle: {h} by {w} is not a multiple of {r}")
    n = len(batch)
    out = input.reshape(*batch, c, h // r, r, w // r, r)
    return out.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3).reshape(*batch, c * r * r, h // r, w // r)


def channel_shuffle(input, groups):
    """Channels of the groups interleaved."""
    n, c, *space = input.shape
    if c % groups:
        raise UserError(f"lathe: channel_shuffle: {c} channels are no multiple of {groups} groups")
    return input.reshape(n, groups, c // groups, *space).transpose(1, 2).reshape(n, c, *space)


# ---- resizing


def _cubic(t, a=-0.75):
    """The weights of the four neighbours of a point at fraction t between the middle two."""
    near = lambda x: ((a + 2) * x - (a + 3)) * x * x + 1  # noqa: E731
    far = lambda x: ((a * x - 5 * a) * x + 8 * a) * x - 4 * a  # noqa: E731
    return far(t + 1), near(t), near(1 - t), far(2 - t)


def _taps(length, count, mode, align_corners, scale):
    """For each output the inputs it is a weighted sum of: lists of positions and of weights, a pair for each neighbour."""
    if align_corners:
        ratio = (length - 1) / (count - 1) if count > 1 else 0.0
    else:
        ratio = 1 / scale if scale is not None else length / count
    clip = lambda i: min(max(i, 0), length - 1)  # noqa: E731
    rows = []
    for i in range(count):
        if mode == "nearest":
            rows.append([(clip(math.floor(i * ratio)), 1.0)])
        elif mode == "nearest-exact":
            rows.append([(clip(math.floor((i + 0.5) * ratio)), 1.0)])
        else:
            at = i * ratio if align_corners else (i + 0.5) * ratio - 0.5
            if mode == "linear":
                at = max(at, 0.0)
                low = min(math.floor(at), length - 1)
                rows.append([(low, 1 - (at - low)), (clip(low + 1), at - low)])
            else:
                low = math.floor(at)
                rows.append([(clip(low - 1 + k), w) for k, w in enumerate(_cubic(at - low))])
    return list(zip(*[[tap for tap in row] for row in rows]))


def _resized(x, axis, count, mode, align_corners, scale):
    out = None
    for taps in _taps(x.shape[axis], count, mode, align_corners, scale):
        index = Tensor([place for place, _ in taps], dtype="int32", device=x.device)
        part = x[(slice(None),) * axis + (index,)]
        if mode.startswith("nearest"):
            return part
        weights = Tensor([w for _, w in taps], dtype=x.dtype, device=x.device)
        part = part * weights.reshape(*[1] * axis, count, *[1] * (x.ndim - axis - 1))
        out = part if out is None else out + part
    return out


_MODES = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    """Images resized to a size or by a factor: nearest, nearest-exact, linear, bilinear, trilinear, bicubic, area."""
    axes = input.ndim - 2
    if mode not in ("nearest", "nearest-exact", "area") and _MODES.get(mode) != axes:
        raise UserError(
            f"lathe: interpolate: mode {mode!r} does not fit {input.ndim} axes\n"
            "  help: nearest, nearest-exact, area; linear for 3 axes, bilinear and bicubic for 4, trilinear for 5"
        )
    if antialias:
        raise UserError("lathe: interpolate: antialias is not there\n  help: avg_pool2d or mode='area' smooth before")
    if (size is None) == (scale_factor is None):
        raise UserError("lathe: interpolate: needs either size or scale_factor")
    scales = [None] * axes
    if size is None:
        factors = [float(f) for f in (scale_factor if isinstance(scale_factor, (tuple, list)) else [scale_factor] * axes)]
        size = [math.floor(n * f) for n, f in zip(input.shape[2:], factors)]
        scales = [None] * axes if recompute_scale_factor else factors
    size = _tuple(size, axes)
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[axes - 1](input, size)
    kind = mode if mode.startswith("nearest") else "cubic" if mode == "bicubic" else "linear"
    out = input
    for i, count in enumerate(size):
        out = _resized(out, 2 + i, count, kind, bool(align_corners), scales[i])
    return out


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """interpolate."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate with the nearest pixel."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate between four pixels, corners aligned."""
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)


def affine_grid(theta, size, align_corners=False):
    """The points of an image moved by a matrix of 2 by 3, for grid_sample."""
    n, _, h, w = size

    def axis(count):
        steps = [(2 * i / (count - 1) - 1 if count > 1 else 0.0) if align_corners else (2 * i + 1) / count - 1 for i in range(count)]
        return Tensor(steps, dtype=theta.dtype, device=theta.device)

    x, y = axis(w).reshape(1, w).expand(h, w), axis(h).reshape(h, 1).expand(h, w)
    points = x.stack(y, Tensor.ones(h, w, dtype=theta.dtype, device=theta.device), dim=-1).reshape(1, h * w, 3)
    return points.expand(n, h * w, 3).matmul(theta.transpose(1, 2)).reshape(n, h, w, 2)


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    """Values of images at points (x, y from -1 to 1): bilinear or nearest; outside zeros or the border."""
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border") or input.ndim != 4:
        raise UserError(
            f"lathe: grid_sample: mode {mode!r} with padding {padding_mode!r} and {input.ndim} axes is not there\n"
            "  help: bilinear or nearest, zeros or border, images of 4 axes"
        )
    n, c, h, w = input.shape
    if grid.dtype.itemsize < 4:  # half has too few whole numbers for positions
        grid = grid.float()

    def position(value, count):
        at = (value + 1) / 2 * (count - 1) if align_corners else ((value + 1) * count - 1) / 2
        return at.clamp(0, count - 1) if padding_mode == "border" else at

    x, y = position(grid[..., 0], w), position(grid[..., 1], h)
    flat = input.reshape(n, c, h * w)

    def pick(px, py):
        inside = (px >= 0) & (px < w) & (py >= 0) & (py < h)
        row, column = py.clamp(0, h - 1).cast("int32"), px.clamp(0, w - 1).cast("int32")
        index = (row * w + column).reshape(n, 1, -1)
        values = flat.gather(2, index.expand(n, c, index.shape[-1])).reshape(n, c, *grid.shape[1:3])
        return inside.unsqueeze(1).where(values, 0)

    if mode == "nearest":
        return pick(x.round(), y.round())
    left, top = x.floor().detach(), y.floor().detach()
    fx, fy = (x - left).unsqueeze(1), (y - top).unsqueeze(1)
    upper = pick(left, top) * (1 - fx) + pick(left + 1, top) * fx
    return (upper * (1 - fy) + (pick(left, top + 1) * (1 - fx) + pick(left + 1, top + 1) * fx) * fy).cast(input.dtype)


# ---- norms


def _shaped(t, x):
    """Values per channel, ready to meet x."""
    return t.reshape(1, -1, *[1] * (x.ndim - 2))


def _scaled(x, weight, bias):
    x = x if weight is None else x * _shaped(weight, x)
    return x if bias is None else x + _shaped(bias, x)


def batch_norm(input, running_mean=None, running_var=None, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Each channel with mean 0 and variance 1: of the batch in training, of what was learned otherwise."""
    if not training and running_mean is None:
        raise UserError("lathe: batch_norm: outside of training running_mean and running_var are needed")
    axes = tuple(i for i in range(input.ndim) if i != 1)
    if training:
        mean, var = input.mean(axes), input.var(axes, correction=0)
        if running_mean is not None:
            count = math.prod(input.shape) // input.shape[1]
            unbiased = var.detach() * (count / max(count - 1, 1))
            running_mean.assign(running_mean * (1 - momentum) + mean.detach().cast(running_mean.dtype) * momentum)
            running_var.assign(running_var * (1 - momentum) + unbiased.cast(running_var.dtype) * momentum)
    else:
        mean, var = running_mean, running_var
    out = (input - _shaped(mean, input)) * _shaped((var + eps).rsqrt(), input)
    return _scaled(out, weight, bias)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Mean 0 and variance 1 over the last axes."""
    shape = _tuple(normalized_shape, 1)
    if tuple(input.shape[input.ndim - len(shape) :]) != tuple(shape):
        raise UserError(f"lathe: layer_norm: the last axes are {tuple(input.shape)[-len(shape):]}, not {tuple(shape)}")
    out = input.layernorm(tuple(range(-len(shape), 0)), eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Root mean square 1 over the last axes."""
    axes = tuple(range(-len(_tuple(normalized_shape, 1)), 0))
    tiny = {2: 2**-10, 4: 2**-23, 8: 2**-52}[input.dtype.itemsize] if eps is None else eps
    out = input * (input.square().mean(axes, True) + tiny).rsqrt()
    return out if weight is None else out * weight


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Mean 0 and variance 1 over groups of channels."""
    n, c = input.shape[:2]
    if c % num_groups:
        raise UserError(f"lathe: group_norm: {c} channels are no multiple of {num_groups} groups")
    size = c // num_groups * math.prod(input.shape[2:])  # not -1, which an empty batch leaves open
    return _scaled(input.reshape(n, num_groups, size).layernorm(-1, eps).reshape(*input.shape), weight, bias)


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
    """Mean 0 and variance 1 over each channel of each element."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    axes = tuple(range(2, input.ndim))
    for running, now in ((running_mean, lambda x: x.mean(axes)), (running_var, lambda x: x.var(axes))):
        if running is not None:
            running.assign(running * (1 - momentum) + now(input.detach()).mean(0).cast(running.dtype) * momentum)
    return _scaled(input.layernorm(tuple(range(2, input.ndim)), eps), weight, bias)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divided by the squares of neighbouring channels."""
    square = input.square().unsqueeze(1)
    flat = square.reshape(input.shape[0], 1, input.shape[1], math.prod(input.shape[2:]))
    flat = flat.pad((0, 0, size // 2, (size - 1) // 2))
    mean = flat.avg_pool2d((size, 1), (1, 1)).reshape(*input.shape)
    return input / (mean * alpha + k).pow(beta)


def normalize(input, p=2.0, dim=1, eps=1e-12):
    """Divided by the p-norm along an axis."""
    return input.normalize(p, dim, eps)


# ---- distances


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between vectors along an axis."""
    from lathe.functions import broadcast_tensors

    dtype = least_upper_dtype(x1.dtype, x2.dtype)
    if dtype.itemsize < 4:  # squares, and that of eps, leave the range of half
        return cosine_similarity(x1.float(), x2.float(), dim, eps).cast(dtype)
    x1, x2 = broadcast_tensors(x1, x2)  # the axis is one of both together
    norms = x1.square().sum(dim).maximum(eps * eps).sqrt() * x2.square().sum(dim).maximum(eps * eps).sqrt()
    return (x1 * x2).sum(dim) / norms


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of the difference along the last axis."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


def pdist(input, p=2.0):
    """The distances of all pairs of rows."""
    n = input.shape[0]
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    first = Tensor([i for i, _ in pairs], dtype="int32", device=input.device)
    second = Tensor([j for _, j in pairs], dtype="int32", device=input.device)
    return (input[first] - input[second]).norm(p, -1)


def _twin(function):
    def in_place(input, *args, **kwargs):
        return input.assign(function(input, *args, **kwargs))

    in_place.__name__, in_place.__doc__ = f"{function.__name__}_", f"{function.__name__}, in place."
    return in_place


relu_, relu6_, elu_, celu_, selu_, leaky_relu_, hardtanh_, threshold_, rrelu_ = map(
    _twin, (relu, relu6, elu, celu, selu, leaky_relu, hardtanh, threshold, rrelu)
)

from lathe.nn.losses import *  # noqa: E402, F403
