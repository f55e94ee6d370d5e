"""Pools, windows and padding under PyTorch's names, with its arguments and defaults; parts of `nn.functional`."""

import itertools
import math

from lathe._core import Tensor
from lathe.errors import UserError


def _tuple(value, count):
    """One number for each axis."""
    if isinstance(value, int):
        return (value,) * count
    value = tuple(value)
    return value * count if len(value) == 1 else value


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
