"""Products, convolutions, pooling, normalization, losses and linear algebra against PyTorch and numpy."""

import hashlib

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from oracle import assert_same, check

import lathe
from lathe import Context, Tensor, UserError, Variable, dtypes


def test_matmul_in_every_rank():
    for shapes in [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((1, 1), (1, 1))]:
        check(shapes, lambda x, y: x @ y)
        check(shapes, lambda x, y: x.matmul(y), lambda x, y: x.dot(y))
    with pytest.raises(ValueError, match="inner sizes differ|sizes"):
        Tensor.ones(4, 8) @ Tensor.ones(16, 8)


def test_einsum_and_linear():
    for formula, shapes in [("ij,jk->ik", ((3, 4), (4, 5))), ("bij,bjk->bik", ((2, 3, 4), (2, 4, 5))), ("ij->ji", ((3, 4),)), ("ij->", ((3, 4),)), ("i,j->ij", ((3,), (4,)))]:
        check(shapes, lambda *x: torch.einsum(formula, *x), lambda *x: Tensor.einsum(formula, *x))
    check([(2, 4), (4, 5), (5,)], lambda x, w, b: F.linear(x, w.T, b), lambda x, w, b: x.linear(w, b))
    assert Tensor([1.0, -2.0]).sequential([Tensor.relu, lambda x: x + 1]).tolist() == [2.0, 1.0]


CONV = [dict(), dict(padding=1), dict(stride=2), dict(dilation=2), dict(padding=(1, 2)), dict(stride=(2, 1), padding=1)]


@pytest.mark.parametrize("options", CONV, ids=str)
def test_conv2d(options):
    check([(2, 3, 7, 8), (4, 3, 3, 2), (4,)], lambda x, w, b: F.conv2d(x, w, b, **options), lambda x, w, b: x.conv2d(w, b, **options), atol=1e-4)
    check([(2, 4, 6, 6), (4, 2, 3, 3)], lambda x, w: F.conv2d(x, w, groups=2, **options), lambda x, w: x.conv2d(w, groups=2, **options), atol=1e-4)


def test_conv_of_one_and_three_axes_and_transposed():
    check([(2, 3, 9), (4, 3, 3)], F.conv1d, lambda x, w: x.conv2d(w), atol=1e-4)
    check([(1, 2, 4, 5, 4), (3, 2, 2, 3, 2)], F.conv3d, lambda x, w: x.conv2d(w), atol=1e-4)
    for options in [dict(), dict(stride=2), dict(padding=1), dict(stride=2, output_padding=1, padding=1), dict(dilation=2)]:
        check([(2, 3, 5, 4), (3, 4, 3, 3), (4,)], lambda x, w, b: F.conv_transpose2d(x, w, b, **options), lambda x, w, b: x.conv_transpose2d(w, b, **options), atol=1e-4)


def test_strided_conv_transpose_in_groups_and_any_number_of_axes():
    for options in [dict(stride=2, groups=2), dict(stride=(3, 2), dilation=(1, 2), groups=2, padding=(2, 1)), dict(stride=(1, 3), groups=4, output_padding=(0, 2))]:
        check([(2, 4, 5, 4), (4, 3, 3, 2)], lambda x, w: F.conv_transpose2d(x, w, **options), lambda x, w: x.conv_transpose2d(w, **options), atol=1e-4)
    check([(2, 4, 9), (4, 3, 5)], lambda x, w: F.conv_transpose1d(x, w, stride=3, padding=2), lambda x, w: x.conv_transpose2d(w, stride=3, padding=2), atol=1e-4)
    check([(1, 2, 3, 4, 2), (2, 3, 2, 3, 2)], lambda x, w: F.conv_transpose3d(x, w, stride=2), lambda x, w: x.conv_transpose2d(w, stride=2), atol=1e-4)


def test_reduces_of_a_transposed_conv_with_uneven_steps():
    options = dict(stride=(2, 3), dilation=(1, 2), padding=(1, 0), output_padding=(1, 1))
    for shapes in [[(2, 3, 5, 4), (3, 4, 3, 3)], [(3, 2, 3, 11), (2, 3, 3, 1)], [(1, 2, 4, 5), (2, 3, 3, 2)]]:
        check(shapes, lambda x, w: F.conv_transpose2d(x, w, **options).amax(0), lambda x, w: x.conv_transpose2d(w, **options).max(0), atol=1e-4)
    # Steps that a stride leaves out: the gradient of a window as long as its image.
    check([(3, 3, 3, 11), (3, 3, 3, 1)], lambda x, w: F.conv2d(x, w, stride=3).sum(1), lambda x, w: x.conv2d(w, stride=3).sum(1), atol=1e-4)


def test_pooling():
    for options in [dict(), dict(stride=1), dict(padding=1), dict(ceil_mode=True)]:
        check([(2, 3, 7, 6)], lambda x: F.max_pool2d(x, (2, 3), **options), lambda x: x.max_pool2d((2, 3), **options))
        check([(2, 3, 7, 6)], lambda x: F.avg_pool2d(x, (2, 3), **options), lambda x: x.avg_pool2d((2, 3), **options))
    check([(2, 3, 7, 6)], lambda x: F.avg_pool2d(x, 2, padding=1, count_include_pad=False), lambda x: x.avg_pool2d((2, 2), padding=1, count_include_pad=False))
    check([(2, 3, 7, 6)], lambda x: F.max_pool2d(x, 2, return_indices=True), lambda x: x.max_pool2d((2, 2), return_indices=True), grad=False)
    check([(1, 1, 4, 4)], lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), lambda x: x.max_pool2d(return_indices=True)[0].max_unpool2d(x.max_pool2d(return_indices=True)[1]), grad=False)


def test_an_element_that_is_the_maximum_of_two_windows_gets_its_gradient_once():
    x = np.random.default_rng(0).integers(-9, 9, (1, 2, 7, 6)).astype(np.float32)
    for options in (dict(stride=1, padding=1), dict(stride=2, padding=1), dict(stride=2)):
        theirs, where = F.max_pool2d(torch.tensor(x), 3, return_indices=True, **options)
        mine, places = Tensor(x).max_pool2d((3, 3), return_indices=True, **options)
        assert_same(places, where)
        assert_same(mine.max_unpool2d(places, (3, 3), output_size=x.shape, **options), F.max_unpool2d(theirs, where, 3, output_size=x.shape, **options))
    x[0, 0, 2, 2] = np.nan  # its place is that of the maximum
    assert_same(Tensor(x).max_pool2d((3, 3), stride=1, return_indices=True)[1], F.max_pool2d(torch.tensor(x), 3, 1, return_indices=True)[1])
    with pytest.raises(IndexError, match="index 77 is outside"):
        Tensor([[[[1.0, 2.0]]]]).max_unpool2d(Tensor([[[[0, 77]]]]), (1, 2)).numpy()


def test_normalizations_and_interpolation():
    check([(3, 4, 5)], lambda x: F.layer_norm(x, (5,)), lambda x: x.layernorm())
    check([(3, 4, 5)], lambda x: F.layer_norm(x, (4, 5)), lambda x: x.layernorm((-2, -1)))
    check([(2, 3, 5, 6)], lambda x: F.interpolate(x, size=(7, 4), mode="bilinear"), lambda x: x.interpolate((7, 4)))
    check([(2, 3, 5, 6)], lambda x: F.interpolate(x, size=(7, 4), mode="bilinear", align_corners=True), lambda x: x.interpolate((7, 4), align_corners=True))
    check([(2, 3, 5)], lambda x: F.interpolate(x, size=8, mode="nearest"), lambda x: x.interpolate((8,), mode="nearest"), grad=False)


def test_attention_against_its_formula():
    q, k, v = (np.random.randn(2, 3, 5, 4).astype(np.float32) for _ in range(3))

    def formula(mask=None, scale=0.5):
        scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) * scale
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True)) @ v

    x, y, z = Tensor(q), Tensor(k), Tensor(v)
    np.testing.assert_allclose(x.scaled_dot_product_attention(y, z).numpy(), formula(), rtol=1e-4, atol=1e-5)
    causal = np.tril(np.ones((5, 5), bool))
    np.testing.assert_allclose(x.scaled_dot_product_attention(y, z, is_causal=True).numpy(), formula(causal), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(x.scaled_dot_product_attention(y, z, attn_mask=Tensor(causal)).numpy(), formula(causal), rtol=1e-4, atol=1e-5)
    few = Tensor(k[:, :1]), Tensor(v[:, :1])
    many = Tensor(np.repeat(k[:, :1], 3, 1)), Tensor(np.repeat(v[:, :1], 3, 1))
    assert_same(x.scaled_dot_product_attention(*few, enable_gqa=True), x.scaled_dot_product_attention(*many).numpy())


def test_losses():
    labels = np.array([1, 0, 3, 2], dtype=np.int64)
    target = Tensor(labels.astype(np.int32))
    for reduction in ("mean", "sum", "none"):
        check([(4, 5)], lambda x: F.cross_entropy(x, torch.tensor(labels), reduction=reduction), lambda x: x.cross_entropy(target, reduction=reduction))
        check([(4, 5)], lambda x: F.nll_loss(x.log_softmax(1), torch.tensor(labels), reduction=reduction), lambda x: x.log_softmax(1).nll_loss(target, reduction=reduction))
        check([(4, 5)], lambda x: F.binary_cross_entropy(x.sigmoid(), torch.ones(4, 5) * 0.3, reduction=reduction), lambda x: x.sigmoid().binary_crossentropy(Tensor.ones(4, 5) * 0.3, reduction=reduction))
        check([(4, 5)], lambda x: F.binary_cross_entropy_with_logits(x, torch.ones(4, 5), reduction=reduction), lambda x: x.binary_crossentropy_logits(Tensor.ones(4, 5), reduction=reduction))
    check([(4, 5)], lambda x: F.cross_entropy(x, torch.tensor(labels), label_smoothing=0.2), lambda x: x.sparse_categorical_crossentropy(target, label_smoothing=0.2))
    check([(4, 5)], lambda x: F.cross_entropy(x, torch.tensor(labels), label_smoothing=0.2), lambda x: x.cross_entropy(target, label_smoothing=0.2))
    with pytest.raises(ValueError, match="reduction"):
        Tensor.ones(2, 3).cross_entropy(Tensor([0, 1]), reduction="median")


def test_dropout_works_in_training_only():
    x = Tensor.ones(1000)
    assert x.dropout(0.5).tolist() == [1.0] * 1000
    with Context(TRAINING=1):
        kept = x.dropout(0.5).numpy()
    assert set(np.unique(kept)) == {0.0, 2.0} and 300 < (kept > 0).sum() < 700


def test_linear_algebra_and_digests():
    a = np.random.randn(5, 3).astype(np.float32)
    q, r = Tensor(a).qr()
    np.testing.assert_allclose((q @ r).numpy(), a, atol=1e-4)
    u, s, v = Tensor(a).svd(full_matrices=False)
    np.testing.assert_allclose(s.numpy(), np.linalg.svd(a)[1], atol=1e-3)
    np.testing.assert_allclose((u * s.reshape(1, -1) @ v).numpy(), a, atol=1e-3)
    text = b"abc" * 50
    assert bytes(Tensor(text).keccak().tolist()) == hashlib.sha3_256(text).digest()
    assert Tensor(text).hash().shape == (16,)
    assert Tensor([1.0, 2.0]).dot(Tensor([3.0, 4.0]), dtype=dtypes.double).dtype in (dtypes.double, dtypes.float)


def test_a_factor_of_a_small_float_product_may_be_a_symbolic_size():
    n = Variable("n", 2, 7).bind(4)
    x, y = (Tensor(np.ones(shape, np.float32), dtype=dtypes.bfloat16) for shape in ((4, 3, 32), (32, 1)))
    product = x @ y
    loss = product.float().sum() + ((product * n).float() * 2.0).sum()
    assert loss.gradient(y)[0].float().tolist() == [[108.0]] * 32


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3), (1, 1), (3, 1)])
@pytest.mark.parametrize("part", ["values", "vectors"])
def test_the_gradient_of_svd_is_that_of_pytorch(shape, part):
    a = np.random.default_rng(11).standard_normal(shape)
    weights = np.random.default_rng(12).standard_normal((*shape[:-2], shape[-2], shape[-1]))

    def loss(u, s, vt, w):
        # The product of U and V^T does not depend on the signs of their columns.
        return (s * s * s).sum() if part == "values" else ((u @ vt) * w).sum()

    t = torch.tensor(a, requires_grad=True)
    (expected,) = torch.autograd.grad(loss(*torch.linalg.svd(t, full_matrices=False), torch.tensor(weights)), t)
    for svd in (lambda x: x.svd(full_matrices=False), lambda x: lathe.linalg.svd(x, full_matrices=False)):
        x = Tensor(a).requires_grad_()
        found = loss(*svd(x), Tensor(weights)).gradient(x)[0].numpy()
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-8)


def test_columns_that_svd_adds_have_no_gradient():
    x = Tensor(np.random.default_rng(13).standard_normal((4, 2))).requires_grad_()
    u, s, vt = x.svd()
    assert u.shape == (4, 4) and np.abs(s.sum().gradient(x)[0].numpy()).max() > 0
    with pytest.raises(UserError, match="have no gradient"):
        u.sum().gradient(x)


@pytest.mark.parametrize("device", ["CPU", "NULL:x86-64-v3", "NULL:x86-64-v4"])
def test_a_padded_convolution_of_an_expanded_input_compiles_in_a_wider_dtype(device):
    """Its border is stored under branches and beside them."""
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((2, 4, 3, 5, 1)).astype(np.float32), rng.standard_normal((2, 2, 1, 1, 1)).astype(np.float32)
    out = Tensor(x, device=device).expand(2, 4, 3, 5, 3).conv2d(Tensor(w, device=device), padding=1, groups=2).cast("float64")
    if device != "CPU":
        out.kernelize()
        return
    expected = F.conv3d(torch.tensor(x).expand(2, 4, 3, 5, 3), torch.tensor(w), padding=1, groups=2).double().numpy()
    np.testing.assert_allclose(out.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("form", ["full", "causal", "window", "added", "shared", "einsum", "one key", "masked row"])
def test_gradients_of_attention_against_torch(form, dtype):
    heads, kept, rows, keys, width = 4, 2 if form == "shared" else 4, 37, 1 if form == "one key" else 37, 24
    rng = np.random.default_rng(3)

    def some(n, length):
        data = Tensor(rng.normal(size=(2, n, length, width)).astype(np.float32)).cast(dtype).realize()
        return data.requires_grad_(), torch.tensor(data.cast("float32").numpy(), dtype=torch.float64, requires_grad=True)

    (q, tq), (k, tk), (v, tv), (g, tg) = some(heads, rows), some(kept, keys), some(kept, keys), some(heads, rows)
    open_ = np.ones((rows, keys), bool)
    if form in ("causal", "window"):
        open_ = np.tril(open_)
    if form == "window":
        open_ &= ~np.tril(np.ones_like(open_), -9)
    added = rng.normal(size=(rows, keys)).astype(np.float32) if form == "added" else np.zeros((rows, keys), np.float32)
    if form == "masked row":
        added[5] = -np.inf
    if form in ("window", "added", "masked row"):
        mask = Tensor(open_) if form == "window" else Tensor(added)
        out = q.scaled_dot_product_attention(k, v, attn_mask=mask)
    elif form == "einsum":
        scores = Tensor.einsum("bhid,bhjd->hbij", q.cast("float32"), k.cast("float32")) * width**-0.5
        out = Tensor.einsum("hbij,bhjd->bhid", scores.softmax(-1), v.cast("float32")).cast(dtype)
    else:
        out = q.scaled_dot_product_attention(k, v, is_causal=form == "causal", enable_gqa=form == "shared")
    grads = out.gradient(q, k, v, gradient=g.detach())
    share = heads // kept
    scores = tq @ tk.repeat_interleave(share, 1).transpose(-1, -2) * width**-0.5 + torch.tensor(added).double()
    scores = scores.masked_fill(~torch.tensor(open_), -np.inf)
    want = scores.softmax(-1) @ tv.repeat_interleave(share, 1)
    want.backward(tg.detach())
    close = {"float32": 2e-6, "bfloat16": 1.2e-2, "float16": 2e-3}[dtype]
    for got, other in zip((out, *grads), (want.detach(), tq.grad, tk.grad, tv.grad)):
        got, other = got.cast("float32").numpy(), other.numpy()
        np.testing.assert_array_equal(np.isnan(got), np.isnan(other))
        np.testing.assert_allclose(got, other, rtol=0, atol=close * max(1.0, np.nanmax(np.abs(other), initial=0)))


def test_a_total_of_the_other_axis_is_no_softmax():
    x, v = np.random.randn(96, 96).astype(np.float32), np.random.randn(96, 8).astype(np.float32)
    t = Tensor(x).realize()
    e = (t - t.max(1, keepdim=True)).exp2()
    want = np.exp2(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(((e / e.sum(1)) @ Tensor(v)).numpy(), want / want.sum(1) @ v, atol=1e-5)
