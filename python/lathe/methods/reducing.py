"""Reductions, statistics and order."""

import collections
import math

from lathe._core import Tensor
from lathe.errors import UserError
from lathe.methods.shapes import at, axis_of
from lathe.tensor import Pair

Extent = collections.namedtuple("Extent", "min max")


def _float(x):
    return x if x.is_floating_point() else x.cast("float32")


def amax(self, dim=None, keepdim=False):
    """The largest along axes.

    >>> Tensor([[1, 5], [3, 2]]).amax(1).tolist()
    [5, 3]
    """
    return self.max(dim, keepdim)


def amin(self, dim=None, keepdim=False):
    """The smallest along axes.

    >>> Tensor([[1, 5], [3, 2]]).amin(1).tolist()
    [1, 2]
    """
    return self.min(dim, keepdim)


def aminmax(self, *, dim=None, keepdim=False):
    """The smallest and the largest.

    >>> [t.item() for t in Tensor([3, 1, 2]).aminmax()]
    [1, 3]
    """
    return Extent(self.min(dim, keepdim), self.max(dim, keepdim))


def count_nonzero(self, dim=None):
    """How many are not 0.

    >>> Tensor([0, 3, 0, 1]).count_nonzero().item()
    2
    """
    return (self != 0).cast("int32").sum(dim)


def nansum(self, dim=None, keepdim=False, *, dtype=None):
    """The sum without the NaNs.

    >>> Tensor([1.0, float("nan")]).nansum().item()
    1.0
    """
    clean = (self != self).where(0, self) if self.is_floating_point() else self
    return clean.sum(dim, keepdim, dtype)


def nanmean(self, dim=None, keepdim=False, *, dtype=None):
    """The mean without the NaNs.

    >>> Tensor([1.0, float("nan"), 3.0]).nanmean().item()
    2.0
    """
    x = self if dtype is None else self.cast(dtype)
    return nansum(x, dim, keepdim) / (x == x).cast(x.dtype).sum(dim, keepdim)


def norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    """The p-norm over axes, of all elements by default.

    >>> Tensor([3.0, 4.0]).norm().item()
    5.0
    """
    from lathe import linalg

    x = self if dtype is None else self.cast(dtype)
    if p == "nuc":
        return linalg.norm(x, "nuc", (-2, -1) if dim is None else dim, keepdim)
    return linalg.vector_norm(x, 2.0 if p in (None, "fro") else p, dim, keepdim)


def dist(self, other, p=2):
    """The p-norm of the difference.

    >>> Tensor([1.0, 1.0]).dist(Tensor([4.0, 5.0])).item()
    5.0
    """
    return norm(self - other, p)


def renorm(self, p, dim, maxnorm):
    """Slices along an axis scaled down where their p-norm is larger.

    >>> Tensor([[3.0, 4.0], [0.3, 0.4]]).renorm(2, 0, 1.0).numpy().round(3).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.30000001192092896, 0.4000000059604645]]
    """
    axis = axis_of(self, dim, "renorm")
    size = norm(self, p, tuple(i for i in range(self.ndim) if i != axis), True)
    return self * (size > maxnorm).where(maxnorm / (size + 1e-7), 1.0)


def kthvalue(self, k, dim=-1, keepdim=False):
    """The k-th smallest element along an axis, counted from 1, and its index.

    >>> [t.item() for t in Tensor([5, 1, 3]).kthvalue(2)]
    [3, 2]
    """
    axis = axis_of(self, dim, "kthvalue")
    size = self.shape[axis] if self.ndim else 1
    if not 1 <= k <= size:
        raise UserError(f"lathe: kthvalue: k is {k}, the axis has {size} elements")
    if not self.ndim:
        return Pair(self, self.const_like(0).cast("int32"))
    values, places = _sorted(self, axis)
    picked = (at(t, axis, slice(k - 1, k)) for t in (values, places))
    return Pair(*(t if keepdim else t.squeeze(axis) for t in picked))


def _sorted(x, axis):
    """Sorted along an axis, NaN last."""
    if not x.is_floating_point():
        return x.sort(axis)
    order = (x != x).where(math.inf, x)
    _, places = order.sort(axis)
    # Infinities and NaNs are both last: among them a stable order by what they were.
    rank = (x != x).where(2, (x == math.inf).where(1, 0)).cast("int32").gather(axis, places)
    size = x.shape[axis]
    position = Tensor.arange(size, dtype="int32", device=x.device).reshape(*[size if i == axis else 1 for i in range(x.ndim)])
    key = (rank * size + position).argsort(axis)
    places = places.gather(axis, key)
    return x.gather(axis, places), places


def median(self, dim=None, keepdim=False):
    """The median, the lower one of an even number; with an axis also its index. NaN if any element is.

    >>> Tensor([3, 1, 2, 9]).median().item()
    2
    """
    if dim is None:
        if math.prod(self.shape) == 0:
            raise UserError("lathe: median: there are no elements")
        return _median(self.reshape(-1), 0, False, False).values
    return _median(self, axis_of(self, dim, "median"), keepdim, False)


def nanmedian(self, dim=None, keepdim=False):
    """The middle value without the NaNs.

    >>> Tensor([3.0, float("nan"), 1.0]).nanmedian().item()
    1.0
    """
    if dim is None:
        return _median(self.reshape(-1), 0, False, True).values
    return _median(self, axis_of(self, dim, "nanmedian"), keepdim, True)


def _median(x, axis, keepdim, skip):
    if not x.ndim:
        return Pair(x, x.const_like(0).cast("int32"))
    size = x.shape[axis]
    values, places = _sorted(x, axis)
    bad = (x != x).cast("int32").sum(axis, keepdim=True)
    count = size - bad
    middle = ((count - 1).maximum(0)).div(2, rounding_mode="trunc").cast("int32")
    if not skip:
        middle = (bad > 0).where(size - 1, middle).cast("int32")
    picked = (t.gather(axis, middle) for t in (values, places))
    return Pair(*(t if keepdim else t.squeeze(axis) for t in picked))


def mode(self, dim=-1, keepdim=False):
    """The most frequent value along an axis (the smallest of several), and its index.

    >>> [t.item() for t in Tensor([3, 1, 3, 1, 2]).mode()]
    [1, 3]
    """
    if not self.ndim:
        return Pair(self, self.const_like(0).cast("int32"))
    axis = axis_of(self, dim, "mode")
    size = self.shape[axis]
    x = self.movedim(axis, -1)
    same = x.unsqueeze(-1) == x.unsqueeze(-2)
    counts = same.cast("int32").sum(-1)
    often = counts == counts.max(-1, keepdim=True)
    ordered, order = x.sort(-1)
    first = often.gather(-1, order).cast("int32").argmax(-1, keepdim=True)
    values = ordered.gather(-1, first)
    position = Tensor.arange(size, dtype="int32", device=self.device)
    found = (x == values) | (x.isnan() & values.isnan()) if x.is_floating_point() else x == values
    place = found.where(position, -1).max(-1, keepdim=True)
    values = x.gather(-1, place)  # so that the gradient goes where the index says
    return Pair(*((t.movedim(-1, axis) if keepdim else t.squeeze(-1)) for t in (values, place)))


def quantile(self, q, dim=None, keepdim=False, *, interpolation="linear"):
    """The q-quantile of the elements; q may be a tensor, whose axis comes first.

    >>> Tensor([1.0, 2.0, 3.0, 4.0]).quantile(0.5).item()
    2.5
    """
    return _quantile(self, q, dim, keepdim, interpolation, False)


def nanquantile(self, q, dim=None, keepdim=False, *, interpolation="linear"):
    """quantile without the NaNs.

    >>> Tensor([1.0, float("nan"), 3.0]).nanquantile(0.5).item()
    2.0
    """
    return _quantile(self, q, dim, keepdim, interpolation, True)


def _quantile(self, q, dim, keepdim, interpolation, skip):
    if not self.is_floating_point():
        raise UserError(f"lathe: quantile: needs floats, not {self.dtype}\n  help: x.float().quantile(...)")
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise UserError(f"lathe: quantile: {interpolation!r} is unknown\n  help: linear, lower, higher, midpoint or nearest")
    axis = 0 if dim is None else axis_of(self, dim, "quantile")
    if self.ndim == 0:
        return _quantile(self.reshape(1), q, 0, False, interpolation, skip)
    x = self.reshape(-1) if dim is None else self
    parts = q.tolist() if isinstance(q, Tensor) else q
    wanted = list(parts) if isinstance(parts, (list, tuple)) else [parts]
    if any(not 0 <= p <= 1 for p in wanted):
        raise UserError(f"lathe: quantile: q is {q}, not from 0 to 1")
    if x.shape[axis] == 0:
        raise UserError("lathe: quantile: there are no elements")
    values, _ = _sorted(x, axis)
    size = x.shape[axis]
    bad = (x != x).cast("int32").sum(axis, keepdim=True)
    last = (size - 1 - bad).maximum(0).cast(x.dtype if x.dtype.itemsize >= 4 else "float32")  # half has too few whole numbers
    outs = []
    for i, p in enumerate(wanted):
        place = last * (q.reshape(-1)[i] if isinstance(q, Tensor) else p)
        low = place.floor()
        high = place.ceil()
        if interpolation == "nearest":
            low = high = place.round()
        pick = lambda i: values.gather(axis, i.cast("int32"))  # noqa: E731
        if interpolation in ("lower", "nearest"):
            out = pick(low)
        elif interpolation == "higher":
            out = pick(high)
        else:
            a, b = pick(low), pick(high)
            weight = 0.5 if interpolation == "midpoint" else (place - low).cast(x.dtype)
            out = ((a == b) & a.isinf()).where(a, a + (b - a) * weight)
        out = (bad == size).where(math.nan, out) if skip else (bad > 0).where(math.nan, out)
        if keepdim and dim is None:
            outs.append(out.reshape(*[1] * self.ndim))
        else:
            outs.append(out if keepdim else out.squeeze(axis))
    single = not isinstance(parts, (list, tuple))
    return outs[0] if single else outs[0].stack(*outs[1:], dim=0)


def msort(self):
    """Sorted along the first axis.

    >>> Tensor([3, 1, 2]).msort().tolist()
    [1, 2, 3]
    """
    return self.sort(0)[0]


def cov(self, *, correction=1, fweights=None, aweights=None):
    """The covariances of variables, which are rows.

    >>> Tensor([[0.0, 2.0], [2.0, 0.0]]).cov().tolist()
    [[2.0, -2.0], [-2.0, 2.0]]
    """
    x = _float(self)
    x = x.reshape(1, -1) if x.ndim < 2 else x
    weight = None
    for given in (fweights, aweights):
        if given is not None:
            weight = given.cast(x.dtype) if weight is None else weight * given.cast(x.dtype)
    if weight is None:
        away = x - x.mean(1, keepdim=True)
        freedom = x.shape[1] - correction
        out = away.matmul(away.transpose(0, 1)) * (1 / freedom if freedom > 0 else math.nan)
    else:
        total = weight.sum()
        away = x - (x * weight).sum(1, keepdim=True) / total
        lost = correction if aweights is None else correction * (weight * aweights.cast(x.dtype)).sum() / total
        freedom = total - lost
        out = (away * weight).matmul(away.transpose(0, 1)) / (freedom > 0).where(freedom, math.nan)
    return out.reshape() if x.shape[0] == 1 else out


def corrcoef(self):
    """The correlations of variables, which are rows.

    >>> Tensor([[0.0, 2.0, 1.0], [2.0, 0.0, 1.0]]).corrcoef().numpy().round(3).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    c = cov(self)
    if c.ndim == 0:
        return c / c
    spread = c.diagonal().sqrt()
    return (c / spread.reshape(-1, 1) / spread.reshape(1, -1)).clamp(-1, 1)


def equal(self, other):
    """Whether shape and all elements are the same: True or False.

    >>> Tensor([1, 2]).equal(Tensor([1, 2]))
    True
    """
    if tuple(self.shape) != tuple(other.shape):
        return False
    return bool((self == other).all().item())
