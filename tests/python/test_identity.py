"""Tensors that are equal by chance are different tensors: gradients, optimizers, captures and writes tell them apart. And
gradients are those of the version that was read, or an error."""

import numpy as np
import pytest
import torch

import lathe
from lathe import Context, JitError, Tensor, TinyJit, UserError, dtypes, nn

X = Tensor([1.0, 2.0]).realize()
MAKERS = {
    "zeros": lambda: Tensor.zeros(2).contiguous(),
    "ones": lambda: Tensor.ones(2).contiguous(),
    "full": lambda: Tensor.full((2,), 3.0).contiguous(),
    "arange": lambda: Tensor.arange(2.0).contiguous(),
    "eye": lambda: Tensor.eye(2).contiguous(),
    "realized": lambda: Tensor.zeros(2).contiguous().realize(),
    "clone": lambda: Tensor.zeros(2).clone(),
    "numpy": lambda: Tensor(np.zeros(2, np.float32)),
    "list": lambda: Tensor([0.0, 0.0]),
    "leaf": lambda: Tensor.zeros(2).requires_grad_(),
    "leaf of an expression": lambda: (X * 2).requires_grad_(),
    "realized expression": lambda: (X * 2).realize(),
    "parameter": lambda: Tensor.ones(2, requires_grad=True),
}


@pytest.mark.parametrize("name", MAKERS)
def test_gradients_of_equal_tensors(name):
    p, q = MAKERS[name](), MAKERS[name]()
    a, b = (p * 3 + q * 5).sum().gradient(p, q)
    assert np.all(a.numpy() == 3) and np.all(b.numpy() == 5)
    assert np.all((p * 3 + q * 5).sum().gradient(p)[0].numpy() == 3)
    (p * 3 + q * 5).sum().backward()
    assert np.all(p.grad.numpy() == 3) and np.all(q.grad.numpy() == 5)
    before = q.numpy().copy()
    p += 1
    assert np.all(q.numpy() == before) and np.all(p.numpy() == before + 1)


@pytest.mark.parametrize("make", [lambda: Tensor.zeros(2), lambda: Tensor.arange(2.0), lambda: X * 2, lambda: Tensor.zeros(2).contiguous()])
def test_an_optimizer_of_equal_parameters_moves_each_by_its_own_gradient(make):
    p, q = make(), make()
    start = np.array(p.tolist())
    optimizer = nn.optim.SGD([p, q], lr=1.0)
    Tensor.training = True
    try:
        for _ in range(2):
            optimizer.zero_grad()
            (p * 3 + q * 5).sum().backward()
            optimizer.step()
    finally:
        Tensor.training = False
    assert p.tolist() == list(start - 6) and q.tolist() == list(start - 10)


def test_what_cannot_be_told_apart_is_refused():
    a, b = X * 2, X * 2
    with pytest.raises(UserError, match="made by the same expression"):
        (a * 3 + b * 5).sum().gradient(a, b)
    with pytest.raises(UserError, match="made by the same expression"):
        (a * 3 + b * 5).sum().gradient(a)
    with pytest.raises(UserError, match="is a constant"):
        Tensor.zeros(2).sum().gradient(Tensor.zeros(2))


def test_captures_know_equal_tensors_apart():
    f = TinyJit(lambda a, b: (a * 3 + b * 5).realize())
    for _ in range(3):
        f(Tensor.zeros(2).contiguous(), Tensor.zeros(2).contiguous())
    assert f(Tensor([1.0, 1.0]), Tensor([2.0, 2.0])).tolist() == [13.0, 13.0]
    assert f(Tensor.ones(2).contiguous(), Tensor.ones(2).contiguous()).tolist() == [8.0, 8.0]

    weight = Tensor.zeros(2).contiguous().realize()
    g = TinyJit(lambda a: (a * 3 + weight * 5).realize())
    for _ in range(3):
        g(Tensor.zeros(2).contiguous())
    assert g(Tensor([1.0, 1.0])).tolist() == [3.0, 3.0]


def test_the_gradient_is_that_of_the_version_that_was_read():
    p = Tensor([1.0, 2.0], requires_grad=True)
    loss = (p * p).sum()
    p += 10
    assert loss.gradient(p)[0].tolist() == [2.0, 4.0]
    p[0] = 7.0
    loss.backward()
    assert p.grad.tolist() == [2.0, 4.0] and p.tolist() == [7.0, 12.0]


def test_a_gradient_whose_values_were_overwritten_is_an_error():
    layer = nn.Linear(2, 2)
    optimizer = nn.optim.SGD(nn.state.get_parameters(layer), lr=0.1)
    x = Tensor([[1.0, 2.0]])
    Tensor.training = True
    try:
        old = layer(x).tanh().square().sum()
        layer(x).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        with pytest.raises(UserError, match="was written to since it was used"):
            old.backward()
        layer(x).square().sum().backward()
        optimizer.step()
    finally:
        Tensor.training = False


def test_what_has_no_gradient_is_said():
    i = Tensor([1, 2])
    with pytest.raises(TypeError, match="only floats have"):
        (i * 2.0).sum().gradient(i)
    x = Tensor([1.0, 2.0])
    loss = (x * x).sum()
    loss.item()
    with pytest.raises(UserError, match="no expression to differentiate"):
        loss.gradient(x)


FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTS = ["int8", "uint8", "int16", "int32", "int64"]


@pytest.mark.parametrize("dtype", ["bool", *INTS, *FLOATS])
def test_numbers_as_tensors_promote_as_in_pytorch(dtype):
    mine, theirs = Tensor([1, 1]).cast(dtype), torch.ones(2, dtype=getattr(torch, dtype))
    for value in (2, 2.0):
        got, expected = mine * Tensor(value), theirs * torch.tensor(value)
        wanted = str(expected.dtype).removeprefix("torch.")
        wanted = "int32" if dtype == "bool" and isinstance(value, int) else wanted  # our default integer
        assert got.dtype == getattr(dtypes, wanted), (dtype, value)
        assert got.tolist() == expected.tolist()
        assert (Tensor(value) * mine).dtype == got.dtype


def test_a_weak_tensor_of_a_captured_function_is_one_kind_of_argument():
    f = TinyJit(lambda x, k: (x * k).realize())
    half = Tensor([1.0]).half()
    for i in range(4):
        assert f(half, Tensor(float(i))).tolist() == [float(i)]
    with pytest.raises(JitError):
        f(half, Tensor([3.0]).sum())


def test_arrays_without_axes_are_data_of_their_own_dtype():
    a, b = Tensor(np.array(2.0, np.float32)), Tensor(np.array(2.0, np.float32))
    assert [g.item() for g in (a * 3 + b * 5).gradient(a, b)] == [3, 5]
    assert Tensor(np.array(3)).dtype == Tensor(np.array([3])).dtype and Tensor(np.array(0.5)).dtype == dtypes.float64


def test_a_gradient_behind_a_realized_tensor_is_an_error_and_not_zeros():
    x = Tensor([1.0, 2.0])
    y = x * 2
    assert (y * 3).sum().gradient(x)[0].tolist() == [6.0, 6.0]
    y.realize()
    with pytest.raises(UserError, match="requires_grad_"):
        (y * 3).sum().gradient(x)
    z = (y + 1).realize()
    del y
    with pytest.raises(UserError, match="requires_grad_"):
        (z * 3).sum().gradient(x)
    # Another way counts, and what takes no part has zeros.
    assert (z * x).sum().gradient(x)[0].tolist() == z.tolist()
    other = Tensor([1.0, 1.0])
    assert (z * 3).sum().gradient(other)[0].tolist() == [0.0, 0.0]
    w = Tensor([1.0, 2.0], requires_grad=True)
    v = (w * 2).realize()
    assert (v * 3).sum().gradient(w)[0].tolist() == [6.0, 6.0]


@pytest.mark.parametrize("draw", ["rand", "randn", "dropout", "two draws", "randint", "permutation"])
@pytest.mark.parametrize("between", ["draw", "realize and draw", "realize twice and draw"])
def test_a_gradient_reads_the_random_numbers_of_its_value(draw, between):
    x = Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    make = {
        "rand": lambda: Tensor.rand(4) * x * x,
        "randn": lambda: Tensor.randn(4) * x * x,
        "dropout": lambda: (x * x).dropout(0.5) * x,
        "two draws": lambda: (Tensor.rand(4) + Tensor.rand(4)) * x * x,
        "randint": lambda: Tensor.randint(4, low=0, high=9).float() * x * x,
        "permutation": lambda: x[Tensor.randperm(4)] * Tensor.arange(4),
    }[draw]
    with Context(TRAINING=1):
        Tensor.manual_seed(5)
        y = make().sum()
        expected, value = y.gradient(x)[0].tolist(), y.item()
        Tensor.manual_seed(5)
        y = make().sum()
        if between != "draw":
            y.realize()
        if between == "realize twice and draw":
            (y * 2).realize()
        Tensor.rand(3).realize()
        (Tensor.randn(2) + Tensor.rand(2)).realize()
        assert y.gradient(x)[0].tolist() == expected and y.item() == value


def test_what_was_overwritten_entirely_is_not_behind_a_value():
    a, b = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0])
    v = a.clone()
    v[:] = b
    v.realize()
    assert (v * 2).sum().gradient(a)[0].tolist() == [0.0, 0.0]
    w = a.clone()
    w[:1] = b[:1]
    assert (w * 2).sum().gradient(a)[0].tolist() == [0.0, 2.0]


# Values computed where gradients are off, of a leaf p.
WITHOUT_GRADIENT = {
    "product": lambda t, p: p * 2,
    "chain": lambda t, p: (p * 2).exp() + p,
    "view": lambda t, p: p.reshape(2, 1).reshape(2),
    "same view": lambda t, p: p.reshape(2),
    "clone": lambda t, p: p.clone(),
    "slice": lambda t, p: p[:1],
    "index": lambda t, p: p[t.tensor([1, 0])],
    "copy_": lambda t, p: t.rand(2).copy_(p),
    "copy_ of a product": lambda t, p: t.zeros(2).copy_(p * 3),
    "slice assignment": lambda t, p: written(t.zeros(2), p),
    "product that is written": lambda t, p: written_first(p * 2),
    "repeat": lambda t, p: p.repeat(1),
    "matmul": lambda t, p: p @ t.ones(2, 2),
    "max": lambda t, p: p.max(),
    "cat": lambda t, p: t.cat([p, p])[1:3],
}


def written_first(x):
    x[0] = 3.0
    return x


def written(out, value):
    out[:] = value
    return out


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("scope", ["no_grad", "inference_mode"])
@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_what_is_computed_where_gradients_are_off_has_no_part_in_them(name, scope, read):
    made = []
    for t in (lathe, torch):
        p = t.tensor([1.0, 2.0], requires_grad=True)
        with getattr(t, scope)() if t is lathe else torch.no_grad():
            fixed = WITHOUT_GRADIENT[name](t, p)
        if read:
            fixed.detach().numpy() if t is torch else fixed.numpy()
        assert t is torch or not fixed.requires_grad  # PyTorch says so of views
        (fixed * p + p).sum().backward()
        made.append(p.grad.numpy())
    assert np.allclose(*made), name


def test_what_was_computed_before_a_net_was_trained_has_no_part_in_its_gradients():
    x, start = Tensor(np.ones((2, 3), np.float32)), np.arange(6, dtype=np.float32).reshape(2, 3)
    net = nn.Linear(3, 2, bias=False)
    net.weight.assign(Tensor(start)).realize()
    with lathe.no_grad():
        before = net(x) * 2
    optimizer = nn.optim.SGD(nn.state.get_parameters(net), lr=0.1)
    loss = (net(x) - before).square().sum()
    loss.backward()
    theirs = torch.tensor(start, requires_grad=True)
    fixed = (torch.ones(2, 3) @ theirs.T * 2).detach()
    ((torch.ones(2, 3) @ theirs.T - fixed) ** 2).sum().backward()
    assert np.allclose(net.weight.grad.numpy(), theirs.grad.numpy()) and len(optimizer.params) == 1


def test_the_target_of_a_loss_has_no_gradient():
    rng = np.random.default_rng(3)
    w, s, s2, r = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 3), (5, 4), (5, 4), (5,)))
    made = []
    for t in (lathe, torch):
        weight = t.tensor(w, requires_grad=True)
        with t.no_grad():
            target = t.tensor(r) + 0.9 * (t.tensor(s2) @ weight).amax(1)
        loss = (((t.tensor(s) @ weight)[:, 0] - target) ** 2).mean()
        loss.backward()
        made.append(weight.grad.numpy())
    assert np.allclose(*made, rtol=1e-5)


@pytest.mark.parametrize("wish", ["before", "after"])
@pytest.mark.parametrize("name", ["zeros", "rand", "product", "realized"])
def test_parameters_that_were_given_one_tensors_values_are_two(name, wish):
    source = Tensor([1.0, 2.0, 3.0]).realize()
    make = {
        "zeros": lambda: Tensor.zeros(3), "rand": lambda: Tensor.rand(3), "product": lambda: source * 2, "realized": lambda: Tensor.rand(3).realize(),
    }[name]  # fmt: skip
    p, q = (make().requires_grad_() if wish == "before" else make() for _ in range(2))
    with lathe.no_grad():
        p.assign(source)
        q.assign(source)
    p, q = (t if wish == "before" else t.requires_grad_() for t in (p, q))
    assert [g.tolist() for g in (p * 3 + q * 5).sum().gradient(p, q)] == [[3.0] * 3, [5.0] * 3]
    (p * 3 + q * 5).sum().backward()
    assert p.grad.tolist() == [3.0] * 3 and q.grad.tolist() == [5.0] * 3
    with lathe.no_grad():
        p -= p.grad
    assert (p.tolist(), q.tolist(), source.tolist()) == ([-2.0, -1.0, 0.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("shape", [(3, 19), (2, 3), (5, 1)])
@pytest.mark.parametrize("stored", [False, True])
def test_a_value_that_took_over_an_expanded_one_has_memory_of_its_own(stored, shape):
    rng = np.random.default_rng(1)
    column, values = (rng.integers(0, 100, n).astype(np.float32) for n in ((shape[0], 1), shape))
    source = Tensor(column).realize()
    x = Tensor(values) + 1
    x = x.realize() if stored else x
    x[...] = source
    x[0] = 7
    x[-1:] += Tensor(values[:1])
    want = np.broadcast_to(column, shape).copy()
    want[0] = 7
    want[-1:] += values[:1]
    assert np.array_equal(x.numpy(), want) and np.array_equal(source.numpy(), column)
    x = Tensor(values) + 1
    x[...] = source
    x[...] = Tensor(values)
    assert np.array_equal(x.numpy(), values) and np.array_equal(source.numpy(), column)


# Results that are no views, though nothing may be left to do (docs/tensor.md says which are).
OWN = """x.repeat(1, 1) | x.repeat(2, 1) | t.stack([x]) | t.cat([x]) | t.nn.functional.pad(x, (0, 0)) | t.nn.functional.pad(x, (0, -1)) | x.roll(0, 0) | x.roll(4, 1)
x.tile(1) | x.tile((2, 1)) | x.repeat_interleave(1, 0) | x.diff(0) | x.diag() | x.pow(1) | x ** 1 | x.new_tensor(x) | x + 0 | x * 1
x.scatter(0, t.zeros(0, 4).long(), t.zeros(0, 4)) | x.clamp(-9, 99) | x.clone() | x.masked_fill(x > 99, 0) | t.tensor(x) | x.index_select(0, t.tensor([0, 1, 2]))"""
OWN = [text.strip() for line in OWN.split("\n") for text in line.split("|")]


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("text", OWN)
def test_a_result_that_is_no_view_is_a_tensor_of_its_own(text, stored):
    values = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
    for first in "xy":
        made = []
        for t in (lathe, torch):
            x = t.tensor(values)
            if t is lathe:
                x = x.realize() if stored else x + 0
            y = eval(text, {"x": x, "t": t})
            (x if first == "x" else y)[...] = 50.0
            made.append((x.numpy().copy(), y.numpy().copy()))
        for mine, theirs in zip(*made):
            np.testing.assert_array_equal(mine, theirs, err_msg=text)


@pytest.mark.parametrize("text", ["x.pad((0, 0))", "Tensor.cat(x)", "x.repeat(1)", "x.roll(0, 0)", "x ** 1", "x.pad((0, 0), mode='replicate')"])
@pytest.mark.parametrize("asked", [None, True])
def test_gradients_pass_through_a_copy_of_what_is_not_computed(text, asked):
    x = (X * 2 if asked is None else Tensor.rand(2, requires_grad=True))
    y = eval(text, {"x": x, "Tensor": Tensor})
    assert (y * 3).sum().gradient(x)[0].tolist() == [3.0, 3.0]
    if asked:
        (y * 3).sum().backward()
        assert x.grad.tolist() == [3.0, 3.0]


def test_a_gradient_of_data_is_refused():
    a = Tensor([1.0, 2.0])
    loss = (a * 2).sum()
    loss.item()
    with pytest.raises(UserError, match="backward: .* is data, with no expression to differentiate"):
        loss.backward()


@pytest.mark.parametrize("take", ["x[:, [0]]", "x[:, Tensor([[0, 1]])]", "x.gather(1, Tensor([[0], [0], [0]]))", "x.index_select(1, Tensor([0]))", "x.take(Tensor([0]))",
    "x[Tensor([0]), Tensor([0])]", "x[0][Tensor([-1])]"])  # fmt: skip
def test_nothing_is_taken_from_an_axis_without_elements(take):
    x = Tensor(np.zeros((3, 0), np.float32))
    with pytest.raises(IndexError, match="into an axis without elements"):
        eval(take, {"x": x, "Tensor": Tensor}).numpy()
    assert x[:, Tensor(np.zeros((0,), np.int32))].shape == (3, 0)


# What PyTorch gives for a leaf that was written to between its uses.
def _beside_a_detached_use(t, p):
    y, fixed = p * 2, p.detach()
    fixed.fill_(1.5)
    return y + fixed * 3


def _under_no_grad(t, p):
    y = p * 2
    with t.no_grad():
        fixed = p.detach()
        p[1] = 7.0
    return y + fixed


def _data_changed(t, p):
    y = p * 2
    p.data.mul_(3)
    return y + p.detach()


def _a_wish_for_a_result(t, p):
    h = p * 2
    h.requires_grad_()
    h.mul_(3)
    return h


@pytest.mark.parametrize("make", [_beside_a_detached_use, _under_no_grad, _data_changed, _a_wish_for_a_result])
@pytest.mark.parametrize("stored", [False, True])
def test_a_leaf_that_was_written_has_the_gradient_of_its_earlier_use(make, stored):
    made = []
    for t in (lathe, torch):
        p = t.tensor([1.0, 2.0], requires_grad=True)
        p = p.realize() if t is lathe and stored else p
        make(t, p).sum().backward()
        made.append((p.grad.numpy(), p.detach().numpy()))
    for mine, theirs in zip(*made):
        np.testing.assert_array_equal(mine, theirs)
