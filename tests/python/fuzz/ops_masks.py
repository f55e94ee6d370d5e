"""Masks as users write them: minus infinity where nothing is to be seen, values set and added where a mask says so."""

from fuzz.table import common, lifted, op, same


def draw_masked_row(kind):
    """A value, a mask of its shape and an axis along which each row has something left."""

    def draw(g):
        x = g.pick(kind, rank=(1, 4), most=20000)
        return g.bound(x=x, m=g.partner(x, "bool", inside=True), axis=g.axis(x))

    return draw


HIDDEN = "{x}.masked_fill({m}, float('-inf'))"
SEEN = "hidden({x}, {m}, {axis})"
# fmt: off
op("masked_softmax", "norm", draw_masked_row("wide"), lifted, HIDDEN + ".softmax({axis})", f"softmax({SEEN}, {{axis}})", f"softmax({HIDDEN}, {{axis}})", sums=True, symbolic=True, ulps=8, weight=2)
op("masked_logsumexp", "reduce", draw_masked_row("wide"), same, HIDDEN + ".logsumexp({axis})", f"logsumexp({SEEN}, {{axis}})", f"torch.logsumexp({HIDDEN}, {{axis}})", sums=True, symbolic=True, ulps=8, absolute=True)
op("masked_max", "reduce", draw_masked_row("wide"), same, HIDDEN + ".max({axis})", f"{SEEN}.max({{axis}})", f"{HIDDEN}.amax({{axis}})", exact=True, moves=True, ties=True, symbolic=True)
op("masked_mean", "reduce", draw_masked_row("precise"), same, "{m}.where(0, {x}).sum({axis}) / {m}.logical_not().expand({x}.shape).sum({axis})", "masked_mean({x}, {m}, {axis})", "masked_mean({x}, {m}, {axis})", sums=True, ulps=4)
# fmt: on


def draw_chain(g):
    """A where in a where, under masks that exclude one another or do not."""
    x = g.pick("number")
    y = g.partner(x, "number", inside=True)
    return g.bound(x=x, m=g.partner(x, "bool", inside=True), n=g.partner(x, "bool", inside=True), y=y, c=g.number(y.dtype))


CHAIN = "where({m} & ~{n}, {x}, where({n} | {m}, {y}, {c}))"
op("where_chain", "binary", draw_chain, common, "({m} & {n}.logical_not()).where({x}, ({n} | {m}).where({y}, {c}))", "np." + CHAIN.replace(", where", ", np.where"), CHAIN, exact=True, moves=True, symbolic=True, lift=True)


def draw_put_where(g):
    x = g.pick("number", rank=(1, 3), fixed=True, most=2000)
    return g.bound(x=x, m=g.leaf(tuple(x.shape), "bool"), y=g.like(x, x.dtype))


def draw_picked(g):
    """How many a mask picks has to be read, which a capture cannot do."""
    return None if g.program.mode == "captured" else draw_put_where(g)


op("put_picked", "write", draw_picked, same, "{out} = {x}.clone(); {out}[{m}] = {y}[{m}]", "np.where({m}, {y}, {x})", "torch.where({m}, {y}, {x})", exact=True, moves=True)
op("add_picked", "write", draw_picked, same, "{out} = {x}.clone(); {out}[{m}] += 2", "np.where({m}, {x} + np.asarray(2, {x}.dtype), {x})", "torch.where({m}, {x} + 2, {x})", exact=True)


def draw_pick(g):
    """The first n elements under a mask, and as many numbers as are missing."""
    x = g.pick("number", rank=(1, 3), fixed=True, most=2000)
    return g.bound(x=x, m=g.leaf(tuple(x.shape), "bool"), n=int(g.rng.integers(1, 12)), c=g.number(x.dtype))


op("masked_select", "index", draw_pick, same, "{x}.masked_select({m}, {n}, {c})", "masked_select({x}, {m}, {n}, {c})", "masked_select({x}, {m}, {n}, {c})", exact=True, moves=True)
