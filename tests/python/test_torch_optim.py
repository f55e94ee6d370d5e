"""Optimizers and schedulers under PyTorch's names, parameter groups and averages, against PyTorch."""

import numpy as np
import pytest
import torch

import lathe
from lathe import Context, Tensor, nn

KINDS = [
    ("RMSprop", {"lr": 0.01}), ("RMSprop", {"lr": 0.01, "momentum": 0.9, "centered": True, "weight_decay": 0.1}), ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}), ("Adadelta", {"lr": 1.0, "weight_decay": 0.01}),
    ("Adamax", {"lr": 0.02}), ("RAdam", {"lr": 0.02}), ("ASGD", {"lr": 0.05}), ("Rprop", {"lr": 0.02}),
    ("SGD", {"lr": 0.1, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.1}), ("SGD", {"lr": 0.1, "dampening": 0.5, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}), ("Adam", {"lr": 0.02, "maximize": True, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.02, "maximize": True, "amsgrad": True}), ("Adagrad", {"lr": 0.1, "maximize": True}), ("Adadelta", {"maximize": True}),
    ("Adamax", {"maximize": True, "weight_decay": 0.1}), ("ASGD", {"lr": 0.05, "maximize": True}), ("Rprop", {"maximize": True}),
    ("Adam", {"lr": 0.02, "betas": (0.8, 0.95)}), ("AdamW", {"lr": 0.02, "betas": (0.8, 0.95), "foreach": False}), ("SGD", {"lr": 0.1, "momentum": 0.9}),
]  # fmt: skip


@pytest.mark.parametrize("dtype,tolerance", [(np.float32, 2e-4), (np.float64, 1e-11)])
@pytest.mark.parametrize("name,options", KINDS, ids=[f"{i}-{k[0]}" for i, k in enumerate(KINDS)])
def test_an_optimizer_steps_as_pytorchs(name, options, dtype, tolerance):
    w, x = np.random.randn(4, 3).astype(dtype), np.random.randn(5, 4).astype(dtype)
    ours, refs = Tensor(w, requires_grad=True), torch.tensor(w, requires_grad=True)
    mine, theirs = getattr(nn.optim, name)([ours], **options), getattr(torch.optim, name)([refs], **options)
    with Tensor.train():
        for _ in range(8):
            mine.zero_grad(), theirs.zero_grad()
            (Tensor(x) @ ours).square().mean().backward()
            (torch.tensor(x) @ refs).square().mean().backward()
            mine.step(), theirs.step()
            exact = max(tolerance, 1e-7) if name == "ASGD" else tolerance  # whose rate is a float32 in PyTorch
            np.testing.assert_allclose(ours.numpy(), refs.detach().numpy(), rtol=exact, atol=exact / 10)


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Rprop"])
def test_a_parameter_that_the_loss_does_not_use_stays_as_it_is(name):
    used, unused = Tensor([1.0, 2.0], requires_grad=True), Tensor([3.0], requires_grad=True)
    optimizer = getattr(nn.optim, name)([used, unused], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        used.square().sum().backward()
        optimizer.step()
    assert unused.tolist() == [3.0] and used.tolist() != [1.0, 2.0]


def test_a_parameter_that_comes_late_is_refused_where_steps_are_counted():
    w, late = Tensor([1.0], requires_grad=True), Tensor([3.0], requires_grad=True)
    plain, counted = nn.optim.SGD([w, late], lr=0.5), nn.optim.Adam([w, late], lr=0.5)
    w.sum().backward()
    plain.step(), counted.step()
    late.sum().backward()
    plain.step()
    assert late.tolist() == [2.5]
    with pytest.raises(ValueError, match=r"parameter 1 of shape \(1,\) has its first gradient after others made steps"):
        counted.step()


# The distribution's PyTorch has no decoupled decay of these, and its NAdam another product of momenta: newer ones' documentation says this.
@pytest.mark.parametrize("decay,decoupled", [(0.0, False), (0.1, False), (0.1, True)])
def test_nadam_follows_its_formula(decay, decoupled):
    w = Tensor([1.0], requires_grad=True)
    optimizer = nn.optim.NAdam([w], lr=0.02, weight_decay=decay, decoupled_weight_decay=decoupled)
    value, mean, square, product = 1.0, 0.0, 0.0, 1.0
    with Tensor.train():
        for t in range(1, 5):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
            g = 2 * value + (0 if decoupled else decay * value)
            value *= 1 - 0.02 * decay if decoupled else 1
            mu, following = (0.9 * (1 - 0.5 * 0.96 ** (k * 4e-3)) for k in (t, t + 1))
            product, mean, square = product * mu, 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
            size = (square / (1 - 0.999**t)) ** 0.5 + 1e-8
            value -= 0.02 * ((1 - mu) / (1 - product) * g + following / (1 - product * following) * mean) / size
            assert abs(w.item() - value) < 1e-5


def test_decoupled_decay_of_adam_is_adamw_and_radam_decays_apart():
    def trained(make):
        w = Tensor([1.0, -2.0], requires_grad=True)
        optimizer = make([w])
        for _ in range(3):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
        return w.tolist()

    options = {"lr": 0.1, "weight_decay": 0.2}
    assert trained(lambda p: nn.optim.Adam(p, decoupled_weight_decay=True, **options)) == trained(lambda p: nn.optim.AdamW(p, **options))
    assert trained(lambda p: nn.optim.Adam(p, decoupled_weight_decay=False, **options)) == trained(lambda p: nn.optim.Adam(p, **options))
    # At its first step RAdam takes the corrected mean, which is the gradient.
    w = Tensor([1.0], requires_grad=True)
    optimizer = nn.optim.RAdam([w], decoupled_weight_decay=True, **options)
    (w * w).sum().backward()
    optimizer.step()
    assert abs(w.item() - (1.0 * (1 - 0.1 * 0.2) - 0.1 * 2.0)) < 1e-6


def test_parameter_groups_have_their_own_settings():
    a, b = np.ones(3, np.float32), np.ones(2, np.float32)
    ours, refs = [Tensor(a, requires_grad=True), Tensor(b, requires_grad=True)], [torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)]
    groups = lambda t: [{"params": [t[0]], "lr": 0.5}, {"params": [t[1]], "weight_decay": 0.1}]  # noqa: E731
    mine, theirs = nn.optim.SGD(groups(ours), lr=0.1), torch.optim.SGD(groups(refs), lr=0.1)
    assert [round(g["lr"], 6) for g in mine.param_groups] == [g["lr"] for g in theirs.param_groups]
    steps = [nn.optim.lr_scheduler.StepLR(mine, 1, 0.5), torch.optim.lr_scheduler.StepLR(theirs, 1, 0.5)]
    with Tensor.train():
        for _ in range(3):
            for o, t in ((mine, ours), (theirs, refs)):
                o.zero_grad()
                (t[0].sum() + t[1].sum() * 2).backward()
                o.step()
            for s in steps:
                s.step()
    for x, r in zip(ours, refs):
        np.testing.assert_allclose(x.numpy(), r.detach().numpy(), rtol=1e-5)
    mine.param_groups[0]["lr"] = 0.125
    assert mine[0].lr.item() == 0.125


def test_rprop_begins_with_the_rate_of_its_first_step():
    def run(lib):
        w = lib.tensor([1.0, -2.0], requires_grad=True)
        optimizer = lib.optim.Rprop([w], lr=0.02)
        schedule = lib.optim.lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, step_size_up=3, cycle_momentum=False)
        for _ in range(5):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step(), schedule.step()
        return w.tolist()

    np.testing.assert_allclose(run(lathe), run(torch), rtol=1e-6)


def test_settings_that_cannot_change_are_refused_and_not_forgotten():
    for name in ("SGD", "Adam", "AdamW", "RMSprop"):
        mine, theirs = (getattr(t, name)([p], lr=0.5) for t, p in ((nn.optim, Tensor([1.0])), (torch.optim, torch.ones(1, requires_grad=True))))
        group, wanted = mine.param_groups[0], theirs.param_groups[0]
        for setting in ("momentum", "weight_decay", "betas", "eps", "nesterov", "maximize", "alpha", "dampening"):
            if setting in wanted:
                assert group[setting] == wanted[setting], setting
        with pytest.raises(ValueError, match="only lr can be set"):
            group["weight_decay"] = 0.5


def test_state_dicts_of_optimizers_continue_a_run():
    def run(split):
        w = Tensor(np.ones(3, np.float32), requires_grad=True)
        optimizer = nn.optim.Adam([w], lr=0.1)
        with Tensor.train():
            for i in range(6):
                if i == split:
                    state = {k: Tensor(v.numpy()) for k, v in optimizer.state_dict().items()}
                    optimizer = nn.optim.Adam([w], lr=0.3)
                    optimizer.load_state_dict(state)
                optimizer.zero_grad(set_to_none=i % 2 == 0)
                w.square().sum().backward()
                optimizer.step()
        return w.numpy()

    assert (run(3) == run(-1)).all()


@pytest.mark.parametrize("name", ["Adam", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"])
def test_the_state_of_groups_continues_a_run(name):
    def run(split):
        w, b = Tensor([1.0, 2.0], requires_grad=True), Tensor([2.0], requires_grad=True)
        groups = [{"params": [w]}, {"params": [b], "lr": 0.03}]
        optimizer = getattr(nn.optim, name)(groups)
        for i in range(5):
            if i == split:
                state = {k: Tensor(v.numpy()) for k, v in optimizer.state_dict().items()}
                optimizer = getattr(nn.optim, name)(groups)
                optimizer.load_state_dict(state)
            optimizer.zero_grad()
            ((w * w).sum() + (b * b).sum() * i).backward()
            optimizer.step()
        return [*w.tolist(), *b.tolist()]

    assert run(3) == run(-1)


SCHEDULERS = [
    ("StepLR", (3,), {"gamma": 0.5}), ("MultiStepLR", ([2, 5],), {}), ("ConstantLR", (), {"total_iters": 4}), ("LinearLR", (), {"total_iters": 6}),
    ("ExponentialLR", (0.9,), {}), ("PolynomialLR", (8,), {"power": 2.0}), ("CosineAnnealingLR", (6,), {"eta_min": 0.01}), ("CosineAnnealingWarmRestarts", (3, 2), {}),
    ("CyclicLR", (0.01, 0.1), {"step_size_up": 3, "step_size_down": 4, "cycle_momentum": False}), ("CyclicLR", (0.01, 0.1), {"step_size_up": 3, "mode": "triangular2", "cycle_momentum": False}),
    ("OneCycleLR", (0.3, 12), {"cycle_momentum": False}), ("OneCycleLR", (0.3, 12), {"cycle_momentum": False, "three_phase": True}),
    ("OneCycleLR", (0.3, 11), {"cycle_momentum": False}), ("OneCycleLR", (0.3, 10), {"cycle_momentum": False, "three_phase": True, "pct_start": 0.4}), ("OneCycleLR", (0.3, 12), {"anneal_strategy": "linear", "cycle_momentum": False}), ("LambdaLR", (lambda s: 1 / (s + 1),), {}),
    ("MultiplicativeLR", (lambda s: 0.9,), {}),
]  # fmt: skip


@pytest.mark.parametrize("name,args,options", SCHEDULERS, ids=[f"{i}-{s[0]}" for i, s in enumerate(SCHEDULERS)])
def test_a_scheduler_sets_pytorchs_rates(name, args, options):
    mine = nn.optim.SGD([Tensor([1.0])], lr=0.1)
    theirs = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
    a, b = getattr(nn.optim.lr_scheduler, name)(mine, *args, **options), getattr(torch.optim.lr_scheduler, name)(theirs, *args, **options)
    for _ in range(min(11, args[1]) if name == "OneCycleLR" else 11):
        np.testing.assert_allclose(mine.lr.item(), theirs.param_groups[0]["lr"], rtol=1e-5, atol=1e-8)
        np.testing.assert_allclose(a.get_last_lr(), b.get_last_lr(), rtol=1e-5, atol=1e-8)
        theirs.step()
        a.step(), b.step()


def test_schedulers_in_a_row_and_on_a_plateau_set_pytorchs_rates():
    def rates(optim, lr, parameter):
        optimizer = optim.SGD([parameter], lr=0.1)
        s = optim.lr_scheduler
        row = s.SequentialLR(optimizer, [s.ConstantLR(optimizer, 0.1, 2), s.ExponentialLR(optimizer, 0.9)], [2])
        out = []
        for _ in range(6):
            out.append(lr(optimizer))
            row.step()
        plain = optim.SGD([parameter], lr=0.1)
        plateau = s.ReduceLROnPlateau(plain, patience=1, factor=0.5)
        for value in (1.0, 0.9, 0.95, 0.96, 0.97, 0.5, 0.6, 0.7, 0.8):
            plateau.step(value)
            out.append(lr(plain))
        return out

    mine = rates(nn.optim, lambda o: o.lr.item(), Tensor([1.0]))
    theirs = rates(torch.optim, lambda o: o.param_groups[0]["lr"], torch.ones(1, requires_grad=True))
    np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def test_an_average_follows_the_parameters():
    layer = nn.Linear(2, 2)
    ema = nn.optim.EMA(layer, decay=0.5)
    before = layer.weight.numpy()
    layer.weight.assign(layer.weight + 1).realize()
    ema.update()
    with ema.average():
        np.testing.assert_allclose(layer.weight.numpy(), before + 0.5, rtol=1e-6)
    np.testing.assert_allclose(layer.weight.numpy(), before + 1, rtol=1e-6)


@pytest.mark.parametrize(
    "call,text",
    [
        (lambda w: nn.optim.Adam([w], momentum=0.9), "lathe: Adam: there is no argument momentum\n  help: the arguments are params, lr, b1, b2, eps, weight_decay"),
        (lambda w: nn.optim.SGD([w], lr="fast"), "cannot be made from these arguments"),
        (lambda w: nn.optim.lr_scheduler.StepLR([w], 2), "needs an optimizer, not list"),
        (lambda w: nn.optim.SGD([w], lr=-1.0), "which is negative"),
    ],
)
def test_a_wrong_call_is_answered_in_words(call, text):
    with pytest.raises((TypeError, ValueError)) as error:
        call(Tensor([1.0], requires_grad=True))
    assert text in str(error.value)


@pytest.mark.parametrize("name,options", [*KINDS, ("ASGD", {"lr": 0.1, "t0": 5}), ("Adam", {"amsgrad": True, "lr": 0.01})], ids=str)
def test_many_steps_with_a_rate_that_changes_stay_close_to_pytorchs(name, options):
    start = np.random.randn(4).astype(np.float32)
    ours, refs = Tensor(start.copy(), requires_grad=True), torch.tensor(start.copy(), requires_grad=True)
    mine, theirs = getattr(nn.optim, name)([ours], **options), getattr(torch.optim, name)([refs], **options)
    for step in range(60):
        gradient = np.random.randn(4).astype(np.float32)
        for optimizer in (mine, theirs) if step in (15, 30) else ():
            optimizer.param_groups[0]["lr"] *= 0.3
        ours.grad, refs.grad = Tensor(gradient), torch.tensor(gradient)
        mine.step(), theirs.step()
        np.testing.assert_allclose(ours.numpy(), refs.detach().numpy(), rtol=1e-5, atol=5e-6)
