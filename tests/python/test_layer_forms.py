"""Layers and functions in the forms that PyTorch's programs use: images without a batch, borders that are not zeros, positional
arguments, layers that work in place, settings of optimizers."""

import numpy as np
import pytest
import torch

import lathe
from lathe import Tensor, UserError, linalg, nn


def copied(layer, like):
    """Lathe's layer with the weights of PyTorch's."""
    layer.load_state_dict({name: Tensor(value.numpy()) for name, value in like.state_dict().items()})
    return layer


def same(mine, theirs, tolerance=2e-5):
    theirs = theirs.detach().numpy()
    assert tuple(mine.shape) == theirs.shape
    np.testing.assert_allclose(mine.numpy(), theirs, rtol=tolerance, atol=tolerance)


def data(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def compare(name, args, kwargs, shape):
    """Values and gradients of a layer of both libraries."""
    theirs = getattr(torch.nn, name)(*args, **kwargs)
    mine = copied(getattr(nn, name)(*args, **kwargs), theirs)
    mine.train()
    x, y = Tensor(data(*shape), requires_grad=True), torch.tensor(data(*shape), requires_grad=True)
    got, want = mine(x), theirs(y)
    same(got, want)
    (got * got).sum().backward()
    (want * want).sum().backward()
    same(x.grad, y.grad, 2e-4)
    for key, value in theirs.state_dict().items():
        same(mine.state_dict()[key], value)


BORDERS = ["zeros", "reflect", "replicate", "circular"]


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("name, args, shape", [
    ("Conv1d", (2, 3, 3, 2, 1, 1, 1, True), (2, 2, 5)), ("Conv2d", (2, 3, 3, 2, (1, 2), 1, 1, True), (2, 2, 6, 5)),
    ("Conv3d", (1, 2, 3, 1, (1, 2, 1), 1, 1, True), (1, 1, 4, 4, 4)),
])  # fmt: skip
def test_borders_of_convolutions(name, args, shape, border):
    if name == "Conv3d" and border == "reflect":
        pytest.skip("PyTorch's reflects three axes only in newer versions")
    compare(name, (*args, border), {}, shape)
    compare(name, args, {"padding_mode": border}, shape[1:] if border != "circular" else shape)  # PyTorch's needs a batch there


@pytest.mark.parametrize("name, args, shape", [
    ("Conv1d", (2, 3, 3), (2, 7)), ("Conv2d", (2, 3, 3), (2, 7, 6)), ("ConvTranspose1d", (2, 3, 3), (2, 5)),
    ("ConvTranspose2d", (2, 3, 3, 2), (2, 4, 5)), ("InstanceNorm1d", (3,), (3, 7)), ("InstanceNorm2d", (3,), (3, 5, 4)),
])  # fmt: skip
def test_images_without_a_batch(name, args, shape):
    compare(name, args, {}, shape)


def test_an_unknown_border_is_refused():
    with pytest.raises(UserError, match="padding_mode 'mirror'"):
        nn.Conv2d(1, 1, 3, padding=1, padding_mode="mirror")


@pytest.mark.parametrize("steps", [1, 3])
def test_running_statistics_of_instance_norm(steps):
    mine, theirs = (kind.InstanceNorm2d(3, affine=True, track_running_stats=True) for kind in (nn, torch.nn))
    mine.train()
    a, b = [Tensor.zeros(3).contiguous(), Tensor.ones(3).contiguous()], [torch.zeros(3), torch.ones(3)]
    for i in range(steps):
        x = data(2, 3, 4, 5, seed=i)
        same(mine(Tensor(x)), theirs(torch.tensor(x)), 1e-4)
        same(nn.functional.instance_norm(Tensor(x), *a), torch.nn.functional.instance_norm(torch.tensor(x), *b), 1e-4)
    for key, value in theirs.state_dict().items():
        same(mine.state_dict()[key], value)
    for m, t in zip(a, b):
        same(m, t)


def test_a_batch_without_elements_leaves_running_statistics():
    compare("BatchNorm2d", (3,), {}, (0, 3, 4, 4))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_an_empty_bag_is_zero(mode):
    index, weight = np.array([[1, 2, 0], [0, 0, 0]]), data(5, 3)
    got = nn.functional.embedding_bag(Tensor(index), Tensor(weight), mode=mode, padding_idx=0)
    same(got, torch.nn.functional.embedding_bag(torch.tensor(index), torch.tensor(weight), mode=mode, padding_idx=0))


def test_positional_arguments_of_embedding_bag():
    theirs = torch.nn.EmbeddingBag(5, 3, None, 2.0, False, "sum")
    mine = copied(nn.EmbeddingBag(5, 3, None, 2.0, False, "sum"), theirs)
    same(mine(Tensor([[1, 2]])), theirs(torch.tensor([[1, 2]])))


def test_an_activation_may_be_a_function():
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, torch.nn.functional.gelu)
    mine = copied(nn.TransformerEncoderLayer(8, 2, 16, 0.0, nn.functional.gelu), theirs)
    same(mine(Tensor(data(3, 2, 8))), theirs(torch.tensor(data(3, 2, 8))), 1e-4)


@pytest.mark.parametrize("layer", ["ReLU(inplace=True)", "LeakyReLU(0.2, True)", "Hardswish(inplace=True)", "ELU(inplace=True)"])
@pytest.mark.parametrize("stored", [False, True])
def test_a_layer_in_place_changes_its_input(layer, stored):
    """As a skip connection around a block that begins with one sees it (pix2pix)."""
    made = []
    for t in (lathe, torch):
        act = eval(f"t.nn.{layer}", {"t": t})
        w = t.tensor(data(4, 4), requires_grad=not stored)
        h = t.tensor(data(3, 4, seed=1)) @ w
        h = h.realize() if stored and t is lathe else h
        out = t.cat([h, act(h) * 2 + h], 1)
        if not stored:
            (out * out).sum().backward()
        made.append((out.detach(), h.detach(), *([] if stored else [w.grad])))
    for mine, theirs in zip(*made):
        same(mine, theirs, 1e-4)


def test_a_layer_in_place_leaves_a_parameter():
    p = Tensor([-1.0, 2.0], requires_grad=True)
    nn.ReLU(inplace=True)(p).sum().backward()
    assert p.tolist() == [-1.0, 2.0] and p.grad.tolist() == [0.0, 1.0]


KINDS = [("SGD", {"momentum": 0.9}, "momentum"), ("AdamW", {"betas": (0.8, 0.9)}, "betas"), ("RMSprop", {"alpha": 0.5}, "alpha"), ("NAdam", {"weight_decay": 0.1}, "weight_decay")]


@pytest.mark.parametrize("name, options, setting", KINDS)
def test_settings_of_groups_are_read_and_kept(name, options, setting):
    p = Tensor([1.0], requires_grad=True)
    optimizer = getattr(nn.optim, name)([p], lr=0.1, **options)
    group = optimizer.param_groups[0]
    assert group[setting] == options[setting] and group["lr"] == 0.1
    group[setting] = options[setting]
    with pytest.raises(UserError, match=f"{name}: {setting} stays what it was"):
        group[setting] = 0.25
    for g in optimizer.param_groups:
        g["scale"] = 3
        g.setdefault("initial_lr", g["lr"])
        g.update(lr=0.5)
    assert [(g["scale"], g["initial_lr"], g["lr"]) for g in optimizer.param_groups] == [(3, 0.1, 0.5)]


def test_an_index_outside_of_its_axis_writes_nowhere():
    x = Tensor.zeros(2, 4)
    for place in ((Tensor([0]), Tensor([5])), (Tensor([0]), Tensor([-5])), (Tensor([2]), Tensor([0]))):
        with pytest.raises(IndexError):
            x.index_put(place, Tensor([1.0])).numpy()
        with pytest.raises(IndexError):
            x.index_put(place, Tensor([1.0]), accumulate=True).numpy()


def test_writing_through_masks():
    x, mask, values = data(3, 4), data(3, 4, seed=1) > 0, data(12, seed=2)
    count = int(mask.sum())
    got = Tensor(x).index_put((Tensor(mask),), Tensor(values[:count]))
    same(got, torch.tensor(x).index_put((torch.tensor(mask),), torch.tensor(values[:count])))
    same(Tensor(x[0]).masked_scatter(Tensor(mask), Tensor(values)), torch.tensor(x[0]).masked_scatter(torch.tensor(mask), torch.tensor(values)))
    with pytest.raises(IndexError):  # too few values
        Tensor(x).masked_scatter(Tensor(mask), Tensor(values[: count - 1])).numpy()
    with pytest.raises(UserError, match="sum_to_size"):
        Tensor(x).sum_to_size(2, 4)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "float64"])
def test_running_sums_in_a_dtype(dtype):
    x = np.arange(-4, 8).reshape(3, 4).astype(np.int16)
    for name in ("cumsum", "cumprod"):
        got = getattr(Tensor(x), name)(1, dtype=getattr(lathe, dtype))
        want = getattr(torch.tensor(x), name)(1, dtype=getattr(torch, dtype))
        assert got.numpy().dtype == want.numpy().dtype
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_a_copy_is_asked_for():
    x = Tensor([1.0, 2.0]).realize()
    y = x.to(lathe.float32, copy=True)
    y[0] = 9
    z = x.slice_scatter(x[:0], 0, 0, 0)
    z[0] = 9
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("triangle", "LU")
def test_the_gradient_of_eigenvalues_is_symmetric(triangle):
    a = data(4, 4).astype(np.float64)
    a = a @ a.T + np.eye(4)
    x, y = Tensor(a, requires_grad=True), torch.tensor(a, requires_grad=True)
    (linalg.eigvalsh(x, triangle) ** 3).sum().backward()
    (torch.linalg.eigvalsh(y, triangle) ** 3).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-8)


def test_the_gamma_function_beside_whole_numbers():
    x = np.array([-1e-30, -1e-10, -1.0 + 1e-6, 1e-30, -2.5, 3.0], np.float32)
    same(Tensor(x).lgamma(), torch.tensor(x).lgamma(), 1e-5)
    same(Tensor(x).digamma(), torch.tensor(x).digamma(), 1e-4)


def test_trapezoids_of_whole_numbers_do_not_wrap():
    y, x = np.array([200, 100, 250], np.uint8), np.array([5, 3, 9], np.uint8)
    assert Tensor(y).trapezoid(Tensor(x)).item() == np.trapz(y.astype(float), x.astype(float))
    assert Tensor(y).trapezoid().item() == np.trapz(y.astype(float))
