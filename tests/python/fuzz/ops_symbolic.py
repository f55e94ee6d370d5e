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
