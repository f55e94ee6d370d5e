"""LATHE_INVARIANT: a row has the same bits in a batch of any size and at any position."""

import numpy as np
import pytest

from lathe import Context, Tensor, dtypes

rng = np.random.default_rng(5)


def made(*shape):
    return rng.standard_normal(shape).astype(np.float32)


W, V, K, D = made(70, 53), made(37, 70), made(8, 3, 3, 3), made(8, 1, 5, 5)


L, B = made(37, 96), rng.integers(-127, 128, (40, 8, 32), dtype=np.int8)


def weights(array, like):
    return Tensor(array).cast(like.dtype)


PARTS, SCALES = rng.integers(0, 256, (48, 8, 144), dtype=np.uint8), made(48, 8, 4, 2)


def scaled_nibbles(t):
    """The same with parts of blocks in their own order, which are stored in that of rows where there are many."""
    blocks = t.cast(dtypes.float32).reshape(-1, 8, 4, 2, 32)
    scale = (blocks.abs().max(-1) / 127).contiguous()
    rows = (blocks / scale.unsqueeze(-1)).round().cast(dtypes.int8).contiguous()
    shifts = (Tensor.arange(2) * 4).cast(dtypes.uint8).reshape(2, 1)
    codes = (Tensor(PARTS).realize()[:, :, 16:].reshape(1, 48, 8, 4, 1, 32) >> shifts) & 15
    sums = (codes.cast(dtypes.int32) * rows.unsqueeze(1).cast(dtypes.int32)).sum(-1)
    return (sums.cast(dtypes.float32) * (scale.unsqueeze(1) * Tensor(SCALES).realize())).sum((2, 3, 4))


def scaled_bytes(t):
    """Rows rounded to bytes, 32 with a scale, times such a matrix."""
    blocks = t.cast(dtypes.float32).reshape(-1, 1, 8, 32)
    scale = (blocks.abs().max(-1) / 127).contiguous()
    rows = (blocks / scale.unsqueeze(-1)).round().cast(dtypes.int8).contiguous()
    sums = (Tensor(B).reshape(1, 40, 8, 32).cast(dtypes.int32) * rows.cast(dtypes.int32)).sum(-1)
    return (sums.cast(dtypes.float32) * (scale * 0.5)).sum(-1)


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
    ("product nt of vectors", (96,), lambda t: t @ weights(L, t).T),
    ("product nn of vectors", (96,), lambda t: t @ weights(L.T, t)),
    ("norm of vectors", (7, 64), lambda t: (t * t).mean(-1) + t.max(-1)),
    ("bytes with scales", (256,), lambda t: scaled_bytes(t)),
    ("nibbles with scales of parts", (2048,), lambda t: scaled_nibbles(t)),
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
