"""Tensors that live from one call of the program to the next, as running means and caches do: written anew in each, and read back."""

from fuzz.table import op, same


def draw_kept(g):
    if g.program.mode != "captured" and g.rng.random() < 0.7:
        return None
    x = g.pick("number", rank=(1, 3), fixed=True, most=2000, cond=lambda v: v.shape[0] > 1)
    return g.bound(x=x, shape=x.shape)


KEPT = "{out}_kept = held['{out}'] if '{out}' in held else held.setdefault('{out}', Tensor.zeros(*{shape}, dtype={x}.dtype).contiguous().realize()); "
TWICE = "({x} + {x}).detach()"
# fmt: off
op("keep_whole", "write", draw_kept, same, KEPT + "{out}_kept.assign({x}.detach()); {out} = {out}_kept + {out}_kept", "({x} + {x})", TWICE, exact=True, smooth=False)
op("keep_by_views", "write", draw_kept, same, KEPT + "{out}_kept[1:] = {x}.detach()[1:]; {out}_kept[:1] = {x}.detach()[:1]; {out} = {out}_kept.flip(0) + {out}_kept.flip(0)", "np.flip({x} + {x}, 0)", "({x} + {x}).flip(0).detach()", exact=True, smooth=False)
# What is read before the write is of the call before; what is made of it is not to be seen.
op("keep_after_read", "write", draw_kept, same, KEPT + "{out}_old = {out}_kept * 0; {out}_kept.assign({x}.detach() + {out}_old); {out}_kept += {out}_kept; {out} = {out}_kept * 1", "({x} + {x})", TWICE, exact=True, smooth=False)
# fmt: on
