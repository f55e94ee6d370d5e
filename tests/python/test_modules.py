"""Modules, layers, functions and losses against PyTorch with the same weights: values, gradients, names of the state."""

import copy
import pickle

import numpy as np
import pytest
import torch

import lathe
from lathe import Tensor, dtypes, nn
from lathe.nn import functional as F


def array(*shape, low=-1.0, high=1.0):
    return np.random.uniform(low, high, shape).astype(np.float32)


def same(mine, theirs, tolerance=2e-5, name=""):
    if isinstance(theirs, (tuple, list)):
        assert len(mine) == len(theirs)
        for m, t in zip(mine, theirs):
            same(m, t, tolerance, name)
        return
    assert tuple(mine.shape) == tuple(theirs.shape), name
    np.testing.assert_allclose(mine.numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance, err_msg=name)


def compare(mine, theirs, inputs, train=True, tolerance=2e-5, kwargs=None, constant=()):
    """Same weights, same inputs: outputs, gradients of the inputs and of the parameters."""
    if isinstance(mine, nn.Module):
        assert list(mine.state_dict()) == list(theirs.state_dict())
        mine.load_state_dict({k: Tensor(v.numpy()) for k, v in theirs.state_dict().items()})
        mine.train(train), theirs.train(train)
    wanted = [a.dtype == np.float32 and i not in constant for i, a in enumerate(inputs)]
    ours = [Tensor(a, requires_grad=True) if w else Tensor(a) for a, w in zip(inputs, wanted)]
    refs = [torch.tensor(a, requires_grad=w) for a, w in zip(inputs, wanted)]
    out, want = mine(*ours, **(kwargs or {})), theirs(*refs, **(kwargs or {}))
    same(out, want, tolerance)
    first, ref = (out[0], want[0]) if isinstance(want, tuple) else (out, want)
    if not ref.requires_grad:
        return
    weight = array(*ref.shape, low=0.5, high=1.5)
    (first * Tensor(weight)).sum().backward()
    (ref * torch.tensor(weight)).sum().backward()
    for x, r in zip(ours, refs):
        if r.grad is not None and x.grad is not None:
            same(x.grad, r.grad, 10 * tolerance, "input")
    if isinstance(mine, nn.Module):
        named = dict(mine.named_parameters())
        assert list(named) == [n for n, _ in theirs.named_parameters()]
        for name, p in theirs.named_parameters():
            if p.grad is not None:
                same(named[name].grad, p.grad, 10 * tolerance, name)


X = (4, 6)
IMAGE = (2, 4, 6, 8)
LINE = (2, 4, 9)
VOLUME = (1, 2, 4, 5, 6)
LAYERS = [
    *[(name, (), {}, [X]) for name in (
        "ReLU ReLU6 Sigmoid Tanh GELU SiLU Mish ELU CELU SELU LeakyReLU Hardtanh Hardsigmoid Hardswish LogSigmoid Softplus Softsign "
        "Tanhshrink Hardshrink Softshrink GLU Identity Flatten").split()],
    ("RReLU", (), {}, [X]), ("Threshold", (0.1, 20.0), {}, [X]), ("ELU", (0.7,), {}, [X]), ("LeakyReLU", (0.2,), {}, [X]),
    ("GELU", ("tanh",), {}, [X]), ("Softmax", (1,), {}, [X]), ("Softmin", (), {"dim": 0}, [X]), ("LogSoftmax", (-1,), {}, [X]),
    ("Softmax2d", (), {}, [IMAGE]), ("PReLU", (), {}, [X]), ("PReLU", (4,), {}, [IMAGE]), ("Unflatten", (1, (2, 3)), {}, [X]),
    ("Linear", (6, 3), {}, [X]), ("Linear", (6, 3, False), {}, [X]), ("Bilinear", (6, 5, 3), {}, [X, (4, 5)]),
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1}, [LINE]), ("Conv2d", (4, 6, 3), {"padding": 1, "groups": 2}, [IMAGE]),
    ("Conv3d", (2, 3, 3), {"padding": 1, "stride": 2}, [VOLUME]), ("Conv3d", (2, 4, (1, 2, 3)), {"groups": 2, "bias": False}, [VOLUME]),
    ("ConvTranspose1d", (4, 3, 3), {"stride": 2}, [LINE]), ("ConvTranspose2d", (4, 3, 3), {"stride": 2, "padding": 1}, [IMAGE]),
    ("ConvTranspose3d", (2, 3, 2), {"stride": 2, "output_padding": 1}, [VOLUME]),
    ("MaxPool1d", (2,), {}, [LINE]), ("MaxPool2d", (3, 2, 1), {}, [IMAGE]), ("MaxPool3d", (2,), {}, [VOLUME]), ("MaxPool2d", (2,), {}, [(4, 6, 8)]),
    ("MaxPool2d", (3, 2), {"ceil_mode": True}, [IMAGE]),
    ("AvgPool1d", (2,), {}, [LINE]), ("AvgPool2d", (3, 2, 1), {}, [IMAGE]), ("AvgPool2d", (3, 2, 1), {"count_include_pad": False}, [IMAGE]),
    ("AvgPool3d", (2,), {}, [VOLUME]), ("AvgPool2d", (2,), {"divisor_override": 3}, [IMAGE]),
    ("LPPool1d", (2, 2), {}, [LINE]), ("LPPool2d", (2, 2), {}, [IMAGE]),
    ("AdaptiveAvgPool1d", (3,), {}, [LINE]), ("AdaptiveAvgPool2d", ((4, 5),), {}, [IMAGE]), ("AdaptiveAvgPool2d", ((None, 1),), {}, [IMAGE]),
    ("AdaptiveAvgPool3d", (2,), {}, [VOLUME]), ("AdaptiveMaxPool1d", (4,), {}, [LINE]), ("AdaptiveMaxPool2d", ((3, 5),), {}, [IMAGE]),
    ("AdaptiveMaxPool3d", (2,), {}, [VOLUME]),
    ("PixelShuffle", (2,), {}, [IMAGE]), ("PixelUnshuffle", (2,), {}, [IMAGE]), ("ChannelShuffle", (2,), {}, [IMAGE]),
    ("Unfold", (3,), {"padding": 1, "stride": 2}, [IMAGE]), ("Unfold", ((2, 3),), {"dilation": 2}, [IMAGE]),
    ("Fold", ((6, 8), 2), {"stride": 2}, [(2, 8, 12)]), ("Fold", ((5, 6), 3), {"padding": 1}, [(2, 18, 30)]),
    ("LocalResponseNorm", (3,), {}, [IMAGE]), ("LocalResponseNorm", (2,), {"alpha": 0.5}, [IMAGE]),
    ("BatchNorm1d", (6,), {}, [X]), ("BatchNorm2d", (4,), {}, [IMAGE]), ("GroupNorm", (2, 4), {}, [IMAGE]), ("LayerNorm", (8,), {}, [IMAGE]),
    ("LayerNorm", ((6, 8),), {}, [IMAGE]), ("InstanceNorm1d", (4,), {}, [LINE]), ("InstanceNorm2d", (4,), {"affine": True}, [IMAGE]),
    ("InstanceNorm2d", (4,), {"track_running_stats": True}, [IMAGE]), ("InstanceNorm3d", (2,), {}, [VOLUME]),
    ("CosineSimilarity", (), {}, [X, X]), ("ConstantPad1d", (2, 0.5), {}, [LINE]), ("ZeroPad2d", (1,), {}, [IMAGE]),
    ("ReflectionPad1d", ((1, 2),), {}, [LINE]), ("ReflectionPad2d", (2,), {}, [IMAGE]), ("ReplicationPad2d", ((1, 0, 2, 1),), {}, [IMAGE]),
    ("ReplicationPad3d", (1,), {}, [VOLUME]), ("ConstantPad3d", (1, 2.0), {}, [VOLUME]),
    ("Upsample", (), {"scale_factor": 2}, [IMAGE]), ("Upsample", (), {"scale_factor": 1.7}, [IMAGE]),
    ("Upsample", (), {"size": (5, 11)}, [IMAGE]), ("Upsample", (), {"size": (5, 11), "mode": "bilinear"}, [IMAGE]),
    ("Upsample", (), {"scale_factor": 2, "mode": "bilinear", "align_corners": True}, [IMAGE]),
    ("Upsample", (), {"size": 7, "mode": "linear"}, [LINE]), ("Upsample", (), {"size": (9, 5), "mode": "bicubic"}, [IMAGE]),
    ("Upsample", (), {"scale_factor": 1.5, "mode": "trilinear"}, [VOLUME]), ("UpsamplingNearest2d", (), {"scale_factor": 3}, [IMAGE]),
    ("UpsamplingBilinear2d", (), {"size": (5, 5)}, [IMAGE]),
    ("RNN", (6, 5), {"num_layers": 2}, [(3, 2, 6)]), ("RNN", (6, 5), {"nonlinearity": "relu", "bidirectional": True}, [(3, 2, 6)]),
    ("GRU", (6, 5), {"batch_first": True}, [(2, 3, 6)]), ("GRU", (6, 5), {"num_layers": 2, "bidirectional": True}, [(3, 2, 6)]),
    ("GRU", (6, 5), {"bias": False}, [(3, 6)]), ("RNNCell", (6, 5), {}, [X]), ("RNNCell", (6, 5), {"nonlinearity": "relu"}, [X, (4, 5)]),
    ("TransformerEncoderLayer", (8, 2, 12, 0.0), {"batch_first": True}, [(2, 3, 8)]),
]  # fmt: skip


@pytest.mark.parametrize("name,args,kwargs,shapes", LAYERS, ids=[f"{i}-{row[0]}" for i, row in enumerate(LAYERS)])
@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
def test_layers_equal_pytorchs(name, args, kwargs, shapes, train):
    if name == "RReLU" and train:
        return
    compare(getattr(nn, name)(*args, **kwargs), getattr(torch.nn, name)(*args, **kwargs), [array(*s) for s in shapes], train, 1e-4, constant=(0,) if name == "ChannelShuffle" else ())


def test_lstm_equals_pytorchs_in_both_directions_and_takes_its_state():
    for options in ({}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True, "bias": False}):
        mine, theirs = nn.LSTM(4, 3, **options), torch.nn.LSTM(4, 3, **options)
        mine.load_state_dict({k: Tensor(v.numpy()) for k, v in theirs.state_dict().items()})
        x = array(5, 2, 4)
        batch = 5 if options.get("batch_first") else 2
        state = array(options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1), batch, 3)
        out, (h, c) = mine(Tensor(x), (Tensor(state), Tensor(state)))
        want, (wh, wc) = theirs(torch.tensor(x), (torch.tensor(state), torch.tensor(state)))
        same([out, h, c], [want, wh, wc])
        out.sum().backward(), want.sum().backward()
        for name, p in theirs.named_parameters():
            same(dict(mine.named_parameters())[name].grad, p.grad, 1e-4, name)
    with pytest.raises(ValueError, match="the first state has shape"):
        nn.LSTM(4, 3)(Tensor(x), (Tensor.zeros(1, 1, 3), Tensor.zeros(1, 1, 3)))


def classes(*shape, count=3):
    return np.random.randint(0, count, shape).astype(np.int64)


def signs(*shape):
    return np.where(np.random.rand(*shape) < 0.5, -1.0, 1.0).astype(np.float32)


LOSSES = [
    ("L1Loss", {}, lambda: [array(3, 4), array(3, 4)]), ("MSELoss", {}, lambda: [array(3, 4), array(3, 4)]),
    ("SmoothL1Loss", {"beta": 0.5}, lambda: [array(3, 4), array(3, 4)]), ("SmoothL1Loss", {"beta": 0.0}, lambda: [array(3, 4), array(3, 4)]),
    ("HuberLoss", {"delta": 0.3}, lambda: [array(3, 4), array(3, 4)]),
    ("BCELoss", {}, lambda: [array(3, 4, low=0.05, high=0.95), array(3, 4, low=0, high=1)]),
    ("BCEWithLogitsLoss", {}, lambda: [array(3, 4, low=-40, high=40), array(3, 4, low=0, high=1)]),
    ("NLLLoss", {}, lambda: [array(5, 3), classes(5)]), ("CrossEntropyLoss", {}, lambda: [array(5, 3), classes(5)]),
    ("CrossEntropyLoss", {"ignore_index": 1}, lambda: [array(5, 3), classes(5)]),
    ("CrossEntropyLoss", {"label_smoothing": 0.2}, lambda: [array(5, 3, 2, 2), classes(5, 2, 2)]),
    ("CrossEntropyLoss", {"label_smoothing": 0.1}, lambda: [array(5, 3), array(5, 3, low=0, high=1)]),
    ("CrossEntropyLoss", {}, lambda: [array(3), classes()]),
    ("KLDivLoss", {}, lambda: [array(3, 4), array(3, 4, low=0, high=1)]), ("KLDivLoss", {"log_target": True}, lambda: [array(3, 4), array(3, 4)]),
    ("KLDivLoss", {"reduction": "batchmean"}, lambda: [array(3, 4), np.zeros((3, 4), np.float32)]),
    ("PoissonNLLLoss", {}, lambda: [array(3, 4), array(3, 4, low=0, high=5)]),
    ("PoissonNLLLoss", {"full": True, "log_input": False}, lambda: [array(3, 4, low=0.1, high=5), array(3, 4, low=0, high=5)]),
    ("GaussianNLLLoss", {"full": True}, lambda: [array(3, 4), array(3, 4), array(3, 4, low=0.1, high=1)]),
    ("HingeEmbeddingLoss", {}, lambda: [array(3, 4), signs(3, 4)]), ("SoftMarginLoss", {}, lambda: [array(3, 4, low=-50, high=50), signs(3, 4)]),
    ("MultiLabelSoftMarginLoss", {}, lambda: [array(3, 4), np.random.randint(0, 2, (3, 4)).astype(np.float32)]),
    ("MultiLabelMarginLoss", {}, lambda: [array(2, 4), np.array([[3, 0, -1, 1], [1, -1, 2, 0]])]),
    ("MultiMarginLoss", {}, lambda: [array(5, 3), classes(5)]), ("MultiMarginLoss", {"p": 2, "margin": 0.7}, lambda: [array(5, 3), classes(5)]),
    ("CosineEmbeddingLoss", {"margin": 0.1}, lambda: [array(3, 4), array(3, 4), signs(3)]),
    ("MarginRankingLoss", {"margin": 0.2}, lambda: [array(5), array(5), signs(5)]),
    ("TripletMarginLoss", {}, lambda: [array(3, 4), array(3, 4), array(3, 4)]), ("TripletMarginLoss", {"swap": True}, lambda: [array(3, 4), array(3, 4), array(3, 4)]),
    ("TripletMarginWithDistanceLoss", {}, lambda: [array(3, 4), array(3, 4), array(3, 4)]),
]  # fmt: skip


@pytest.mark.parametrize("name,options,inputs", LOSSES, ids=[f"{i}-{row[0]}" for i, row in enumerate(LOSSES)])
def test_losses_equal_pytorchs_with_every_reduction(name, options, inputs):
    given = inputs()
    reductions = [options["reduction"]] if "reduction" in options else ["mean", "sum", "none"]
    for reduction in reductions:
        both = {**options, "reduction": reduction}
        compare(getattr(nn, name)(**both), getattr(torch.nn, name)(**both), given, tolerance=1e-4, constant=(1, 2) if len(given) < 3 or name == "CosineEmbeddingLoss" else ())


def test_losses_with_class_weights_equal_pytorchs():
    x, y, w = array(6, 3), classes(6), array(3, low=0.5, high=2)
    y[2] = -100
    for smoothing in (0.0, 0.3):
        for reduction in ("mean", "sum", "none"):
            got = F.cross_entropy(Tensor(x), Tensor(y), Tensor(w), label_smoothing=smoothing, reduction=reduction)
            same(got, torch.nn.functional.cross_entropy(*map(torch.tensor, (x, y, w)), label_smoothing=smoothing, reduction=reduction))
    same(F.multi_margin_loss(Tensor(x), Tensor(np.abs(y) % 3), weight=Tensor(w)), torch.nn.functional.multi_margin_loss(torch.tensor(x), torch.tensor(np.abs(y) % 3), weight=torch.tensor(w)))
    t, p = array(6, 3, low=0, high=1), array(3, low=0.5, high=3)
    same(F.binary_cross_entropy_with_logits(Tensor(x), Tensor(t), pos_weight=Tensor(p)), torch.nn.functional.binary_cross_entropy_with_logits(*map(torch.tensor, (x, t)), pos_weight=torch.tensor(p)))


def test_ctc_loss_equals_pytorchs():
    logs = np.log(np.random.dirichlet(np.ones(5), (8, 3))).astype(np.float32)
    targets, times, sizes = np.random.randint(1, 5, (3, 4)), [8, 6, 7], [4, 2, 3]
    targets[0, 1] = targets[0, 0]
    for reduction in ("none", "sum", "mean"):
        ours, refs = Tensor(logs, requires_grad=True), torch.tensor(logs, requires_grad=True)
        got = F.ctc_loss(ours, Tensor(targets), times, sizes, reduction=reduction)
        want = torch.nn.functional.ctc_loss(refs, torch.tensor(targets), torch.tensor(times), torch.tensor(sizes), reduction=reduction)
        same(got, want, 1e-4)
    short = F.ctc_loss(Tensor(logs[:2]), Tensor(targets), [2, 2, 2], sizes, reduction="none")
    assert np.isinf(short.numpy()).tolist() == [True, False, True]
    assert F.ctc_loss(Tensor(logs[:2]), Tensor(targets), [2, 2, 2], sizes, reduction="none", zero_infinity=True).numpy()[0] == 0


FUNCTIONS = [
    ("grid_sample", lambda m: m([array(2, 3, 4, 5), array(2, 3, 3, 2)]), {"align_corners": False}),
    ("grid_sample", lambda m: m([array(2, 3, 4, 5), array(2, 3, 3, 2, low=-2, high=2)]), {"align_corners": True, "padding_mode": "border"}),
    ("grid_sample", lambda m: m([array(2, 3, 4, 5), array(2, 3, 3, 2, low=-2, high=2)]), {"align_corners": False, "mode": "nearest"}),
    ("affine_grid", lambda m: m([array(2, 2, 3)]), {"size": (2, 1, 3, 4), "align_corners": False}),
    ("affine_grid", lambda m: m([array(2, 2, 3)]), {"size": (2, 1, 3, 4), "align_corners": True}),
    ("interpolate", lambda m: m([array(1, 2, 7, 9)]), {"size": (3, 4), "mode": "area"}),
    ("interpolate", lambda m: m([array(1, 2, 7, 9)]), {"size": (3, 4), "mode": "nearest-exact"}),
    ("cosine_similarity", lambda m: m([array(3, 4), array(3, 4)]), {"dim": 0}), ("pdist", lambda m: m([array(5, 3)]), {}),
    ("pairwise_distance", lambda m: m([array(3, 4), array(3, 4)]), {"p": 1}), ("normalize", lambda m: m([array(3, 4)]), {"p": 3.0, "dim": 0}),
    ("glu", lambda m: m([array(4, 6)]), {"dim": 0}), ("layer_norm", lambda m: m([array(3, 4)]), {"normalized_shape": (4,)}),
    ("group_norm", lambda m: m([array(2, 4, 3)]), {"num_groups": 2}), ("softmax", lambda m: m([array(3, 4)]), {"dim": 0}),
]  # fmt: skip


@pytest.mark.parametrize("name,inputs,options", FUNCTIONS, ids=[f"{i}-{row[0]}" for i, row in enumerate(FUNCTIONS)])
def test_functions_equal_pytorchs(name, inputs, options):
    given = inputs(list)
    compare(lambda *x: getattr(F, name)(*x, **options), lambda *x: getattr(torch.nn.functional, name)(*x, **options), given, tolerance=1e-4)


# ---- Module


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.bn, self.drop = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5)
        self.blocks = nn.ModuleList([nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU())])
        self.scale = nn.Parameter(Tensor.ones(8))
        self.register_buffer("mask", Tensor.ones(8))
        self.scratch = Tensor.ones(3)

    def forward(self, x):
        x = self.drop(self.bn(self.fc1(x)).relu())
        for block in self.blocks:
            x = block(x)
        return x * self.scale * self.mask


class Theirs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.bn, self.drop = torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5)
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(8, 8), torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())])
        self.scale = torch.nn.Parameter(torch.ones(8))
        self.register_buffer("mask", torch.ones(8))
        self.scratch = torch.ones(3)

    forward = Net.forward


def test_a_module_of_ones_own_has_pytorchs_names_and_values():
    mine, theirs = Net(), Theirs()
    assert list(mine.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in mine.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert [n for n, _ in mine.named_buffers()] == [n for n, _ in theirs.named_buffers()]
    assert [n for n, _ in mine.named_modules()] == [n for n, _ in theirs.named_modules()]
    assert [n for n, _ in mine.named_children()] == [n for n, _ in theirs.named_children()]
    compare(mine, theirs, [array(3, 4)], train=False)


def test_training_mode_belongs_to_the_module():
    net = Net()
    assert net.training and net.drop.training and net.blocks[1].training
    x = Tensor.ones(64, 4)
    before = net.bn.running_mean.numpy()
    assert (net(x).numpy() != net(x).numpy()).any() and (net.bn.running_mean.numpy() != before).any()
    net.eval()
    assert not net.drop.training and (net(x).numpy() == net(x).numpy()).all()
    teacher, student = Net().eval(), Net().train()
    assert not teacher.drop.training and student.drop.training and not Tensor.training
    student.bn.eval()
    kept = student.bn.running_mean.numpy()
    student(x).realize()
    assert (student.bn.running_mean.numpy() == kept).all()
    net.train()
    net.blocks.append(nn.Dropout(0.5))
    assert net.blocks[2].training
    layer = nn.Dropout(0.5)  # alone it follows Tensor.training
    assert not layer.training
    with Tensor.train():
        assert layer.training


def test_a_pytorch_loop_needs_no_other_words():
    net, reference = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    net.load_state_dict(reference.state_dict())
    net.train(), reference.train()
    ours, theirs = nn.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(reference.parameters(), lr=0.1)
    x, y = array(8, 3), array(8, 1)
    for _ in range(3):
        ours.zero_grad(), theirs.zero_grad()
        loss = nn.MSELoss()(net(Tensor(x)), Tensor(y))
        want = torch.nn.MSELoss()(reference(torch.tensor(x)), torch.tensor(y))
        loss.backward(), want.backward()
        ours.step(), theirs.step()
        assert abs(loss.item() - want.item()) < 1e-5
    for name, p in reference.state_dict().items():
        same(net.state_dict()[name], p)


def test_shared_parameters_have_every_name_and_are_trained_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3, bias=False)
            self.b = self.a

    tied = Tied()
    assert list(tied.state_dict()) == ["a.weight", "b.weight"] and len(tied.parameters()) == 1


def test_a_module_is_copied_pickled_moved_and_frozen():
    net = Net()
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert list(other.state_dict()) == list(net.state_dict()) and isinstance(other.scale, nn.Parameter)
        for name, tensor in net.state_dict().items():
            assert (other.state_dict()[name].numpy() == tensor.numpy()).all()
        other.scale.assign(Tensor.zeros(8))
        assert net.scale.numpy().sum() == 8
    kept = net.scale
    net.half()
    assert net.scale is kept and {str(p.dtype) for p in net.parameters()} == {"dtypes.float16"}
    assert str(net.bn.num_batches_tracked.dtype) != "dtypes.float16"
    net.float().requires_grad_(False)
    assert all(t.requires_grad is False for t in net.state_dict().values()) and list(net.state_dict()) == list(Theirs().state_dict())
    net.requires_grad_(True)
    assert all(p.requires_grad for p in net.parameters()) and len(net.parameters()) == len(list(Theirs().parameters()))
    assert not any(b.requires_grad for b in net.buffers())
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen[-1] == "Net" and seen.count("Linear") == 3


def test_load_state_dict_says_which_names_differ_and_changes_nothing():
    net = Net()
    state = {k: v.numpy() for k, v in net.state_dict().items()}
    state["extra"] = state.pop("fc1.weight")
    before = net.scale.numpy()
    state["scale"] = before * 2
    with pytest.raises(KeyError, match="missing in the dict: fc1.weight\n  note: unknown to the module: extra"):
        net.load_state_dict(state)
    assert (net.scale.numpy() == before).all()
    found = net.load_state_dict(state, strict=False)
    assert found.missing_keys == ["fc1.weight"] and found.unexpected_keys == ["extra"] and (net.scale.numpy() == 2 * before).all()


def test_hooks_see_and_change_calls():
    layer = nn.Linear(2, 2)
    seen = []
    before = layer.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    after = layer.register_forward_hook(lambda m, args, out: seen.append(out.shape))
    x = Tensor([[1.0, 2.0]])
    doubled = layer(x).numpy()
    before.remove(), after.remove()
    np.testing.assert_allclose(layer(x * 2).numpy(), doubled, rtol=1e-6)
    assert seen == [(1, 2)]


def test_layers_derive_with_forward_and_plain_classes_still_work():
    class Scaled(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    layer = Scaled(2, 3)
    np.testing.assert_allclose(layer(Tensor.ones(1, 2)).numpy(), 2 * nn.Linear.forward(layer, Tensor.ones(1, 2)).numpy())

    class Plain:
        def __init__(self):
            self.fc = nn.Linear(2, 3)

        def __call__(self, x):
            return self.fc(x)

    assert list(nn.state.get_state_dict(Plain())) == ["fc.weight", "fc.bias"]
    with pytest.raises(ValueError, match="has no forward"):
        nn.Module()(1)


def test_weight_norm_equals_pytorchs():
    mine, theirs = nn.Linear(3, 4), torch.nn.Linear(3, 4)
    mine.load_state_dict(theirs.state_dict())
    nn.utils.weight_norm(mine), torch.nn.utils.weight_norm(theirs)
    assert sorted(mine.state_dict()) == sorted(theirs.state_dict())
    x = array(5, 3)
    out, want = mine(Tensor(x)), theirs(torch.tensor(x))
    same(out, want)
    out.square().sum().backward(), want.square().sum().backward()
    for name, p in theirs.named_parameters():
        same(dict(mine.named_parameters())[name].grad, p.grad, 1e-4, name)


def test_initial_values_have_pytorchs_spread():
    for name, args in (("xavier_uniform_", {}), ("xavier_normal_", {"gain": 2.0}), ("kaiming_uniform_", {"a": 0.3}), ("kaiming_normal_", {"mode": "fan_out"}),
                       ("uniform_", {"a": -2.0, "b": 3.0}), ("normal_", {"mean": 1.0, "std": 0.1}), ("orthogonal_", {}), ("trunc_normal_", {"std": 0.5})):  # fmt: skip
        mine = getattr(nn.init, name)(Tensor.zeros(64, 48).contiguous(), **args).numpy()
        theirs = getattr(torch.nn.init, name)(torch.zeros(64, 48), **args).numpy()
        assert abs(mine.mean() - theirs.mean()) < 0.15 * (theirs.std() + 0.1), name
        assert abs(mine.std() - theirs.std()) < 0.1 * theirs.std(), name
    assert (nn.init.dirac_(Tensor.zeros(4, 2, 3).contiguous(), 2).numpy() == torch.nn.init.dirac_(torch.zeros(4, 2, 3), 2).numpy()).all()


# ---- printing


def test_tensors_print_their_values_in_numpys_layout():
    for values in (np.arange(6).reshape(2, 3), np.arange(2000).reshape(40, 50), np.zeros((2, 2, 2), np.int32), np.array([True, False])):
        values = values.astype(np.int32) if values.dtype == np.int64 else values
        inner = np.array2string(values, separator=", ", prefix="Tensor(", threshold=1000, max_line_width=100)
        assert repr(Tensor(values)).startswith(f"Tensor({inner},")
    assert repr(Tensor([1.0, 2.5, -3.0])) == "Tensor([ 1.0,  2.5, -3.0], shape=(3,), dtype=float32, device=CPU)"
    assert repr(Tensor([1.0, 2.0])) == "Tensor([1., 2.], shape=(2,), dtype=float32, device=CPU)"
    assert repr(Tensor(2.5, requires_grad=True)) == "Tensor(2.5, shape=(), dtype=float32, device=CPU, requires_grad=True)"
    assert repr(Tensor.zeros(0, 3)) == "Tensor([], shape=(0, 3), dtype=float32, device=CPU)"
    assert "nan" in repr(Tensor([float("nan"), 1.0])) and "1.0000e-09" in repr(Tensor([1e-9, 1.0]))
    assert str(Tensor([1.0], dtype="bfloat16")) == "Tensor([1.], shape=(1,), dtype=bfloat16, device=CPU)"
    assert f"{Tensor(3.14159):.2f}" == "3.14"


def test_printing_computes_only_what_is_shown():
    a, b = Tensor.rand(300, 64).realize(), Tensor.rand(64, 300).realize()
    product = a @ b
    lathe.GlobalCounters.reset()
    text = repr(product)
    assert "..." in text and lathe.GlobalCounters.global_ops < 300 * 64 * 300 / 100 and not product.is_realized


def test_a_captured_function_may_print():
    seen = []

    @lathe.TinyJit
    def step(x):
        y = x + 1
        seen.append(repr(y))
        return y.realize()

    assert [step(Tensor([float(i)])).item() for i in range(4)] == [1.0, 2.0, 3.0, 4.0]
    assert "captured function" in seen[0] and repr(step) == "TinyJit(step: captured, 1 kernel)"


def test_layers_nets_and_optimizers_print_what_they_are():
    assert repr(nn.Linear(784, 10)) == "Linear(784, 10)" and repr(nn.Linear(2, 3, bias=False)) == "Linear(2, 3, bias=False)"
    assert repr(nn.Conv2d(3, 8, 3, padding=1, groups=1)) == "Conv2d(3, 8, 3, padding=1)"
    assert repr(nn.Conv2d(4, 8, (3, 5), stride=2, groups=2, bias=False)) == "Conv2d(4, 8, (3, 5), stride=2, groups=2, bias=False)"
    assert repr(nn.ConvTranspose2d(4, 6, 3, groups=2)) == "ConvTranspose2d(4, 6, 3, groups=2)"
    assert repr(nn.BatchNorm2d(4)) == "BatchNorm(4)" and repr(nn.Dropout(0.1)) == "Dropout(p=0.1)" and repr(nn.ReLU()) == "ReLU()"
    assert repr(nn.MaxPool2d(2, stride=1)) == "MaxPool2d(2, stride=1)" and repr(nn.LayerNorm((3, 4))) == "LayerNorm((3, 4))"
    net = Net()
    lines = repr(net).splitlines()
    assert lines[0] == "Net, 208 parameters" and lines[1].split() == ["├─", "fc1:", "Linear(4,", "8)", "40"] and len(lines) == 9
    optimizer = nn.optim.AdamW(net.parameters(), lr=1e-3)
    assert repr(optimizer) == "AdamW(lr=0.001, 9 tensors with 208 parameters)"
    assert repr(nn.schedulers.MultiStep(optimizer, [2])) == "MultiStep(lr=0.001, base=0.001, step=0)"

    class Plain:
        def __init__(self):
            self.fc = nn.Linear(2, 3)

    assert nn.summary(Plain()) == "Plain, 9 parameters\n└─ fc: Linear(2, 3)  9"


def test_a_view_of_a_detached_tensor_that_asks_for_a_gradient_has_one():
    a = Tensor.rand(3, 4).realize().detach().requires_grad_()
    assert a.T.requires_grad is True and a.reshape(12).requires_grad is True
    y = a.T @ Tensor.ones(3, 2)
    y.numpy()
    y.sum().backward()
    assert (a.grad.numpy() == 2).all()


@pytest.mark.parametrize("dtype,bound", [("float16", 2e-3), ("bfloat16", 2e-2)])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_positions_in_large_images_of_half_are_whole_numbers(dtype, bound, mode):
    rng = np.random.default_rng(3)
    given = [Tensor(a.astype(np.float32)).cast(dtype) for a in (rng.normal(size=(1, 1, 129, 70)), rng.uniform(-1, 1, (1, 9, 9, 2)))]
    image, grid = [torch.tensor(t.float().numpy()) for t in given]
    for padding in ("zeros", "border"):
        found = nn.functional.grid_sample(*given, mode=mode, padding_mode=padding, align_corners=False)
        assert found.dtype == given[0].dtype
        wanted = torch.nn.functional.grid_sample(image, grid, mode=mode, padding_mode=padding, align_corners=False)
        np.testing.assert_allclose(found.float().numpy(), wanted.numpy(), atol=bound * 4)


def test_buffers_that_are_not_saved_are_buffers_too():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", Tensor([1.0]))
            self.register_buffer("scratch", Tensor([2.0]), persistent=False)

    net = nn.Sequential(Net())
    assert [name for name, _ in net.named_buffers()] == ["0.kept", "0.scratch"] and len(list(net.buffers())) == 2
    assert list(net.state_dict()) == ["0.kept"] and not list(net.parameters())
    assert {b.dtype for b in net.half().buffers()} == {dtypes.float16}
    net.load_state_dict({"0.kept": Tensor([3.0])})
