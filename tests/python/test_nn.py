"""Layers, optimizers and schedulers step for step against PyTorch; state dicts; deriving from layers."""

import copy
import pickle

import numpy as np
import pytest
import torch
from oracle import assert_same

from lathe import Context, Tensor, UserError, nn

PAIRS = [
    ("Linear", lambda: nn.Linear(4, 3), lambda: torch.nn.Linear(4, 3), (2, 4)),
    ("Linear without bias", lambda: nn.Linear(4, 3, bias=False), lambda: torch.nn.Linear(4, 3, bias=False), (2, 5, 4)),
    ("Conv1d", lambda: nn.Conv1d(3, 4, 3, padding=1), lambda: torch.nn.Conv1d(3, 4, 3, padding=1), (2, 3, 8)),
    ("Conv2d", lambda: nn.Conv2d(4, 6, 3, stride=2, groups=2), lambda: torch.nn.Conv2d(4, 6, 3, stride=2, groups=2), (2, 4, 8, 7)),
    ("Conv2d same", lambda: nn.Conv2d(3, 4, 3, padding="same"), lambda: torch.nn.Conv2d(3, 4, 3, padding="same"), (2, 3, 5, 6)),
    ("ConvTranspose1d", lambda: nn.ConvTranspose1d(3, 4, 3, stride=2), lambda: torch.nn.ConvTranspose1d(3, 4, 3, stride=2), (2, 3, 5)),
    ("ConvTranspose2d", lambda: nn.ConvTranspose2d(3, 4, 3, padding=1), lambda: torch.nn.ConvTranspose2d(3, 4, 3, padding=1), (2, 3, 5, 4)),
    ("GroupNorm", lambda: nn.GroupNorm(2, 4), lambda: torch.nn.GroupNorm(2, 4), (3, 4, 5)),
    ("LayerNorm", lambda: nn.LayerNorm((4, 5)), lambda: torch.nn.LayerNorm((4, 5)), (3, 4, 5)),
    ("BatchNorm", lambda: nn.BatchNorm2d(3), lambda: torch.nn.BatchNorm2d(3), (4, 3, 5, 2)),
    ("InstanceNorm", lambda: nn.InstanceNorm(3), lambda: torch.nn.InstanceNorm2d(3, affine=True), (4, 3, 5, 2)),
]


def copy_weights(layer, theirs):
    for name, value in theirs.state_dict().items():
        getattr(layer, name).assign(Tensor(value.numpy())).realize()


@pytest.mark.parametrize("name,mine,theirs,shape", PAIRS, ids=[row[0] for row in PAIRS])
def test_a_layer_equals_pytorchs_forward_and_backward(name, mine, theirs, shape):
    layer, reference = mine(), theirs()
    copy_weights(layer, reference)
    assert set(nn.state.get_state_dict(layer)) == set(reference.state_dict())
    x = np.random.randn(*shape).astype(np.float32)
    with Context(TRAINING=1):
        for _ in range(2):
            mine_in, theirs_in = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
            for p in nn.state.get_parameters(layer):
                p.grad = None
            reference.zero_grad()
            out, expected = layer(mine_in), reference(theirs_in)
            assert_same(out, expected, atol=1e-4)
            out.square().sum().backward()
            expected.square().sum().backward()
            assert_same(mine_in.grad, theirs_in.grad, atol=2e-3, rtol=1e-3)
            for key, p in reference.named_parameters():
                assert_same(getattr(layer, key).grad, p.grad, atol=2e-3, rtol=1e-3)
    if name == "BatchNorm":
        assert_same(layer.running_mean, reference.running_mean)
        assert_same(layer.running_var, reference.running_var)
        assert layer.num_batches_tracked.item() == 2
        reference.eval()
        assert_same(layer(Tensor(x)), reference(torch.tensor(x)), atol=1e-4)


def test_embedding_rmsnorm_and_sequences():
    e, reference = nn.Embedding(10, 4), torch.nn.Embedding(10, 4)
    copy_weights(e, reference)
    assert_same(e(Tensor([[1, 2], [9, 0]])), reference(torch.tensor([[1, 2], [9, 0]])))
    x = np.random.randn(2, 5).astype(np.float32)
    np.testing.assert_allclose(nn.RMSNorm(5)(Tensor(x)).numpy(), x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6), rtol=1e-4)
    cell, reference = nn.LSTMCell(5, 3), torch.nn.LSTMCell(5, 3)
    copy_weights(cell, reference)
    h, c = cell(Tensor(x))
    assert_same([h, c], reference(torch.tensor(x)))
    assert_same(list(cell(Tensor(x), (h, c))), reference(torch.tensor(x), reference(torch.tensor(x))))
    gru, reference = nn.GRUCell(5, 3), torch.nn.GRUCell(5, 3)
    copy_weights(gru, reference)
    assert_same(gru(Tensor(x)), reference(torch.tensor(x)))
    out, states = nn.LSTM(5, 3, num_layers=2)(Tensor.rand(4, 2, 5))
    assert out.shape == (4, 2, 3) and len(states) == 2
    assert nn.TransformerBlock(8, 2, 16)(Tensor.rand(2, 3, 8)).shape == (2, 3, 8)
    assert nn.MultiHeadAttention(8, 2)(Tensor.rand(2, 3, 8), causal=True).shape == (2, 3, 8)


OPTIMIZERS = [
    ("SGD", lambda p: nn.optim.SGD(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1)),
    ("SGD momentum", lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01)),
    ("SGD nesterov", lambda p: nn.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)),
    ("Adam", lambda p: nn.optim.Adam(p, lr=0.01), lambda p: torch.optim.Adam(p, lr=0.01)),
    ("AdamW", lambda p: nn.optim.AdamW(p, lr=0.01, weight_decay=0.1), lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1)),
]


@pytest.mark.parametrize("name,mine,theirs", OPTIMIZERS, ids=[row[0] for row in OPTIMIZERS])
def test_an_optimizer_steps_as_pytorchs(name, mine, theirs):
    w, b = np.random.randn(4, 3).astype(np.float32), np.random.randn(3).astype(np.float32)
    x = np.random.randn(5, 4).astype(np.float32)
    ours, refs = [Tensor(w), Tensor(b)], [torch.tensor(w, requires_grad=True), torch.tensor(b, requires_grad=True)]
    a, t = mine(ours), theirs(refs)
    with Tensor.train():
        for _ in range(5):
            a.zero_grad()
            t.zero_grad()
            (Tensor(x) @ ours[0] + ours[1]).square().mean().backward()
            (torch.tensor(x) @ refs[0] + refs[1]).square().mean().backward()
            a.step()
            t.step()
            assert_same(ours, refs, atol=1e-5)


def test_lamb_lars_and_muon_follow_their_formulas():
    w = np.random.randn(4, 3).astype(np.float64)
    g = np.random.randn(4, 3).astype(np.float64)

    def one_step(make):
        p = Tensor(w.astype(np.float32))
        opt = make([p])
        (p * Tensor(g.astype(np.float32))).sum().backward()
        with Tensor.train():
            opt.step()
        return p.numpy()

    u = g / (np.abs(g) + 1e-6)
    expected = w - 0.1 * np.linalg.norm(w) / np.linalg.norm(u) * u
    np.testing.assert_allclose(one_step(lambda p: nn.optim.LAMB(p, lr=0.1)), expected, rtol=1e-3)
    trust = 0.001 * np.linalg.norm(w) / (np.linalg.norm(g) + 1e-4 * np.linalg.norm(w))
    np.testing.assert_allclose(one_step(lambda p: nn.optim.LARS(p, lr=0.1)), w - 0.1 * trust * (g + 1e-4 * w), rtol=1e-3)
    assert np.isfinite(one_step(lambda p: nn.optim.Muon(p, lr=0.1))).all()


def test_groups_schedulers_and_clipping():
    a, b = Tensor([1.0], requires_grad=True), Tensor([[1.0]], requires_grad=True)
    group = nn.optim.OptimizerGroup(nn.optim.SGD([a], lr=0.5), nn.optim.Adam([b], lr=0.1))
    (a.sum() + b.sum()).backward()
    with Tensor.train():
        group.step()
    assert a.item() == 0.5 and abs(b.item() - 0.9) < 1e-5 and len(group.params) == 2
    opt = nn.optim.SGD([a], lr=1.0)
    schedule = nn.schedulers.MultiStep(opt, [2, 4], gamma=0.1)
    rates = []
    for _ in range(5):
        rates.append(round(opt.lr.item(), 6))
        schedule.step()
    assert rates == [1.0, 1.0, 0.1, 0.1, 0.01]
    opt.lr = 0.25
    assert opt.lr.item() == 0.25
    opt.lr.assign(0.5)
    assert opt.lr.item() == 0.5
    theirs = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    reference = torch.optim.lr_scheduler.CosineAnnealingLR(theirs, 10)
    mine = nn.schedulers.CosineAnnealing(nn.optim.SGD([a], lr=1.0), 10)
    for _ in range(10):
        assert abs(mine.get_lr() - theirs.param_groups[0]["lr"]) < 1e-6
        theirs.step()
        reference.step()
        mine.step()
    a.grad, b.grad = Tensor([3.0]), Tensor([[4.0]])
    assert nn.optim.clip_grad_norm_([a, b], 1.0).item() == 5.0
    assert abs(a.grad.item() - 0.6) < 1e-4
    nn.optim.clip_grad_value_([a, b], 0.1)
    assert abs(b.grad.item() - 0.1) < 1e-6


def test_state_dicts_walk_python_objects():
    class Block(nn.Linear):
        def __init__(self):
            super().__init__(2, 2)
            self.scale = Tensor([2.0])

        def __call__(self, x):
            return super().__call__(x) * self.scale

    class Net:
        def __init__(self):
            self.blocks = [Block(), Tensor.relu, nn.Linear(2, 1, bias=False)]
            self.table = {"a": Tensor([1.0]), "b": (Tensor([2.0]), 3)}

    net = Net()
    names = list(nn.state.get_state_dict(net))
    assert names == ["blocks.0.weight", "blocks.0.bias", "blocks.0.scale", "blocks.2.weight", "table.a", "table.b.0"]
    other = Net()
    nn.state.load_state_dict(other, nn.state.get_state_dict(net))
    x = Tensor.rand(3, 2)
    assert_same(other.blocks[0](x), net.blocks[0](x).numpy())
    assert nn.state.get_state_dict(net)["blocks.0.weight"] is net.blocks[0].weight
    with pytest.raises(UserError, match="missing"):
        nn.state.load_state_dict(other, {})
    nn.state.load_state_dict(other, {}, strict=False)
    with pytest.raises(UserError, match="shape"):
        nn.state.load_state_dict(other, {"table.a": Tensor([1.0, 2.0])}, strict=False)
    for again in (pickle.loads(pickle.dumps(net.blocks[2])), copy.deepcopy(net.blocks[2])):
        assert_same(again(x), net.blocks[2](x).numpy())
        assert again.weight is not net.blocks[2].weight


def test_layer_tensors_can_be_assigned_and_taken_away():
    layer = nn.Linear(3, 2)
    layer.weight = Tensor.ones(2, 3)
    layer.bias = None
    assert layer(Tensor.ones(1, 3)).tolist() == [[3.0, 3.0]]
    assert layer.bias is None and layer.weight is layer.weight
    with pytest.raises(TypeError):
        layer.weight = "text"


def test_training_a_small_net_reaches_its_target():
    Tensor.manual_seed(1)
    x = np.random.randn(64, 2).astype(np.float32)
    y = ((x**2).sum(1) > 1.0).astype(np.float32).reshape(-1, 1)
    layers = [nn.Linear(2, 16), Tensor.tanh, nn.Linear(16, 1)]
    opt = nn.optim.Adam(nn.state.get_parameters(layers), lr=0.05)
    with Context(TRAINING=1):
        for _ in range(60):
            opt.zero_grad()
            loss = Tensor(x).sequential(layers).binary_crossentropy_logits(Tensor(y)).backward()
            opt.step()
    assert loss.item() < 0.3
