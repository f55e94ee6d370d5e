"""Writes in place that gradients do not see, as PyTorch has them: under `no_grad`, through `detach()` and through `.data` the values
change, and the gradient of what the tensor was computed from passes as if nothing had been written."""

import numpy as np
import pytest
import torch
from oracle import as_numpy

import lathe
from lathe import Tensor, UserError


def under_no_grad(write):
    def run(lib, a):
        with lib.no_grad():
            write(lib, a)

    return run


def _part(lib, a):
    a[0] = 5.0


def _view(lib, a):
    a[1:].zero_()


def _tracked(lib, a):
    a.mul_(lib.tensor([3.0, 4.0, 5.0], requires_grad=True))


WRITES = {
    "zero": under_no_grad(lambda lib, a: a.zero_()),
    "fill of one element": under_no_grad(_part),
    "view": under_no_grad(_view),
    "of itself": under_no_grad(lambda lib, a: a.mul_(a)),
    "of what is tracked": under_no_grad(_tracked),
    "clamp of data": lambda lib, a: a.data.clamp_(0, 3),
    "copy to data": lambda lib, a: a.data.copy_(lib.tensor([9.0, 8.0, 7.0])),
    "detached": lambda lib, a: a.detach().add_(1.0),
    "part of detached": lambda lib, a: a.detach()[:2].fill_(4.0),
    "twice": lambda lib, a: (a.detach().add_(1.0), a.data[1:].mul_(2.0)),
}


@pytest.mark.parametrize("realized", [False, True])
@pytest.mark.parametrize("shape", [(3,), (3, 1)])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_the_gradient_of_what_was_overwritten_passes(write, shape, realized):
    def run(lib):
        x = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        a = (x * 2).reshape(-1)
        if realized:
            a.sum().item()
        write(lib, a)
        y = (a.reshape(*shape) * a.reshape(*shape) * 3).sum()
        y.item()
        y.backward()
        return a, x.grad

    for mine, theirs in zip(run(lathe), run(torch)):
        np.testing.assert_allclose(as_numpy(mine), as_numpy(theirs), rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 2.0])
def test_a_number_written_without_axes_keeps_the_gradient(value):
    def run(lib):
        x = lib.tensor(3.0, requires_grad=True)
        a = x * x
        with lib.no_grad():
            a.fill_(value)
        (a * a).backward()
        return a, x.grad

    for mine, theirs in zip(run(lathe), run(torch)):
        np.testing.assert_allclose(as_numpy(mine), as_numpy(theirs))


def test_the_straight_through_estimator_over_several_steps():
    def run(lib):
        w = lib.tensor([0.3, -0.7, 1.2], requires_grad=True)
        losses = []
        for _ in range(4):
            q = w * 1.0
            q.data.copy_(q.data.round())
            loss = ((q - lib.tensor([1.0, 1.0, 1.0])) ** 2).sum()
            loss.backward()
            losses.append(loss.item())
            with lib.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
        return [*losses, *as_numpy(w)]

    np.testing.assert_allclose(run(lathe), run(torch), rtol=1e-6)


@pytest.mark.parametrize("values", [lambda x: x.detach(), lambda x: x.data])
def test_what_is_detached_takes_the_gradient_of_what_is_written_to_it(values):
    def run(lib):
        x, w = lib.tensor([1.0, 2.0, 3.0]), lib.tensor([4.0, 5.0, 6.0], requires_grad=True)
        d = values(x)
        d += w
        d *= 2.0
        (d * 2 + w).sum().backward()
        return d, w.grad

    for mine, theirs in zip(run(lathe), run(torch)):
        np.testing.assert_allclose(as_numpy(mine), as_numpy(theirs), rtol=1e-6)


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x * 2], ids=["leaf", "result"])
def test_a_write_that_needs_two_gradients_for_one_memory_is_refused(make):
    x, w = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0, 4.0], requires_grad=True)
    a = make(x)
    with pytest.raises(UserError, match=r"through detach\(\) into a tensor that takes part in gradients itself(.|\n)*detach\(\).clone\(\)"):
        a.detach().mul_(w)
    a.detach().clone().mul_(w)


LEAF_WRITES = {
    "whole": lambda lib, w: w.add_(1.0),
    "part": lambda lib, w: w[1:].mul_(2.0),
    "element": lambda lib, w: w.__setitem__(0, 7.0),
    "twice": lambda lib, w: (w.mul_(0.5), w.sub_(1.0)),
    "step": lambda lib, w: w.copy_(w - 0.1),
}


@pytest.mark.parametrize("realized", [False, True])
@pytest.mark.parametrize("shape", [(3,), (3, 1)])
@pytest.mark.parametrize("write", LEAF_WRITES.values(), ids=LEAF_WRITES)
def test_a_leaf_written_between_two_uses_has_the_gradients_of_both(write, shape, realized):
    def run(lib):
        w = lib.tensor(np.array([1.0, 2.0, 3.0], np.float32).reshape(shape), requires_grad=True)
        other = lib.tensor([5.0], requires_grad=True)
        first = w * 2 + other
        if realized:
            first.sum().item()
        with lib.no_grad():
            write(lib, w)
        second = (w * 3).sum()
        if realized:
            second.item()
        with lib.no_grad():
            write(lib, w)
        (first.sum() + second + (w * w * other).sum()).backward()
        return w, w.grad, other.grad

    for mine, theirs in zip(run(lathe), run(torch)):
        np.testing.assert_allclose(as_numpy(mine), as_numpy(theirs), rtol=1e-6)


def test_two_losses_with_a_step_between_them_add_their_gradients():
    def run(lib):
        w = lib.tensor([1.0, 2.0], requires_grad=True)
        optimizer = lib.optim.SGD([w], lr=0.5)
        losses = []
        for _ in range(3):
            losses.append((w * lib.tensor([1.0, 3.0])).sum())
            w.grad = lib.tensor([1.0, 1.0])
            optimizer.step()
        optimizer.zero_grad()
        sum(losses).backward()
        return w, w.grad

    for mine, theirs in zip(run(lathe), run(torch)):
        np.testing.assert_allclose(as_numpy(mine), as_numpy(theirs), rtol=1e-6)


def test_a_leaf_computed_from_itself_where_gradients_are_on_is_refused_between_uses():
    w = Tensor([1.0, 2.0], requires_grad=True)
    first = (w * 2).sum()
    w.assign(w * w)
    with pytest.raises(UserError, match="several versions"):
        (first + (w * 3).sum()).backward()


@pytest.mark.parametrize("name", ["log_", "cos_", "sin_", "sqrt_", "exp_", "sigmoid_", "tanh_", "relu_", "square_", "reciprocal_", "abs_"])
@pytest.mark.parametrize("part", [False, True])
def test_a_function_in_place_keeps_what_its_gradient_needs(name, part):
    def run(lib):
        x = lib.tensor([0.5, 1.5, 2.5], requires_grad=True)
        a = x * 2
        a.sum().item()  # in memory
        getattr(a[1:] if part else a, name)()
        y = (a * lib.tensor([1.0, 2.0, 3.0])).sum()
        y.item()
        y.backward()
        return a, x.grad

    for mine, theirs in zip(run(lathe), run(torch)):
        np.testing.assert_allclose(as_numpy(mine), as_numpy(theirs), rtol=1e-4)


def test_a_result_outlives_a_write_to_what_it_was_computed_from():
    def run(lib):
        x = lib.tensor([-1.0, 2.0, 3.0], requires_grad=True)
        h = x * 1.0
        a, b, c = h.relu(), h.sigmoid(), h.exp()
        (a + b + c).sum().item()
        with lib.no_grad():
            h.relu_()
        (a + b + c).sum().backward()
        return h, x.grad

    for mine, theirs in zip(run(lathe), run(torch)):
        np.testing.assert_allclose(as_numpy(mine), as_numpy(theirs), rtol=1e-5)
