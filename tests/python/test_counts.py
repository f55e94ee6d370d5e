"""Kernels, and counted operations and bytes, of patterns that should collapse: they may only fall."""

import numpy as np
import pytest

from lathe import GlobalCounters, Tensor


def some(*shape):
    return Tensor.rand(*shape).contiguous().realize()


def indices(below, *shape):
    return Tensor(np.random.randint(0, below, shape).astype(np.int32)).realize()


# what, arguments, kernels, operations, bytes
ROWS = {
    "arange": (lambda: Tensor.arange(1000) + 1, (), 1, 1000, 4000),
    "one_hot": (lambda i: i.one_hot(50).float().contiguous(), (("i", 50, 32),), 1, 1600, 6528),
    "rows of a large table": (lambda w, i: w[i], ((50000, 16), ("i", 50000, 128)), 1, 256, 16896),
    "embedding": (lambda w, i: w.embedding(i), ((1000, 64), ("i", 1000, 4, 16)), 1, 128, 33024),
    "embedding's gradient": (lambda w, i: w.embedding(i).sum().gradient(w)[0], ((1000, 64), ("i", 1000, 4, 16)), 2, 192, 256768),
    "cat": (lambda a, b: a.cat(b) * 2, ((64, 64), (32, 64)), 1, 6144, 49152),
    "short cumsum": (lambda a: a.cumsum(1), ((16, 64),), 1, 1024, 8192),
    "long cumsum": (lambda a: a.cumsum(1), ((4, 4096),), 1, 16384, 131072),
    # A pass over four digits each: more and much smaller kernels than merging has.
    "sort": (lambda a: a.sort()[0], ((4096,),), 29, 158720, 1028096),
    "topk": (lambda a: a.topk(5)[0], ((8, 256),), 6, 351081, 78048),
    "softmax": (lambda a: a.softmax(), ((256, 256),), 1, 393472, 524288),
    "softmax's gradient": (lambda a: a.softmax().square().sum().gradient(a)[0], ((256, 256),), 1, 918528, 524288),
    "log_softmax": (lambda a: a.log_softmax(), ((256, 256),), 1, 459264, 524288),
    "layernorm": (lambda a: a.layernorm(), ((256, 256),), 1, 394496, 524288),
    "variance": (lambda a: a.var(1), ((256, 256),), 1, 262656, 263168),
    "attention": (lambda q, k, v: q.scaled_dot_product_attention(k, v), ((2, 4, 64, 32),) * 3, 1, 4428288, 262144),
    "causal attention": (lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True), ((2, 4, 64, 32),) * 3, 1, 4432384, 262144),
    "cross_entropy": (lambda a, y: a.cross_entropy(y), ((64, 10), ("i", 10, 64)), 2, 3905, 4100),
    "layer": (lambda a, w, b: (a @ w + b).relu(), ((32, 64), (64, 128), (128,)), 1, 532480, 57856),
    "values used twice": (lambda a: a * 2 + a.exp2(), ((256, 256),), 1, 196608, 524288),
    "exp": (lambda a: a.exp(), ((256, 256),), 1, 1179648, 524288),
    "random numbers": (lambda: Tensor.rand(1000), (), 2, 132004, 4032),
}


@pytest.mark.parametrize("name", ROWS)
def test_counts_may_only_fall(name):
    function, arguments, kernels, operations, moved = ROWS[name]
    given = [indices(*a[1:]) if a[0] == "i" else some(*a) for a in arguments]
    GlobalCounters.reset()
    function(*given).realize()
    assert GlobalCounters.kernel_count <= kernels
    # How a kernel is cut may add a little for its edges.
    assert GlobalCounters.global_ops <= 1.2 * operations and GlobalCounters.global_mem <= 1.2 * moved


def test_attention_costs_little_more_than_its_parts():
    q, k, v = (some(2, 4, 64, 32) for _ in range(3))

    def counted(function):
        GlobalCounters.reset()
        out = function().realize()
        return GlobalCounters.global_ops, out.numpy()

    fused, one = counted(lambda: q.scaled_dot_product_attention(k, v))
    parts, other = counted(lambda: (q @ k.transpose(-1, -2) * 32**-0.5).contiguous().softmax(-1).contiguous() @ v)
    assert fused <= 1.3 * parts
    np.testing.assert_allclose(one, other, atol=1e-6)
