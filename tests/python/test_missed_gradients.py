"""A layer's parameters nobody asked the gradient of yet: where it cannot be known, it is an error and not None."""

import numpy as np
import pytest

from lathe import Tensor, UserError, nn, no_grad


def values(*shape):
    return Tensor(np.random.randn(*shape).astype(np.float32))


def used(layer, x, w, read):
    h = layer(x)
    if read:
        h.numpy()  # what requires no gradient is data from here on
    return (h * w).sum()


@pytest.mark.parametrize("make", [lambda: nn.Linear(3, 3), lambda: nn.LayerNorm(3), lambda: nn.Sequential(nn.Linear(3, 3))])
def test_a_gradient_that_a_read_made_impossible_is_an_error(make):
    x, w = values(4, 3), Tensor([1.0, 2.0, 3.0], requires_grad=True)
    layer = make()
    weight = next(iter(nn.state.get_state_dict(layer).values()))
    used(layer, x, w, False).backward()
    assert weight.grad is not None and w.grad is not None
    layer = make()
    weight = next(iter(nn.state.get_state_dict(layer).values()))
    used(layer, x, w, True).backward()
    with pytest.raises(UserError, match=r"by way of a tensor that was realized(.|\n)*requires_grad_\(\)"):
        weight.grad
    weight.grad = None
    assert weight.grad is None
    weight.requires_grad_(True)
    used(layer, x, w, True).backward()
    assert weight.grad is not None


def test_an_optimizer_that_comes_too_late_says_so():
    layer, w = nn.Linear(3, 3), Tensor([1.0, 2.0, 3.0], requires_grad=True)
    loss = used(layer, values(4, 3), w, True)
    optimizer = nn.optim.SGD([*nn.state.get_parameters(layer), w], lr=0.1)
    loss.backward()
    with pytest.raises(UserError, match="by way of a tensor that was realized"):
        optimizer.step()
    optimizer.zero_grad()
    used(layer, values(4, 3), w, True).backward()
    optimizer.step()


def test_the_gradient_of_a_layers_weight_by_way_of_data_is_refused():
    layer, w = nn.Linear(3, 3), Tensor([1.0, 2.0, 3.0], requires_grad=True)
    loss = used(layer, values(4, 3), w, True)
    with pytest.raises(UserError, match="by way of a tensor that was realized"):
        loss.gradient(layer.weight)


def test_what_is_meant_as_data_misses_nothing():
    teacher, student, x = nn.Linear(3, 3), nn.Linear(3, 3), values(4, 3)
    with no_grad():
        given = teacher(x)
        also = teacher(x).realize()
    apart = teacher(x).realize().detach()
    optimizer = nn.optim.SGD(nn.state.get_parameters(student), lr=0.1)
    ((student(x) - given).square() + (student(x) - also) * apart).sum().backward()
    optimizer.step()
    assert teacher.weight.grad is None and student.weight.grad is not None
    assert x.grad is not None  # tinygrad's, for whoever never asked
