"""Movement: views, splits and repeats."""

import math

from lathe._core import Tensor
from lathe.errors import UserError
from lathe.errors import IndexError as NoAxis

def axis_of(tensor, dim, name, extra=0):
    """A position among the axes, counted from the end if negative."""
    count = tensor.ndim + extra
    if not -max(count, 1) <= dim < max(count, 1):
        raise NoAxis(f"lathe: {name}: there is no axis {dim} in a tensor of shape {tuple(tensor.shape)}")
    return dim % count if count else 0


def at(tensor, dim, index):
    """The tensor indexed along one axis."""
    return tensor[(slice(None),) * dim + (index,)]


def broadcast_to(self, *size):
    """Repeated along new axes and axes of size 1.

    >>> Tensor([1, 2]).broadcast_to((2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    return self.expand(*(size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size))


def expand_as(self, other):
    """expand to the shape of another.

    >>> Tensor([1]).expand_as(Tensor([3, 4])).tolist()
    [1, 1]
    """
    return self.expand(*other.shape)


def reshape_as(self, other):
    """reshape to the shape of another.

    >>> Tensor([1, 2]).reshape_as(Tensor([[3], [4]])).tolist()
    [[1], [2]]
    """
    return self.reshape(*other.shape)


def sum_to_size(self, *size):
    """Summed where a smaller shape was broadcast to this one.

    >>> Tensor([[1, 2], [3, 4]]).sum_to_size(1, 2).tolist()
    [[4, 6]]
    """
    shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    extra = self.ndim - len(shape)
    if extra < 0 or any(n not in (1, have) for n, have in zip(shape, self.shape[extra:])):
        raise UserError(f"lathe: sum_to_size: {tuple(self.shape)} is no {shape} that was broadcast\n  help: sizes are the tensor's or 1")
    out = self.sum(tuple(range(extra))) if extra else self
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and out.shape[i] != 1)
    return out.sum(axes, keepdim=True) if axes else out


def t(self):
    """The transpose of a matrix.

    >>> Tensor([[1, 2]]).t().tolist()
    [[1], [2]]
    """
    if self.ndim > 2:
        raise UserError(f"lathe: t: needs at most 2 axes, not {self.ndim}\n  help: transpose(-2, -1), or mT")
    return self.transpose(0, 1) if self.ndim == 2 else self


def ravel(self):
    """All elements on one axis.

    >>> Tensor([[1], [2]]).ravel().tolist()
    [1, 2]
    """
    return self.reshape(-1)


def fliplr(self):
    """Columns in reverse.

    >>> Tensor([[1, 2]]).fliplr().tolist()
    [[2, 1]]
    """
    return self.flip(axis_of(self, 1, "fliplr"))


def flipud(self):
    """Rows in reverse.

    >>> Tensor([1, 2]).flipud().tolist()
    [2, 1]
    """
    return self.flip(axis_of(self, 0, "flipud"))


def rot90(self, k=1, dims=(0, 1)):
    """Turned by a right angle, k times.

    >>> Tensor([[1, 2], [3, 4]]).rot90().tolist()
    [[2, 4], [1, 3]]
    """
    a, b = (axis_of(self, d, "rot90") for d in dims)
    k %= 4
    if k == 0:
        return self
    if k == 2:
        return self.flip(a, b)
    return self.transpose(a, b).flip(a) if k == 1 else self.transpose(a, b).flip(b)


def tile(self, *dims):
    """Repeated along the last axes.

    >>> Tensor([1, 2]).tile((2,)).tolist()
    [1, 2, 1, 2]
    """
    times = tuple(dims[0]) if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    times = (1,) * (self.ndim - len(times)) + times
    return self.reshape(*(1,) * (len(times) - self.ndim), *self.shape).repeat(*times)


def unbind(self, dim=0):
    """The slices along an axis.

    >>> [x.tolist() for x in Tensor([[1, 2], [3, 4]]).unbind(1)]
    [[1, 3], [2, 4]]
    """
    dim = axis_of(self, dim, "unbind")
    return tuple(at(self, dim, i) for i in range(self.shape[dim]))


def narrow(self, dim, start, length):
    """A part of an axis.

    >>> Tensor([1, 2, 3]).narrow(0, 1, 2).tolist()
    [2, 3]
    """
    dim = axis_of(self, dim, "narrow")
    start = int(start.item()) if isinstance(start, Tensor) else start
    start = start + self.shape[dim] if start < 0 else start
    if not 0 <= start <= self.shape[dim] or length < 0 or start + length > self.shape[dim]:
        raise NoAxis(f"lathe: narrow: {start} to {start + length} is not inside axis {dim} of size {self.shape[dim]}")
    return at(self, dim, slice(start, start + length))


def narrow_copy(self, dim, start, length):
    """A copy of a part of an axis.

    >>> Tensor([1, 2, 3]).narrow_copy(0, 1, 2).tolist()
    [2, 3]
    """
    return narrow(self, dim, start, length).clone()


def select(self, dim, index):
    """One position of an axis.

    >>> Tensor([[1, 2], [3, 4]]).select(1, 0).tolist()
    [1, 3]
    """
    return at(self, axis_of(self, dim, "select"), index)


def tensor_split(self, indices_or_sections, dim=0):
    """Split into that many parts, or before these positions.

    >>> [x.tolist() for x in Tensor([1, 2, 3]).tensor_split(2)]
    [[1, 2], [3]]
    """
    dim = axis_of(self, dim, "tensor_split")
    size = self.shape[dim]
    given = indices_or_sections.tolist() if isinstance(indices_or_sections, Tensor) else indices_or_sections
    if isinstance(given, int):
        if given < 1:
            raise UserError(f"lathe: tensor_split: needs at least 1 part, not {given}")
        small, more = divmod(size, given)
        cuts = [i * small + min(i, more) for i in range(1, given)]
    else:
        cuts = list(given)
    ends = [0, *cuts, size]
    parts = []
    for i in range(len(ends) - 1):
        begin, end, _ = slice(ends[i], ends[i + 1] if i + 2 < len(ends) else None).indices(size)
        parts.append(at(self, dim, slice(begin, max(begin, end))))
    return tuple(parts)


def hsplit(self, indices_or_sections):
    """tensor_split along columns.

    >>> [x.tolist() for x in Tensor([1, 2]).hsplit(2)]
    [[1], [2]]
    """
    return tensor_split(self, indices_or_sections, 0 if self.ndim == 1 else 1)


def vsplit(self, indices_or_sections):
    """tensor_split along rows.

    >>> [x.tolist() for x in Tensor([[1], [2]]).vsplit(2)]
    [[[1]], [[2]]]
    """
    return tensor_split(self, indices_or_sections, 0)


def dsplit(self, indices_or_sections):
    """tensor_split along the third axis.

    >>> len(Tensor.ones(1, 1, 4).dsplit(2))
    2
    """
    return tensor_split(self, indices_or_sections, axis_of(self, 2, "dsplit"))


def split_with_sizes(self, split_sizes, dim=0):
    """Split into parts of these sizes.

    >>> [x.tolist() for x in Tensor([1, 2, 3]).split_with_sizes([1, 2])]
    [[1], [2, 3]]
    """
    return self.split(list(split_sizes), dim)


def diagflat(self, offset=0):
    """A matrix with the elements on its diagonal.

    >>> Tensor([1, 2]).diagflat().tolist()
    [[1, 0], [0, 2]]
    """
    return diag_embed(self.reshape(-1), offset)


def diag_embed(self, offset=0, dim1=-2, dim2=-1):
    """Matrices with the last axis on their diagonals.

    >>> Tensor([1, 2]).diag_embed(1).tolist()
    [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    """
    n = self.shape[-1] + abs(offset)
    row = Tensor.arange(n, dtype="int32", device=self.device).reshape(n, 1)
    column = row.reshape(1, n)
    pad = (offset, 0) if offset >= 0 else (0, -offset)
    across = self.pad((pad[0], pad[1]))  # the element of each column
    out = (column - row == offset).where(across.unsqueeze(-2), self.const_like(0).reshape(-1)[:1].reshape(*[1] * (self.ndim + 1)) if math.prod(self.shape) else 0)
    first, second = axis_of(self, dim1, "diag_embed", 1), axis_of(self, dim2, "diag_embed", 1)
    if first == second:
        raise UserError(f"lathe: diag_embed: the axes are both {first}")
    return out.movedim((-2, -1), (first, second))


def trace(self):
    """The sum of the diagonal.

    >>> Tensor([[1, 2], [3, 4]]).trace().item()
    5
    """
    return self.diagonal().sum()


def diff(self, n=1, dim=-1, prepend=None, append=None):
    """The differences of neighbours, n times.

    >>> Tensor([1, 4, 9]).diff().tolist()
    [3, 5]
    """
    dim = axis_of(self, dim, "diff")
    out = self
    parts = [p for p in (prepend, out, append) if p is not None]
    if len(parts) > 1:
        out = parts[0].cat(*parts[1:], dim=dim)
    out = out.clone() if n == 0 else out  # no view of the tensor
    for _ in range(n):
        size = out.shape[dim]
        if size < 2:
            return at(out, dim, slice(0, 0))
        after, before = at(out, dim, slice(1, size)), at(out, dim, slice(0, size - 1))
        out = after ^ before if str(out.dtype) == "dtypes.bool" else after - before
    return out


def _trapezoids(values, x, dx, dim):
    values, x = (t.cast("float32") if isinstance(t, Tensor) and not t.is_floating_point() else t for t in (values, x))  # whole numbers would wrap
    size = values.shape[dim]
    pairs = (at(values, dim, slice(1, size)) + at(values, dim, slice(0, size - 1))) / 2
    if x is None:
        return pairs * dx
    if x.ndim == 1:
        return pairs * diff(x).reshape(*[-1 if i == dim else 1 for i in range(values.ndim)])
    return pairs * diff(x, dim=dim)


def trapezoid(self, x=None, *, dx=1.0, dim=-1):
    """The area under the points, by trapezoids.

    >>> Tensor([1.0, 2.0, 3.0]).trapezoid().item()
    4.0
    """
    dim = axis_of(self, dim, "trapezoid")
    return _trapezoids(self, x, dx, dim).sum(dim)


def cumulative_trapezoid(self, x=None, *, dx=1.0, dim=-1):
    """The area up to each point but the first, by trapezoids.

    >>> Tensor([1.0, 2.0, 3.0]).cumulative_trapezoid().tolist()
    [1.5, 4.0]
    """
    return _trapezoids(self, x, dx, axis_of(self, dim, "cumulative_trapezoid")).cumsum(dim)


unsafe_split_with_sizes, view_as = split_with_sizes, reshape_as
