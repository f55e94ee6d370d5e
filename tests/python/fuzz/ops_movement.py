"""Views, pads, joins and what only changes where a value is kept."""

import numpy as np

from fuzz.table import common, op, same


def draw_permute(g):
    x = g.pick("any", rank=(2, 6))
    order = tuple(int(i) for i in g.rng.permutation(x.ndim))
    if order == tuple(range(x.ndim)) and g.rng.random() < 0.9:
        order = order[::-1]
    return g.bound(x=x, order=order)


op("permute", "movement", draw_permute, same, "{x}.permute({order})", "{x}.transpose({order})", "=", exact=True, moves=True, symbolic=True, weight=2)


def factors(g, n):
    """n as a product of one to three sizes."""
    out = []
    for _ in range(int(g.rng.integers(0, 3))):
        divisors = [d for d in range(1, n + 1) if n % d == 0]
        d = int(g.rng.choice(divisors))
        out.append(d)
        n //= d
    return [*out, n]


def draw_reshape(g):
    x = g.pick("any", fixed=True)
    if x.size == 0 or x.size > 1 << 16:
        return None
    shape = factors(g, x.size)
    return g.bound(x=x, shape=tuple(int(shape[i]) for i in g.rng.permutation(len(shape))))


op("reshape", "movement", draw_reshape, same, "{x}.reshape({shape})", None, "=", exact=True, moves=True, weight=2)


def draw_expand(g):
    x = g.pick("any", rank=(0, 4), fixed=True, most=2000)
    shape = tuple(int(g.rng.integers(1, 6)) if n == 1 else n for n in x.shape)
    if x.ndim < 4 and g.rng.random() < 0.5:
        shape = (int(g.rng.integers(1, 5)), *shape)
    return g.bound(x=x, shape=shape)


op("expand", "movement", draw_expand, same, "{x}.expand({shape})", "np.broadcast_to({x}, {shape})", "=", exact=True, moves=True)


def draw_expand_axis(g):
    x = g.pick("any", rank=(1, 4), most=2000)
    axis = g.axis(x)
    return g.bound(x=x, axis=axis, n=int(g.rng.integers(2, 9)))


REPEATED = "{x}.unsqueeze({axis}).expand(*[{n} if i == {axis} else -1 for i in range({x}.ndim + 1)])"
op("expand_axis", "movement", draw_expand_axis, same, REPEATED, "np.repeat(np.expand_dims({x}, {axis}), {n}, {axis})", REPEATED, exact=True, moves=True, symbolic=True, weight=2)


def draw_flip(g):
    x = g.pick("any", rank=(1, 5))
    axes = [a for a in range(x.ndim) if g.rng.random() < 0.5] or [g.axis(x)]
    return g.bound(x=x, axes=tuple(axes))


op("flip", "movement", draw_flip, same, "{x}.flip({axes})", "np.flip({x}, {axes})", "=", exact=True, moves=True, symbolic=True)


def random_slice(g, n):
    step = int(g.rng.choice([1, 1, 1, 2, 3, -1, -2]))
    a, b = sorted(int(v) for v in g.rng.integers(0, n + 1, 2))
    if a == b:
        a, b = (0, n) if g.rng.random() < 0.95 else (a, b)
    if step > 0:
        return slice(a if a else None, b if b < n else None, step if step > 1 else None)
    return slice(b - 1 if b < n else None, a - 1 if a > 0 else None, step)


def random_key(g, x, whole_chance=0.4, numbers=True):
    """An index of slices and numbers; symbolic axes are left whole."""
    key = []
    for n in x.shape:
        if n is None:
            key.append(slice(None))
        elif n == 0 or g.rng.random() < whole_chance:
            key.append(slice(None))
        elif numbers and g.rng.random() < 0.15:
            key.append(int(g.rng.integers(-n, n)))
        else:
            key.append(random_slice(g, n))
    return tuple(key)


def draw_slice(g):
    x = g.pick("any", rank=(1, 5))
    return g.bound(x=x, key=random_key(g, x))


op("slice", "movement", draw_slice, same, "{x}[{key}]", None, "take({x}, {key})", exact=True, moves=True, symbolic=True, weight=3)


def draw_pad(g):
    x = g.pick("number", rank=(1, 4), most=20000)
    low = -1 if g.rng.random() < 0.3 else 0
    pads = tuple((int(g.rng.integers(low, 4)), int(g.rng.integers(low, 4))) if g.rng.random() < 0.6 else (0, 0) for _ in x.shape)
    return g.bound(x=x, pads=pads, c=g.number(x.dtype) if g.rng.random() < 0.4 else 0)


op("pad", "movement", draw_pad, same, "{x}.pad({pads}, value={c})", "pad({x}, {pads}, {c})", "pad({x}, {pads}, {c})", exact=True, moves=True, symbolic=True, weight=2)


def draw_pad_mode(g):
    x = g.pick("float", rank=(3, 4), fixed=True, most=20000)
    mode = str(g.rng.choice(["reflect", "replicate", "circular"]))
    count = 1 if x.ndim == 3 else 2
    flat = []
    for n in reversed(x.shape[-count:]):
        most = min(3, n - 1 if mode == "reflect" else n)
        if most < 0:
            return None
        flat += [int(g.rng.integers(0, most + 1)), int(g.rng.integers(0, most + 1))]
    pads = [(0, 0)] * (x.ndim - count) + [tuple(flat[2 * i : 2 * i + 2]) for i in reversed(range(count))]
    return g.bound(x=x, flat=tuple(flat), pads=pads, mode=mode, as_numpy={"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])


op("pad_mode", "movement", draw_pad_mode, same, "{x}.pad({flat}, mode={mode})", "np.pad({x}, {pads}, mode={as_numpy})", "F.pad({x}, {flat}, mode={mode})", exact=True, moves=True)


def draw_join(g):
    x = g.pick("number", rank=(1, 4), fixed=True, most=20000)
    axis = g.axis(x)
    shape = list(x.shape)
    shape[axis] = int(g.rng.integers(1, 6))
    y = g.leaf(tuple(shape)) if g.rng.random() < 0.5 else g.like(x)
    return g.bound(x=x, y=y, axis=axis)


op("cat", "movement", draw_join, common, "{x}.cat({y}, dim={axis})", "np.concatenate([{x}, {y}], {axis})", "torch.cat([{x}, {y}], {axis})", exact=True, moves=True, lift=True, weight=2)


def draw_stack(g):
    x = g.pick("number", rank=(0, 3), most=20000)
    return g.bound(x=x, y=g.like(x), axis=int(g.rng.integers(0, x.ndim + 1)))


op("stack", "movement", draw_stack, common, "Tensor.stack({x}, {y}, dim={axis})", "np.stack([{x}, {y}], {axis})", "torch.stack([{x}, {y}], {axis})", exact=True, moves=True, lift=True, symbolic=True)


def draw_cat_number(g):
    x = g.pick("number", rank=(1, 3), most=20000)
    return g.bound(x=x, axis=g.axis(x))


op("cat_self", "movement", draw_cat_number, same, "{x}.cat({x}, dim={axis})", "np.concatenate([{x}, {x}], {axis})", "torch.cat([{x}, {x}], {axis})", exact=True, moves=True, symbolic=True)


def draw_repeat(g):
    x = g.pick("any", rank=(1, 3), fixed=True, most=2000)
    return g.bound(x=x, times=tuple(int(g.rng.integers(1, 4)) for _ in x.shape))


op("repeat", "movement", draw_repeat, same, "{x}.repeat({times})", "np.tile({x}, {times})", "=", exact=True, moves=True)


def draw_interleave(g):
    x = g.pick("any", rank=(1, 3), fixed=True, most=2000)
    return g.bound(x=x, n=int(g.rng.integers(1, 4)), axis=g.axis(x))


op("repeat_interleave", "movement", draw_interleave, same, "{x}.repeat_interleave({n}, {axis})", "np.repeat({x}, {n}, {axis})", "=", exact=True, moves=True)


def draw_roll(g):
    x = g.pick("any", rank=(1, 4), fixed=True)
    return g.bound(x=x, n=int(g.rng.integers(-5, 6)), axis=g.axis(x))


op("roll", "movement", draw_roll, same, "{x}.roll({n}, {axis})", "np.roll({x}, {n}, {axis})", "=", exact=True, moves=True)


def draw_diagonal(g):
    x = g.pick("any", rank=(2, 4), fixed=True)
    a, b = (int(v) for v in g.rng.permutation(x.ndim)[:2])
    n = int(g.rng.integers(-1, 2))
    if min(x.shape[a], x.shape[b]) <= 1:
        n = 0
    return g.bound(x=x, n=n, a=a, b=b)


op("diagonal", "movement", draw_diagonal, same, "{x}.diagonal({n}, {a}, {b})", None, "=", exact=True, moves=True)


def draw_triangle(g):
    x = g.pick("number", rank=(2, 4))
    return g.bound(x=x, n=int(g.rng.integers(-2, 3)))


op("triu", "movement", draw_triangle, same, "{x}.triu({n})", "np.triu({x}, {n})", "=", exact=True, moves=True, symbolic=True)
op("tril", "movement", draw_triangle, same, "{x}.tril({n})", "np.tril({x}, {n})", "=", exact=True, moves=True, symbolic=True)


def draw_unfold(g):
    x = g.pick("any", rank=(1, 3), fixed=True, most=5000)
    axis = g.axis(x)
    if x.shape[axis] < 1:
        return None
    return g.bound(x=x, axis=axis, size=int(g.rng.integers(1, min(x.shape[axis], 5) + 1)), step=int(g.rng.integers(1, 4)))


op("unfold", "movement", draw_unfold, same, "{x}.unfold({axis}, {size}, {step})", "unfold({x}, {axis}, {size}, {step})", "=", exact=True, moves=True)


def draw_unsqueeze(g):
    x = g.pick("any", rank=(0, 4))
    return g.bound(x=x, axis=int(g.rng.integers(0, x.ndim + 1)))


op("unsqueeze", "movement", draw_unsqueeze, same, "{x}.unsqueeze({axis})", "np.expand_dims({x}, {axis})", "=", exact=True, moves=True, symbolic=True, weight=0.5)


def draw_flatten(g):
    x = g.pick("any", rank=(2, 5), fixed=True)
    a, b = sorted(int(v) for v in g.rng.choice(x.ndim, 2, replace=False))
    return g.bound(x=x, a=a, b=b)


op("flatten", "movement", draw_flatten, same, "{x}.flatten({a}, {b})", "{x}.reshape({x}.shape[:{a}] + (int(np.prod({x}.shape[{a}:{b} + 1])),) + {x}.shape[{b} + 1:])", "=", exact=True, moves=True)


def draw_chunk(g):
    x = g.pick("any", rank=(1, 4), fixed=True)
    axis = g.axis(x)
    if x.shape[axis] < 2:
        return None
    at = int(g.rng.integers(1, x.shape[axis]))
    return g.bound(x=x, sizes=[at, x.shape[axis] - at], at=at, axis=axis, which=int(g.rng.integers(0, 2)))


op("split", "movement", draw_chunk, same, "{x}.split({sizes}, {axis})[{which}]", "np.split({x}, [{at}], {axis})[{which}]", "=", exact=True, moves=True)


# ---- where a value is kept

op("contiguous", "keep", lambda g: g.bound(x=g.pick("any")), same, "{x}.contiguous()", "np.array({x})", "=", exact=True, moves=True, symbolic=True)
op("realize", "keep", lambda g: g.bound(x=g.pick("any", captured=False)), same, "{x}.realize()", "np.array({x})", "{x}.clone()", exact=True, moves=True)
op("contiguous_backward", "keep", lambda g: g.bound(x=g.pick("float")), same, "{x}.contiguous_backward()", "np.array({x})", "{x}.clone()", exact=True, moves=True, weight=0.5, symbolic=True)
op("detach", "keep", lambda g: g.bound(x=g.pick("float")), same, "{x}.detach()", "np.array({x})", "=", exact=True, moves=True, smooth=False, weight=0.5, symbolic=True)


# ---- writes


def draw_put(g):
    x = g.pick("number", rank=(1, 4), fixed=True, most=20000)
    key = random_key(g, x)
    shape = np.empty(x.shape)[key].shape
    value = g.leaf(shape, x.dtype) if g.rng.random() < 0.6 else g.like(shape, x.dtype)
    return g.bound(x=x, key=key, y=value)


op("put", "write", draw_put, same, "{out} = {x}.clone(); {out}[{key}] = {y}", "put({x}, {key}, {y})", None, exact=True, moves=True)
op("add_at", "write", draw_put, same, "{out} = {x}.clone(); {out}[{key}] += {y}", "add_at({x}, {key}, {y})", None, exact=True)


def draw_positive(g):
    """Keys torch takes too."""
    d = draw_put(g)
    if d is None or any(isinstance(k, slice) and (k.step or 1) < 0 for k in d["key"]):
        return None
    return d


op("put_forward", "write", draw_positive, same, "{out} = {x}.clone(); {out}[{key}] = {y}", "put({x}, {key}, {y})", "=", exact=True, moves=True, weight=2)
op("add_at_forward", "write", draw_positive, same, "{out} = {x}.clone(); {out}[{key}] += {y}", "add_at({x}, {key}, {y})", "=", exact=True, weight=2)


def draw_assign(g):
    x = g.pick("number", rank=(0, 4), fixed=True, most=20000)
    return g.bound(x=x, y=g.like(x, x.dtype))


op("assign", "write", draw_assign, same, "{out} = {x}.clone(); {out}.assign({y} + {out})", "{y} + {x}", "{y} + {x}", exact=True)
op("multiply_in_place", "write", draw_assign, same, "{out} = {x}.clone(); {out} *= {y}", "{x} * {y}", "=", exact=True)


def draw_through_view(g):
    d = draw_permute(g)
    if not all(n for n in d["x"].shape) or d["x"].dtype == "bool":
        return None
    return g.bound(x=d["x"], order=d["order"])


op(
    "write_through_view",
    "write",
    draw_through_view,
    same,
    "{out} = {x}.clone(); {out}_view = {out}.permute({order})[0]; {out}_view += {out}_view",
    "add_at({x}, (slice(None),) * {order}[0] + (0,), np.take({x}, 0, {order}[0]))",
    None,
    exact=True,
)


def draw_rows(g):
    return g.bound(x=g.pick("number", rank=(1, 4), fixed=True, most=20000, cond=lambda v: v.shape[0] > 1))


# Reads what it writes, one further; reads what was there before a write.
op("add_neighbour", "write", draw_rows, same, "{out} = {x}.clone(); {out}[1:] += {out}[:-1]", "add_at({x}, (slice(1, None),), {x}[:-1])", None, exact=True)
op("add_before_write", "write", draw_rows, same, "{out} = {x}.clone(); {out}_before = {out} + {out}; {out}[0] = {out}[1]; {out} = {out} + {out}_before", "put({x}, 0, {x}[1]) + ({x} + {x})", "put({x}, 0, {x}[1]) + ({x} + {x})", exact=True, ulps=4)
op("write_flipped_slice", "write", draw_rows, same, "{out} = {x}.clone(); {out}_view = {out}[1:].flip(0); {out}_view.assign({out}_view + {out}[:1])", "add_at({x}, (slice(1, None),), {x}[:1])", None, exact=True)
op("writes_in_turn", "write", draw_rows, same, "{out} = {x}.clone(); {out}[:1] = {out}[1:2]; {out}[-1:] += {out}[:1]; {out} *= 2", "add_at(put({x}, (slice(0, 1),), {x}[1:2]), (slice(-1, None),), {x}[1:2]) * np.asarray(2, {x}.dtype)", None, exact=True, ulps=4)
# A value that was not in memory yet becomes another's, which may be expanded, and is written then.
op("take_over_then_put", "write", draw_rows, same, "{out} = {x} + {x}; {out}.assign({x}[:1]); {out}[1:] += {x}[1:]", "add_at(np.broadcast_to({x}[:1], {x}.shape), (slice(1, None),), {x}[1:])", None, exact=True)
# What is computed, or read through a view, where gradients are off has no part in them.
op("part_without_gradient", "write", lambda g: g.bound(x=g.pick("float", rank=(1, 4), fixed=True)), same, "{out} = no_grad()(lambda: {x} + {x})() * {x} + no_grad()(lambda: {x}.reshape(-1))().reshape({x}.shape) * {x}", "({x} + {x}) * {x} + {x} * {x}", "({x} + {x}).detach() * {x} + {x}.detach() * {x}", exact=True, smooth=False, ulps=6)
