"""The nets of lathe.models beside PyTorch: the same text is run by both, with the same weights, forward and through one step of
training; the published sizes have the published numbers of parameters."""

import importlib

import numpy as np
import pytest
import torch
from torch_models import models as torch_models

import lathe
from lathe import models, nn

RNG = np.random.default_rng(5)


def numbers(*shape, scale=1.0):
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def some(low, high, *shape):
    return RNG.integers(low, high, shape)


def images(*shape):
    return numbers(2, 3, *shape)


BOXES = np.array([[[2, 3, 30, 40], [10, 10, 50, 60]], [[0, 0, 20, 20], [0, 0, 0, 0]]], np.float32)

# name: (arguments of the class, loss of the net and its inputs, inputs)
NETS = {
    "ResNet18": ("ResNet", {"depth": 18, "classes": 5, "width": 4}, None, [images(64, 64), some(0, 5, 2)]),
    "ResNet50": ("ResNet", {"depth": 50, "classes": 5, "width": 4}, None, [images(64, 64), some(0, 5, 2)]),
    "GPT2": ("GPT2", {"vocabulary": 29, "context": 12, "layers": 2, "heads": 2, "dim": 16}, "loss", [some(0, 29, 2, 9), some(0, 29, 2, 9)]),
    "Bert": (
        "Bert",
        {"vocabulary": 31, "context": 12, "layers": 2, "heads": 2, "dim": 16, "feed_forward": 24, "dropout": 0.0},
        "loss",
        [some(0, 31, 2, 9), some(0, 2, 2, 9), np.where(RNG.random((2, 9)) < 0.4, some(0, 31, 2, 9), -100), some(0, 2, 2)],
    ),
    "Llama": ("Llama", {"vocabulary": 29, "dim": 16, "feed_forward": 24, "layers": 2, "heads": 4, "kv_heads": 2}, "loss", [some(0, 29, 2, 9), some(0, 29, 2, 9)]),
    "RetinaNet": ("RetinaNet", {"classes": 4, "depth": 18, "width": 4, "dim": 8, "smallest": 8}, "loss", [images(64, 64), BOXES, np.array([[1, 3], [0, -1]])]),
    "ClipText": ("ClipText", {"vocabulary": 29, "context": 12, "layers": 2, "heads": 2, "dim": 16}, None, [some(0, 29, 2, 9)]),
    "UNet": (
        "UNet",
        {"widths": (8, 16), "layers": 1, "heads": 2, "context": 12, "groups": 4},
        "loss",
        [numbers(2, 4, 8, 8), numbers(2, 4, 8, 8), np.array([0.9, 0.3], np.float32), np.array([3, 700]), numbers(2, 5, 12)],
    ),
    "Vae": ("Vae", {"widths": (8, 16), "layers": 1, "groups": 4}, "loss", [images(16, 16), numbers(2, 4, 8, 8)]),
}  # fmt: skip


def filled(net, tensor, no_grad):
    """Weights by their names and shapes alone, so that both libraries have the same."""
    with no_grad():
        for i, (name, weight) in enumerate(sorted(net.named_parameters())):
            rng = np.random.default_rng(i)
            about = 1.0 if weight.ndim == 1 and name.endswith("weight") else 0.0
            fan = np.sqrt(np.prod(weight.shape[1:])) if weight.ndim > 1 else 5.0
            weight.copy_(tensor((about + rng.standard_normal(tuple(weight.shape)) / fan).astype(np.float32)))
    return net


def loss_of(net, kind, inputs, functional):
    if kind == "loss":
        return net.loss(*inputs)
    out = net(*inputs[:1])
    return functional.cross_entropy(out, inputs[1]) if len(inputs) > 1 else (out * out).mean() + out[:, -1].sum() * 0.1


@pytest.mark.parametrize("name", NETS)
def test_a_net_learns_as_with_pytorch(name):
    kind, arguments, loss, inputs = NETS[name]
    ours = filled(getattr(models, kind)(**arguments), lathe.tensor, lathe.no_grad)
    theirs = filled(getattr(torch_models, kind)(**arguments), torch.tensor, torch.no_grad)
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    if name == "ResNet50":  # so many norms over so few numbers are steep: rounding to 24 bits shows
        ours, theirs, inputs = ours.double(), theirs.double(), [inputs[0].astype(np.float64), inputs[1]]
    rounds = []
    for net, tensor, functional, optim in (
        (ours, lathe.tensor, nn.functional, nn.optim),
        (theirs, torch.tensor, torch.nn.functional, torch.optim),
    ):
        net.train()
        optimizer = optim.SGD(net.parameters(), lr=0.01)
        given = [tensor(x) for x in inputs]
        losses = []
        for step in range(2):
            value = loss_of(net, loss, given, functional)
            losses.append(float(value.item()))
            if step == 0:
                optimizer.zero_grad()
                value.backward()
                slopes = {n: p.grad.numpy() if p.grad is not None else None for n, p in net.named_parameters()}
                optimizer.step()
        rounds.append((losses, slopes, {n: p.detach().numpy() for n, p in net.named_parameters()}))
    (losses, slopes, weights), (wanted_losses, wanted_slopes, wanted_weights) = rounds
    np.testing.assert_allclose(losses, wanted_losses, rtol=3e-4)
    assert losses[0] != losses[1]
    for n, wanted in wanted_slopes.items():
        if wanted is None:
            assert slopes[n] is None or not slopes[n].any(), n
            continue
        np.testing.assert_allclose(slopes[n], wanted, rtol=2e-3, atol=2e-4 * max(1e-3, np.abs(wanted).max()), err_msg=n)
        np.testing.assert_allclose(weights[n], wanted_weights[n], rtol=1e-4, atol=1e-5, err_msg=n)


def test_retinanet_finds_what_it_finds_with_pytorch():
    _, arguments, _, inputs = NETS["RetinaNet"]
    found = []
    for package, tensor, no_grad in ((models, lathe.tensor, lathe.no_grad), (torch_models, torch.tensor, torch.no_grad)):
        net = filled(package.RetinaNet(**arguments), tensor, no_grad).eval()
        with no_grad():
            found.append([[x.numpy() for x in one] for one in net.detect(tensor(inputs[0]), least=0.2, candidates=60, most=40)])
    for ours, theirs in zip(*found, strict=True):
        assert ours[3].sum() > 5, "the test has nothing to look at"
        np.testing.assert_array_equal(ours[3], theirs[3])
        for mine, wanted in zip(ours[:3], theirs[:3], strict=True):
            np.testing.assert_allclose(mine[ours[3]], wanted[ours[3]], rtol=1e-3, atol=1e-3)


def best_one_by_one(boxes, labels, valid, most):
    kept = []
    for i in range(len(boxes)):
        def shared(j):
            low, high = np.maximum(boxes[i, :2], boxes[j, :2]), np.minimum(boxes[i, 2:], boxes[j, 2:])
            both = np.prod(np.clip(high - low, 0, None))
            return both / (np.prod(boxes[i, 2:] - boxes[i, :2]) + np.prod(boxes[j, 2:] - boxes[j, :2]) - both)

        if valid[i] and all(labels[i] != labels[j] or shared(j) <= most for j in kept):
            kept.append(i)
    return kept


@pytest.mark.parametrize("seed", range(4))
def test_the_best_of_overlapping_boxes_are_those_a_loop_finds(seed):
    rng = np.random.default_rng(seed)
    corner = rng.random((80, 2)) * 10
    boxes = np.concatenate([corner, corner + 1 + rng.random((80, 2)) * 8], 1).astype(np.float32)
    labels, valid = rng.integers(0, 1 + seed, 80), rng.random(80) < 0.9
    best = importlib.import_module("lathe.models.boxes").best_of_overlapping
    kept = best(lathe.tensor(boxes), lathe.tensor(labels), lathe.tensor(valid), 0.3).numpy()
    assert list(np.flatnonzero(kept)) == best_one_by_one(boxes, labels, valid, 0.3)


def test_a_long_chain_of_boxes_is_followed_to_its_end():
    # Each overlaps the next: whether the last one stays depends on all before it.
    left = np.arange(41, dtype=np.float32)
    boxes = np.stack([left, 0 * left, left + 2, 0 * left + 1], 1)
    best = importlib.import_module("lathe.models.boxes").best_of_overlapping
    kept = best(lathe.tensor(boxes), lathe.zeros(41, dtype=lathe.int64), lathe.ones(41, dtype=lathe.bool), 0.3)
    assert kept.tolist() == [i % 2 == 0 for i in range(41)]


def test_published_sizes_have_the_published_numbers_of_parameters():
    # Nothing is computed: weights are made when they are first read. torchvision's RetinaNet freezes its batch norms, whose
    # 53,120 numbers its own count leaves out.
    sizes = {
        "ResNet": 25557032, "GPT2": 124439808, "Bert": 110106428, "Llama": 1235814400, "RetinaNet": 34014999 + 53120,
        "ClipText": 123060480, "UNet": 859520964, "Vae": 83653863,
    }  # fmt: skip
    for name, wanted in sizes.items():
        assert sum(p.numel() for p in getattr(models, name)().parameters()) == wanted, name
