"""Transformer layers, recurrent layers and loss scaling against PyTorch; checkpointing; the data loader."""

import pickle

import numpy as np
import pytest
import torch

import lathe
from lathe import Context, Tensor, nn
from lathe.amp import GradScaler
from lathe.data import DataLoader


def load(layer, theirs):
    nn.state.load_state_dict(layer, {k: Tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    for p in nn.state.get_parameters(layer):
        p.requires_grad_(True)


def same(mine, theirs, tolerance=1e-5):
    np.testing.assert_allclose(mine.numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


def check_gradients(layer, theirs, tolerance=1e-4):
    mine = nn.state.get_state_dict(layer)
    for name, p in theirs.named_parameters():
        np.testing.assert_allclose(mine[name].grad.numpy(), p.grad.numpy(), rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_encoder_layer_equals_pytorchs_forward_and_backward(batch_first, norm_first, activation):
    options = dict(dim_feedforward=12, dropout=0.0, activation=activation, batch_first=batch_first, norm_first=norm_first)
    theirs, layer = torch.nn.TransformerEncoderLayer(8, 2, **options), nn.TransformerEncoderLayer(8, 2, **options)
    load(layer, theirs)
    x = np.random.randn(3, 5, 8).astype(np.float32)
    with Context(TRAINING=1):
        mine = layer(Tensor(x))
        want = theirs(torch.tensor(x))
        same(mine, want)
        (mine * mine).sum().backward()
        (want * want).sum().backward()
        check_gradients(layer, theirs)


def test_masks_mean_what_pytorch_means():
    theirs, layer = torch.nn.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2)
    load(layer, theirs)
    q, k = np.random.randn(4, 3, 8).astype(np.float32), np.random.randn(5, 3, 8).astype(np.float32)
    padding = np.zeros((3, 5), bool)
    padding[1, 3:] = True
    blocked = np.triu(np.ones((4, 5), bool), 2)
    for pad in (None, padding):
        for mask in (None, blocked, np.random.randn(4, 5).astype(np.float32)):
            want, _ = theirs(
                *map(torch.tensor, (q, k, k)),
                key_padding_mask=None if pad is None else torch.tensor(pad),
                attn_mask=None if mask is None else torch.tensor(mask),
            )
            got, _ = layer(
                *map(Tensor, (q, k, k)),
                key_padding_mask=None if pad is None else Tensor(pad),
                attn_mask=None if mask is None else Tensor(mask),
            )
            same(got, want)


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_decoder_layer_equals_pytorchs(norm_first):
    options = dict(dim_feedforward=12, dropout=0.0, norm_first=norm_first)
    theirs, layer = torch.nn.TransformerDecoderLayer(8, 2, **options), nn.TransformerDecoderLayer(8, 2, **options)
    load(layer, theirs)
    x, memory = np.random.randn(4, 3, 8).astype(np.float32), np.random.randn(6, 3, 8).astype(np.float32)
    mask = np.triu(np.ones((4, 4), bool), 1)
    want = theirs(torch.tensor(x), torch.tensor(memory), tgt_mask=torch.tensor(mask))
    same(layer(Tensor(x), Tensor(memory), tgt_mask=Tensor(mask)), want)
    same(layer(Tensor(x), Tensor(memory), tgt_is_causal=True), want)
    again = pickle.loads(pickle.dumps(layer))
    same(again(Tensor(x), Tensor(memory), tgt_is_causal=True), want)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_recurrent_layers_equal_pytorchs(kind, batch_first):
    theirs = getattr(torch.nn, kind)(3, 4, num_layers=2, batch_first=batch_first)
    layer = getattr(nn, kind)(3, 4, num_layers=2, batch_first=batch_first)
    load(layer, theirs)
    x = np.random.randn(2, 5, 3).astype(np.float32)
    got, _ = layer(Tensor(x))
    want, _ = theirs(torch.tensor(x))
    same(got, want)
    got.square().sum().backward()
    (want * want).sum().backward()
    check_gradients(layer, theirs)


def test_sequential_is_called_indexed_and_named():
    net = nn.Sequential(nn.Linear(3, 4), Tensor.relu, nn.Linear(4, 2))
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    load(net, theirs)
    x = np.random.randn(5, 3).astype(np.float32)
    same(net(Tensor(x)), theirs(torch.tensor(x)))
    assert len(net) == 3 and net[0].weight.shape == (4, 3) and len(net[:2]) == 2


def test_checkpointing_changes_no_value_and_no_gradient():
    layers = [nn.Linear(6, 6) for _ in range(3)]
    x = Tensor(np.random.randn(4, 6).astype(np.float32), requires_grad=True)

    def run(call):
        y = x
        for layer in layers:
            y = call(lambda t, layer=layer: layer(t).tanh(), y)
        parameters = [x, *nn.state.get_parameters(layers)]
        for p in parameters:
            p.grad = None
        y.square().sum().backward()
        return [y.numpy()] + [p.grad.numpy() for p in parameters]

    for plain, again in zip(run(lambda f, t: f(t)), run(lathe.checkpoint)):
        np.testing.assert_allclose(plain, again, rtol=1e-6, atol=1e-7)


def test_loss_scaling_equals_plain_training_and_skips_overflows():
    w = Tensor([1.0, 2.0], requires_grad=True)
    optimizer, scaler = nn.optim.SGD([w], lr=0.5), GradScaler(init_scale=1024.0, growth_interval=1)
    scaler.scale((w * Tensor([3.0, -1.0])).sum()).backward()
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [3, -1]
    with Tensor.train():
        assert scaler.step(optimizer) and w.tolist() == [-0.5, 2.5]
    scaler.update()
    assert scaler.get_scale() == 2048
    optimizer.zero_grad()
    scaler.scale((w * float("inf")).sum()).backward()
    assert not scaler.step(optimizer) and w.tolist() == [-0.5, 2.5]
    scaler.update()
    assert scaler.get_scale() == 1024
    other = GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 1024


def test_clipping_equals_pytorchs():
    values = [np.random.randn(3, 4).astype(np.float32), np.random.randn(5).astype(np.float32)]
    for limit in (0.1, 1.0, 100.0):
        mine, theirs = [Tensor(v, requires_grad=True) for v in values], [torch.tensor(v, requires_grad=True) for v in values]
        sum((p * p).sum() for p in mine).backward()
        sum((p * p).sum() for p in theirs).backward()
        norm = nn.optim.clip_grad_norm_(mine, limit)
        want = torch.nn.utils.clip_grad_norm_(theirs, limit)
        np.testing.assert_allclose(norm.item(), want.item(), rtol=1e-5)
        for a, b in zip(mine, theirs):
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5)
        nn.optim.clip_grad_value_(mine, 0.05)
        torch.nn.utils.clip_grad_value_(theirs, 0.05)
        for a, b in zip(mine, theirs):
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5)


class Squares:
    def __len__(self):
        return 23

    def __getitem__(self, i):
        return i, float(i * i)


def rows(loader):
    return [tuple(part.tolist() for part in batch) for batch in loader]


def test_the_order_of_batches_does_not_depend_on_workers():
    first = None
    for workers in (0, 1, 2, 8):
        loader = DataLoader(Squares(), batch_size=4, shuffle=True, num_workers=workers, seed=7)
        epochs = [rows(loader), rows(loader)]
        first = first or epochs
        assert epochs == first
    assert epochs[0] != epochs[1]
    assert sorted(i for batch in epochs[0] for i in batch[0]) == list(range(23))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_resumes_where_it_was(workers):
    loader = DataLoader(Squares(), batch_size=4, shuffle=True, num_workers=workers)
    rows(loader)
    running = iter(loader)
    next(running), next(running)
    state = loader.state_dict()
    rest = [tuple(part.tolist() for part in batch) for batch in running]
    again = DataLoader(Squares(), batch_size=4, shuffle=True, num_workers=workers)
    again.load_state_dict(state)
    assert rows(again) == rest and rows(again) == rows(loader)


def test_processes_share_an_epoch():
    parts = [rows(DataLoader(Squares(), batch_size=3, shuffle=True, process=i, processes=3)) for i in range(3)]
    assert sorted(i for part in parts for batch in part for i in batch[0]) == list(range(23))


def test_memory_statistics_and_version():
    before = lathe.memory_stats()["used"]
    t = Tensor.rand(256, 256).realize()
    assert lathe.memory_stats()["used"] >= before + t.nbytes()
    assert lathe.__version__.count(".") == 2


def test_looking_at_the_first_batch_loses_none():
    loader = DataLoader(Squares(), batch_size=4)
    first = next(iter(loader))
    whole = rows(loader)
    assert tuple(part.tolist() for part in first) == whole[0] and len(whole) == len(loader)


@pytest.mark.parametrize("third", [False, True])
def test_batch_norm_without_a_momentum_averages_all_batches(third):
    theirs = torch.nn.BatchNorm2d(3, 1e-4, None) if third else torch.nn.BatchNorm2d(3, momentum=None)
    mine = nn.BatchNorm2d(3, 1e-4, None) if third else nn.BatchNorm2d(3, momentum=None)
    for _ in range(4):
        x = np.random.randn(5, 3, 2, 2).astype(np.float32) * 3 + 1
        with Tensor.train():
            same(mine(Tensor(x)), theirs(torch.tensor(x)), 1e-4)
        same(mine.running_mean, theirs.running_mean)
        same(mine.running_var, theirs.running_var)
    again = pickle.loads(pickle.dumps(mine))
    assert mine.momentum is None and again.momentum is None and "momentum=None" in repr(mine)
    mine.eval(), theirs.eval()
    same(mine(Tensor(x)), theirs(torch.tensor(x)), 1e-4)


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True}], ids=str)
def test_an_lstm_with_projections(options):
    theirs, mine = torch.nn.LSTM(3, 5, proj_size=2, **options), nn.LSTM(3, 5, proj_size=2, **options)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    load(mine, theirs)
    x = np.random.randn(4, 6, 3).astype(np.float32)
    ways = (options.get("num_layers", 1)) * (2 if options.get("bidirectional") else 1)
    batch = 4 if options.get("batch_first") else 6
    first = [np.random.randn(ways, batch, size).astype(np.float32) for size in (2, 5)]
    for given in (None, first):
        out, (hidden, cell) = mine(Tensor(x), given and tuple(map(Tensor, given)))
        ref, (ref_hidden, ref_cell) = theirs(torch.tensor(x), given and tuple(map(torch.tensor, given)))
        for m, t in ((out, ref), (hidden, ref_hidden), (cell, ref_cell)):
            same(m, t)
    (out.square().sum() + cell.sum()).backward()
    (ref.square().sum() + ref_cell.sum()).backward()
    check_gradients(mine, theirs)


def test_projections_that_do_not_fit_are_refused():
    with pytest.raises(lathe.UserError, match=r"proj_size is 5, which is not in 0\.\.4"):
        nn.LSTM(3, 5, proj_size=5)
    with pytest.raises(lathe.UserError, match="for LSTM alone"):
        nn.GRU(3, 5, 1, True, False, 0.0, False, 2)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_certain_probabilities_have_a_finite_slope(reduction):
    p = np.array([0.0, 1.0, 0.0, 1.0, 0.25, 1e-30, 1.0], dtype=np.float32)
    t = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.3], dtype=np.float32)
    ours, refs = Tensor(p, requires_grad=True), torch.tensor(p, requires_grad=True)
    loss = nn.BCELoss(reduction=reduction)(ours, Tensor(t))
    expected = torch.nn.BCELoss(reduction=reduction)(refs, torch.tensor(t))
    same(loss, expected)
    loss.sum().backward(), expected.sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), refs.grad.numpy(), rtol=1e-5)
    logits = Tensor([40.0, -200.0], requires_grad=True)
    logits.sigmoid().binary_crossentropy(Tensor([1, 0])).backward()
    assert logits.grad.tolist() == [0, 0]


def test_targets_of_a_binary_loss_have_gradients():
    p, t = np.float32([0.2, 0.9]), np.float32([0.4, 0.1])
    ours, refs = Tensor(t, requires_grad=True), torch.tensor(t, requires_grad=True)
    nn.functional.binary_cross_entropy(Tensor(p), ours).backward()
    torch.nn.functional.binary_cross_entropy(torch.tensor(p), refs).backward()
    same(ours.grad, refs.grad)


@pytest.mark.parametrize("name,options", [("leaky_relu", {"negative_slope": 0.2}), ("hardtanh", {}), ("hardtanh", {"min_val": -2.0, "max_val": 0.5}), ("relu6", {})])
def test_activations_that_bend_have_pytorchs_slope_at_the_bend(name, options):
    points = np.float32([-3, -2, -1, -0.5, -0.0, 0, 0.5, 1, 3, 6, 7, np.inf, -np.inf])
    ours, refs = Tensor(points, requires_grad=True), torch.tensor(points, requires_grad=True)
    out, expected = getattr(nn.functional, name)(ours, **options), getattr(torch.nn.functional, name)(refs, **options)
    same(out, expected)
    out.sum().backward(), expected.sum().backward()
    same(ours.grad, refs.grad)
    assert np.isnan(getattr(nn.functional, name)(Tensor([np.nan]), **options).item())
