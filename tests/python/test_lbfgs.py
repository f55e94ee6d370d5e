"""LBFGS against PyTorch's, and what it is when it is saved."""

import numpy as np
import pytest
import torch

import lathe
from lathe import nn


def rosenbrock(lib, x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def regression(lib, x):
    a = lib.tensor(np.random.RandomState(3).randn(12, 4).astype(np.float64))
    return lib.nn.functional.softplus(-(a @ x)).mean() + 0.01 * x.square().sum()


@pytest.mark.parametrize("problem", [rosenbrock, regression])
@pytest.mark.parametrize("options", [{"line_search_fn": "strong_wolfe"}, {"lr": 0.02, "max_iter": 6}, {"lr": 0.5, "history_size": 3, "line_search_fn": "strong_wolfe", "max_iter": 7}])
def test_every_step_is_pytorchs(problem, options):
    def run(lib):
        x = lib.tensor(np.array([-0.4, 0.9, 0.3, 1.4]))
        x.requires_grad_(True)
        optimizer = lib.optim.LBFGS([x], **options)
        calls, losses = [0], []

        def closure():
            calls[0] += 1
            optimizer.zero_grad()
            loss = problem(lib, x)
            loss.backward()
            return loss

        for _ in range(4):
            losses.append(float(optimizer.step(closure)))
        return losses, x.tolist(), calls[0]

    mine, theirs = run(lathe), run(torch)
    np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(mine[1], theirs[1], rtol=1e-5, atol=1e-8)
    assert mine[2] == theirs[2]


def test_a_saved_state_goes_on_where_it_was():
    def run(split):
        net = nn.Linear(3, 1)
        net.load_state_dict({"weight": lathe.tensor([[0.5, -0.2, 0.1]]), "bias": lathe.tensor([0.3])})
        data = lathe.tensor(np.random.RandomState(0).randn(8, 3).astype(np.float32))
        optimizer = nn.optim.LBFGS(net.parameters(), lr=0.3, max_iter=3)
        for i in range(4):
            if i == split:
                state = {k: lathe.tensor(v.numpy()) for k, v in optimizer.state_dict().items()}
                optimizer = nn.optim.LBFGS(net.parameters(), lr=0.1, max_iter=3)
                optimizer.load_state_dict(state)

            def closure():
                optimizer.zero_grad()
                loss = (net(data).squeeze(1) - data[:, 0].sin()).square().mean()
                loss.backward()
                return loss

            optimizer.step(closure)
        return net.weight.numpy()

    np.testing.assert_array_equal(run(2), run(-1))


def test_a_wrong_call_is_answered_in_words():
    x = lathe.tensor([1.0])
    for call, text in (
        (lambda: nn.optim.LBFGS([x]).step(), "step needs a function that computes the loss again"),
        (lambda: nn.optim.LBFGS([{"params": [x]}]), "no groups of parameters"),
        (lambda: nn.optim.LBFGS([x], line_search_fn="armijo"), "no line search 'armijo'"),
        (lambda: nn.optim.LBFGS([x], momentum=0.9), "no argument momentum"),
    ):
        with pytest.raises((TypeError, ValueError), match=text):
            call()
