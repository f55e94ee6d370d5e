"""LATHE_INVARIANT: a row has the same bits in a batch of any size and at any position."""

import numpy as np
import pytest

from lathe import Context, Tensor, dtypes

rng = np.random.default_rng(5)


def made(*shape):
    return rng.standard_normal(shape).astype(np.float32)


W, V, K, D = made(70, 53), made(37, 70), made(8, 3, 3, 3), made(8, 1, 5, 5)


def weights(array, like):
    return Tensor(array).cast(like.dtype)


# name, shape of a row, function. Without the flag several of them differ (nt product, long sum, attention).
CASES = [
    ("product nn", (70,), lambda t: t @ weights(W, t)),
    ("product nt", (70,), lambda t: t @ weights(V, t).T),
    ("mlp", (70,), lambda t: (t @ weights(W, t)).gelu().layernorm().softmax(-1)),
    ("convolution", (3, 11, 11), lambda t: t.conv2d(weights(K, t), padding=1).relu()),
    ("depthwise", (8, 9, 9), lambda t: t.conv2d(weights(D, t), padding=2, groups=8, stride=2)),
    ("softmax", (300,), lambda t: t.softmax(-1)),
    ("log_softmax", (37,), lambda t: t.log_softmax(-1)),
    ("layernorm", (96,), lambda t: t.layernorm()),
    ("rms", (5, 64), lambda t: t * (t.square().mean(-1, keepdim=True) + 1e-5).rsqrt()),
    ("mean of all", (13, 45), lambda t: t.mean((1, 2))),
    ("mean of an axis", (13, 45), lambda t: t.mean(1)),
    ("long sum", (9000,), lambda t: t.sum(1)),
    ("variance", (13, 45), lambda t: t.var((1, 2))),
    ("logsumexp", (200,), lambda t: t.logsumexp(1)),
    ("causal attention", (2, 20, 16), lambda t: t.scaled_dot_product_attention(t, t, is_causal=True)),
    ("attention", (2, 65, 32), lambda t: t.scaled_dot_product_attention(t * 0.5, t + 1)),
    ("affine", (53,), lambda t: t * weights(W[0], t) * 2 + weights(W[1], t) * weights(W[2], t) + t),
]


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.bfloat16, dtypes.float16], ids=str)
@pytest.mark.parametrize("name, shape, function", CASES, ids=[case[0] for case in CASES])
def test_a_row_has_the_same_bits_in_any_batch(name, shape, function, dtype):
    batches = (1, 7, 64, 512) if np.prod(shape) < 1000 else (1, 7, 64)
    rows = made(batches[-1], *shape)

    def run(array):
        return function(Tensor(np.ascontiguousarray(array)).cast(dtype)).cast(dtypes.float32).numpy()

    with Context(INVARIANT=1):
        want = run(rows)
        for batch in batches[:-1]:
            for at in (0, 3, len(rows) - batch):
                np.testing.assert_array_equal(run(rows[at : at + batch]), want[at : at + batch], err_msg=f"{batch} rows at {at}")
