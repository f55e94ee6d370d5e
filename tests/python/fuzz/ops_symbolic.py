"""Ops whose sizes are variables: slices, ranges, expansions, pads."""

from fuzz.program import Text
from fuzz.table import op, same


def sliceable(g):
    """A value with a fixed axis as long as the variables' largest values, and that axis."""
    most = max(v.high for v in g.program.variables)
    found = [v for v in g.values if most in v.shape and v.ndim <= 3]
    if found and g.rng.random() < 0.7:
        x = found[int(g.rng.integers(len(found)))]
    else:
        shape = list(g.shape(rank=(1, 3)))
        shape[int(g.rng.integers(len(shape)))] = most
        x = g.leaf(tuple(shape))
    return x, next(a for a, n in enumerate(x.shape) if n == most)


def names(g):
    return [v.name for v in g.program.variables]


def draw_slice_to(g):
    x, axis = sliceable(g)
    name = str(g.rng.choice(names(g)))
    forms = [f"slice(None, {name})", f"slice({name}, None)"]
    if len(names(g)) > 1:
        forms += ["slice(m, n)"] * 2 + ["slice(m, m + 2)"]
    return g.bound(x=x, axis=axis, key=Text(str(g.rng.choice(forms))))


op("slice_by_variable", "symbolic", draw_slice_to, same, "{x}[(slice(None),) * {axis} + ({key},)]", None, "=", exact=True, moves=True, symbolic=True, weight=3)


def draw_range(g):
    stop = str(g.rng.choice(["n", "n + 1", "2 * n", "n * n"]))
    step = str(g.rng.choice(["1", "1", "2", "m" if len(names(g)) > 1 else "n", "3"]))
    start = str(g.rng.choice(["0", "0", "1"]))
    return g.bound(a=Text(start), b=Text(stop), s=Text(step))


op("range_by_variable", "symbolic", draw_range, lambda d: "int32", "Tensor.arange({a}, {b}, {s})", "np.arange({a}, {b}, {s}, dtype=np.int32)", "torch.arange({a}, {b}, {s}, dtype=torch.int32)", exact=True, moves=True, symbolic=True)


def draw_variable(g):
    x = g.pick("number")
    return g.bound(x=x, v=Text(str(g.rng.choice(names(g)))))


op("add_variable", "symbolic", draw_variable, same, "{x} + {v}", "({x} + {v})", "=", exact=True, symbolic=True)
op("mul_variable", "symbolic", draw_variable, same, "{x} * {v}", "({x} * {v})", "=", exact=True, symbolic=True)


def draw_expand(g):
    x = g.pick("number", rank=(0, 2), most=400)
    return g.bound(x=x, v=Text(str(g.rng.choice(names(g)))))


op("expand_by_variable", "symbolic", draw_expand, same, "{x}.unsqueeze(0).expand({v}, *[-1] * {x}.ndim)", "np.repeat({x}[None], {v}, 0)", "=", exact=True, moves=True, symbolic=True)


def draw_pad(g):
    x = g.pick("number", rank=(1, 3), most=2000)
    axis = g.axis(x)
    pads = ", ".join("(0, {})".format(str(g.rng.choice(names(g)))) if a == axis else "(0, 0)" for a in range(x.ndim))
    return g.bound(x=x, pads=Text(f"({pads},)"))


op("pad_by_variable", "symbolic", draw_pad, same, "{x}.pad({pads})", "pad({x}, {pads})", "pad({x}, {pads})", exact=True, moves=True, symbolic=True)


def draw_at(g):
    """One place that a variable names, as a cache is written and read."""
    x, axis = sliceable(g)
    shape = tuple(1 if a == axis else n for a, n in enumerate(x.shape))
    if None in shape:
        return None
    return g.bound(x=x, axis=axis, y=g.leaf(shape, x.dtype), v=Text(str(g.rng.choice(names(g)))))


PLACE = "(slice(None),) * {axis} + (slice({v} - 1, {v}),)"
op("put_at_variable", "symbolic", draw_at, same, f"{{out}} = {{x}}.clone(); {{out}}[{PLACE}] = {{y}}", f"put({{x}}, {PLACE}, {{y}})", f"put({{x}}, {PLACE}, {{y}})", exact=True, moves=True, symbolic=True)
op("add_at_variable", "symbolic", draw_at, same, f"{{out}} = {{x}}.clone(); {{out}}[{PLACE}] += {{y}}", f"add_at({{x}}, {PLACE}, {{y}})", f"add_at({{x}}, {PLACE}, {{y}})", exact=True, symbolic=True)


def draw_prefix_product(g):
    """Rows, or steps of the sum, as many as a variable says."""
    x = g.pick("wide", rank=(2, 3), most=4000, cond=lambda v: v.shape[-1])
    return g.bound(x=x, y=g.leaf((x.shape[-1], int(g.rng.integers(1, 7))), x.dtype))


op("rows_by_variable", "symbolic", draw_prefix_product, same, "{x} @ {y}", None, "=", exact=True, sums=True, term_ulps=8, symbolic=True)


def draw_prefix_attention(g):
    batch, rows, width, most = int(g.rng.integers(1, 4)), int(g.rng.integers(1, 5)), int(g.rng.integers(1, 9)), max(v.high for v in g.program.variables)
    dtype = g.dtype("wide")
    q, k, w = (g.leaf((batch, n, width), dtype) for n in (rows, most, most))
    return g.bound(x=q, k=k, w=w, v=Text(str(g.rng.choice(names(g)))))


PREFIX = "attention({x}, {k}[:, :{v}], {w}[:, :{v}], False)"
op("attention_to_prefix", "symbolic", draw_prefix_attention, same, "{x}.scaled_dot_product_attention({k}[:, :{v}], {w}[:, :{v}])", PREFIX, PREFIX, sums=True, ulps=8, symbolic=True)


def draw_join(g):
    x = g.pick("number", rank=(1, 3), most=2000, fixed=False)
    axis = next((a for a, n in enumerate(x.shape) if n is None), 0)
    shape = tuple(int(g.rng.integers(1, 4)) if a == axis else n for a, n in enumerate(x.shape))
    if None in shape:
        return None
    return g.bound(x=x, y=g.leaf(shape, x.dtype), axis=axis)


op("cat_to_prefix", "symbolic", draw_join, same, "{x}.cat({y}, dim={axis})", "np.concatenate([{x}, {y}], {axis})", "torch.cat([{x}, {y}], {axis})", exact=True, moves=True, symbolic=True)
op("flat_by_variable", "symbolic", lambda g: g.bound(x=g.pick("any", rank=(2, 3), most=2000, fixed=False)), same, "{x}.flatten()", "{x}.reshape(-1)", "{x}.flatten()", exact=True, moves=True, symbolic=True)
