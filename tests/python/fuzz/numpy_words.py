"""What the numpy texts of the table may say beside numpy's own words. Plain and slow on purpose."""

import math

import numpy as np

from fuzz import dtypes

erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def positive(x):
    """x, where no element is next to zero: what follows is not defined there, or steep."""
    assert (x > 1e-2).all()
    return x


def beside(x):
    """x, where no element is zero: the slope there is that of one side or of the other."""
    assert (x != 0).all()
    return x


def in_range(x, axis, limits):
    """x, where the product of any elements along the axis is a number: their order is not defined, and an infinity stays."""
    size = np.abs(x)
    assert (np.maximum(size, 1).prod(axis) <= limits[1]).all()
    assert (np.minimum(np.where(size == 0, 1, size), 1).prod(axis) >= limits[0]).all()
    return x


def softplus(x):
    return np.logaddexp(x, 0)


def logsumexp(x, axis, keepdims=False):
    most = x.max(axis=axis, keepdims=True)
    out = np.log(np.exp(x - most).sum(axis=axis, keepdims=True)) + most
    return out if keepdims else out.squeeze(axis)


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def layernorm(x, axis, kept, eps=1e-5):
    centred = x - kept(x.mean(axis=axis, keepdims=True), np.abs(x).mean(axis=axis, keepdims=True))
    return centred / np.sqrt((centred * centred).mean(axis=axis, keepdims=True) + eps)


def cast(x, source, target):
    return dtypes.cast(x, source, target)


def pad(x, pads, value=0):
    """Padding that may be negative, which cuts."""
    assert all(min(a, 0) + min(b, 0) == 0 or x.shape[i] + min(a, 0) + min(b, 0) > 0 for i, (a, b) in enumerate(pads))
    cut = x[tuple(slice(max(-a, 0), x.shape[i] - max(-b, 0)) for i, (a, b) in enumerate(pads))]
    return np.pad(cut, [(max(a, 0), max(b, 0)) for a, b in pads], constant_values=value)


def unfold(x, axis, size, step):
    return np.moveaxis(np.lib.stride_tricks.sliding_window_view(x, size, axis), axis, axis)[
        (slice(None),) * axis + (slice(None, None, step),)
    ]


def gather(x, axis, index):
    at = list(np.indices(index.shape))
    at[axis] = index % x.shape[axis] if x.shape[axis] else index
    return x[tuple(at)]


FOLD = {"add": np.add, "sum": np.add, "multiply": np.multiply, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def scatter(x, axis, index, src, how=None, include_self=True):
    out = x.copy()
    counts = np.full(x.shape, 1 if include_self else 0)
    seen = np.full(x.shape, include_self)
    for position in np.ndindex(index.shape):
        to = position[:axis] + (int(index[position]) % x.shape[axis],) + position[axis + 1 :]
        counts[to] += 1
        if how is None or not seen[to]:
            out[to] = src[position]
        elif how == "mean":
            out[to] += src[position]
        else:
            out[to] = FOLD[how](out[to], src[position])
        seen[to] = True
    return out / np.maximum(counts, 1) if how == "mean" else out


def sort(x, axis, descending):
    if not descending:
        return np.sort(x, axis=axis, kind="stable")
    return np.flip(np.sort(x, axis=axis, kind="stable"), axis)


def argsort(x, axis, descending):
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    back = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - back, axis)


def topk(x, k, axis, largest):
    return np.take(sort(x, axis, largest), np.arange(k), axis=axis)


def running_sum(x, axis, kept):
    """Each partial sum is rounded, and so are all behind it."""
    total = np.cumsum(x, axis)
    return total + np.cumsum(kept(np.zeros(total.shape), np.abs(total), wide=True), axis) if total.dtype.kind == "f" else total


def running_index(extreme, x, axis):
    """The position of the running extreme, the last of equals."""
    line = np.arange(x.shape[axis], dtype=np.int32).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    return np.maximum.accumulate(np.where(x == extreme.accumulate(x, axis), line, 0), axis)


def conv2d(x, w, bias, groups, stride, dilation, padding, kept):
    """padding: left, right, top, bottom."""
    x = np.pad(x, [(0, 0), (0, 0), tuple(padding[2:]), tuple(padding[:2])])
    (n, c, h, wide), (o, i, kh, kw) = x.shape, w.shape
    oh = (h - dilation[0] * (kh - 1) - 1) // stride[0] + 1
    ow = (wide - dilation[1] * (kw - 1) - 1) // stride[1] + 1
    assert oh > 0 and ow > 0
    out = np.zeros((n, groups, o // groups, oh, ow), np.result_type(x, w))
    xg, wg = x.reshape(n, groups, i, h, wide), w.reshape(groups, o // groups, i, kh, kw)
    for a in range(kh):
        for b in range(kw):
            part = xg[..., a * dilation[0] :, b * dilation[1] :][..., :: stride[0], :: stride[1]][..., :oh, :ow]
            out += np.einsum("ngihw,goi->ngohw", part, wg[..., a, b])
    out = out.reshape(n, o, oh, ow)
    return out if bias is None else kept(out) + bias.reshape(1, -1, 1, 1)


def conv_transpose2d(x, w, groups, stride, dilation, padding, output_padding):
    (n, c, h, wide), (_, o, kh, kw) = x.shape, w.shape
    size = [(s - 1) * stride[k] + dilation[k] * (kk - 1) + 1 + output_padding[k] for k, (s, kk) in enumerate(((h, kh), (wide, kw)))]
    out = np.zeros((n, groups, o, *size), np.result_type(x, w))
    xg, wg = x.reshape(n, groups, c // groups, h, wide), w.reshape(groups, c // groups, o, kh, kw)
    for a in range(kh):
        for b in range(kw):
            rows, columns = np.arange(h) * stride[0] + a * dilation[0], np.arange(wide) * stride[1] + b * dilation[1]
            out[:, :, :, rows[:, None], columns] += np.einsum("ngihw,gio->ngohw", xg, wg[..., a, b])
    out = out.reshape(n, groups * o, *size)
    result = out[:, :, padding[0] : size[0] - padding[0], padding[1] : size[1] - padding[1]]
    assert result.size > 0
    return result


def windows(x, kernel, stride, dilation, padding, fill):
    x = np.pad(x, [(0, 0)] * (x.ndim - 2) + [(p, p) for p in padding], constant_values=fill)
    h, w = x.shape[-2:]
    oh = (h - dilation[0] * (kernel[0] - 1) - 1) // stride[0] + 1
    ow = (w - dilation[1] * (kernel[1] - 1) - 1) // stride[1] + 1
    assert oh > 0 and ow > 0
    parts = []
    for a in range(kernel[0]):
        for b in range(kernel[1]):
            parts.append(x[..., a * dilation[0] :, b * dilation[1] :][..., :: stride[0], :: stride[1]][..., :oh, :ow])
    return np.stack(parts)


def max_pool2d(x, kernel, stride, dilation, padding):
    fill = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return windows(x, kernel, stride, dilation, padding, fill).max(0)


def avg_pool2d(x, kernel, stride, padding):
    return windows(x, kernel, stride, (1, 1), padding, 0).mean(0)


def pooled(x, kernel, stride, padding, how, ceil, count_pads=True):
    """One window after the other. With ceil the last window may stick out, but begins inside the image or its left pad."""
    n = len(kernel)
    sizes = []
    for k in range(n):
        room = x.shape[x.ndim - n + k] + 2 * padding[k] - kernel[k]
        assert room >= 0
        size = (-(-room // stride[k]) if ceil else room // stride[k]) + 1
        sizes.append(size - (ceil and (size - 1) * stride[k] >= x.shape[x.ndim - n + k] + padding[k]))
    out = np.zeros((*x.shape[: x.ndim - n], *sizes), x.dtype)
    for at in np.ndindex(*sizes):
        begin = [at[k] * stride[k] - padding[k] for k in range(n)]
        end = [min(begin[k] + kernel[k], x.shape[x.ndim - n + k] + padding[k]) for k in range(n)]
        inside = [slice(max(b, 0), max(min(e, x.shape[x.ndim - n + k]), 0)) for k, (b, e) in enumerate(zip(begin, end))]
        part = x[(..., *inside)].reshape(*x.shape[: x.ndim - n], -1)
        if how == "max":
            out[(..., *at)] = part.max(-1)
        else:
            out[(..., *at)] = part.sum(-1) / (math.prod(e - b for b, e in zip(begin, end)) if count_pads else part.shape[-1])
    return out


def conv(x, w, groups, stride, dilation, padding):
    """With any number of axes, one place of the window after the other."""
    n = w.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    size = [(x.shape[2 + k] - dilation[k] * (w.shape[2 + k] - 1) - 1) // stride[k] + 1 for k in range(n)]
    assert min(size) > 0
    xg, wg = x.reshape(x.shape[0], groups, -1, *x.shape[2:]), w.reshape(groups, -1, *w.shape[1:])
    out = np.zeros((x.shape[0], groups, wg.shape[1], *size), np.result_type(x, w))
    for at in np.ndindex(*w.shape[2:]):
        inside = tuple(slice(at[k] * dilation[k], at[k] * dilation[k] + (size[k] - 1) * stride[k] + 1, stride[k]) for k in range(n))
        out += np.einsum("ngi...,goi->ngo...", xg[(..., *inside)], wg[(..., *at)])
    return out.reshape(x.shape[0], -1, *size)


def attention(q, k, v, causal, mask=None):
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    return softmax(scores, -1) @ v


def one_hot(x, classes):
    return (x[..., None] == np.arange(classes)).astype(np.int32)


def interpolate(x, size):
    """Linear, half-pixel, along the last axes."""
    for k, n in enumerate(size):
        axis = x.ndim - len(size) + k
        at = np.maximum((np.arange(n) + 0.5) * x.shape[axis] / n - 0.5, 0)
        low = np.minimum(np.floor(at).astype(int), x.shape[axis] - 1)
        high = np.minimum(low + 1, x.shape[axis] - 1)
        part = (at - low).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        x = np.take(x, low, axis) * (1 - part) + np.take(x, high, axis) * part
    return x


def nearest(x, size, exact):
    """One input for each output, along the last axes."""
    for k, n in enumerate(size):
        axis = x.ndim - len(size) + k
        i = np.arange(n)
        x = np.take(x, (2 * i + 1) * x.shape[axis] // (2 * n) if exact else i * x.shape[axis] // n, axis)
    return x


def interpolate_corners(x, size):
    """Linear, first and last elements onto each other."""
    for k, n in enumerate(size):
        axis = x.ndim - len(size) + k
        at = np.arange(n) * ((x.shape[axis] - 1) / (n - 1) if n > 1 else 0.0)
        low = np.minimum(np.floor(at).astype(int), x.shape[axis] - 1)
        high = np.minimum(low + 1, x.shape[axis] - 1)
        part = (at - low).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        x = np.take(x, low, axis) * (1 - part) + np.take(x, high, axis) * part
    return x


def floor_divide(x, y):
    """Of integers: by 0 it is 0. int64 and uint64 meet in a float, where that has no answer."""
    assert np.result_type(x, y).kind != "f" or (y != 0).all()
    return np.where(y == 0, 0, np.floor_divide(x, np.where(y == 0, 1, y)))


def remainder(x, y):
    assert np.result_type(x, y).kind != "f" or (y != 0).all()
    return np.where(y == 0, 0, np.remainder(x, np.where(y == 0, 1, y)))


def trunc_divide(x, y):
    """Toward zero; by 0 it is 0."""
    assert np.result_type(x, y).kind != "f"
    whole = floor_divide(x, y)
    return whole + ((np.sign(x) * np.sign(y) < 0) & (whole * y != x)).astype(whole.dtype)


def hidden(x, mask, axis):
    """Minus infinity where the mask says so; each row keeps something."""
    mask = np.broadcast_to(mask, x.shape)
    assert not mask.all(axis).any()
    return np.where(mask, -np.inf, x)


def masked_mean(x, mask, axis):
    left = ~np.broadcast_to(mask, x.shape)
    assert left.any(axis).all()
    return np.where(left, x, 0).sum(axis) / left.sum(axis)


def masked_select(x, mask, size, fill):
    found = x[mask][:size]
    return np.concatenate([found, np.full(size - len(found), fill, x.dtype)])


def bits(x, source, target):
    """The same bytes under another dtype."""
    inside = x.astype(source) if source in dtypes.FLOATS else x
    out = inside.view(target)
    return out.astype(np.float64) if target in dtypes.FLOATS else out


def put(x, key, value):
    out = x.copy()
    out[key] = value
    return out


def add_at(x, key, value):
    out = x.copy()
    out[key] += value
    return out
