"""Tensor methods under PyTorch's names against PyTorch: over dtypes, empty tensors, axes of size 1, negative axes, NaN and ties."""

import math

import numpy as np
import pytest
import torch

from lathe import Tensor, dtypes, linalg
from lathe.methods import ALIASES, METHODS, TWINS, VIEW_TWINS

DTYPES = ["float32", "float64", "int32", "int64", "uint8", "bool"]


def make(seed, shape, dtype, kind="plain"):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith(("int", "uint")):
        return rng.integers(0 if dtype[0] == "u" else -4, 5, shape).astype(dtype)
    values = rng.uniform(-2, 2, shape)
    if kind == "ties":
        values = np.round(values)
    if kind == "nan":
        values = np.where(rng.random(shape) < 0.3, np.nan, np.round(values))
        values = np.where(rng.random(shape) < 0.2, np.inf, values)
    return np.asarray(values, dtype=dtype)


def as_numpy(x):
    if isinstance(x, torch.Tensor):
        return x.detach().numpy()
    return x.numpy() if isinstance(x, Tensor) else np.asarray(x)


def same(mine, theirs, text, tolerance=2e-5):
    if isinstance(theirs, (tuple, list)) and not isinstance(theirs, torch.Size):
        assert len(mine) == len(theirs), text
        for m, t in zip(mine, theirs):
            same(m, t, text, tolerance)
        return
    a, b = as_numpy(mine), as_numpy(theirs)
    assert a.shape == b.shape, (text, a.shape, b.shape)
    kinds = {"i": "iu", "u": "iu", "f": "f", "b": "b"}
    assert a.dtype.kind in kinds[b.dtype.kind], (text, a.dtype, b.dtype)
    if b.dtype.kind == "f" and b.dtype.itemsize == 4:
        assert a.dtype == b.dtype, (text, a.dtype, b.dtype)
    np.testing.assert_allclose(a.astype(b.dtype), b, rtol=tolerance, atol=tolerance, err_msg=text)


def run(text, arrays, grad=False, tolerance=2e-5):
    """An expression of x, y, z and T (which makes a tensor) in both libraries."""
    names = dict(zip("xyz", arrays))

    def context(maker, asked):
        given = {n: maker(a, asked and a.dtype.kind == "f") for n, a in names.items()}
        return {**given, "T": lambda v, **k: maker(np.asarray(v), False), "math": math}

    ours = context(lambda a, g: Tensor(a, requires_grad=g or None), grad)
    refs = context(lambda a, g: torch.tensor(a, requires_grad=g), grad)
    try:
        want = eval(text, refs)
    except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError):
        return None
    got = eval(text, ours)
    same(got, want, text, tolerance)
    first, ref = (got[0], want[0]) if isinstance(want, tuple) else (got, want)
    if grad and isinstance(ref, torch.Tensor) and ref.requires_grad:
        weight = make(9, tuple(ref.shape), str(ref.dtype).removeprefix("torch."))
        (first * Tensor(weight)).sum().backward()
        try:
            (ref * torch.tensor(weight)).sum().backward()
        except (RuntimeError, NotImplementedError):  # PyTorch has no derivative
            return True
        for name in names:
            if names[name].dtype.kind == "f" and refs[name].grad is not None:
                mine = ours[name].grad
                same(mine if mine is not None else Tensor.zeros(*names[name].shape, dtype=ours[name].dtype), refs[name].grad, f"gradient of {name} in {text}", 20 * tolerance)
    return True


# Expressions of x (3, 4), y (3, 4), z (3, 4).
ELEMENTWISE = """
x.absolute() | x.arccos() | x.arcsin() | x.arctan() | x.arcsinh() | x.arctanh() | x.addcmul(y, z, value=2) | x.addcdiv(y, z, value=2) | x.atan2(y)
x.arctan2(y) | x.clamp_min(1) | x.clamp_max(1) | x.clamp(min=0) | x.clamp(max=1) | x.clip(min=-1, max=1) | x.deg2rad() | x.rad2deg() | x.erfc()
x.erfinv() | x.float_power(2) | x.fmax(y) | x.fmin(y) | x.frac() | x.gcd(y) | x.lcm(y) | x.heaviside(y) | x.hypot(y) | x.i0() | x.isneginf()
x.isposinf() | x.isreal() | x.ldexp(y) | x.logaddexp2(y) | x.logical_and(y) | x.logical_or(y) | x.logical_xor(y) | x.logit(0.1) | x.nan_to_num()
x.nan_to_num(1.0, 2.0, 3.0) | x.positive() | x.detach().sgn() | x.signbit() | x.sinc() | x.xlogy(y) | x.add(y, alpha=2) | x.sub(y, alpha=2) | x.sub(2, alpha=3)
x.divide(y) | x.multiply(y) | x.subtract(y) | x.true_divide(y) | x.negative() | x.greater(y) | x.greater_equal(1) | x.less(y) | x.less_equal(y)
x.not_equal(y) | x.fix() | x.hardshrink(0.3) | x.prelu(T([0.25]).to(x.dtype)) | x.round(decimals=1) | x.mul(other=y) | x.eq(other=y)
x.bitwise_left_shift(y.abs()) | x.bitwise_right_shift(y.abs()) | x.remainder(2) | x.float() | x.byte() | x.char() | x.type_as(y)
""".replace("\n", "|").split("|")  # fmt: skip
OTHERS = """
x.amax(1) | x.amin(0, True) | x.amax((0, 1)) | x.aminmax() | x.aminmax(dim=1) | x.count_nonzero() | x.count_nonzero(1) | x.nansum() | x.nansum(1, True)
x.nanmean() | x.nanmean(-1) | x.norm() | x.norm(1) | x.norm(2, 1) | x.norm(math.inf, 0) | x.norm(3, -1, True) | x.norm(-math.inf, 1) | x.norm(0, 1) | x.norm(p="fro")
x.dist(y) | x.dist(y, 1) | x.renorm(2, 0, 1.0) | x.kthvalue(2)[0] | x.kthvalue(3, 0, True)[0] | x.median() | x.median(1)[0] | x.median(dim=0, keepdim=True)[0]
x.nanmedian() | x.nanmedian(1)[0] | x.mode()[0] | x.mode(0)[0] | x.quantile(0.3) | x.quantile(0.4, 1) | x.quantile(T([0.0, 0.25, 1.0]).to(x.dtype), 0, True)
x.quantile(0.3, 1, interpolation="lower") | x.quantile(0.3, interpolation="higher") | x.quantile(0.45, interpolation="midpoint") | x.quantile(0.45, interpolation="nearest")
x.nanquantile(0.3) | x.nanquantile(0.3, 1) | x.msort() | x.cov() | x.corrcoef() | x[0].cov() | x.equal(y) | x.equal(x) | x.max(dim=1) | x.min(dim=0, keepdim=True)
x.max(dim=-1)[0] | x.max(y) | x.min(y) | x.sum(dim=1) | x.sum(dim=(0, 1), keepdim=True) | x.mean(dim=1) | x.var(dim=1, unbiased=False) | x.std(dim=0, unbiased=True)
x.argmax(dim=1) | x.argmin(dim=0, keepdim=True) | x.cumsum(dim=1) | x.cumprod(dim=0) | x.cumsum(0, dtype=y.dtype) | x.softmax(dim=1) | x.log_softmax(dim=0) | x.bool().all(dim=1) | x.bool().any(dim=0)
x.logsumexp(dim=1) | x.prod(dim=1) | x.flip(dims=(0,)) | x.roll(1, dims=1) | x.squeeze(dim=0) | x.unsqueeze(dim=-1)
x.broadcast_to((2, 3, 4)) | x[:1].expand_as(y) | x.reshape_as(y.T) | x.view_as(y) | x.sum_to_size(1, 4) | x.t() | x[0].t() | x.ravel() | x.fliplr() | x.flipud() | x.rot90()
x.rot90(2) | x.rot90(-1) | x.rot90(3, (1, 0)) | x.tile(2) | x.tile((2, 1)) | x.tile((2, 1, 3)) | x.unbind() | x.unbind(1) | x.unbind(-1) | x.narrow(1, 1, 2) | x.narrow(-1, -2, 2) | x.narrow(0, 0, 0)
x.select(1, 2) | x.select(-1, -1) | x.tensor_split(2) | x.tensor_split(3, 1) | x.tensor_split((1, 3), 1) | x.tensor_split((2, 1), -1) | x.tensor_split((-1,), 1) | x.hsplit(2) | x.vsplit(3)
x.split_with_sizes([1, 3], 1) | x[0].diagflat() | x[0].diagflat(-1) | x.diag_embed() | x.diag_embed(1) | x.diag_embed(-2, 0, 2) | x.diag() | x.diag(1) | x.diag(-1) | x[0].diag(1) | x[0].diag() | x.trace()
x.diff() | x.diff(2) | x.diff(1, 0) | x.diff(dim=0, prepend=y) | x.diff(5) | x.unsqueeze(0).squeeze(0) | x.movedim((0, 1), (1, 0)) | x.moveaxis(0, 1) | x.swapaxes(0, 1) | x.swapdims(-1, 0)
x.repeat_interleave(T([1, 0, 2]), 0) | x.repeat_interleave(2) | x.adjoint() | x.mT | x.mH | x.H
x.index_select(1, T([2, 0])) | x.index_select(-2, T([0])) | x.take(T([0, -1, 5])) | x.take_along_dim(T([[0, 3], [1, 1], [2, 0]]), 1) | x.take_along_dim(T([[2]]), 0) | x.take_along_dim(T([7, 0]))
x.index_add(1, T([0, 0, 3]), y[:, :3]) | x.index_add(0, T([2, 2]), y[:2], alpha=2) | x.index_copy(1, T([3, 0]), y[:, :2]) | x.index_fill(1, T([0, -1]), 1) | x.index_fill(0, T([1]), 0)
x.index_reduce(0, T([1, 1]), y[:2], "amax") | x.index_reduce(1, T([0, 0]), y[:, :2], "prod", include_self=False) | x.index_put((T([0, 2]), T([1, 3])), y[0, :2]) | x.index_put((T([0, 0]),), y[:2], True)
x.put(T([0, 5, -1]), y[0, :3]) | x.put(T([0, 0]), y[0, :2], True) | x.scatter_add(1, T([[0, 0], [1, 2], [3, 3]]), y[:, :2]) | x.masked_scatter(z > 0, y) | x.select_scatter(y[0], 0, 1) | x.select_scatter(y[:, 0], -1, -1)
 x.slice_scatter(y[:, :2], 1, 0, 4, 2) | x.diagonal_scatter(y[:, 0]) | x.diagonal_scatter(y[:2, 0], -1) | x.diagonal_scatter(y[:, 0], 1) | x.argwhere()
x.unique() | x.unique(return_inverse=True) | x.unique(return_inverse=True, return_counts=True) | x.reshape(-1).unique_consecutive(return_counts=True) | x.histc(5, -2, 2) | x.histc(4)
x.mm(y.T) | x.mv(y[0]) | x[0].outer(y[1]) | x[0].ger(y[1]) | x.inner(y) | x[0].inner(y[1]) | x[0].vdot(y[0]) | x[:, :3].addmm(y, z.T) | x[:, :3].addmm(y, z.T, beta=0, alpha=2) | x[:, 0].addmv(y, z[0], beta=2) | x.addr(y[:, 0], z[0])
x.unsqueeze(0).bmm(y.T.unsqueeze(0)) | x[:, :3].unsqueeze(0).baddbmm(y.unsqueeze(0), z.T.unsqueeze(0)) | x[:, :3].addbmm(y.unsqueeze(0), z.T.unsqueeze(0)) | x.kron(y) | x[0].kron(y[1]) | x[:, :3].cross(y[:, :3]) | x[:, :3].cross(y[:, :3], dim=0)
x.dim() | x.ndimension() | x.nelement() | x.stride() | x.stride(0) | x.is_contiguous() | x.is_complex() | x.is_signed() | x.is_same_size(y) | x.get_device() | x[0, :1].is_nonzero() | x.new_zeros(2, 3) | x.new_ones((2,)) | x.new_full((2,), 1) | x.new_tensor([1, 0])
x.resolve_conj() | x.conj() | x.cpu()
""".replace("\n", "|").split("|")  # fmt: skip
ROWS = [row.strip() for row in (*ELEMENTWISE, *OTHERS) if row.strip()]


@pytest.mark.parametrize("text", ROWS)
def test_a_method_equals_pytorchs_over_dtypes(text):
    ran = 0
    for dtype in DTYPES:
        grad = dtype == "float64"
        arrays = [make(i, (3, 4), dtype) for i in range(3)]
        ran += bool(run(text, arrays, grad, 1e-9 if dtype == "float64" else 2e-5))
    assert ran, f"PyTorch ran {text} for no dtype"


NAN = [r for r in ROWS if not any(w in r for w in ("i0", "erfc", "mm(", "cov", "corr", "mode", "histc", "unique", "renorm", "byte", "char", "prelu", "cholesky", "kron", "addm", "addb", "baddb", "quantile(0.3, 1)", "quantile(0.4"))]


@pytest.mark.parametrize("text", [r for r in NAN if any(w in r for w in (
    "max", "min", "median", "quantile", "nan", "sort", "kth", "heaviside", "hypot", "sign", "xlogy", "logaddexp", "inf", "count", "atan2", "equal", "norm(", "frac", "where"))])  # fmt: skip
def test_a_method_treats_nan_infinities_and_ties_as_pytorchs(text):
    for kind in ("nan", "ties"):
        run(text, [make(i + 20, (3, 4), "float32", kind) for i in range(3)])


EMPTY = """
x.amax(1) | x.nansum() | x.norm() | x.count_nonzero() | x.diff() | x.unbind(1) | x.tile(2) | x.ravel() | x.unique() | x.argwhere() | x.mm(y.T) | x.take_along_dim(T(np.zeros((0, 2), int)), 1)
x.flipud() | x.rot90() | x.narrow(0, 0, 0) | x.tensor_split(2) | x.index_select(1, T([0, 1])) | x.logical_and(y) | x.fmax(y) | x.sum(dim=0) | x.diag_embed() | x.t() | x.cov() | x.nan_to_num() | x.equal(y) | x.new_zeros(0)
""".replace("\n", "|").split("|")  # fmt: skip


@pytest.mark.parametrize("text", [row.strip() for row in EMPTY if row.strip()])
def test_a_method_of_an_empty_tensor_equals_pytorchs(text):
    if "np." in text:
        return
    run(text, [make(i, (0, 4), "float32") for i in range(2)])


@pytest.mark.parametrize("text", ["x.amax(0)", "x.median(0)[0]", "x.mode(0)[0]", "x.max(dim=0)", "x.quantile(0.5, 0)", "x.kthvalue(1, 0)", "x.diff(dim=0)", "x.unbind(0)", "x.norm(2, 0)", "x.std(dim=1)", "x.cov()", "x.rot90()"])
def test_a_method_of_an_axis_of_size_one_equals_pytorchs(text):
    for dtype in ("float32", "int32"):
        run(text, [make(i, (1, 4), dtype) for i in range(2)])


EDGES = np.array([-np.inf, np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 100.0, -100.0, 1e-6, 2.5, -0.3])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("text", ["x.atan2(y)", "x.ldexp(y)", "x.xlogy(y)", "x.fmax(y)", "x.fmin(y)", "x.erfc()", "x.lgamma()", "x.i0()"])
def test_values_and_slopes_at_the_edges_equal_pytorchs(text, dtype):
    arrays = [np.repeat(EDGES, EDGES.size).astype(dtype), np.tile(EDGES, EDGES.size).astype(dtype)]
    mine, theirs = [Tensor(a, requires_grad=True) for a in arrays], [torch.tensor(a, requires_grad=True) for a in arrays]
    got, want = eval(text, dict(zip("xy", mine))), eval(text, dict(zip("xy", theirs)))
    tolerance = 1e-4 if dtype == "float32" else 1e-10
    same(got, want, text, tolerance)
    got.sum().backward()
    want.sum().backward()
    fixed = ~np.isnan(arrays[0]) & ~np.isnan(arrays[1])  # of NaN, either choice is as good
    for m, t in zip(mine, theirs):
        if t.grad is None:
            continue
        at = fixed & np.isfinite(t.grad.numpy())  # where there is no slope, 0 may stand
        np.testing.assert_allclose(m.grad.numpy()[at], t.grad.numpy()[at], rtol=20 * tolerance, atol=tolerance, err_msg=text)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_stays_half(dtype):
    x, y = Tensor([1.0, 0.0], dtype=dtype), Tensor([2.0, -1.0], dtype=dtype)
    for out in (x.atan2(y), x.ldexp(y), x.hypot(y), x.cosine_similarity(y, dim=0), x.quantile(0.5)):
        assert out.dtype == x.dtype
    assert Tensor.zeros(3, dtype=dtype).cosine_similarity(Tensor.ones(3, dtype=dtype), dim=0).item() == 0
    many = np.arange(5000) % 2000  # more elements than half has whole numbers
    assert Tensor(many, dtype="float16").quantile(0.5).item() == np.quantile(many, 0.5)


def test_an_axis_of_a_similarity_is_one_of_both_tensors_together():
    x, y = make(1, (1, 2, 3), "float32"), make(2, (2, 1, 3), "float32")
    same(Tensor(x).cosine_similarity(Tensor(y), -2), torch.cosine_similarity(torch.tensor(x), torch.tensor(y), -2), "cosine_similarity")


def test_a_quantile_has_a_slope_by_its_part():
    theirs, mine = torch.tensor([0.2, 0.55], requires_grad=True), Tensor([0.2, 0.55], requires_grad=True)
    x = make(3, (3, 7), "float32")
    torch.tensor(x).quantile(theirs, 1).sum().backward()
    Tensor(x).quantile(mine, 1).sum().backward()
    same(mine.grad, theirs.grad, "quantile")
    run("x.quantile(0.3)", [np.array(1.5, np.float32)])


def test_special_functions_equal_pytorchs_over_their_range():
    x = np.concatenate([np.linspace(-7.9, 8, 81), [0.5, 1, 2, 100.0, 1e-3, -0.5]]).astype(np.float32)
    for text, tolerance in (("x.lgamma()", 2e-4), ("x.digamma()", 2e-4), ("x.erfc()", 1e-5), ("x.i0()", 1e-4), ("x.sinc()", 1e-5), ("x.frexp()", 1e-6)):
        run(text, [x], tolerance=tolerance)
    run("x.erfinv()", [np.linspace(-1, 1, 41).astype(np.float32)], tolerance=1e-5)
    run("x.erfinv()", [np.linspace(-1, 1, 41)], tolerance=1e-10)
    run("x.mvlgamma(2)", [np.linspace(1, 5, 9).astype(np.float32)], tolerance=1e-4)
    run("x.nextafter(y)", [np.array([0.0, 1.0, -1.0, 2.0], np.float32), np.array([1.0, 2.0, -5.0, 2.0], np.float32)], tolerance=0)
    run("x.atan2(y)", [np.array([0.0, -0.0, 0.0, -0.0, 1.0, np.inf, -np.inf], np.float32), np.array([1.0, 1.0, -1.0, -1.0, 0.0, np.inf, -np.inf], np.float32)])
    run("x.lgamma()", [np.array([0.0, -1.0, np.inf, np.nan], np.float32)])


def test_counting_and_searching_equal_pytorchs():
    x = np.array([1, 1, 3, 0], np.int64)
    run("x.bincount()", [x])
    run("x.bincount(minlength=6)", [x])
    run("x.bincount(weights=y)", [x, np.array([0.5, 1, 2, 3], np.float32)])
    values = np.array([[0.0, 1.0, 1.0, 4.0], [2.0, 2.0, 3.0, 9.0]], np.float32)
    asked = np.array([[1.0, 5.0], [2.0, np.nan]], np.float32)
    for right in (False, True):
        same(Tensor(values).searchsorted(Tensor(asked), right=right), torch.searchsorted(torch.tensor(values), torch.tensor(asked), right=right), "searchsorted")
        same(Tensor(asked).bucketize(Tensor(values[0]), right=right), torch.bucketize(torch.tensor(asked), torch.tensor(values[0]), right=right), "bucketize")
    same(Tensor(asked[0]).histogram(3, range=(0.0, 6.0)), tuple(torch.histogram(torch.tensor(asked[0]), 3, range=(0.0, 6.0))), "histogram")
    with pytest.raises(ValueError, match="is negative"):
        Tensor([-1, 2]).bincount()


def test_products_and_distances_equal_pytorchs():
    a, b = make(1, (2, 3, 4), "float32"), make(2, (4, 3, 5), "float32")
    same(Tensor(a).tensordot(Tensor(b), ([2, 1], [0, 1])), torch.tensordot(torch.tensor(a), torch.tensor(b), ([2, 1], [0, 1])), "tensordot")
    same(Tensor(a).trapezoid(), torch.trapezoid(torch.tensor(a)), "trapezoid")
    same(Tensor(a).trapezoid(dx=0.5, dim=1), torch.trapezoid(torch.tensor(a), dx=0.5, dim=1), "trapezoid")
    x, y = make(3, (5, 3), "float32"), make(4, (4, 3), "float32")
    for p in (1.0, 2.0, math.inf, 3.0):
        same(Tensor(x).cdist(Tensor(y), p), torch.cdist(torch.tensor(x), torch.tensor(y), p), "cdist")
    same(Tensor(x).cosine_similarity(Tensor(x[::-1].copy())), torch.cosine_similarity(torch.tensor(x), torch.tensor(x[::-1].copy())), "cosine")


# ---- in place


@pytest.mark.parametrize("text", """x.add_(y) | x.sub_(1) | x.mul_(y) | x.div_(2) | x.pow_(2) | x.clamp_(0, 1) | x.clamp_(min=0) | x.exp_() | x.sqrt_() | x.neg_() | x.abs_() | x.relu_() | x.sigmoid_() | x.tanh_() | x.zero_()
x.fill_(3) | x.copy_(y) | x.copy_(y[:1]) | x.masked_fill_(y > 0, 0) | x.index_fill_(0, T([1]), 2) | x.index_add_(0, T([1]), y[:1]) | x.scatter_(1, T([[0, 1]]), 2.0) | x.eq_(y) | x.lt_(y) | x.round_() | x.addcmul_(y, y) | x.lerp_(y, 0.5) | x.tril_()
x.cumsum_(1) | x.floor_divide_(2) | x.remainder_(2) | x.logical_not_() | x.fill_diagonal_(7) | x.transpose_(0, 1) | x.unsqueeze_(0) | x.squeeze_() | x.t_() | x.swapaxes_(0, 1) | x.atan2_(y) | x.fmod_(2) | x.index_put_((T([0]),), y[:1]) | x.put_(T([0]), y[0, :1])
""".replace("\n", "|").split("|"))  # fmt: skip
def test_a_method_in_place_writes_the_tensor_and_gives_it(text):
    text = text.strip()
    if not text:
        return
    for dtype in ("float32", "int32", "bool"):
        arrays = [make(i, (3, 4), dtype) for i in range(2)]
        refs = {n: torch.tensor(a) for n, a in zip("xy", arrays)}
        try:
            eval(text, {**refs, "T": torch.tensor})
        except RuntimeError:
            continue
        ours = {n: Tensor(a) for n, a in zip("xy", arrays)}
        result = eval(text, {**ours, "T": Tensor})
        assert result is ours["x"], text
        same(ours["x"], refs["x"], text)
        assert str(ours["x"].dtype) == f"dtypes.{dtype}"


def test_what_a_dtype_cannot_hold_is_not_written_in_place():
    with pytest.raises(TypeError, match="which int32 cannot hold"):
        Tensor([1, 2]).add_(1.5)
    with pytest.raises(ValueError, match="the result has shape"):
        Tensor([1.0]).add_(Tensor([1.0, 2.0]))
    base = Tensor.zeros(2, 2).contiguous().realize()
    base[0].add_(1)
    assert base.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_random_fills_have_their_distribution():
    x = Tensor.zeros(4000).contiguous()
    for call, mean, std in (("uniform_(-1, 3)", 1, 4 / 12**0.5), ("normal_(2, 0.5)", 2, 0.5), ("exponential_(2.0)", 0.5, 0.5), ("bernoulli_(0.3)", 0.3, 0.458), ("geometric_(0.5)", 2, 1.41), ("random_(0, 4)", 1.5, 1.118)):
        values = eval(f"x.{call}", {"x": x}).numpy()
        assert abs(values.mean() - mean) < 0.1 and abs(values.std() - std) < 0.12, call


# ---- linear algebra


def spd(shape, seed=0):
    a = make(seed, shape, "float64")
    return a @ np.swapaxes(a, -1, -2) + 0.5 * np.eye(shape[-1])


LINALG = [
    ("inv", (4, 4), None), ("inv", (2, 3, 3), None), ("inv", (1, 1), None), ("det", (4, 4), None), ("det", (2, 3, 3), None), ("slogdet", (3, 4, 4), None),
    ("cholesky", (4, 4), "spd"), ("cholesky", (2, 3, 3), "spd"), ("pinv", (4, 3), None), ("pinv", (2, 3, 4), None), ("matrix_exp", (4, 4), None),
    ("eigvalsh", (4, 4), "spd"), ("eigvalsh", (2, 3, 3), "symmetric"), ("svdvals", (4, 3), None), ("matrix_rank", (3, 3), None),
]  # fmt: skip


@pytest.mark.parametrize("name,shape,kind", LINALG, ids=[f"{r[0]}-{r[1]}" for r in LINALG])
def test_linear_algebra_equals_pytorchs_with_gradients(name, shape, kind):
    for dtype in ("float64", "float32"):
        a = (spd(shape) if kind == "spd" else make(5, shape, "float64")).astype(dtype)
        a = (a + np.swapaxes(a, -1, -2)) / 2 if kind == "symmetric" else a
        ours, refs = Tensor(a, requires_grad=True), torch.tensor(a, requires_grad=True)
        got, want = getattr(linalg, name)(ours), getattr(torch.linalg, name)(refs)
        want = tuple(want) if isinstance(want, tuple) else want
        tolerance = 1e-7 if dtype == "float64" else 2e-3
        same(got, want, name, tolerance)
        first, ref = (got[1], want[1]) if isinstance(want, tuple) else (got, want)
        if ref.requires_grad and name != "pinv":
            weight = make(8, tuple(ref.shape), dtype)
            (first * Tensor(weight)).sum().backward()
            (ref * torch.tensor(weight)).sum().backward()
            theirs = refs.grad
            mine = ours.grad.numpy()
            if kind is not None:  # a symmetric matrix: only the symmetric part of the gradient is determined
                theirs, mine = (theirs + theirs.mT) / 2, (mine + np.swapaxes(mine, -1, -2)) / 2
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=50 * tolerance, atol=50 * tolerance)


def test_solve_equals_pytorchs_for_matrices_vectors_and_batches():
    for sa, sb in (((4, 4), (4, 2)), ((4, 4), (4,)), ((2, 3, 3), (2, 3, 2)), ((3, 3), (2, 3, 2)), ((2, 3, 3), (2, 3))):
        a, b = make(1, sa, "float64"), make(2, sb, "float64")
        ours, refs = [Tensor(v, requires_grad=True) for v in (a, b)], [torch.tensor(v, requires_grad=True) for v in (a, b)]
        got, want = linalg.solve(*ours), torch.linalg.solve(*refs)
        same(got, want, f"solve {sa} {sb}", 1e-8)
        got.square().sum().backward(), want.square().sum().backward()
        for x, r in zip(ours, refs):
            same(x.grad, r.grad, "gradient of solve", 1e-6)
    swapped = np.array([[0.0, 1.0], [1.0, 0.0]])  # needs another row as a pivot
    same(linalg.inv(Tensor(swapped)), torch.tensor(swapped), "inv")
    assert linalg.det(Tensor(swapped)).item() == -1.0


def test_eigenvectors_and_factors_multiply_to_the_matrix():
    a = spd((2, 4, 4))
    values, vectors = linalg.eigh(Tensor(a))
    made = vectors.numpy() * values.numpy()[:, None, :] @ np.swapaxes(vectors.numpy(), -1, -2)
    np.testing.assert_allclose(made, a, atol=1e-8)
    m = make(3, (5, 3), "float64")
    q, r = linalg.qr(Tensor(m))
    assert q.shape == (5, 3) and r.shape == (3, 3)
    np.testing.assert_allclose(q.numpy() @ r.numpy(), m, atol=1e-8)
    found = linalg.lstsq(Tensor(m), Tensor(make(4, (5, 2), "float64")))
    for mine, theirs in zip(found, np.linalg.lstsq(m, make(4, (5, 2), "float64"), rcond=None)):
        np.testing.assert_allclose(mine.numpy(), theirs, atol=1e-7)
    for n in (-2, 0, 1, 5):
        same(linalg.matrix_power(Tensor(a), n), torch.linalg.matrix_power(torch.tensor(a), n), f"matrix_power {n}", 1e-5)
    square = make(6, (3, 3), "float64")
    for order in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        same(linalg.norm(Tensor(square), order), torch.linalg.norm(torch.tensor(square), order), f"norm {order}", 1e-7)
    b = make(7, (3, 2), "float64")
    for upper in (True, False):
        same(linalg.solve_triangular(Tensor(square), Tensor(b), upper=upper), torch.linalg.solve_triangular(torch.tensor(square), torch.tensor(b), upper=upper), "triangular", 1e-7)


def test_a_matrix_without_an_answer_is_refused_in_words():
    singular = Tensor([[1.0, 2.0], [2.0, 4.0]])
    with pytest.raises(ValueError, match="solve: the matrix is singular"):
        singular.inverse().numpy()
    assert singular.det().item() == 0 and linalg.slogdet(singular)[1].item() == -math.inf
    with pytest.raises(ValueError, match="not positive definite"):
        Tensor([[1.0, 2.0], [2.0, 1.0]]).cholesky().numpy()
    with pytest.raises(ValueError, match="needs a square matrix, not 2 by 3"):
        Tensor.ones(2, 3).inverse()
    with pytest.raises(ValueError, match="at least 2 axes"):
        Tensor.ones(3).det()


# ---- wrong calls


MISTAKES = [
    (lambda x: x.sum(axes=1), "lathe: sum: cannot be called with (axes=int)\n  note: it takes (axis, keepdim, dtype)\n  help: there is no argument axes; did you mean axis?"),
    (lambda x: x.relu(1), "lathe: relu: cannot be called with (int)\n  note: it takes ()\n  help: at most 0 arguments are needed, 1 were given"),
    (lambda x: x.add("a"), "lathe: add: cannot be called with (str)\n  note: it takes (x, reverse)\n  help: a number or a Tensor is needed where something else was given"),
    (lambda x: x.transpose(0, 1, 2), "lathe: transpose: cannot be called with (int, int, int)\n  note: it takes (dim0, dim1)\n  help: at most 2 arguments are needed, 3 were given"),
    (lambda x: x.mm(Tensor([1.0])), "lathe: mm: needs 2 axes, not shape (1,)\n  help: matmul takes any number of axes"),
    (lambda x: x.narrow(0, 1, 9), "lathe: narrow: 1 to 10 is not inside axis 0 of size 2"),
    (lambda x: x.unbind(5), "lathe: unbind: there is no axis 5 in a tensor of shape (2, 2)"),
    (lambda x: x.kthvalue(3), "lathe: kthvalue: k is 3, the axis has 2 elements"),
    (lambda x: x.quantile(1.5), "lathe: quantile: q is 1.5, not from 0 to 1"),
]  # fmt: skip


@pytest.mark.parametrize("call,text", MISTAKES, ids=[m[1].split(":")[1].strip() for m in MISTAKES])
def test_a_wrong_call_is_answered_in_words(call, text):
    with pytest.raises((TypeError, ValueError, IndexError)) as error:
        call(Tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert str(error.value) == text


def test_replacing_a_tensor_by_one_of_another_shape_changes_its_shape():
    x = Tensor([1.0, 2.0])
    assert x.shape == (2,) and x.replace(Tensor([[3.0], [4.0], [5.0]]), True).shape == (3, 1) and x.tolist() == [[3.0], [4.0], [5.0]]
    assert Tensor.ones(1, 2, 1).squeeze((0, 2)).shape == (2,) and Tensor.ones(2, 3).flip(dims=(0,)).shape == (2, 3)


def test_integers_are_taken_where_floats_are_meant():
    x = Tensor([-1.0, 2.0])
    assert x.leaky_relu(1).tolist() == [-1.0, 2.0] and x.hardtanh(0, 1).tolist() == [0.0, 1.0] and x.hardtanh().tolist() == [-1.0, 1.0]
    assert x.softplus(1, 20).shape == (2,) and x.elu(alpha=2).shape == (2,) and x.dropout(0).tolist() == [-1.0, 2.0]


def test_every_name_of_the_tables_is_a_method():
    for name in [*ALIASES, *(n for names in METHODS.values() for n in names.split()), *(f"{n}_" for n in (*TWINS.split(), *VIEW_TWINS.split()))]:
        assert getattr(Tensor, name).__doc__, name
    assert str(Tensor([1]).to(dtypes.float16).dtype) == "dtypes.float16" and Tensor([1]).to(Tensor([2.0])).dtype is dtypes.float32
