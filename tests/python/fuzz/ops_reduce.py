"""Reduces, scans, sorts and the norms made of them."""

from fuzz.table import boolean, index_dtype, lifted, op, same, summed


def draw_reduce(kind, most=1 << 20):
    def draw(g):
        x = g.pick(kind, rank=(1, 5), most=most)
        axes = tuple(a for a in range(x.ndim) if g.rng.random() < 0.4) or (g.axis(x),)
        return g.bound(x=x, axis=axes if len(axes) > 1 else axes[0], keep=bool(g.rng.random() < 0.3))

    return draw


def draw_axis(kind, most=1 << 20):
    def draw(g):
        x = g.pick(kind, rank=(1, 5), most=most)
        return g.bound(x=x, axis=g.axis(x))

    return draw


REDUCE = "{x}.sum({axis}, keepdim={keep})"
# fmt: off
op("sum", "reduce", draw_reduce("any"), summed, REDUCE, "{x}.sum({axis}, keepdims={keep})", "=", exact=True, sums=True, symbolic=True, weight=3)
op("max", "reduce", draw_reduce("number"), same, "{x}.max({axis}, keepdim={keep})", "{x}.max({axis}, keepdims={keep})", "torch.amax({x}, {axis}, {keep})", exact=True, moves=True, ties=True, symbolic=True, weight=2, then="argmax")
op("min", "reduce", draw_reduce("number"), same, "{x}.min({axis}, keepdim={keep})", "{x}.min({axis}, keepdims={keep})", "torch.amin({x}, {axis}, {keep})", exact=True, moves=True, ties=True, symbolic=True, then="argmin")
op("mean", "reduce", draw_reduce("float"), same, "{x}.mean({axis}, keepdim={keep})", "{x}.mean({axis}, keepdims={keep})", "=", sums=True, symbolic=True)
op("prod", "reduce", draw_axis("float", 400), same, "{x}.prod({axis})", "in_range({x}, {axis}, limits).prod({axis})", "{x}.prod({axis})", exact=True, ulps=16, sums=True)
op("var", "reduce", draw_reduce("wide"), same, "{x}.var({axis}, keepdim={keep})", "positive({x}.var({axis}, keepdims={keep}, ddof=1))", "var({x}, {axis}, 1, {keep})", sums=True, symbolic=True, ulps=4, term_ulps=8)
op("std", "reduce", draw_reduce("wide"), same, "{x}.std({axis}, keepdim={keep}, correction=0)", "np.sqrt(positive({x}.var({axis}, keepdims={keep})))", "torch.std({x}, dim={axis}, correction=0, keepdim={keep})", sums=True, symbolic=True, ulps=4, term_ulps=8)
op("any", "reduce", draw_reduce("any"), boolean, "{x}.any({axis}, keepdim={keep})", "({x} != 0).any({axis}, keepdims={keep})", None, exact=True, steps=True, symbolic=True, edge="np.sign({x} * 1.0)")
op("all", "reduce", draw_reduce("any"), boolean, "{x}.all({axis}, keepdim={keep})", "({x} != 0).all({axis}, keepdims={keep})", None, exact=True, steps=True, symbolic=True, edge="np.sign({x} * 1.0)")
op("logsumexp", "reduce", draw_reduce("wide"), same, "{x}.logsumexp({axis}, keepdim={keep})", "logsumexp({x}, {axis}, {keep})", "torch.logsumexp({x}, {axis}, {keep})", sums=True, symbolic=True, ulps=8, absolute=True)
op("argmax", "reduce", draw_axis("number"), index_dtype, "{x}.argmax({axis})", "np.argmax({x}, {axis}).astype(np.int32)", None, exact=True, steps=True, symbolic=True, ties=True)
op("argmin", "reduce", draw_axis("number"), index_dtype, "{x}.argmin({axis})", "np.argmin({x}, {axis}).astype(np.int32)", None, exact=True, steps=True, symbolic=True, ties=True)

op("softmax", "norm", draw_axis("float"), lifted, "{x}.softmax({axis})", "softmax({x}, {axis})", "softmax({x}, {axis})", sums=True, symbolic=True, ulps=8, weight=3)
op("log_softmax", "norm", draw_axis("float"), lifted, "{x}.log_softmax({axis})", "({x} - logsumexp({x}, {axis}, True))", "{x} - {x}.amax({axis}, True).detach() - ({x} - {x}.amax({axis}, True).detach()).exp().sum({axis}, True).log()", sums=True, symbolic=True, ulps=8, absolute=True)
op("layernorm", "norm", draw_axis("wide"), lifted, "{x}.layernorm({axis})", "layernorm({x}, {axis}, kept)", "({x} - kept({x}.mean({axis}, True))) / ({x}.var({axis}, False, True) + 1e-5).sqrt()", sums=True, symbolic=True, ulps=8, term_ulps=16, weight=2)
op("normalize", "norm", draw_axis("wide"), lifted, "({x}.abs() + 0.5).normalize(dim={axis})", "(np.abs({x}) + 0.5) / np.sqrt(((np.abs({x}) + 0.5) ** 2).sum({axis}, keepdims=True))", "F.normalize({x}.abs() + 0.5, dim={axis})", sums=True, symbolic=True, ulps=8)

op("cumsum", "scan", draw_axis("number", 20000), summed, "{x}.cumsum({axis})", "running_sum({x}, {axis}, kept)", "{x}.cumsum({axis})", exact=True, sums=True, symbolic=True, weight=3)
op("cumprod", "scan", draw_axis("float", 400), same, "{x}.cumprod({axis})", "np.cumprod(in_range({x}, {axis}, limits), {axis})", "=", exact=True, sums=True, ulps=16)
op("cummax", "scan", draw_axis("number", 20000), same, "{x}.cummax({axis})[0]", "np.maximum.accumulate({x}, {axis})", "=", exact=True, moves=True, ties=True, then="cummax_index")
op("cummin", "scan", draw_axis("number", 20000), same, "{x}.cummin({axis})[0]", "np.minimum.accumulate({x}, {axis})", "=", exact=True, moves=True, ties=True, then="cummin_index")
op("cummax_index", "scan", draw_axis("number", 20000), index_dtype, "{x}.cummax({axis})[1]", "running_index(np.maximum, {x}, {axis})", "{x}.cummax({axis})[1].int()", exact=True, steps=True, ties=True, weight=0.5)
op("cummin_index", "scan", draw_axis("number", 20000), index_dtype, "{x}.cummin({axis})[1]", "running_index(np.minimum, {x}, {axis})", "{x}.cummin({axis})[1].int()", exact=True, steps=True, ties=True, weight=0.5)
op("logcumsumexp", "scan", draw_axis("float", 5000), lifted, "{x}.logcumsumexp({axis})", "np.logaddexp.accumulate({x}, {axis})", "=", sums=True, ulps=8, absolute=True)
# fmt: on


def draw_sort(g):
    x = g.pick("number", rank=(1, 3), fixed=True, most=1000)
    return g.bound(x=x, axis=g.axis(x), down=bool(g.rng.random() < 0.5))


op("sort", "sort", draw_sort, same, "{x}.sort({axis}, {down})[0]", "sort({x}, {axis}, {down})", "sort({x}, {axis}, {down})", exact=True, moves=True, ties=True, then="argsort")
op("argsort", "sort", draw_sort, index_dtype, "{x}.argsort({axis}, {down})", "argsort({x}, {axis}, {down}).astype(np.int32)", "argsort({x}, {axis}, {down})", exact=True, steps=True, ties=True)


def draw_topk(g):
    x = g.pick("number", rank=(1, 3), fixed=True, most=1000)
    axis = g.axis(x)
    if x.shape[axis] < 1:
        return None
    return g.bound(x=x, k=int(g.rng.integers(1, x.shape[axis] + 1)), axis=axis, largest=bool(g.rng.random() < 0.5))


op("topk", "sort", draw_topk, same, "{x}.topk({k}, {axis}, {largest})[0]", "topk({x}, {k}, {axis}, {largest})", "sort({x}, {axis}, {largest}).narrow({axis}, 0, {k})", exact=True, moves=True, ties=True, then="topk_index")
op("topk_index", "sort", draw_topk, index_dtype, "{x}.topk({k}, {axis}, {largest})[1]", "np.take(argsort({x}, {axis}, {largest}), np.arange({k}), {axis}).astype(np.int32)", "argsort({x}, {axis}, {largest}).narrow({axis}, 0, {k})", exact=True, steps=True, ties=True, weight=0.5)
