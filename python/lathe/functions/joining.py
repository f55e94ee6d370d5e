"""Functions of several tensors."""

import builtins

from lathe._core import Tensor
from lathe.errors import UserError
from lathe.functions.making import _into, _tensor
from lathe.functions.settings import Size

def cat(tensors, dim=0, *, axis=None, out=None):
    """Tensors one after the other along an axis.

    >>> lathe.cat([lathe.ones(1), lathe.zeros(2)]).tolist()
    [1.0, 0.0, 0.0]
    """
    tensors = list(tensors)
    if not tensors:
        raise UserError("lathe: cat: there are no tensors to join")
    dim = dim if axis is None else axis
    kept = [t for t in tensors if tuple(t.shape) != (0,)] or tensors[:1]  # an empty list fits beside everything
    return _into(kept[0].cat(*kept[1:], dim=dim) if len(kept) > 1 else kept[0].clone(), out)


concat = concatenate = cat


def stack(tensors, dim=0, *, axis=None, out=None):
    """Tensors of one shape side by side along a new axis.

    >>> lathe.stack([lathe.ones(2), lathe.zeros(2)]).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    tensors = list(tensors)
    if not tensors:
        raise UserError("lathe: stack: there are no tensors to join")
    return _into(tensors[0].stack(*tensors[1:], dim=dim if axis is None else axis), out)


def atleast_1d(*tensors):
    """With one axis at least.

    >>> lathe.atleast_1d(lathe.tensor(1.0)).shape
    (1,)
    """
    return _each(lambda t: t if t.ndim else t.reshape(1), tensors)


def atleast_2d(*tensors):
    """With two axes at least.

    >>> lathe.atleast_2d(lathe.ones(3)).shape
    (1, 3)
    """
    return _each(lambda t: t if t.ndim > 1 else t.reshape(1, -1), tensors)


def atleast_3d(*tensors):
    """With three axes at least.

    >>> lathe.atleast_3d(lathe.ones(3)).shape
    (1, 3, 1)
    """
    return _each(lambda t: t if t.ndim > 2 else t.unsqueeze(-1) if t.ndim == 2 else t.reshape(1, -1, 1), tensors)


def _each(function, tensors):
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tensors[0]
        return tuple(function(t) for t in tensors)
    return function(tensors[0]) if len(tensors) == 1 else tuple(function(t) for t in tensors)


def hstack(tensors):
    """Side by side: along the first axis of vectors, the second of others.

    >>> lathe.hstack([lathe.ones(1), lathe.zeros(1)]).tolist()
    [1.0, 0.0]
    """
    tensors = atleast_1d(list(tensors))
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1)


def vstack(tensors):
    """One under the other.

    >>> lathe.vstack([lathe.ones(2), lathe.zeros(2)]).shape
    (2, 2)
    """
    return cat(atleast_2d(list(tensors)), 0)


row_stack = vstack


def dstack(tensors):
    """Stacks along the third axis.

    >>> lathe.dstack([lathe.ones(2), lathe.zeros(2)]).shape
    (1, 2, 2)
    """
    return cat(atleast_3d(list(tensors)), 2)


def column_stack(tensors):
    """Vectors as columns.

    >>> lathe.column_stack([lathe.ones(2), lathe.zeros(2)]).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    return cat([t.reshape(-1, 1) if t.ndim <= 1 else t for t in tensors], 1)


def block_diag(*tensors):
    """Matrices along a diagonal, zeros elsewhere.

    >>> lathe.block_diag(lathe.ones(1, 1), lathe.ones(1, 2)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
    """
    blocks = [atleast_2d(t) for t in tensors]
    width, at, rows = builtins.sum(b.shape[1] for b in blocks), 0, []
    for block in blocks:
        rows.append(block.pad(((0, 0), (at, width - at - block.shape[1]))))
        at += block.shape[1]
    return cat(rows, 0)


def meshgrid(*tensors, indexing="ij"):
    """The coordinates of a grid.

    >>> [t.tolist() for t in lathe.meshgrid(lathe.arange(2), lathe.arange(2), indexing="ij")]
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    return tensors[0].meshgrid(*tensors[1:], indexing=indexing)


def cartesian_prod(*tensors):
    """All pairs (triples, ...) of elements.

    >>> lathe.cartesian_prod(lathe.arange(2), lathe.arange(1)).tolist()
    [[0, 0], [1, 0]]
    """
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.reshape(-1) for g in meshgrid(*tensors)], dim=1)


def combinations(input, r=2, with_replacement=False):
    """All choices of r elements.

    >>> lathe.combinations(lathe.tensor([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    import itertools

    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(input.shape[0]), r))
    return input[Tensor(places)] if places else Tensor.empty(0, r, dtype=input.dtype)


def broadcast_tensors(*tensors):
    """All with the one shape that they broadcast to.

    >>> [t.shape for t in lathe.broadcast_tensors(lathe.ones(2, 1), lathe.ones(3))]
    [(2, 3), (2, 3)]
    """
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(t.expand(*shape) for t in tensors)


def broadcast_shapes(*shapes):
    """The shape that shapes broadcast to.

    >>> lathe.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    shapes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    out = [1] * builtins.max(map(len, shapes), default=0)
    for shape in shapes:
        for i, size in enumerate(shape, len(out) - len(shape)):
            if size != 1 and out[i] not in (1, size):
                raise UserError(f"lathe: broadcast_shapes: sizes {out[i]} and {size} of axis {i} do not fit in {shapes}")
            out[i] = size if out[i] == 1 else out[i]
    return Size(out)


def einsum(equation, *operands):
    """Sums of products by axis names, or by lists of numbers after each tensor (and one for the result).

    >>> lathe.einsum("ij,jk->ik", lathe.ones(2, 3), lathe.ones(3, 2)).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    >>> lathe.einsum(lathe.ones(2, 3), [0, 1], lathe.ones(3, 2), [1, 2], [0, 2]).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """
    if isinstance(equation, Tensor):
        equation, operands = _formula((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    return Tensor.einsum(equation, *operands)


def _formula(given):
    """einsum's formula from tensors with lists of axis numbers, and the tensors."""
    tensors, lists = given[: len(given) // 2 * 2 : 2], list(given[1::2])
    if not builtins.all(isinstance(t, Tensor) for t in tensors) or len(lists) != len(tensors) or isinstance(given[-1], Tensor):
        raise UserError("lathe: einsum: each tensor is followed by the list of its axes\n  help: einsum(a, [0, 1], b, [1, 2], [0, 2])")
    if len(given) % 2:
        lists.append(given[-1])
    for axes in lists:
        if not builtins.all(a is Ellipsis or isinstance(a, int) and 0 <= a < len(_LETTERS) for a in axes):
            raise UserError(f"lathe: einsum: {axes!r} is no list of axes\n  help: axes are numbers from 0 to {len(_LETTERS) - 1}, or ...")
    words = ["".join("..." if a is Ellipsis else _LETTERS[a] for a in axes) for axes in lists]
    left = ",".join(words[: len(tensors)])
    return (f"{left}->{words[-1]}" if len(given) % 2 else left), tensors


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def trapz(y, x=None, *, dx=1.0, dim=-1):
    """As trapezoid."""
    return y.trapezoid(x, dx=dx, dim=dim)


def gradient(input, *, spacing=1.0, dim=None, edge_order=1):
    """Slopes along axes by differences of neighbours, at the ends by those on one side: a tensor for each axis.

    >>> [t.tolist() for t in lathe.gradient(lathe.tensor([1.0, 2.0, 4.0]))]
    [[1.0, 1.5, 2.0]]
    """
    from lathe.methods.shapes import axis_of

    x = input if input.is_floating_point() else input.float()
    axes = [axis_of(x, d, "gradient") for d in (builtins.range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim)]
    gaps = list(spacing) if isinstance(spacing, (list, tuple)) else [1.0 if spacing is None else spacing] * len(axes)
    if len(gaps) != len(axes) or edge_order not in (1, 2):
        raise UserError(f"lathe: gradient: {len(gaps)} spacings for {len(axes)} axes, edge_order {edge_order}\n  help: one for each axis; edge_order is 1 or 2")
    return tuple(_slopes(x, axis, gap, edge_order) for axis, gap in zip(axes, gaps))


def _slopes(x, axis, gap, edge_order):
    from lathe.methods.shapes import at

    n, coordinates = x.shape[axis], isinstance(gap, Tensor)
    if n <= edge_order:
        raise UserError(f"lathe: gradient: axis {axis} of {tuple(x.shape)} needs at least {edge_order + 1} elements")

    def part(low, high):
        return at(x, axis, slice(low, high))

    def step(low, high):  # distances of neighbours
        if not coordinates:
            return gap
        return gap.diff()[low:high].cast(x.dtype).reshape(*[-1 if i == axis else 1 for i in builtins.range(x.ndim)])

    def edge(h, h2, first, second, third):
        if edge_order == 1:
            return (second - first) / h
        return (second - first) * ((h + h2) / (h * h2)) - (third - first) * (h / (h2 * (h + h2)))

    last = edge(-1 * step(n - 2, n - 1), -1 * step(n - 3, n - 2), part(n - 1, n), part(n - 2, n - 1), part(n - 3, n - 2) if edge_order == 2 else None)
    ends = [edge(step(0, 1), step(1, 2), part(0, 1), part(1, 2), part(2, 3) if edge_order == 2 else None), last]
    if n == 2:
        return Tensor.cat(*ends, dim=axis)
    before, after = step(0, n - 2), step(1, n - 1)
    if coordinates:
        rise = (part(2, n) - part(1, n - 1)) * (before / after) + (part(1, n - 1) - part(0, n - 2)) * (after / before)
        middle = rise / (before + after)
    else:
        middle = (part(2, n) - part(0, n - 2)) / (2 * gap)
    return Tensor.cat(ends[0], middle, ends[1], dim=axis)


def polygamma(n, input):
    """The n-th derivative of digamma: n comes first, as PyTorch has it.

    >>> round(lathe.polygamma(1, lathe.tensor(1.0)).item(), 4)
    1.6449
    """
    return input.polygamma(n)


def chain_matmul(*matrices):
    """The product of several matrices."""
    out = matrices[0]
    for matrix in matrices[1:]:
        out = out @ matrix
    return out


def where(condition, input=None, other=None, *, out=None):
    """One value or the other; of a condition alone, where it holds (a tensor for each axis).

    >>> lathe.where(lathe.tensor([True, False]), 1.0, lathe.tensor([2.0, 3.0])).tolist()
    [1.0, 3.0]
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    return _into(condition.where(input, other), out)


def nonzero(input, *, out=None, as_tuple=False):
    """Where values are not 0: a row for each, or a tensor for each axis.

    >>> lathe.nonzero(lathe.tensor([0, 3, 4])).tolist()
    [[1], [2]]
    """
    input = input.reshape(1) if as_tuple and not input.ndim else input
    places = input.nonzero()
    return tuple(places[:, i] for i in range(input.ndim)) if as_tuple else places


def isin(elements, test_elements, *, invert=False, assume_unique=False):
    """Which elements are among others.

    >>> lathe.isin(lathe.tensor([1, 2, 3]), lathe.tensor([2])).tolist()
    [False, True, False]
    """
    elements, test = _tensor(elements), _tensor(test_elements).reshape(-1)
    if not test.numel():
        found = elements != elements
    else:
        found = (elements.unsqueeze(-1) == test).any(-1)
    return found.logical_not() if invert else found


def _largest(name, join):
    def function(input, dim=None, keepdim=False, *, axis=None, out=None):
        dim = axis if dim is None else dim
        if isinstance(dim, Tensor):
            return _into(getattr(input, join)(dim), out)
        if dim is None:
            return _into(getattr(input, name)(), out)
        return _into(getattr(input, name)(dim=dim, keepdim=keepdim), out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Of all elements; along an axis values and their places, as PyTorch has it (x.{name}(1) are values alone, as in tinygrad); of"
        f" two tensors the {join}.\n\n    >>> values, places = lathe.{name}(lathe.tensor([[1.0, 2.0]]), 1)\n    >>> values.shape\n    (1,)\n    "
    )
    return function


max, min = _largest("max", "maximum"), _largest("min", "minimum")


def vmap(func, in_dims=0, out_dims=0):
    """Calls a function for each row and puts the results together: a loop, whose kernels are shared.

    >>> lathe.vmap(lambda a, b: (a * b).sum())(lathe.ones(2, 3), lathe.ones(2, 3)).tolist()
    [3.0, 3.0]
    """

    def mapped(*args):
        axes = in_dims if isinstance(in_dims, (tuple, list)) else (in_dims,) * len(args)
        sizes = {a.shape[d] for a, d in zip(args, axes) if d is not None}
        if len(sizes) != 1:
            raise UserError(f"lathe: vmap: the mapped axes have sizes {sorted(sizes)}\n  help: they need one size")
        rows = [func(*(a if d is None else a.select(d, i) for a, d in zip(args, axes))) for i in range(sizes.pop())]
        if isinstance(rows[0], (tuple, list)):
            return tuple(stack(list(column), dim=out_dims) for column in zip(*rows))
        return stack(rows, dim=out_dims)

    return mapped
