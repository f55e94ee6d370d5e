"""Gathers, scatters and one-hot rows."""

from fuzz.table import op, same


def draw_gather(g):
    x = g.pick("any", rank=(1, 3), fixed=True, most=20000)
    axis = g.axis(x)
    if 0 in x.shape:
        return None
    shape = tuple(int(g.rng.integers(1, 8)) if a == axis else int(g.rng.integers(1, n + 1)) for a, n in enumerate(x.shape))
    return g.bound(x=x, axis=axis, i=g.index(shape, x.shape[axis]))


op("gather", "index", draw_gather, same, "{x}.gather({axis}, {i})", "gather({x}, {axis}, {i})", "gather({x}, {axis}, {i})", exact=True, moves=True, weight=2)


def draw_take(g):
    """x[..., i, ...] with an index tensor on one axis."""
    x = g.pick("any", rank=(1, 4), most=5000)
    axis = g.axis(x, fixed=True)
    if axis is None or not x.shape[axis]:
        return None
    shape = tuple(int(g.rng.integers(1, 6)) for _ in range(int(g.rng.integers(0, 3))))
    return g.bound(x=x, axis=axis, i=g.index(shape, x.shape[axis]))


op("take", "index", draw_take, same, "{x}[(slice(None),) * {axis} + ({i},)]", None, "{x}[(slice(None),) * {axis} + ({i}.long(),)]", exact=True, moves=True, symbolic=True, weight=2)


def draw_take_pairs(g):
    x = g.pick("any", rank=(2, 4), fixed=True, most=20000)
    if 0 in x.shape:
        return None
    shape = tuple(int(g.rng.integers(1, 6)) for _ in range(int(g.rng.integers(1, 3))))
    return g.bound(x=x, i=g.index(shape, x.shape[0]), j=g.index(shape, x.shape[1]))


op("take_pairs", "index", draw_take_pairs, same, "{x}[{i}, {j}]", None, "{x}[{i}.long(), {j}.long()]", exact=True, moves=True)


def forward_slice(g, n):
    a, b = sorted(int(v) for v in g.rng.integers(0, n + 1, 2))
    return slice(a if a else None, b if a < b < n else None, int(g.rng.integers(2, 4)) if g.rng.random() < 0.4 else None)


def draw_take_apart(g):
    """An index tensor before a slice, and two with an axis between them, whose axes come first."""
    x = g.pick("any", rank=(3, 4), fixed=True, most=20000)
    if 0 in x.shape:
        return None
    shape = tuple(int(g.rng.integers(1, 5)) for _ in range(int(g.rng.integers(1, 3))))
    return g.bound(x=x, i=g.index(shape, x.shape[0]), j=g.index(shape[-1:], x.shape[2]), s=forward_slice(g, x.shape[1]))


op("take_apart", "index", draw_take_apart, same, "{x}[{i}, {s}, {j}]", None, "{x}[{i}.long(), {s}, {j}.long()]", exact=True, moves=True)


def draw_take_slice(g):
    x = g.pick("any", rank=(2, 4), fixed=True, most=20000)
    if 0 in x.shape:
        return None
    shape = tuple(int(g.rng.integers(1, 5)) for _ in range(int(g.rng.integers(1, 3))))
    return g.bound(x=x, i=g.index(shape, x.shape[1]), s=forward_slice(g, x.shape[0]))


op("take_new_axis", "index", draw_take_slice, same, "{x}[{s}, None, {i}]", None, "{x}[{s}, None, {i}.long()]", exact=True, moves=True)


def draw_embedding(g):
    x = g.pick("float", rank=(2, 2), fixed=True, most=20000)
    if 0 in x.shape:
        return None
    shape = tuple(int(g.rng.integers(1, 7)) for _ in range(int(g.rng.integers(1, 3))))
    return g.bound(x=x, i=g.index(shape, x.shape[0], negative=False))


op("embedding", "index", draw_embedding, same, "{x}.embedding({i})", "{x}[{i}]", "F.embedding({i}.long(), {x})", exact=True, moves=True)


def scatter_operands(g, unique):
    x = g.pick("float", rank=(1, 3), fixed=True, most=1000)
    if 0 in x.shape:
        return None
    axis = g.axis(x)
    shape = tuple(int(g.rng.integers(1, n + 1)) if unique or a != axis else int(g.rng.integers(1, 9)) for a, n in enumerate(x.shape))
    index = g.index(shape, x.shape[axis], negative=False, unique=axis if unique else None)
    return dict(x=x, axis=axis, i=index, y=g.leaf(shape, x.dtype))


def draw_scatter(g):
    d = scatter_operands(g, True)
    return d and g.bound(**d)


op("scatter", "index", draw_scatter, same, "{x}.scatter({axis}, {i}, {y})", "scatter({x}, {axis}, {i}, {y})", "scatter({x}, {axis}, {i}, {y})", exact=True, moves=True)


def draw_scatter_add(g):
    d = scatter_operands(g, False)
    return d and g.bound(**d)


op("scatter_add", "index", draw_scatter_add, same, "{x}.scatter({axis}, {i}, {y}, reduce='add')", "scatter({x}, {axis}, {i}, {y}, 'add')", "scatter({x}, {axis}, {i}, {y}, 'add')", exact=True, sums=True)


def draw_scatter_reduce(*ways):
    def draw(g):
        d = scatter_operands(g, False)
        return d and g.bound(**d, how=str(g.rng.choice(ways)), own=bool(g.rng.random() < 0.6))

    return draw


SCATTER = "{x}.scatter_reduce({axis}, {i}, {y}, {how}, {own})", "scatter({x}, {axis}, {i}, {y}, {how}, {own})"
op("scatter_sum", "index", draw_scatter_reduce("sum"), same, *SCATTER, SCATTER[1], exact=True, sums=True)
# A product of several is rounded after each, so only whole numbers tell; a mean of them is no whole number.
op("scatter_prod", "index", draw_scatter_reduce("prod"), same, *SCATTER, SCATTER[1], exact=True, sums=True, ulps=16)
op("scatter_mean", "index", draw_scatter_reduce("mean"), same, *SCATTER, SCATTER[1], sums=True, ulps=4)
# PyTorch's gradient of these counts the element that was there even where it does not take part.
op("scatter_extreme", "index", draw_scatter_reduce("amax", "amin"), same, *SCATTER, None, exact=True, moves=True, ties=True)


def draw_one_hot(g):
    shape = g.shape(rank=(1, 2))
    n = int(g.rng.integers(1, 12))
    return g.bound(x=g.index(shape, n, negative=False), n=n)


op("one_hot", "index", draw_one_hot, lambda d: "int32", "{x}.one_hot({n})", "one_hot({x}, {n})", "F.one_hot({x}.long(), {n}).int()", exact=True, moves=True)


def draw_put_rows(g):
    x = g.pick("number", rank=(1, 3), fixed=True, most=5000)
    if 0 in x.shape:
        return None
    n = int(g.rng.integers(1, x.shape[0] + 1))
    index = g.index((n,), x.shape[0], negative=False, unique=0)
    return g.bound(x=x, i=index, y=g.leaf((n, *x.shape[1:]), x.dtype))


op("put_rows", "write", draw_put_rows, same, "{out} = {x}.clone(); {out}[{i}] = {y}", "put({x}, {i}, {y})", "{out} = {x}.clone(); {out}[{i}.long()] = {y}", exact=True, moves=True)


def draw_put_masked(g):
    x = g.pick("number", rank=(1, 3), fixed=True, most=5000)
    mask = g.leaf(tuple(x.shape), "bool")
    return g.bound(x=x, m=mask, c=g.number(x.dtype))


op("put_masked", "write", draw_put_masked, same, "{out} = {x}.clone(); {out}[{m}] = {c}", "put({x}, {m}, {c})", "=", exact=True, moves=True)


def draw_put_columns(g):
    """Columns by an index tensor, each once."""
    x = g.pick("number", rank=(2, 3), fixed=True, most=5000)
    if 0 in x.shape:
        return None
    n = int(g.rng.integers(1, x.shape[1] + 1))
    index = g.index((n,), x.shape[1], negative=False, unique=0)
    return g.bound(x=x, i=index, y=g.leaf((x.shape[0], n, *x.shape[2:]), x.dtype))


COLUMNS = "(slice(None), {i})"
op("put_columns", "write", draw_put_columns, same, "{out} = {x}.clone(); {out}[:, {i}] = {y}", f"put({{x}}, {COLUMNS}, {{y}})", "{out} = {x}.clone(); {out}[:, {i}.long()] = {y}", exact=True, moves=True)
op("add_columns", "write", draw_put_columns, same, "{out} = {x}.clone(); {out}[:, {i}] += {y}", f"add_at({{x}}, {COLUMNS}, {{y}})", "{out} = {x}.clone(); {out}[:, {i}.long()] += {y}", exact=True)


def draw_put_pairs(g):
    """Single elements, each once."""
    x = g.pick("number", rank=(2, 3), fixed=True, most=5000)
    if 0 in x.shape:
        return None
    n = int(g.rng.integers(1, x.shape[0] + 1))
    return g.bound(x=x, i=g.index((n,), x.shape[0], negative=False, unique=0), j=g.index((n,), x.shape[1]), y=g.leaf((n, *x.shape[2:]), x.dtype))


op("put_pairs", "write", draw_put_pairs, same, "{out} = {x}.clone(); {out}[{i}, {j}] = {y}", "put({x}, ({i}, {j}), {y})", "{out} = {x}.clone(); {out}[{i}.long(), {j}.long()] = {y}", exact=True, moves=True)
