"""Optimizers step for step against PyTorch, with the options they share and in every float dtype."""


import numpy as np
import pytest
import torch

from lathe import Context, Tensor, dtypes, nn

STEPS = 5

CASES = {
    "sgd": (lambda p: nn.optim.SGD(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    "momentum": (lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    "nesterov": (
        lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    ),
    "adam": (lambda p: nn.optim.Adam(p, lr=0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
    "adam betas": (
        lambda p: nn.optim.Adam(p, lr=0.01, b1=0.8, b2=0.95, eps=1e-6, weight_decay=0.1),
        lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    ),
    "adamw": (lambda p: nn.optim.AdamW(p, lr=0.01), lambda p: torch.optim.AdamW(p, lr=0.01)),
    "adamw decay": (
        lambda p: nn.optim.AdamW(p, lr=0.01, weight_decay=0.5),
        lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.5),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_step_equals_pytorchs(name):
    ours, theirs = CASES[name]
    start = [np.random.randn(3, 4).astype(np.float32), np.random.randn(5).astype(np.float32), np.random.randn(1).astype(np.float32)]
    x = np.random.randn(4, 3).astype(np.float32)
    mine, reference = [Tensor(v, requires_grad=True) for v in start], [torch.tensor(v, requires_grad=True) for v in start]
    optimizer, oracle = ours(mine), theirs(reference)
    with Context(TRAINING=1):
        for step in range(STEPS):
            optimizer.zero_grad()
            oracle.zero_grad()
            ((Tensor(x) @ mine[0]).tanh().sum() * mine[2].sum() + mine[1].square().sum()).backward()
            ((torch.tensor(x) @ reference[0]).tanh().sum() * reference[2].sum() + (reference[1] ** 2).sum()).backward()
            optimizer.step()
            oracle.step()
            for a, b in zip(mine, reference):
                np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=2e-5, atol=2e-6, err_msg=f"{name} step {step}")


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float64])
@pytest.mark.parametrize("name", ["momentum", "adamw"])
def test_other_float_dtypes_keep_their_dtype(name, dtype):
    p = Tensor(np.linspace(-1, 1, 8), dtype=dtype, requires_grad=True)
    wide = Tensor(np.linspace(-1, 1, 8).astype(np.float32), requires_grad=True)
    with Context(TRAINING=1):
        for target in (p, wide):
            optimizer = CASES[name][0]([target])
            for _ in range(3):
                optimizer.zero_grad()
                target.square().sum().backward()
                optimizer.step()
    assert p.dtype == dtype
    tolerance = {dtypes.float16: 4e-3, dtypes.bfloat16: 3e-2}.get(dtype, 1e-5)
    np.testing.assert_allclose(p.float().numpy(), wide.numpy(), atol=tolerance)


def test_a_captured_step_sees_a_changed_learning_rate():
    from lathe import TinyJit

    w = Tensor([1.0, 2.0], requires_grad=True)
    optimizer = nn.optim.SGD([w], lr=0.1)

    @TinyJit
    def step(x):
        optimizer.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        return loss

    expected = np.array([1.0, 2.0])
    with Context(TRAINING=1):
        for i, lr in enumerate([0.1, 0.1, 0.1, 0.5, 0.25]):
            optimizer.lr = lr
            step(Tensor([1.0, float(i)]).realize())
            expected -= lr * np.array([1.0, i])
            np.testing.assert_allclose(w.numpy(), expected, rtol=1e-5)


def test_state_dicts_name_every_tensor():
    w = Tensor([1.0], requires_grad=True)
    names = set(nn.state.get_state_dict(nn.optim.Adam([w])))
    assert "lr" in names and sum(name.endswith(".0") for name in names) == 2


class Dropped(nn.Module):
    def __init__(self, weight):
        self.weight, self.drop = weight, nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.weight * x)


def said_by_a_module(w, other):
    Dropped(w)(2.0).sum().backward()


def said_by_eval(w, other):
    Dropped(w).eval()(2.0).sum().backward()


def said_by_another_module(w, other):
    Dropped(other)(2.0).sum().backward()
    w.dropout(0.5).sum().backward()


def said_afterwards_by_another_module(w, other):
    w.dropout(0.5).sum().backward()
    Dropped(other)(2.0).sum().backward()


def a_layer_alone(w, other):
    nn.Dropout(0.5)(w).sum().backward()


def a_layer_alone_was_told(w, other):
    nn.Dropout(0.5).train()(w).sum().backward()


def only_another_parameter(w, other):
    w.sum().backward()
    nn.Dropout(0.5)(other).sum().backward()


def an_evaluation(w, other):
    nn.Dropout(0.5)(w).tolist()
    w.sum().backward()


def an_argument_said_it(w, other):
    nn.functional.dropout(w, 0.5, training=False).sum().backward()


def batch_norm_alone(w, other):
    nn.BatchNorm(1)(w.expand(3, 1)).square().sum().backward()


def train_was_said(w, other):
    with Tensor.train():
        w.dropout(0.5).sum().backward()


def assigned_for_another_net(w, other):
    Tensor.training = True
    other.dropout(0.5).sum().backward()
    Tensor.training = False
    w.dropout(0.5).sum().backward()


@pytest.mark.parametrize(
    "events,refused",
    [
        (assigned_for_another_net, True),
        (said_by_a_module, False),
        (said_by_eval, False),
        (said_by_another_module, True),
        (said_afterwards_by_another_module, True),
        (a_layer_alone, True),
        (a_layer_alone_was_told, False),
        (only_another_parameter, False),
        (an_evaluation, False),
        (an_argument_said_it, False),
        (batch_norm_alone, True),
        (train_was_said, False),
    ],
)
@pytest.mark.parametrize("step", ["step", "schedule_step", "group"])
def test_a_step_is_refused_exactly_where_its_gradients_came_from_a_mode_nobody_said(events, refused, step):
    w, other = Tensor([1.0], requires_grad=True), Tensor([1.0], requires_grad=True)
    optimizer = nn.optim.SGD([w], lr=0.5)
    take = nn.optim.OptimizerGroup(optimizer).step if step == "group" else getattr(optimizer, step)
    events(w, other)
    if not refused:
        take()
        return
    with pytest.raises(AssertionError, match=r"step outside training mode(.|\n)*Tensor.train\(\)"):
        take()
    with Tensor.train():
        take()


def test_the_state_of_an_optimizer_has_tinygrads_names():
    w = Tensor([1.0, 2.0], requires_grad=True)
    optimizer = nn.optim.Adam([w], lr=0.5, b1=0.5, b2=0.75)
    assert optimizer.lr.shape == (1,) and optimizer.device == w.device
    assert optimizer.b1_t.tolist() == [1.0] and optimizer.b2_t.shape == (1,)
    with Tensor.train():
        for _ in range(2):
            optimizer.zero_grad()
            w.sum().backward()
            optimizer.step()
    assert optimizer.b1_t.tolist() == [0.25] and optimizer.b2_t.tolist() == [0.5625]
    assert [m.tolist() for m in optimizer.m] == [[0.75, 0.75]] and len(optimizer.v) == 1 and optimizer.v[0].shape == (2,)
    optimizer.lr.assign(Tensor([0.125])).realize()
    assert optimizer.lr.item() == 0.125
    assert [b.shape for b in nn.optim.SGD([w], momentum=0.9).b] == [(2,)] and nn.optim.SGD([w]).b == []
    for make in (
        lambda: nn.optim.SGD([w], momentum=-0.1),
        lambda: nn.optim.SGD([w], weight_decay=-0.1),
        lambda: nn.optim.Adam([w], b1=1.0),
        lambda: nn.optim.AdamW([w], eps=-1e-8),
        lambda: nn.optim.SGD([]),
    ):
        with pytest.raises(ValueError):
            make()
