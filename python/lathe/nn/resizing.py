"""Resizing and sampling of images under PyTorch's names, with its arguments and defaults; parts of `nn.functional`."""

import math

from lathe._core import Tensor
from lathe.errors import UserError
from lathe.nn.windows import _tuple, adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d


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
