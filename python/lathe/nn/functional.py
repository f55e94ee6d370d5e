"""Functions on tensors under PyTorch's names, with its arguments and defaults: activations, convolutions, norms, distances.
The losses are in `losses.py`, pools and windows in `windows.py`, resizing in `resizing.py`, and are here too."""

import math

from lathe import _core
from lathe._core import Tensor, least_upper_dtype
from lathe.errors import UserError
from lathe.nn.resizing import *  # noqa: F403
from lathe.nn.windows import *  # noqa: F403
from lathe.nn.windows import _tuple


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
