"""Hooks on gradients against PyTorch's."""

import numpy as np
import pytest
import torch
from oracle import as_numpy

import lathe
from lathe import Tensor, UserError, nn


def both(program):
    mine, theirs = program(lathe), program(torch)
    assert len(mine) == len(theirs)
    for m, t in zip(mine, theirs):
        np.testing.assert_allclose(as_numpy(m), as_numpy(t), rtol=1e-4)


def leaf(lib, values=(1.0, 2.0, 3.0)):
    return lib.tensor(list(values), requires_grad=True)


def test_a_leafs_hook_sees_each_gradient_once_and_changes_it():
    def program(lib):
        x, seen = leaf(lib), []
        y = x * x
        x.register_hook(lambda g: seen.append(as_numpy(g).copy()))
        x.register_hook(lambda g: g * 2)
        handle = x.register_hook(lambda g: g + 1)
        (y * x).sum().backward(retain_graph=True)
        first = as_numpy(x.grad).copy()
        handle.remove()
        (y + x).sum().backward()
        return [first, x.grad, *seen]

    both(program)


def test_a_results_hooks_run_in_their_order_before_what_is_behind_it():
    def program(lib):
        x, seen = leaf(lib), []
        h = x.exp()
        h.register_hook(lambda g: g * g)
        h.register_hook(lambda g: seen.append(as_numpy(g).copy()))
        h.register_hook(lambda g: g - 1)
        z = h * 3 + h.sin()
        z.sum().backward()
        return [z, x.grad, *seen]

    both(program)


def test_a_hook_outlives_its_tensor():
    def program(lib):
        x, seen = leaf(lib), []

        def features(x):
            h = (x * 2).tanh()
            h.register_hook(lambda g: seen.append(as_numpy(g).copy()))
            return h * h

        for _ in range(3):
            features(x).sum().backward()
        return [x.grad, *seen]

    both(program)


def test_a_view_and_autograd_grad():
    def program(lib):
        x = leaf(lib)
        h = (x * 2).reshape(3, 1)[1:]
        h.register_hook(lambda g: g * 7)
        return [h, *lib.autograd.grad((h * h).sum(), [x])]

    both(program)


def test_a_leafs_hook_changes_what_autograd_grad_gives():  # as from PyTorch 2.0 on
    x = leaf(lathe)
    x.register_hook(lambda g: g * 5)
    assert lathe.autograd.grad((x * 2).sum(), [x])[0].tolist() == [10, 10, 10]


def test_a_value_that_was_read_before_and_a_context():
    def program(lib):
        x = leaf(lib)
        h = x * 4
        h.sum().item()
        with h.register_hook(lambda g: g * 3):
            (h + 1).sum().backward(retain_graph=True)
        (h * h).sum().backward()
        return [x.grad]

    both(program)


def test_masked_gradients_train_as_in_pytorch():
    mask = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=np.float32)
    start, data = np.full((3, 2), 0.5, dtype=np.float32), np.arange(8, dtype=np.float32).reshape(4, 2) / 8

    def program(lib):
        layers = lib.nn if lib is torch else nn
        layer = layers.Linear(2, 3)
        with lib.no_grad():
            layer.weight.copy_(lib.tensor(start))
            layer.bias.zero_()
        layer.weight.requires_grad_(True).register_hook(lambda g: g * lib.tensor(mask))
        optimizer = lib.optim.SGD(layer.parameters(), lr=0.1)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = layer(lib.tensor(data)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return [np.array(losses), layer.weight]

    both(program)


def test_what_cannot_be_hooked_is_refused():
    with pytest.raises(UserError, match="requires no gradient"):
        Tensor([1.0]).register_hook(print)
    x = leaf(lathe)
    h = x * 2
    early = h * 3
    h.register_hook(lambda g: g * 10)
    with pytest.raises(UserError, match="used before the hook was registered(.|\n)*clone"):
        (early + h).sum().backward()
    early.sum().backward()  # does not come by the hook
    assert x.grad.tolist() == [6, 6, 6]


def test_a_gradient_of_another_shape_is_refused():
    x = leaf(lathe)
    x.register_hook(lambda g: g.sum())
    with pytest.raises(UserError, match="a hook gave"):
        (x * 2).sum().backward()
