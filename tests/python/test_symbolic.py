"""Sizes that are variables: a program over `x[:n]` gives what it gives over a plain slice of that length, whatever was compiled for another length before."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from lathe import Tensor, TinyJit, Variable


def draw(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def close(got, want, **limits):
    want = want.detach().numpy() if isinstance(want, torch.Tensor) else want
    np.testing.assert_allclose(got.numpy(), want, **{"rtol": 1e-4, "atol": 1e-4, **limits})


def test_a_computed_tensor_of_symbolic_size_is_sliced_by_numbers():
    ones = Tensor.ones(10).contiguous()
    for n in (2, 5, 1, 10):
        size = Variable("i", 1, 10).bind(n)
        assert (ones[:size] + 1).contiguous()[:n].tolist() == [2.0] * n
        assert (ones[:size] * 3).realize()[n - 1 :].tolist() == [3.0]
        assert (ones[:size] + 1).contiguous()[-1].item() == 2.0


WINDOWS = [(1, 0, 1), (2, 1, 1), (3, 2, 2), (1, 1, 2)]


@pytest.mark.parametrize("stride,padding,dilation", WINDOWS)
def test_convolutions_over_a_symbolic_axis(stride, padding, dilation):
    x, w = draw(2, 4, 20, 11), draw(6, 4, 3, 3)
    for n in (5, 8, 13, 20):
        size = Variable("n", 5, 20).bind(n)
        mine, weight = Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)
        theirs, their_weight = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
        got = mine[:, :, :size].conv2d(weight, stride=stride, padding=padding, dilation=dilation)
        want = F.conv2d(theirs[:, :, :n], their_weight, stride=stride, padding=padding, dilation=dilation)
        close(got, want)
        got.tanh().sum().backward()
        want.tanh().sum().backward()
        close(mine.grad, theirs.grad)
        close(weight.grad, their_weight.grad)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_pools_and_transposed_convolutions_over_a_symbolic_axis(stride):
    x, w = draw(2, 4, 20, 11), draw(4, 5, 3, 2)
    pairs = [
        (lambda t: t.max_pool2d((3, 3), stride, 1, 1), lambda t: F.max_pool2d(t, 3, stride, 1)),
        (lambda t: t.avg_pool2d((3, 3), stride, 1, 1), lambda t: F.avg_pool2d(t, 3, stride, 1)),
        (lambda t: t.conv_transpose2d(Tensor(w), stride=stride), lambda t: F.conv_transpose2d(t, torch.tensor(w), stride=stride)),
    ]
    for n in (3, 8, 20):
        size = Variable("n", 3, 20).bind(n)
        for ours, oracle in pairs:
            mine, theirs = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
            got, want = ours(mine[:, :, :size]), oracle(theirs[:, :, :n])
            close(got, want)
            got.tanh().sum().backward()
            want.tanh().sum().backward()
            close(mine.grad, theirs.grad)


def test_a_window_that_does_not_fit_names_the_size():
    size = Variable("n", 1, 20).bind(2)
    with pytest.raises(ValueError, match="reaching over 3 elements does not fit an axis of n"):
        Tensor.ones(1, 1, 20)[:, :, :size].conv2d(Tensor.ones(1, 1, 3))


def test_a_replay_whose_output_would_be_smaller_than_nothing_is_refused():
    @TinyJit
    def windows(x):
        return x.conv2d(Tensor.ones(1, 1, 3)).realize()

    x = Tensor.ones(1, 1, 20).realize()
    for n in (5, 6, 7, 2):
        assert windows(x[:, :, : Variable("n", 1, 20).bind(n)]).numpy().shape == (1, 1, n - 2)
    with pytest.raises(ValueError, match="-1 elements along an axis of n"):
        windows(x[:, :, : Variable("n", 1, 20).bind(1)])
