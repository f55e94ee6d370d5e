"""What the torch texts of the table may say: where torch has no word for it, or another meaning."""

import numpy as np
import torch
import torch.nn.functional as F

from fuzz import dtypes

TORCH = {"bool": torch.bool, "int8": torch.int8, "int16": torch.int16, "int32": torch.int32, "int64": torch.int64, "uint8": torch.uint8}


def dtype_of(name):
    """Floats are all float64 here, as in numpy."""
    return TORCH.get(name, torch.float64)


def cast(x, source, target):
    if dtypes.is_float(target):
        return x.to(torch.float64)
    return torch.from_numpy(np.asarray(dtypes.cast(x.detach().numpy(), source, target)))


def take(x, key):
    """x[key] for slices with any step."""
    for axis, k in reversed(list(enumerate(key))):
        if isinstance(k, int):
            x = x.select(axis, k)
        else:
            x = x.index_select(axis, torch.from_numpy(np.arange(x.shape[axis])[k].copy()))
    return x


def pad(x, pads, value=0):
    flat = [n for pair in reversed(pads) for n in pair]
    return F.pad(x, flat, value=value)


def expand(x, shape):
    return x.expand(shape)


def gather(x, axis, index):
    index = index.long()
    return torch.gather(x, axis, torch.where(index < 0, index + x.shape[axis], index))


def wrapped(index, size):
    index = index.long()
    return torch.where(index < 0, index + size, index)


def scatter(x, axis, index, src, how=None, include_self=True):
    index = wrapped(index, x.shape[axis])
    src = src[tuple(slice(0, n) for n in index.shape)]
    if how is None:
        return x.scatter(axis, index, src)
    if how in ("add", "multiply"):
        how = {"add": "sum", "multiply": "prod"}[how]
    return x.scatter_reduce(axis, index, src, reduce=how, include_self=include_self)


def sort(x, axis, descending):
    return torch.sort(x, dim=axis, descending=descending, stable=True)[0]


def argsort(x, axis, descending):
    return torch.sort(x, dim=axis, descending=descending, stable=True)[1].int()


def conv2d(x, w, bias, groups, stride, dilation, padding, kept):
    out = F.conv2d(F.pad(x, padding), w, None, stride=stride, dilation=dilation, groups=groups)
    return out if bias is None else kept(out) + bias.reshape(1, -1, 1, 1)


def where(c, x, y):
    return torch.where(c, x, y)


def max_pool2d(x, kernel, stride, dilation, padding):
    """Equal largest elements share the gradient, as in other maxima; torch's own gives it to the first."""
    x = F.pad(x, (padding[1], padding[1], padding[0], padding[0]), value=float("-inf"))
    size = [(x.shape[-2 + k] - dilation[k] * (kernel[k] - 1) - 1) // stride[k] + 1 for k in range(2)]
    parts = []
    for a in range(kernel[0]):
        for b in range(kernel[1]):
            part = x[..., a * dilation[0] :: stride[0], b * dilation[1] :: stride[1]]
            parts.append(part[..., : size[0], : size[1]])
    return torch.stack(parts).amax(0)


def masked_mean(x, mask, axis):
    left = ~torch.broadcast_to(mask, x.shape)
    return torch.where(left, x, 0.0).sum(axis) / left.sum(axis)


def masked_select(x, mask, size, fill):
    found = x[mask][:size]
    return torch.cat([found, torch.full((size - len(found),), fill, dtype=x.dtype)])


def pooled_max(x, kernel, stride, padding, ceil):
    """As max_pool2d, with a last window that may stick out."""
    size = F.max_pool2d(x.detach(), kernel, stride, padding, 1, ceil).shape[-2:]
    more = [max(0, (size[k] - 1) * stride[k] + kernel[k] - x.shape[-2 + k] - 2 * padding[k]) for k in range(2)]
    x = F.pad(x, (padding[1], padding[1] + more[1], padding[0], padding[0] + more[0]), value=float("-inf"))
    parts = [x[..., a :: stride[0], b :: stride[1]][..., : size[0], : size[1]] for a in range(kernel[0]) for b in range(kernel[1])]
    return torch.stack(parts).amax(0)


def put(x, key, value):
    out = x.clone()
    out[key] = value
    return out


def add_at(x, key, value):
    out = x.clone()
    out[key] += value
    return out


def var(x, axis, correction, keepdim):
    return torch.var(x, dim=axis, correction=correction, keepdim=keepdim)


def tanh(x, kept):
    """Its slope is 1 - y * y, of which little is left far out."""
    y = x.detach().tanh()
    return y + (1 - kept(y * y)) * (x - x.detach())


def sigmoid(x, kept):
    y = x.detach().sigmoid()
    return y + y * (1 - kept(y)) * (x - x.detach())


def softmax(x, axis):
    """In steps, so that noise gets between them."""
    e = (x - x.amax(axis, True).detach()).exp()
    return e / e.sum(axis, True)


def attention(q, k, v, causal):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), float("-inf"))
    return softmax(scores, -1) @ v
