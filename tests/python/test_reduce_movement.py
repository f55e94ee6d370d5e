"""Reductions, scans and movement against PyTorch and numpy."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import assert_same, check

from lathe import Tensor, dtypes

NAN = float("nan")
AXES = [None, 0, 1, -1, (0, 2), (0, 1, 2)]


@pytest.mark.parametrize("name,theirs", [("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax), ("min", torch.amin), ("logsumexp", torch.logsumexp)])
def test_a_reduction_equals_pytorchs(name, theirs):
    for axis in AXES:
        for keepdim in (False, True):
            dims = (0, 1, 2) if axis is None else axis
            check([(3, 4, 5)], lambda x: theirs(x, dim=dims, keepdim=keepdim), lambda x: getattr(x, name)(axis=axis, keepdim=keepdim))


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_spread_equals_pytorchs(name):
    for axis in AXES:
        for correction in (0, 1):
            dims = (0, 1, 2) if axis is None else axis
            check([(3, 4, 5)], lambda x: getattr(torch, name)(x, dim=dims, unbiased=bool(correction)), lambda x: getattr(x, name)(axis=axis, correction=correction))


def test_prod_any_all_argmax_argmin():
    check([(3, 4)], lambda x: x.prod(1), lambda x: x.prod(1))
    check([(3, 4)], lambda x: x.prod(), lambda x: x.prod())
    for axis in (None, 0, 1):
        for keepdim in (False, True) if axis is not None else (False,):
            args = () if axis is None else (axis, keepdim)
            check([(3, 4)], lambda x: (x > 0).any(*args), lambda x: (x > 0).any(*args), grad=False)
            check([(3, 4)], lambda x: (x > 0).all(*args), lambda x: (x > 0).all(*args), grad=False)
            check([(3, 4)], lambda x: x.argmax(*args), lambda x: x.argmax(*args), grad=False)
            check([(3, 4)], lambda x: x.argmin(*args), lambda x: x.argmin(*args), grad=False)


def test_softmax_and_its_kin():
    for axis in (0, 1, -1):
        check([(3, 4)], lambda x: x.softmax(axis), lambda x: x.softmax(axis))
        check([(3, 4)], lambda x: x.log_softmax(axis), lambda x: x.log_softmax(axis))
        check([(3, 4)], lambda x: torch.nn.functional.softmin(x, axis), lambda x: x.softmin(axis))
        check([(3, 4)], lambda x: torch.nn.functional.normalize(x, dim=axis), lambda x: x.normalize(dim=axis))


def test_rows_of_small_moved_inputs_equal_pytorchs():
    def check_rows(shapes, moved):
        check(shapes, lambda x: moved(x).softmax(-1))
        check(shapes, lambda x: (moved(x) - moved(x).mean(-1, keepdim=True)) * moved(x).var(-1, keepdim=True))

    np.testing.assert_allclose(Tensor(np.arange(6.0).reshape(2, 3)).T.softmax(-1).numpy(), torch.arange(6.0).reshape(2, 3).T.double().softmax(-1).numpy())
    for rows, columns in [(2, 4), (2, 8), (3, 2), (3, 8), (4, 8), (4, 16), (8, 3)]:
        check_rows([(columns, rows)], lambda x: x.T)
        check_rows([(2 * columns, rows)], lambda x: x[::2].T)
        check_rows([(columns, 2, rows)], lambda x: x.sum(1).T)
        check_rows([(columns - 1, rows)], lambda x: (torch.nn.functional.pad(x, (0, 0, 0, 1)) if isinstance(x, torch.Tensor) else x.pad(((0, 1), (0, 0)))).T)


def test_extremes_of_computed_values_meet_the_elements_they_came_from():
    # A sum rounds by the kernel that computes it: which element was the largest must not depend on it.
    for rows, inner, columns in [(9, 6, 6), (15, 12, 13), (2, 8, 2), (15, 8, 13), (13, 1, 17), (7, 19, 3)]:
        a, b = (np.random.randn(*s).astype(np.float32) for s in ((rows, inner), (inner, columns)))
        for axis in (0, 1):
            for realized in ((), ("top",), ("top", "x"), ("x", "top")):
                x, y = Tensor(a, requires_grad=True), Tensor(b, requires_grad=True)
                values = {"x": x @ y - (x @ y).mean(1, keepdim=True)}
                values["top"] = values["x"].max(axis)
                for name in realized:
                    values[name].realize()
                values["top"].sum().backward()
                p, q = torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)
                (p @ q - (p @ q).mean(1, keepdim=True)).amax(axis).sum().backward()
                assert_same(x.grad, p.grad)
                assert_same(y.grad, q.grad)
            at = (Tensor(a) @ Tensor(b)).argmax(axis).numpy()
            assert_same(np.take_along_axis(a @ b, np.expand_dims(at, axis), axis).squeeze(axis), (a @ b).max(axis))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_masked_quotient_of_nothing_is_left_out_of_a_sum(dtype):
    for n in (9, 17, 33, 65):  # one element is left beside whole vectors, and the others of its vector are 0 / 0
        x, y = np.ones(n, dtype), np.full(n, 2, dtype)
        equal = Tensor(np.zeros(n, dtype)) == Tensor(np.zeros(1, dtype))
        assert equal.where(Tensor(x) / Tensor(y), 0).sum().item() == n / 2
    x = Tensor(np.zeros((1, 1, 1)), dtype=dtypes.float32)
    assert x.expand(5, 2, 13).min(1).sum().gradient(x)[0].item() == 65


@pytest.mark.parametrize("size", [(2, 1), (5, 8), (9, 16), (33, 5)])
def test_zeros_beside_what_is_not_finite_stay_zeros(size):
    """Padding of a product, and of the gradient of a part, is 0 whatever its factors are elsewhere."""
    x, w = np.ones(size), np.random.rand((size[0] + 1) // 2, size[1])
    x[0] = np.nan
    mine = Tensor(x, requires_grad=True)
    out = mine[::2].exp()
    out.realize()
    grad = (out * Tensor(w)).sum().gradient(mine)[0].numpy()
    assert np.isnan(grad[0]).all() and not grad[1::2].any()
    a, b = Tensor(np.ones(size, np.float32)).realize(), Tensor(np.full((1, size[1]), np.inf, np.float32)).realize()
    padded = (a * b).pad((0, 0, 1, 1))
    assert padded[0].tolist() == padded[-1].tolist() == [0.0] * size[1]
    assert padded.sum(1).tolist() == [0.0] + [np.inf] * size[0] + [0.0]


@pytest.mark.parametrize("name", ["sum", "max", "argmax", "flip", "sort", "argsort", "cumsum", "cummax", "logcumsumexp", "softmax", "topk"])
def test_a_scalar_has_no_axis_but_the_first(name):
    call = lambda axis: Tensor(2.0).topk(1, axis) if name == "topk" else getattr(Tensor(2.0), name)(axis)  # noqa: E731
    assert_same([call(0)], [call(-1)])
    for axis in (1, -2):
        with pytest.raises(IndexError):
            call(axis)


def test_scans_equal_pytorchs():
    for axis in (0, 1, -1):
        check([(3, 4)], lambda x: x.cumsum(axis), lambda x: x.cumsum(axis))
        check([(3, 4)], lambda x: x.cumprod(axis), lambda x: x.cumprod(axis), low=0.5)
        check([(3, 4)], lambda x: x.cummax(axis), lambda x: x.cummax(axis), grad=False)
        check([(3, 4)], lambda x: x.cummin(axis), lambda x: x.cummin(axis), grad=False)
        check([(3, 4)], lambda x: torch.logcumsumexp(x, axis), lambda x: x.logcumsumexp(axis))


def test_small_dtypes_accumulate_wide():
    assert Tensor([200, 200], dtype=dtypes.uint8).sum().item() == 400
    assert Tensor([True, True]).sum().dtype is dtypes.default_int
    assert Tensor([1.0, 2.0], dtype=dtypes.half).sum().dtype is dtypes.half
    assert Tensor([1, 2]).sum(dtype=dtypes.float).dtype is dtypes.float
    assert Tensor([1, 2]).mean().dtype is dtypes.float


def test_reducing_no_axis_and_an_empty_tensor():
    assert Tensor([[1, 2]]).sum(()).tolist() == [[1, 2]]
    assert Tensor([]).sum().item() == 0
    assert Tensor.zeros(0, 3).sum(0).tolist() == [0, 0, 0]
    with pytest.raises(IndexError):
        Tensor([1.0]).sum(3)


MOVEMENT = [
    ("reshape", lambda x: x.reshape(6, 10), lambda x: x.reshape(6, 10)),
    ("reshape tuple", lambda x: x.reshape((-1, 10)), lambda x: x.reshape((-1, 10))),
    ("view", lambda x: x.view(60), lambda x: x.view(60)),
    ("permute", lambda x: x.permute(2, 0, 1), lambda x: x.permute(2, 0, 1)),
    ("permute tuple", lambda x: x.permute((2, 0, 1)), lambda x: x.permute((2, 0, 1))),
    ("transpose", lambda x: x.transpose(1, 0), lambda x: x.transpose()),
    ("transpose axes", lambda x: x.transpose(0, 2), lambda x: x.transpose(0, 2)),
    ("T", lambda x: x.permute(2, 1, 0), lambda x: x.T),
    ("expand", lambda x: x.unsqueeze(0).expand(2, -1, 4, 5), lambda x: x.unsqueeze(0).expand(2, -1, 4, 5)),
    ("flip", lambda x: x.flip(0, 2), lambda x: x.flip((0, 2))),
    ("shrink", lambda x: x[1:3, :, 0:2], lambda x: x.shrink(((1, 3), None, (0, 2)))),
    ("pad", lambda x: torch.nn.functional.pad(x, (1, 2, 0, 3), value=7), lambda x: x.pad((1, 2, 0, 3), value=7)),
    ("pad axes", lambda x: torch.nn.functional.pad(x, (1, 2, 0, 0, 3, 0)), lambda x: x.pad(((3, 0), None, (1, 2)))),
    ("pad reflect", lambda x: torch.nn.functional.pad(x, (1, 2), mode="reflect"), lambda x: x.pad((1, 2), mode="reflect")),
    ("pad replicate", lambda x: torch.nn.functional.pad(x, (1, 2), mode="replicate"), lambda x: x.pad((1, 2), mode="replicate")),
    ("squeeze", lambda x: x[:1].squeeze(0), lambda x: x[:1].squeeze(0)),
    ("unsqueeze", lambda x: x.unsqueeze(-1), lambda x: x.unsqueeze(-1)),
    ("flatten", lambda x: x.flatten(1), lambda x: x.flatten(1)),
    ("unflatten", lambda x: x.unflatten(1, (2, 2)), lambda x: x.unflatten(1, (2, 2))),
    ("repeat", lambda x: x.repeat(2, 1, 3), lambda x: x.repeat(2, 1, 3)),
    ("repeat_interleave", lambda x: x.repeat_interleave(2, 1), lambda x: x.repeat_interleave(2, 1)),
    ("repeat_interleave flat", lambda x: x.repeat_interleave(2), lambda x: x.repeat_interleave(2)),
    ("roll", lambda x: x.roll(2, 1), lambda x: x.roll(2, 1)),
    ("roll axes", lambda x: x.roll((1, -2), (0, 2)), lambda x: x.roll((1, -2), (0, 2))),
    ("diagonal", lambda x: x.diagonal(1, 1, 2), lambda x: x.diagonal(1, 1, 2)),
    ("unfold", lambda x: x.unfold(2, 3, 2), lambda x: x.unfold(2, 3, 2)),
    ("triu", lambda x: x.triu(1), lambda x: x.triu(1)),
    ("tril", lambda x: x.tril(-1), lambda x: x.tril(-1)),
    ("split", lambda x: x.split(3, 2), lambda x: x.split(3, 2)),
    ("split sizes", lambda x: x.split([1, 4], 2), lambda x: x.split([1, 4], 2)),
    ("chunk", lambda x: x.chunk(2, 1), lambda x: x.chunk(2, 1)),
    ("movedim", lambda x: x.movedim(0, 2), lambda x: x.movedim(0, 2)),
    ("cat", lambda x: torch.cat([x, x * 2], 1), lambda x: x.cat(x * 2, dim=1)),
    ("cat list", lambda x: torch.cat([x, x * 2]), lambda x: Tensor.cat([x, x * 2])),
    ("stack", lambda x: torch.stack([x, x * 2], -1), lambda x: Tensor.stack(x, x * 2, dim=-1)),
    ("stack list", lambda x: torch.stack([x, x * 2]), lambda x: Tensor.stack([x, x * 2])),
    ("rearrange", lambda x: x.permute(2, 0, 1).reshape(5, 12), lambda x: x.rearrange("a b c -> c (a b)")),
]


@pytest.mark.parametrize("name,theirs,mine", MOVEMENT, ids=[row[0] for row in MOVEMENT])
def test_a_movement_method_equals_pytorchs(name, theirs, mine):
    check([(3, 4, 5)], theirs, mine)


def test_diag_meshgrid_and_their_kin():
    check([(4,)], torch.diag, lambda x: x.diag())
    check([(3,), (4,)], lambda a, b: torch.meshgrid(a, b, indexing="ij"), lambda a, b: a.meshgrid(b))
    check([(3,), (4,)], lambda a, b: torch.meshgrid(a, b, indexing="xy"), lambda a, b: Tensor.meshgrid(a, b, indexing="xy"))
    assert Tensor.ones(2, 3).pad_to(3, 4).shape == (3, 4)
    assert Tensor.ones(2, 3).shrink_to(1, None).shape == (1, 3)


@st.composite
def chains(draw):
    """A shape and a list of movement steps that fit it, as text over x."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    steps, now = [], list(shape)
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["permute", "flip", "slice", "reshape", "expand", "stride"]))
        axis = draw(st.integers(0, len(now) - 1))
        if kind == "permute":
            order = draw(st.permutations(range(len(now))))
            steps.append(("permute", tuple(order)))
            now = [now[i] for i in order]
        elif kind == "flip":
            steps.append(("flip", (axis,)))
        elif kind == "slice":
            low = draw(st.integers(0, now[axis] - 1))
            high = draw(st.integers(low + 1, now[axis]))
            steps.append(("getitem", tuple([slice(None)] * axis + [slice(low, high)])))
            now[axis] = high - low
        elif kind == "stride":
            steps.append(("getitem", tuple([slice(None)] * axis + [slice(None, None, 2)])))
            now[axis] = (now[axis] + 1) // 2
        elif kind == "reshape":
            steps.append(("reshape", (int(np.prod(now)),)))
            now = [int(np.prod(now))]
        else:
            steps.append(("expand", tuple([2] + now)))
            now = [2] + now
            if len(now) > 4:
                steps.append(("reshape", (int(np.prod(now)),)))
                now = [int(np.prod(now))]
    return tuple(shape), steps


@given(chains())
def test_chains_of_movement_equal_numpys(case):
    shape, steps = case
    a = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    x = Tensor(a)
    for name, arg in steps:
        if name == "getitem":
            a, x = a[arg], x[arg]
        elif name == "permute":
            a, x = a.transpose(arg), x.permute(arg)
        elif name == "flip":
            a, x = np.flip(a, arg), x.flip(arg)
        elif name == "reshape":
            a, x = a.reshape(arg), x.reshape(arg)
        else:
            a, x = np.broadcast_to(a, arg), x.expand(arg)
    np.testing.assert_array_equal(x.numpy(), a)


def test_impossible_shapes_are_refused():
    with pytest.raises(ValueError, match="reshape"):
        Tensor.ones(6).reshape(4, 2)
    with pytest.raises(ValueError):
        Tensor.ones(6).expand(4, 2)
    with pytest.raises(ValueError):
        Tensor.ones(2, 3).permute(0, 0)
    assert_same(Tensor.ones(2, 3).reshape(None, 3), np.ones((2, 3), np.float32))


def both_ways(value):
    """What is computed alone, and after the value was read."""
    alone = [r.numpy() for r in value()[1:]]
    first, *others = value()
    first.numpy()
    return alone, [r.numpy() for r in others]


@pytest.mark.parametrize("name", ["cummax", "cummin", "max", "min"])
def test_indices_and_gradients_do_not_depend_on_what_was_read_before(name):
    random = np.random.RandomState(1)
    data, weights = random.randn(6, 7, 37).astype(np.float32), random.randn(37, 5).astype(np.float32)
    for form in (lambda x: x * x + x * 3, lambda x: x.softmax(2) @ Tensor(weights)):

        def found(form=form):
            x = Tensor(data).realize()
            y = form(x)
            if name in ("cummax", "cummin"):
                value, index = getattr(y, name)(1)
            else:
                value, index = getattr(y, name)(1), y.argmax(1) if name == "max" else y.argmin(1)
            return value, index, value.sum().gradient(x)[0]

        alone, after = both_ways(found)
        np.testing.assert_array_equal(alone[0], after[0])
        np.testing.assert_allclose(alone[1], after[1], rtol=1e-4, atol=1e-5)


def test_a_largest_element_behind_a_condition_has_its_gradient():
    t = Tensor(np.random.RandomState(1).randn(16, 70, 3).astype(np.float32)).realize()
    for y in (
        (Tensor.arange(70).reshape(1, -1, 1) < 35).where(0, t * t) + t,
        t - (Tensor.arange(70).reshape(1, -1, 1) < 35).where(0, t * t),
        (t * t)[:, 35:].pad(((0, 0), (35, 0), (0, 0))) + t,
    ):
        gradient = y.max(1).sum().gradient(t)[0].numpy()
        assert (gradient != 0).sum(1).min() == 1


def test_a_largest_element_behind_a_long_chain_has_its_gradient():
    data = np.random.RandomState(1).randn(3, 7, 37).astype(np.float32)

    def found():
        x = Tensor(data).realize()
        y = x * x + x * 3
        for k in range(40):
            y = (y.abs() if k % 2 else -y).clamp(-50 + k * 0.1, 1e9)
        value = y.max(1)
        return value, value.sum().gradient(x)[0]

    alone, after = both_ways(found)
    np.testing.assert_allclose(alone[0], after[0], rtol=1e-5)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_along_an_empty_axis_is_empty(name):
    x = Tensor.zeros(2, 0, requires_grad=True)
    assert getattr(x, name)(-1).tolist() == [[], []] and getattr(Tensor.zeros(0, 3), name)(0).shape == (0, 3)


@pytest.mark.parametrize("device", ["CPU", "NULL:x86-64-v3", "NULL:x86-64-v4"])
def test_more_ranges_are_unrolled_than_are_expanded_at_once(device):
    """40 softmaxes of one another, in one kernel or several."""
    x = np.random.default_rng(5).standard_normal((8, 32)).astype(np.float32)
    out, expected = Tensor(x, device=device), torch.tensor(x).double()
    for _ in range(40):
        out, expected = out.softmax(-1), expected.softmax(-1)
    if device != "CPU":
        out.kernelize()
        return
    np.testing.assert_allclose(out.numpy(), expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("values", [[1.0, NAN, 2.0], [NAN, 1.0], [-0.5, NAN, NAN], [1.0, 2.0, NAN, 3.0]], ids=str)
def test_the_position_of_a_running_extreme_that_is_nan_is_the_nans(name, values):
    mine, theirs = getattr(Tensor(values), name)(0), getattr(torch.tensor(values), name)(0)
    assert_same(mine[0], theirs[0])
    assert mine[1].tolist() == theirs[1].tolist()


def test_the_mode_of_nans_is_at_one_of_them():
    assert [t.item() for t in Tensor([NAN]).mode()][1] == 0
    assert Tensor([[2.0, NAN, 2.0], [NAN, NAN, NAN]]).mode()[1].tolist() == [2, 2]
