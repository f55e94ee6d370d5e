"""Results of several parts under PyTorch's names, and calls at the edges of what methods take, against PyTorch."""

import math

import numpy as np
import pytest
import torch
from oracle import assert_same

import lathe
from lathe import Tensor, UserError


def make(seed, shape):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def same(mine, theirs, what, tolerance=0.0):
    try:
        assert_same(mine, theirs, rtol=tolerance, atol=tolerance)
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from None


def test_results_of_several_parts_have_pytorchs_names():
    a = make(1, (4, 3))
    for call in (
        lambda t, x: t.linalg.svd(x, full_matrices=False), lambda t, x: t.linalg.qr(x), lambda t, x: t.linalg.eigh(x.T @ x),
        lambda t, x: t.linalg.slogdet(x.T @ x), lambda t, x: t.linalg.lstsq(x, x[:, :1]), lambda t, x: t.svd(x), lambda t, x: t.qr(x),
        lambda t, x: x.max(dim=1), lambda t, x: x.min(dim=0), lambda t, x: x.sort(), lambda t, x: x.topk(2), lambda t, x: x.mode(), lambda t, x: x.median(dim=0),
        lambda t, x: x.kthvalue(2), lambda t, x: x.cummax(0), lambda t, x: x.cummin(0), lambda t, x: x.aminmax(), lambda t, x: t.triangular_solve(x[:3], x[:3]),
    ):  # fmt: skip
        mine, theirs = call(lathe, Tensor(a)), call(torch, torch.tensor(a))
        names = [n for n in dir(theirs) if not n.startswith(("_", "n_")) and n not in ("count", "index")]
        assert sorted(mine._fields) == sorted(names), (mine._fields, names)
        for name in names:
            if name not in ("singular_values", "residuals"):  # which PyTorch leaves out with its default driver
                same(getattr(mine, name).abs(), getattr(theirs, name).abs(), name, 1e-4)


def test_the_older_factors_have_pytorchs_form():
    for shape in ((4, 3), (3, 4)):
        a = make(2, shape)
        for some in (True, False):
            u, s, v = lathe.svd(Tensor(a), some=some)
            wanted = torch.svd(torch.tensor(a), some=some)
            assert [tuple(t.shape) for t in (u, s, v)] == [tuple(t.shape) for t in wanted]
            k = min(shape)
            same(u[:, :k] * s @ v[:, :k].T, torch.tensor(a), "svd", 1e-5)
            q, r = lathe.qr(Tensor(a), some=some)
            assert [tuple(t.shape) for t in (q, r)] == [tuple(t.shape) for t in torch.qr(torch.tensor(a), some=some)]


@pytest.mark.parametrize("p", [0.3, 0.5, 0, 1, 1.5, 2, 3, -1, -0.5, math.inf, -math.inf])
def test_the_gradient_of_a_norm_at_zeros_is_pytorchs(p):
    for rows in ([[0.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [2.0, -3.0]], [[0.0, 0.0], [1.0, 1.0]]):
        for call in (lambda t, x: x.norm(p), lambda t, x: x.norm(p, dim=1), lambda t, x: t.linalg.vector_norm(x, p, dim=0), lambda t, x: t.nn.functional.normalize(x, p=p)):
            ours, refs = lathe.tensor(rows, requires_grad=True), torch.tensor(rows, requires_grad=True)
            mine, theirs = call(lathe, ours), call(torch, refs)
            same(mine, theirs, f"norm {p}", 1e-5)
            mine.sum().backward(), theirs.sum().backward()
            if refs.grad is not None:  # counting what is not 0 has none
                same(ours.grad, refs.grad, f"gradient of norm {p} at {rows}", 1e-4)


def test_sublists_of_einsum_are_axes_by_number():
    a, b, c = make(1, (2, 3)), make(2, (3, 4)), make(3, (5, 2, 2))
    for call in (
        lambda t, a, b, c: t.einsum(a, [0, 1], b, [1, 2], [0, 2]), lambda t, a, b, c: t.einsum(a, [0, 1], b, [1, 2]), lambda t, a, b, c: t.einsum(a, [30, 2], [2]),
        lambda t, a, b, c: t.einsum(c, [..., 0, 0], [...]), lambda t, a, b, c: t.einsum(c, [Ellipsis, 1, 0], a, [0, 2], [Ellipsis, 2]),
    ):  # fmt: skip
        same(call(lathe, *map(Tensor, (a, b, c))), call(torch, *map(torch.tensor, (a, b, c))), "einsum", 1e-5)
    with pytest.raises(UserError, match="each tensor is followed by the list of its axes"):
        lathe.einsum(Tensor(a), [0, 1], Tensor(b))


def test_slices_of_an_axis_are_told_apart():
    a = np.random.RandomState(0).randint(0, 2, (6, 2, 2)).astype(np.float32)
    for dim in (0, 1, -1):
        for name in ("unique", "unique_consecutive"):
            for mine, theirs in zip(*(getattr(t, name)(return_inverse=True, return_counts=True, dim=dim) for t in (Tensor(a), torch.tensor(a)))):
                same(mine, theirs, name)


def test_weights_of_covariances_and_limits_of_ranks_are_pytorchs():
    a, counts, weights = make(1, (3, 6)), np.array([1, 2, 3, 1, 1, 2]), np.random.RandomState(1).rand(6).astype(np.float32)
    for given in ({"fweights": counts}, {"aweights": weights}, {"fweights": counts, "aweights": weights, "correction": 0}):
        mine, theirs = ({k: v if isinstance(v, int) else t(v) for k, v in given.items()} for t in (Tensor, torch.tensor))
        same(Tensor(a).cov(**mine), torch.tensor(a).cov(**theirs), "cov", 1e-5)
    for given in ({"atol": 1.0}, {"rtol": 0.3}, {"atol": 0.1, "rtol": 0.5}, {"hermitian": True, "tol": 0.5}):
        square = a @ a.T if "hermitian" in given else a
        same(lathe.linalg.matrix_rank(Tensor(square), **given), torch.linalg.matrix_rank(torch.tensor(square), **given), "matrix_rank")
        if "tol" not in given:
            same(lathe.linalg.pinv(Tensor(square), **given), torch.linalg.pinv(torch.tensor(square), **given), "pinv", 1e-4)
    order = np.argsort(a, axis=-1)
    mine, theirs = Tensor(a).searchsorted(Tensor(a), sorter=Tensor(order)), torch.searchsorted(torch.tensor(a), torch.tensor(a), sorter=torch.tensor(order))
    same(mine, theirs, "searchsorted")
    same(lathe.linalg.pinv(Tensor.zeros(2, 0)), torch.linalg.pinv(torch.zeros(2, 0)), "pinv of nothing")
    for call in (lambda t, x: t.std(x, False), lambda t, x: x.var(True), lambda t, x: t.std_mean(x, dim=None, correction=None)[0]):
        same(call(lathe, Tensor(a)), call(torch, torch.tensor(a)), "spread", 1e-5)


def test_what_has_no_axes_is_picked_and_written_as_pytorchs():
    for call in (
        lambda t, x: x.gather(0, t.tensor(0)), lambda t, x: x.gather(0, t.tensor([0])), lambda t, x: x.scatter(0, t.tensor(0), t.tensor(5.0)), lambda t, x: x.scatter(0, t.tensor([0]), 5.0),
        lambda t, x: x.index_reduce(0, t.tensor([0]), t.tensor(5.0), "amax"), lambda t, x: x.scatter_add(0, t.tensor(0), t.tensor(5.0)), lambda t, x: x.scatter_reduce(0, t.tensor(0), t.tensor(5.0), "mean"), lambda t, x: t.nonzero(x, as_tuple=True)[0],
    ):  # fmt: skip
        same(call(lathe, lathe.tensor(3.0)), call(torch, torch.tensor(3.0)), "no axes")
    with pytest.raises(IndexError):
        lathe.tensor(3.0).gather(0, lathe.tensor(2)).item()
