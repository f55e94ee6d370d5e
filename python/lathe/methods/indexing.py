"""Picking, writing and counting by index."""

import math

from lathe._core import Tensor
from lathe.dtype import dtypes
from lathe.errors import IndexError as NoAxis
from lathe.errors import UserError
from lathe.methods.shapes import at, axis_of


def _index(index, like):
    return index if isinstance(index, Tensor) else Tensor(index, device=like.device)


def _wide(index, like, dim):
    """An index along one axis, as large as the tensor elsewhere."""
    shape = [1] * like.ndim
    shape[dim] = index.shape[0] if index.ndim else 1
    full = list(like.shape)
    full[dim] = shape[dim]
    return index.reshape(*shape).expand(*full)


def _wrapped(index, size):
    return (index < 0).where(index + size, index)


def index_select(self, dim, index):
    """The positions of an axis that an index names.

    >>> Tensor([[1, 2, 3]]).index_select(1, Tensor([2, 0])).tolist()
    [[3, 1]]
    """
    index = _index(index, self)
    if not self.ndim:
        return self
    return at(self, axis_of(self, dim, "index_select"), index.reshape(-1))


def take(self, index):
    """Elements by their position in the flat tensor.

    >>> Tensor([[1, 2], [3, 4]]).take(Tensor([0, 3])).tolist()
    [1, 4]
    """
    return self.reshape(-1)[index]


def take_along_dim(self, indices, dim=None):
    """gather, where index and tensor are broadcast to each other; without an axis of the flat tensor.

    >>> Tensor([[3, 1, 2]]).take_along_dim(Tensor([[1], ]), 1).tolist()
    [[1]]
    """
    if dim is None:
        return take(self, indices.reshape(-1))
    dim = axis_of(self, dim, "take_along_dim")
    sizes = [max(a, b) for a, b in zip(self.shape, indices.shape)]
    mine, theirs = list(sizes), list(sizes)
    mine[dim], theirs[dim] = self.shape[dim], indices.shape[dim]
    return self.expand(*mine).gather(dim, _wrapped(indices.expand(*theirs), self.shape[dim]))


def index_add(self, dim, index, source, *, alpha=1):
    """Adds slices of a source where an index says.

    >>> Tensor([0.0, 0.0]).index_add(0, Tensor([1, 1]), Tensor([1.0, 2.0])).tolist()
    [0.0, 3.0]
    """
    if not self.ndim:
        return self + source.reshape() * alpha
    dim = axis_of(self, dim, "index_add")
    source = source if alpha == 1 else source * alpha
    wide = _wide(_index(index, self), self, dim)
    return self.scatter_reduce(dim, wide, source.cast(self.dtype).reshape(*wide.shape), "sum")


def index_copy(self, dim, index, source):
    """Puts slices of a source where an index says.

    >>> Tensor([1, 2, 3]).index_copy(0, Tensor([2, 0]), Tensor([7, 8])).tolist()
    [8, 2, 7]
    """
    if not self.ndim:
        return source.reshape()
    dim = axis_of(self, dim, "index_copy")
    wide = _wide(_index(index, self), self, dim)
    return self.scatter(dim, wide, source.reshape(*wide.shape))


def index_fill(self, dim, index, value):
    """One value in the slices that an index names.

    >>> Tensor([1, 2, 3]).index_fill(0, Tensor([0, 2]), 9).tolist()
    [9, 2, 9]
    """
    if not self.ndim:
        return self.const_like(0) + value
    dim = axis_of(self, dim, "index_fill")
    size = self.shape[dim]
    index = _wrapped(_index(index, self).reshape(-1), size)
    hit = (Tensor.arange(size, dtype="int32", device=self.device).reshape(size, 1) == index.reshape(1, -1)).any(1)
    return hit.reshape(*[size if i == dim else 1 for i in range(self.ndim)]).where(value, self).cast(self.dtype)


def index_reduce(self, dim, index, source, reduce, *, include_self=True):
    """Joins slices of a source where an index says: prod, mean, amax or amin.

    >>> Tensor([1.0, 2.0]).index_reduce(0, Tensor([1, 1]), Tensor([5.0, 3.0]), "amax").tolist()
    [1.0, 5.0]
    """
    if not self.ndim:
        return index_reduce(self.reshape(1), dim, index, source.reshape(1), reduce, include_self=include_self).reshape()
    dim = axis_of(self, dim, "index_reduce")
    wide = _wide(_index(index, self), self, dim)
    return self.scatter_reduce(dim, wide, source.reshape(*wide.shape), reduce, include_self)


def _positions(indices):
    """Indices with a mask as the positions where it is true, one index for each of its axes."""
    out = []
    for index in indices:
        if index.dtype == dtypes.bool:
            places = index.nonzero()
            out += [places[:, axis] for axis in range(index.ndim)]
        else:
            out.append(index)
    return out


def _flat_index(self, indices):
    """The position in the flat tensor of each element that a tuple of indices names, and the shape of what they name. What is
    outside of its axis is outside of the flat tensor too, so that it is found when the write runs."""
    total, indices = None, _positions(indices)
    for axis, index in enumerate(indices):
        size, stride = self.shape[axis], math.prod(self.shape[axis + 1 :])
        inside = (index >= -size) & (index < size)
        part = inside.where(_wrapped(index, size) * stride, max(self.numel(), 1))
        total = part if total is None else total + part
    rest = self.shape[len(indices) :]
    inner = Tensor.arange(math.prod(rest), dtype="int32", device=self.device)
    return total.unsqueeze(-1) + inner, tuple(total.shape) + tuple(rest)


def index_put(self, indices, values, accumulate=False):
    """Writes values where a tuple of indices says, or adds them.

    >>> Tensor([[1, 2], [3, 4]]).index_put((Tensor([0, 1]), Tensor([1, 0])), Tensor([8, 9])).tolist()
    [[1, 8], [9, 4]]
    """
    place, shape = _flat_index(self, tuple(indices))
    values = values if isinstance(values, Tensor) else self.const_like(values).reshape(-1)[:1]
    values = values.cast(self.dtype).expand(*shape).reshape(-1)
    flat = self.reshape(-1)
    place = place.reshape(-1)
    out = flat.scatter_reduce(0, place, values, "sum") if accumulate else flat.scatter(0, place, values)
    return out.reshape(*self.shape)


def put(self, index, source, accumulate=False):
    """Writes elements by their position in the flat tensor, or adds them.

    >>> Tensor([[1, 2], [3, 4]]).put(Tensor([0, 3]), Tensor([8, 9])).tolist()
    [[8, 2], [3, 9]]
    """
    flat = self.reshape(-1)
    place = _wrapped(index.reshape(-1), flat.shape[0])
    values = source.reshape(-1).cast(self.dtype)
    out = flat.scatter_reduce(0, place, values, "sum") if accumulate else flat.scatter(0, place, values)
    return out.reshape(*self.shape)


def scatter_add(self, dim, index, src):
    """Adds elements of a source where an index says.

    >>> Tensor([0.0, 0.0]).scatter_add(0, Tensor([1, 1]), Tensor([1.0, 2.0])).tolist()
    [0.0, 3.0]
    """
    return self.scatter_reduce(dim, index, src, "sum")


def masked_scatter(self, mask, source):
    """Elements of a source, in order, where the mask is true; the source has at least as many.

    >>> Tensor([1, 2, 3]).masked_scatter(Tensor([True, False, True]), Tensor([8, 9])).tolist()
    [8, 2, 9]
    """
    from lathe.functions import broadcast_tensors

    self, mask = broadcast_tensors(self, mask)
    if not self.numel():
        return self.clone()
    where = mask.reshape(-1)
    order = where.where(where.cast("int32").cumsum(0), 0)  # from 1, since a first element is there in any case
    picked = source.reshape(-1).pad((1, 0))[order].reshape(*self.shape)
    return mask.where(picked, self)


def _scattered(self, src, dim, positions):
    """A source at some positions of an axis, which is then as long as the positions."""
    index = Tensor(positions, dtype="int32", device=self.device)
    return self.scatter(dim, _wide(index, self, dim), src.cast(self.dtype))


def select_scatter(self, src, dim, index):
    """A copy with one position of an axis replaced.

    >>> Tensor([[1, 2], [3, 4]]).select_scatter(Tensor([8, 9]), 0, 1).tolist()
    [[1, 2], [8, 9]]
    """
    dim = axis_of(self, dim, "select_scatter")
    size = self.shape[dim]
    if not -size <= index < size:
        raise NoAxis(f"lathe: select_scatter: there is no position {index} in axis {dim} of size {size}")
    place = Tensor.arange(size, dtype="int32", device=self.device).reshape(*[size if i == dim else 1 for i in range(self.ndim)])
    return (place == index % size).where(src.cast(self.dtype).unsqueeze(dim), self)


def slice_scatter(self, src, dim=0, start=None, end=None, step=1):
    """A copy with a slice of an axis replaced.

    >>> Tensor([1, 2, 3]).slice_scatter(Tensor([8, 9]), 0, 1).tolist()
    [1, 8, 9]
    """
    dim = axis_of(self, dim, "slice_scatter")
    positions = list(range(*slice(start, end, step).indices(self.shape[dim])))
    return _scattered(self, src, dim, positions) if positions else self.clone()


def diagonal_scatter(self, src, offset=0, dim1=0, dim2=1):
    """A copy with a diagonal replaced.

    >>> Tensor([[1, 2], [3, 4]]).diagonal_scatter(Tensor([8, 9])).tolist()
    [[8, 2], [3, 9]]
    """
    moved = self.movedim((axis_of(self, dim1, "diagonal_scatter"), axis_of(self, dim2, "diagonal_scatter")), (-2, -1))
    rows, columns = moved.shape[-2:]
    row = Tensor.arange(rows, dtype="int32", device=self.device).reshape(rows, 1)
    column = Tensor.arange(columns, dtype="int32", device=self.device).reshape(1, columns)
    # The element of a row is number row (or row + offset) of the source.
    number = row if offset >= 0 else row + offset
    size = src.shape[-1]
    source = src.cast(self.dtype)[(..., number.reshape(-1).clamp(0, max(size - 1, 0)))].unsqueeze(-1)
    out = ((column - row == offset) & (number >= 0) & (number < size)).where(source, moved)
    return out.movedim((-2, -1), (axis_of(self, dim1, ""), axis_of(self, dim2, "")))


def argwhere(self):
    """The indices of the nonzero elements, one row each.

    >>> Tensor([0, 3, 0, 1]).argwhere().tolist()
    [[1], [3]]
    """
    return self.nonzero()


def bincount(self, weights=None, minlength=0):
    """How often each of 0, 1, 2, ... occurs, or the sum of its weights.

    >>> Tensor([1, 1, 3]).bincount().tolist()
    [0, 2, 0, 1]
    """
    if self.ndim != 1 or self.is_floating_point():
        raise UserError(f"lathe: bincount: needs integers on one axis, not {self.dtype} of shape {tuple(self.shape)}")
    if self.shape[0] == 0:
        return Tensor.zeros(minlength, dtype="int32" if weights is None else weights.dtype, device=self.device)
    least, most = int(self.min().item()), int(self.max().item())
    if least < 0:
        raise UserError(f"lathe: bincount: {least} is negative")
    size = max(most + 1, minlength)
    ones = Tensor.ones(*self.shape, dtype="int32", device=self.device) if weights is None else weights
    zeros = Tensor.zeros(size, dtype=ones.dtype, device=self.device)
    return zeros.scatter_reduce(0, self.cast("int32"), ones, "sum")


def histc(self, bins=100, min=0, max=0):
    """A histogram with equal bins between min and max (or between the extremes of the values if min and max are equal).

    >>> Tensor([1.0, 2.0, 1.0]).histc(4, 0, 3).tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    x = self.reshape(-1)
    low, high = float(min), float(max)
    if low == high and x.shape[0]:
        low, high = float(x.min().item()), float(x.max().item())
    if low == high:
        low, high = low - 1, high + 1
    place = ((x - low) * (bins / (high - low))).floor().minimum(bins - 1)
    inside = (x >= low) & (x <= high)
    zeros = Tensor.zeros(bins, dtype=self.dtype, device=self.device)
    return zeros.scatter_reduce(0, inside.where(place, 0).cast("int32"), inside.cast(self.dtype), "sum")


def histogram(self, bins, *, range=None, weight=None, density=False):
    """The histogram and its bin edges; `bins` is the number of bins or their edges.

    >>> [t.tolist() for t in Tensor([1.0, 2.0, 1.0]).histogram(2, range=(0.0, 4.0))]
    [[2.0, 1.0], [0.0, 2.0, 4.0]]
    """
    x = self.reshape(-1)
    if isinstance(bins, Tensor):
        edges = bins
    else:
        low, high = range if range is not None else (float(x.min().item()), float(x.max().item()))
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges = Tensor.linspace(low, high, bins + 1, dtype=self.dtype, device=self.device)
    count = edges.shape[0] - 1
    place = (searchsorted(edges, x, right=True) - 1).minimum(count - 1)
    inside = (x >= edges[0]) & (x <= edges[-1])
    amount = inside.cast(self.dtype) if weight is None else inside.where(weight.reshape(-1), 0).cast(self.dtype)
    zeros = Tensor.zeros(count, dtype=self.dtype, device=self.device)
    out = zeros.scatter_reduce(0, inside.where(place, 0).cast("int32"), amount, "sum")
    return (out / (out.sum() * edges.diff()) if density else out), edges


def searchsorted(self, values, *, right=False, side=None, out_int32=False, sorter=None):
    """Where values belong in a sorted tensor: how many elements of its last axis are smaller (with right, or equal). The order of a
    tensor that is not sorted may be given as sorter.

    >>> Tensor([1, 3, 5]).searchsorted(Tensor([3, 4])).tolist()
    [1, 2]
    """
    self = self if sorter is None else self.gather(-1, sorter)
    right = right or side == "right"
    single = not isinstance(values, Tensor)
    given = Tensor([values], device=self.device) if single else values
    edges = self.unsqueeze(-2) if self.ndim > 1 else self
    wanted = given.unsqueeze(-1)
    # NaN is larger than all.
    before = (edges <= wanted) if right else (edges < wanted)
    if given.is_floating_point():
        before = before | (wanted != wanted) & ((edges == edges) if not right else (edges == edges) | (edges != edges))
    out = before.cast("int32").sum(-1)
    return out.reshape() if single else out


def bucketize(self, boundaries, *, right=False, out_int32=False):
    """The index of the bin between the boundaries that contains each value.

    >>> Tensor([0, 4, 9]).bucketize(Tensor([1, 5])).tolist()
    [0, 1, 2]
    """
    boundaries = boundaries if isinstance(boundaries, Tensor) else Tensor(boundaries, device=self.device)
    return searchsorted(boundaries, self, right=right)


def unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The distinct values in ascending order (with `dim` the distinct slices of an axis); optionally the index of each element among
    them, and the count of each.

    >>> Tensor([3, 1, 3]).unique(return_counts=True)[1].tolist()
    [1, 2]
    >>> Tensor([[2, 1], [1, 5], [2, 1]]).unique(dim=0).tolist()
    [[1, 5], [2, 1]]
    """
    if dim is not None:
        return _distinct_slices(self, axis_of(self, dim, "unique"), True, return_inverse, return_counts)
    flat = self.reshape(-1)
    if flat.shape[0] == 0:
        empty = Tensor.zeros(0, dtype="int32", device=self.device)
        return _unique_result(flat, empty.reshape(*self.shape), empty, return_inverse, return_counts)
    values, order = flat.sort(0)
    return _grouped(values, order, self.shape, return_inverse, return_counts)


def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """The values (with `dim` the slices of an axis) without repetitions of neighbours.

    >>> Tensor([1, 1, 2, 1]).unique_consecutive().tolist()
    [1, 2, 1]
    """
    if dim is not None:
        return _distinct_slices(self, axis_of(self, dim, "unique_consecutive"), False, return_inverse, return_counts)
    flat = self.reshape(-1)
    order = Tensor.arange(flat.shape[0], dtype="int32", device=self.device)
    if flat.shape[0] == 0:
        return _unique_result(flat, order.reshape(*self.shape), order, return_inverse, return_counts)
    return _grouped(flat, order, self.shape, return_inverse, return_counts)


def _distinct_slices(self, dim, ordered, return_inverse, return_counts):
    """Slices of an axis as rows of numbers: sorted by their last column first, in stable steps, equal ones are neighbours."""
    rows = self.movedim(dim, 0)
    rest, size = tuple(rows.shape[1:]), rows.shape[0]
    rows = rows.reshape(size, math.prod(rest))
    order = Tensor.arange(size, dtype="int32", device=self.device)
    for column in reversed(range(rows.shape[1] if ordered and size else 0)):
        order = order[rows[:, column][order].argsort(0)].realize()
    rows = rows[order]
    if not size:
        return _unique_result(self, order, order, return_inverse, return_counts)
    values, inverse, counts = _grouped(rows, order, (size,), True, True)
    return _unique_result(values.reshape(values.shape[0], *rest).movedim(0, dim), inverse, counts, return_inverse, return_counts)


def _grouped(values, order, shape, return_inverse, return_counts):
    """Neighbours that are equal as one."""
    size = values.shape[0]
    differs = values[1:] != values[:-1]
    differs = differs.any(1) if values.ndim > 1 else differs
    new = Tensor([True], device=values.device).cat(differs)
    number = new.cast("int32").cumsum(0) - 1
    count = int(number[-1].item()) + 1
    found = values[new]
    inverse = Tensor.zeros(size, dtype="int32", device=values.device).scatter(0, order, number.cast("int32")).reshape(*shape)
    ones = Tensor.ones(size, dtype="int32", device=values.device)
    counts = Tensor.zeros(count, dtype="int32", device=values.device).scatter_reduce(0, number.cast("int32"), ones, "sum")
    return _unique_result(found, inverse, counts, return_inverse, return_counts)


def _unique_result(values, inverse, counts, return_inverse, return_counts):
    if not return_inverse and not return_counts:
        return values
    return (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))


def fill_diagonal(self, fill_value, wrap=False):
    """A copy with one value on the diagonal.

    >>> Tensor([[1, 2], [3, 4]]).fill_diagonal(0).tolist()
    [[0, 2], [3, 0]]
    """
    if self.ndim < 2 or wrap:
        raise UserError("lathe: fill_diagonal: needs at least 2 axes, and wrap is not there")
    position = lambda axis: Tensor.arange(self.shape[axis], dtype="int32", device=self.device).reshape(  # noqa: E731
        *[self.shape[axis] if i == axis else 1 for i in range(self.ndim)]
    )
    hit = position(0) == position(1)
    for axis in range(2, self.ndim):
        hit = hit & (position(0) == position(axis))
    return hit.where(fill_value, self)
