"""Learning rates against PyTorch's schedulers, and against their formulas where PyTorch has none."""

import math

import numpy as np
import pytest
import torch

from lathe import Tensor, nn
from lathe.nn import schedulers


def pair(lr=0.1):
    return nn.optim.SGD([Tensor([1.0], requires_grad=True)], lr=lr), torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=lr)


def rates(scheduler, optimizer, steps):
    out = [optimizer.lr.item()]
    for _ in range(steps):
        scheduler.step()
        out.append(optimizer.lr.item())
    return out


def torch_rates(scheduler, optimizer, steps):
    out = [optimizer.param_groups[0]["lr"]]
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        out.append(optimizer.param_groups[0]["lr"])
    return out


lr_scheduler = torch.optim.lr_scheduler
CASES = {
    "multistep": (lambda o: schedulers.MultiStep(o, [3, 5, 9], 0.5), lambda o: lr_scheduler.MultiStepLR(o, [3, 5, 9], 0.5), 12),
    "cosine": (lambda o: schedulers.CosineAnnealing(o, 10, 0.01), lambda o: lr_scheduler.CosineAnnealingLR(o, 10, 0.01), 10),
    "lambda": (lambda o: schedulers.Lambda(o, lambda t: 0.9**t), lambda o: lr_scheduler.LambdaLR(o, lambda t: 0.9**t), 8),
    "polynomial": (
        lambda o: schedulers.Polynomial(o, 10, power=2.0),
        lambda o: lr_scheduler.PolynomialLR(o, 10, power=2.0) if hasattr(lr_scheduler, "PolynomialLR") else None,
        10,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rates_are_pytorchs(name):
    ours, theirs, steps = CASES[name]
    optimizer, oracle = pair()
    reference = theirs(oracle)
    if reference is None:
        pytest.skip("this PyTorch has no such scheduler")
    np.testing.assert_allclose(rates(ours(optimizer), optimizer, steps), torch_rates(reference, oracle, steps), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_one_cycle_rises_and_falls_as_its_formula_says(strategy):
    optimizer, _ = pair()
    total, top, start, final = 20, 1.0, 25.0, 1e4
    got = rates(schedulers.OneCycle(optimizer, top, total, start, final, 0.3, strategy), optimizer, total - 1)
    peak = int(0.3 * total)

    def between(a, b, t):
        return b + (a - b) * (1 + math.cos(math.pi * t)) / 2 if strategy == "cos" else a + (b - a) * t

    for step, rate in enumerate(got):
        low = top / start
        if step < peak:
            want = between(low, top, step / peak)
        else:
            want = between(top, low / final, (step - peak) / (total - 1 - peak))
        assert rate == pytest.approx(want, rel=1e-5)


def test_cosine_with_warm_up_starts_from_zero():
    optimizer, _ = pair(0.4)
    got = rates(schedulers.CosineAnnealing(optimizer, 10, 0.0, 4), optimizer, 10)
    np.testing.assert_allclose(got[:5], [0, 0.1, 0.2, 0.3, 0.4], rtol=1e-6)
    np.testing.assert_allclose(got[4:], [0.2 * (1 + math.cos(math.pi * t / 6)) for t in range(7)], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("mode", ["min", "max"])
def test_a_plateau_is_noticed_when_pytorch_notices_it(mode):
    optimizer, oracle = pair()
    ours = schedulers.ReduceOnPlateau(optimizer, mode, 0.5, 2)
    theirs = lr_scheduler.ReduceLROnPlateau(oracle, mode, 0.5, 2)
    for value in [5.0, 4.0, 4.0, 4.0, 4.1, 3.9, 3.9, 3.95, 3.9, 3.89999, 3.0, 6.0, 7.0, 7.0, 7.0, 7.0]:
        ours.step(value)
        theirs.step(value)
        assert optimizer.lr.item() == pytest.approx(oracle.param_groups[0]["lr"], rel=1e-6)
