"""First values of parameters, under PyTorch's names: each fills a tensor in place and gives it."""

import math

from lathe._core import Tensor
from lathe.errors import UserError

_GAINS = {
    "linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "conv_transpose1d": 1.0, "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 0.75,
}  # fmt: skip


def calculate_gain(nonlinearity, param=None):
    """The scale that keeps the variance through a nonlinearity.

    >>> nn.init.calculate_gain("tanh") == 5 / 3
    True
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise UserError(f"lathe: calculate_gain: {nonlinearity!r} is unknown\n  help: {', '.join([*_GAINS, 'leaky_relu'])}")
    return _GAINS[nonlinearity]


def _filled(tensor, values):
    """Writes the values, which have memory of their own then."""
    return tensor.assign(values.cast(tensor.dtype).to(tensor.device).detach()).realize()


def _fans(tensor):
    if tensor.ndim < 2:
        raise UserError(f"lathe: init: a tensor of shape {tuple(tensor.shape)} has no fan-in: it needs at least 2 axes")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def uniform_(tensor, a=0.0, b=1.0):
    """Uniform between a and b.

    >>> 0 <= nn.init.uniform_(Tensor.zeros(3)).min().item() <= 1
    True
    """
    return _filled(tensor, Tensor.uniform(*tensor.shape, low=a, high=b))


def normal_(tensor, mean=0.0, std=1.0):
    """Normal with that mean and deviation.

    >>> nn.init.normal_(Tensor.zeros(3)).shape
    (3,)
    """
    return _filled(tensor, Tensor.randn(*tensor.shape) * std + mean)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0):
    """Normal, cut to a to b.

    >>> nn.init.trunc_normal_(Tensor.zeros(100)).abs().max().item() <= 2
    True
    """
    below = lambda x: (1 + math.erf(x / math.sqrt(2))) / 2  # noqa: E731
    low, high = below((a - mean) / std), below((b - mean) / std)
    spread = Tensor.uniform(*tensor.shape, low=2 * low - 1, high=2 * high - 1)
    return _filled(tensor, (spread.clamp(-1 + 1e-7, 1 - 1e-7).erfinv() * (std * math.sqrt(2)) + mean).clamp(a, b))


def constant_(tensor, val):
    """One value everywhere.

    >>> nn.init.constant_(Tensor.zeros(2), 3.0).tolist()
    [3.0, 3.0]
    """
    return _filled(tensor, Tensor.full(tuple(tensor.shape), val))


def zeros_(tensor):
    """0 everywhere.

    >>> nn.init.zeros_(Tensor.ones(2).contiguous()).tolist()
    [0.0, 0.0]
    """
    return constant_(tensor, 0.0)


def ones_(tensor):
    """1 everywhere.

    >>> nn.init.ones_(Tensor.zeros(2).contiguous()).tolist()
    [1.0, 1.0]
    """
    return constant_(tensor, 1.0)


def eye_(tensor):
    """1 on the diagonal of a matrix.

    >>> nn.init.eye_(Tensor.zeros(2, 2).contiguous()).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _filled(tensor, Tensor.eye(*tensor.shape))


def dirac_(tensor, groups=1):
    """The kernel of a convolution that keeps its input.

    >>> nn.init.dirac_(Tensor.zeros(1, 1, 3).contiguous()).tolist()
    [[[0.0, 1.0, 0.0]]]
    """
    out, inner, *space = tensor.shape
    each = out // groups
    values = Tensor.zeros(*tensor.shape).contiguous()
    for group in range(groups):
        for i in range(min(each, inner)):
            values[(group * each + i, i, *[n // 2 for n in space])] = 1.0
    return _filled(tensor, values)


def xavier_uniform_(tensor, gain=1.0):
    """Uniform, with the variance of 2 / (fan in + fan out).

    >>> nn.init.xavier_uniform_(Tensor.zeros(2, 3).contiguous()).shape
    (2, 3)
    """
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor, gain=1.0):
    """Normal, with the variance of 2 / (fan in + fan out).

    >>> nn.init.xavier_normal_(Tensor.zeros(2, 3).contiguous()).shape
    (2, 3)
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))))


def _fan(tensor, mode):
    if mode not in ("fan_in", "fan_out"):
        raise UserError(f"lathe: init: {mode!r} is not a mode\n  help: fan_in or fan_out")
    return _fans(tensor)[mode == "fan_out"]


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu"):
    """Uniform, with the variance that keeps that of activations.

    >>> nn.init.kaiming_uniform_(Tensor.zeros(2, 3).contiguous()).shape
    (2, 3)
    """
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / _fan(tensor, mode))
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu"):
    """Normal, with the variance that keeps that of activations.

    >>> nn.init.kaiming_normal_(Tensor.zeros(2, 3).contiguous()).shape
    (2, 3)
    """
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode)))


def orthogonal_(tensor, gain=1.0):
    """Rows or columns at right angles.

    >>> w = nn.init.orthogonal_(Tensor.zeros(3, 3).contiguous())
    >>> (w @ w.T - Tensor.eye(3)).abs().max().item() < 1e-5
    True
    """
    _fans(tensor)
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    flat = Tensor.randn(max(rows, columns), min(rows, columns))
    q, r = flat.qr()
    q = q[:, : min(rows, columns)] * r.diagonal()[: min(rows, columns)].sign()
    return _filled(tensor, (q if rows >= columns else q.transpose(0, 1)).reshape(*tensor.shape) * gain)


def sparse_(tensor, sparsity, std=0.01):
    """Normal, with that part of each column 0.

    >>> (nn.init.sparse_(Tensor.zeros(10, 2).contiguous(), 0.5) == 0).sum().item()
    10
    """
    rows, columns = tensor.shape
    order = Tensor.rand(rows, columns).argsort(0)
    return _filled(tensor, (order < math.ceil(sparsity * rows)).where(0, Tensor.randn(rows, columns) * std))


__all__ = ["calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "orthogonal_",
           "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_"]  # fmt: skip
