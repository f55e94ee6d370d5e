"""Sums of products: matrix products, convolutions, pools, attention."""

from fuzz.program import Text
from fuzz.table import common, op, same


def size(g, most=12):
    if g.large and g.rng.random() < 0.7:
        return int(g.rng.choice([16, 31, 32, 48, 64, 65, 96, 128, 200, 256]))
    return int(g.rng.integers(1, most))


def draw_matmul(g):
    if g.large and g.rng.random() < 0.6:
        return draw_large_matmul(g)
    x = g.pick("float", rank=(1, 4), fixed=True, most=1 << 18)
    if 0 in x.shape:
        return None
    k = x.shape[-1]
    shape = (k,) if g.rng.random() < 0.15 else (k, size(g))
    if len(shape) == 2 and x.ndim > 2 and g.rng.random() < 0.5:
        shape = (*x.shape[:-2], *shape) if g.rng.random() < 0.7 else (1, *shape)
    y = g.like(shape, x.dtype) if g.rng.random() < 0.5 else g.leaf(shape, x.dtype)
    return g.bound(x=x, y=y)


def draw_large_matmul(g):
    """A few rows by a factor no cache is too small for, or all of them."""
    rows = int(g.rng.choice([1, 2, 5, 16, 64, 100]))
    k, n = (int(v) for v in g.rng.choice([64, 128, 200, 256, 512] if rows > 5 else [512, 1024, 1040], 2))
    dtype = str(g.rng.choice(["float32", "float32", "bfloat16", "float16"]))
    x = g.pick(dtype, rank=(2, 2), fixed=True, most=1 << 18, cond=lambda v: min(v.shape) > 15, chance=0.3) if g.rng.random() < 0.2 else g.leaf((rows, k), dtype)
    return g.bound(x=x, y=g.leaf((x.shape[1], n), dtype))


op("matmul", "product", draw_matmul, common, "{x} @ {y}", None, "=", exact=True, sums=True, term_ulps=8, lift=True, weight=3)


def draw_matmul_vector(g):
    x = g.pick("number", rank=(2, 2), fixed=True, most=1 << 18)
    if 0 in x.shape:
        return None
    return g.bound(x=x, y=g.leaf((x.shape[1],), x.dtype))


op("matmul_vector", "product", draw_matmul_vector, same, "{x} @ {y}", None, "=", exact=True, sums=True, term_ulps=8)


def draw_rows_matmul(g):
    x = g.pick("float", rank=(2, 2), fixed=True, most=1 << 18)
    if 0 in x.shape:
        return None
    return g.bound(x=x, y=g.leaf((int(g.rng.integers(1, 9)), x.shape[0]), x.dtype))


op("rows_matmul", "product", draw_rows_matmul, same, "{y} @ {x}", None, "=", exact=True, sums=True, term_ulps=8)


def draw_self(g):
    return g.bound(x=g.pick("float", rank=(2, 3), most=1 << 16))


op("gram", "product", draw_self, same, "{x} @ {x}.transpose(-1, -2)", "{x} @ np.swapaxes({x}, -1, -2)", "=", exact=True, sums=True, term_ulps=8, symbolic=True)
op("gram_other", "product", draw_self, same, "{x}.transpose(-1, -2) @ {x}", "np.swapaxes({x}, -1, -2) @ {x}", "=", exact=True, sums=True, term_ulps=8, symbolic=True)


def draw_integer_product(g):
    x = g.pick("integer", rank=(2, 2), fixed=True, most=1 << 14)
    if 0 in x.shape:
        return None
    return g.bound(x=x, y=g.leaf((x.shape[1], size(g)), x.dtype))


op("integer_matmul", "product", draw_integer_product, same, "{x} @ {y}", None, None, exact=True, lift=True)


def draw_byte_product(g):
    if not g.large:
        return None
    k = int(g.rng.choice([32, 64, 100, 256]))
    x = g.leaf((int(g.rng.choice([1, 4, 16, 33])), k), str(g.rng.choice(["int8", "uint8"])))
    return g.bound(x=x, y=g.leaf((k, int(g.rng.choice([16, 64, 100]))), "int8"))


BYTES = "{x}.cast(dtypes.int32) @ {y}.cast(dtypes.int32)"
op("byte_matmul", "product", draw_byte_product, lambda d: "int32", BYTES, "{x}.astype(np.int32) @ {y}.astype(np.int32)", None, exact=True)


def draw_linear(g):
    x = g.pick("float", rank=(1, 3), fixed=True, most=1 << 16)
    if 0 in x.shape:
        return None
    n = size(g)
    return g.bound(x=x, y=g.leaf((x.shape[-1], n), x.dtype), b=g.leaf((n,), x.dtype))


op("linear", "product", draw_linear, same, "{x}.linear({y}, {b})", "kept({x} @ {y}) + {b}", "kept({x} @ {y}) + {b}", exact=True, sums=True, term_ulps=8)

FORMULAS = ["ij,jk->ik", "ij,ik->jk", "bij,bkj->bik", "ij,j->i", "ij,ij->", "ij,kl->il", "bij,bij->ij", "ij,ij->ij", "i,j->ij", "bij,jk->kib", "...ij,jk->...ik"]


def draw_einsum(g):
    formula = FORMULAS[g.rng.integers(len(FORMULAS))]
    left, right = formula.replace("...", "b").split("->")[0].split(",")
    x = g.pick("float", rank=(len(left), len(left)), fixed=True, most=1 << 15)
    sizes = dict(zip(left, x.shape))
    shape = tuple(sizes.get(c) if c in sizes else int(g.rng.integers(1, 9)) for c in right)
    y = g.like(shape, x.dtype) if g.rng.random() < 0.4 else g.leaf(shape, x.dtype)
    return g.bound(x=x, y=y, formula=formula)


op("einsum", "product", draw_einsum, common, "Tensor.einsum({formula}, {x}, {y})", "np.einsum({formula}, {x}, {y})", "torch.einsum({formula}, {x}, {y})", exact=True, sums=True, term_ulps=8, lift=True)


def pair(g, low, high):
    return (int(g.rng.integers(low, high)), int(g.rng.integers(low, high)))


def image(g, kind="float"):
    """A value with four axes, or a new one."""
    if g.large and g.rng.random() < 0.7:
        sizes = [int(g.rng.choice([7, 8, 14, 16, 28])) for _ in range(2)]
        return g.leaf((int(g.rng.integers(1, 3)), int(g.rng.choice([3, 8, 16, 32, 64])), *sizes), "float32" if g.rng.random() < 0.8 else None, kind)
    x = g.pick(kind, rank=(4, 4), fixed=True, most=1 << 14, chance=0.6)
    return x


def draw_conv(g):
    x = image(g)
    if 0 in x.shape or x.shape[1] > 64:
        return None
    channels = x.shape[1]
    groups = int(g.rng.choice([d for d in range(1, channels + 1) if channels % d == 0])) if g.rng.random() < 0.4 else 1
    kernel = whole_window(g, pair(g, 1, 4), x)
    across = int(g.rng.integers(2)) if g.rng.random() < 0.2 and max(x.shape[2:]) <= 32 else None  # one axis whole, the other step by step
    if across is not None:
        kernel = tuple(x.shape[2 + k] if k == across else 1 for k in range(2))
    elif g.large:
        kernel = (3, 3) if g.rng.random() < 0.5 else kernel
        groups = channels if g.rng.random() < 0.3 else groups
    outputs = groups * int(g.rng.integers(1, 4)) if not g.large else groups * (1 if groups > 8 else int(g.rng.choice([1, 8, 16, 64])))
    w = g.leaf((outputs, channels // groups, *kernel), x.dtype)
    bias = g.leaf((outputs,), x.dtype) if g.rng.random() < 0.4 else Text("None")
    padding = [int(v) for v in g.rng.integers(0, 3, 4)] if g.rng.random() < 0.4 else [v for v in pair(g, 0, 3) for _ in range(2)]
    stride, dilation = window_steps(g, kernel)
    if stride == kernel or g.rng.random() < 0.3:
        padding = [0, 0, 0, 0]
    if across is not None:
        stride, dilation, padding = tuple(kernel[k] if k == across else stride[k] for k in range(2)), (1, 1), [0, 0, 0, 0]
    elif g.large and g.rng.random() < 0.7:  # as nets have them
        edge = int(g.rng.integers(0, 2))
        stride, dilation, padding = (1, 1), (1, 1), [k // 2 * edge for k in reversed(kernel) for _ in range(2)]
    return g.bound(x=x, w=w, bias=bias, groups=groups, stride=stride, dilation=dilation, padding=padding)


def window_steps(g, kernel):
    """Stride and dilation; often windows side by side, which neither overlap nor leave anything out along an axis."""
    stride, dilation = pair(g, 1, 4), pair(g, 1, 3)
    side_by_side = 0.7 * g.rng.random()
    for k in range(2):
        if g.rng.random() < side_by_side:
            stride = tuple(kernel[k] if i == k else n for i, n in enumerate(stride))
            dilation = tuple(1 if i == k else n for i, n in enumerate(dilation))
    return stride, dilation


def whole_window(g, kernel, x):
    """Now and then a window as long as its image."""
    for k in range(2):
        if x.shape[2 + k] <= 6 and g.rng.random() < 0.25:
            kernel = tuple(x.shape[2 + k] if i == k else n for i, n in enumerate(kernel))
    return kernel


CONV = "conv2d({x}, {w}, {bias}, {groups}, {stride}, {dilation}, {padding}, kept)"
op("conv2d", "product", draw_conv, same, "{x}.conv2d({w}, {bias}, {groups}, {stride}, {dilation}, {padding})", CONV, CONV, exact=True, sums=True, term_ulps=8, weight=3)


def draw_conv_transpose(g):
    x = image(g)
    if 0 in x.shape or x.shape[1] > 32 or x.size > 20000:
        return None
    channels = x.shape[1]
    groups = int(g.rng.choice([d for d in range(1, channels + 1) if channels % d == 0])) if g.rng.random() < 0.4 else 1
    kernel = whole_window(g, pair(g, 1, 4), x)
    w = g.leaf((channels, int(g.rng.integers(1, 4)), *kernel), x.dtype)
    stride, dilation = window_steps(g, kernel)
    extra = tuple(int(g.rng.integers(0, max(s, d))) for s, d in zip(stride, dilation))
    return g.bound(x=x, w=w, groups=groups, stride=stride, dilation=dilation, padding=pair(g, 0, 3), extra=extra)


op(
    "conv_transpose2d",
    "product",
    draw_conv_transpose,
    same,
    "{x}.conv_transpose2d({w}, None, {groups}, {stride}, {dilation}, {padding}, {extra})",
    "conv_transpose2d({x}, {w}, {groups}, {stride}, {dilation}, {padding}, {extra})",
    "F.conv_transpose2d({x}, {w}, None, {stride}, {padding}, {extra}, {groups}, {dilation})",
    exact=True,
    sums=True,
    term_ulps=8,
    weight=3,
)


def draw_pool(g):
    x = image(g)
    if 0 in x.shape:
        return None
    kernel = pair(g, 1, 4)
    padding = tuple(int(g.rng.integers(0, k // 2 + 1)) for k in kernel)
    return g.bound(x=x, kernel=kernel, stride=pair(g, 1, 4), dilation=pair(g, 1, 3), padding=padding)


op("max_pool2d", "product", draw_pool, same, "{x}.max_pool2d({kernel}, {stride}, {dilation}, {padding})", "max_pool2d({x}, {kernel}, {stride}, {dilation}, {padding})", "max_pool2d({x}, {kernel}, {stride}, {dilation}, {padding})", exact=True, moves=True, ties=True)
op("avg_pool2d", "product", draw_pool, same, "{x}.avg_pool2d({kernel}, {stride}, 1, {padding})", "avg_pool2d({x}, {kernel}, {stride}, {padding})", "F.avg_pool2d({x}, {kernel}, {stride}, {padding})", sums=True)


def draw_ceil_pool(g):
    """A last window that sticks out; pads that count or do not."""
    x = image(g)
    if 0 in x.shape or x.size > 4000:
        return None
    kernel = pair(g, 1, 5)
    padding = tuple(int(g.rng.integers(0, k // 2 + 1)) for k in kernel)
    return g.bound(x=x, kernel=kernel, stride=pair(g, 1, 4), padding=padding, ceil=bool(g.rng.random() < 0.7), count=bool(g.rng.random() < 0.4))


op("max_pool_ceil", "product", draw_ceil_pool, same, "{x}.max_pool2d({kernel}, {stride}, 1, {padding}, {ceil})", "pooled({x}, {kernel}, {stride}, {padding}, 'max', {ceil})", "pooled_max({x}, {kernel}, {stride}, {padding}, {ceil})", exact=True, moves=True, ties=True)
op("avg_pool_ceil", "product", draw_ceil_pool, same, "{x}.avg_pool2d({kernel}, {stride}, 1, {padding}, {ceil}, {count})", "pooled({x}, {kernel}, {stride}, {padding}, 'mean', {ceil}, {count})", "F.avg_pool2d({x}, {kernel}, {stride}, {padding}, {ceil}, {count})", sums=True)


def draw_other_conv(axes):
    """A convolution over one axis, or over three."""

    def draw(g):
        x = g.pick("float", rank=(axes + 2, axes + 2), fixed=True, most=1 << 12, chance=0.5)
        if 0 in x.shape or x.shape[1] > 32:
            return None
        channels = x.shape[1]
        groups = int(g.rng.choice([d for d in range(1, channels + 1) if channels % d == 0])) if g.rng.random() < 0.3 else 1
        kernel, stride, dilation, padding = (tuple(int(n) for n in g.rng.integers(low, high, axes)) for low, high in ((1, 4), (1, 4), (1, 3), (0, 3)))
        w = g.leaf((groups * int(g.rng.integers(1, 4)), channels // groups, *kernel), x.dtype)
        return g.bound(x=x, w=w, groups=groups, stride=stride, dilation=dilation, padding=padding)

    return draw


CONVS = "{x}.conv2d({w}, None, {groups}, {stride}, {dilation}, {padding})", "conv({x}, {w}, {groups}, {stride}, {dilation}, {padding})"
op("conv1d", "product", draw_other_conv(1), same, *CONVS, "F.conv1d({x}, {w}, None, {stride}, {padding}, {dilation}, {groups})", exact=True, sums=True, term_ulps=8)
op("conv3d", "product", draw_other_conv(3), same, *CONVS, "F.conv3d({x}, {w}, None, {stride}, {padding}, {dilation}, {groups})", exact=True, sums=True, term_ulps=8)


def draw_attention(g):
    if g.large and g.rng.random() < 0.8:
        sizes = int(g.rng.integers(1, 5)), int(g.rng.choice([16, 33, 48, 64])), int(g.rng.choice([8, 16, 32]))
        q = g.leaf(sizes, str(g.rng.choice(["float32", "float32", "bfloat16"])))
    else:
        q = g.pick("wide", rank=(3, 4), fixed=True, most=1 << 14)
    if 0 in q.shape:
        return None
    keys = q.shape[-2] if g.rng.random() < 0.5 else int(g.rng.choice([32, 64, 128])) if g.large else size(g)
    causal = keys == q.shape[-2] and bool(g.rng.random() < 0.5)
    return g.bound(x=q, k=g.leaf((*q.shape[:-2], keys, q.shape[-1]), q.dtype), v=g.leaf((*q.shape[:-2], keys, size(g)), q.dtype), causal=causal)


op(
    "attention",
    "product",
    draw_attention,
    same,
    "{x}.scaled_dot_product_attention({k}, {v}, is_causal={causal})",
    "attention({x}, {k}, {v}, {causal})",
    "attention({x}, {k}, {v}, {causal})",
    sums=True,
    ulps=8,
    weight=4,
)


def draw_interpolate(g):
    x = image(g)
    if 0 in x.shape:
        return None
    return g.bound(x=x, size=pair(g, 1, 9))


# Positions are rounded as floats, so the error grows with the length of the axis.
op("interpolate", "product", draw_interpolate, same, "{x}.interpolate({size})", "interpolate({x}, {size})", "F.interpolate({x}, {size}, mode='bilinear')", sums=True, term_ulps=256)


def draw_nearest(g):
    d = draw_interpolate(g)
    return d and g.bound(**d, mode=str(g.rng.choice(["nearest", "nearest-exact"])))


op("interpolate_nearest", "product", draw_nearest, same, "{x}.interpolate({size}, {mode})", "nearest({x}, {size}, {mode} == 'nearest-exact')", "F.interpolate({x}, {size}, mode={mode})", exact=True, moves=True, weight=0.5)
op("interpolate_corners", "product", draw_interpolate, same, "{x}.interpolate({size}, 'linear', True)", "interpolate_corners({x}, {size})", "F.interpolate({x}, {size}, mode='bilinear', align_corners=True)", sums=True, term_ulps=256, weight=0.5)
