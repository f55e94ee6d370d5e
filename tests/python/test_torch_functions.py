"""`import lathe as torch`: PyTorch's functions and small modules give what PyTorch's give."""

import copy
import math

import numpy as np
import pytest
import torch
from oracle import assert_same

import lathe
from lathe import Tensor, functions, nn

A = np.array([[1.5, -2.0, 0.5], [3.0, 0.25, -1.0]], dtype=np.float32)
# A call of both libraries `t` with tensors x, y; the same text for both.
CALLS = """
t.zeros(2, 3) | t.ones((2, 3)) | t.zeros(size=(2,)) | t.full((2, 2), 3.5) | t.full((2,), 7) | t.arange(5) | t.arange(1, 7, 2) | t.arange(0.0, 1.0, 0.25)
t.linspace(0, 1, 5) | t.logspace(0, 2, 3) | t.eye(3) | t.eye(2, 3) | t.zeros_like(x) | t.ones_like(x) | t.full_like(x, 2.0) | t.tensor([[1.0, 2.0]]) | t.tensor(3.5)
t.as_tensor([1.0, 2.0]) | t.tensor([True, False]) | t.tril_indices(3, 3) | t.triu_indices(3, 4, 1) | t.vander(x[0]) | t.hann_window(8) | t.hamming_window(6) | t.blackman_window(7)
t.cat([x, y]) | t.cat((x, y), dim=1) | t.cat([x, y], -1) | t.stack([x, y]) | t.stack((x, y), dim=-1) | t.hstack([x, y]) | t.vstack((x, y)) | t.dstack([x, y])
t.column_stack([x[0], y[0]]) | t.block_diag(x, y) | t.atleast_2d(x[0]) | t.atleast_3d(x) | t.meshgrid(x[0], y[1], indexing="ij") | t.meshgrid(x[0], y[1], indexing="xy")
t.cartesian_prod(x[0], y[0]) | t.combinations(x[0]) | t.broadcast_tensors(x, y[0]) | t.einsum("ij,kj->ik", x, y) | t.einsum("ij,ij->i", [x, y]) | t.chain_matmul(x, y.T, x)
t.where(x > 0, x, y) | t.where(x > 0, x, 0.0) | t.where(x > 0) | t.nonzero(x > 0) | t.nonzero(x > 0, as_tuple=True) | t.isin(x, y) | t.max(x) | t.max(x, 1) | t.max(x, y)
t.min(x, 0, keepdim=True) | t.min(x, y) | t.sum(x, 1) | t.sum(x, dim=0, keepdim=True) | t.mean(x, dim=(0, 1)) | t.std(x, dim=1) | t.var(x, 0, unbiased=False) | t.prod(x)
t.argmax(x, dim=1) | t.topk(x, 2) | t.sort(x, dim=1) | t.argsort(x, descending=True) | t.cumsum(x, 1) | t.matmul(x, y.T) | t.mm(x, y.T) | t.bmm(x[None], y.T[None]) | t.dot(x[0], y[0])
t.outer(x[0], y[0]) | t.norm(x) | t.norm(x, dim=1) | t.clamp(x, min=0) | t.clamp(x, -1, 1) | t.sigmoid(x) | t.tanh(x) | t.relu(x) | t.softmax(x, dim=-1) | t.log_softmax(x, 1)
t.exp(x) | t.log(t.abs(x)) | t.sqrt(t.abs(x)) | t.rsqrt(t.abs(x)) | t.pow(x, 2) | t.square(x) | t.sin(x) | t.floor(x) | t.round(x) | t.sign(x) | t.abs(x) | t.neg(x) | t.add(x, y) | t.add(x, y, alpha=2)
t.sub(x, y) | t.mul(x, 2) | t.div(x, y) | t.maximum(x, y) | t.eq(x, y) | t.ge(x, 0) | t.logical_not(x > 0) | t.isnan(x) | t.all(x > -9) | t.any(x > 2) | t.flatten(x) | t.reshape(x, (3, 2))
t.transpose(x, 0, 1) | t.permute(x, (1, 0)) | t.unsqueeze(x, 0) | t.squeeze(x[None]) | t.flip(x, [1]) | t.roll(x, 1, 0) | t.tril(x) | t.triu(x, 1) | t.diag(x[0]) | t.trace(x[:, :2])
t.chunk(x, 3, dim=1) | t.split(x, 2, dim=1) | t.unbind(x) | t.gather(x, 1, (x > 0).long()) | t.index_select(x, 1, t.tensor([2, 0])) | t.masked_select(x, x > 0) | t.take_along_dim(x, (x > 0).long(), 1)
t.cdist(x, y) | t.cosine_similarity(x, y) | t.logsumexp(x, dim=1) | t.std_mean(x) | t.quantile(x, 0.5) | t.median(x) | t.unique(t.tensor([3, 1, 3])) | t.bincount(t.tensor([1, 1, 2])) | t.diff(x)
t.tensordot(x, y, dims=([1], [1])) | t.kron(x, y) | t.repeat_interleave(x, 2, dim=0) | t.tile(x, (2, 1)) | t.lerp(x, y, 0.5) | t.addmm(t.ones(2, 2), x, y.T) | t.nan_to_num(x / 0) | t.flatten(x[None], start_dim=1)
t.searchsorted(t.tensor([1.0, 2.0]), x[0]) | t.bucketize(x, t.tensor([0.0, 1.0])) | t.special.expit(x) | t.linalg.norm(x) | t.conv1d(x[None], y[None, :, :2]) | t.dropout(x, 0.5, False)
t.vmap(lambda a, b: (a * b).sum())(x, y) if hasattr(t, "vmap") else (x * y).sum(1) | t.LongTensor([1, 2]) | t.FloatTensor([[1, 2]]) | t.BoolTensor([1, 0]) | t.ones(2, dtype=t.int64) | t.zeros(2, dtype=t.bool)
t.from_numpy(x.numpy() * 2) | t.frombuffer(bytes([1, 0, 2, 0]), dtype=t.int16) | t.distributions.Normal(x, t.exp(y)).log_prob(y) | t.distributions.Normal(x, t.exp(y)).cdf(y) | t.distributions.Normal(x, t.exp(y)).entropy()
t.distributions.Categorical(logits=x).log_prob(t.tensor([0, 2])) | t.distributions.Categorical(t.softmax(x, 1)).entropy() | t.distributions.Bernoulli(logits=x).log_prob((y > 0).float()) | t.distributions.Bernoulli(t.sigmoid(x)).entropy()
t.distributions.kl_divergence(t.distributions.Normal(x, t.exp(y)), t.distributions.Normal(y, t.exp(x))) | t.distributions.kl_divergence(t.distributions.Categorical(logits=x), t.distributions.Categorical(logits=y))
t.distributions.Uniform(x - 5, x + 5).log_prob(y) | t.distributions.Laplace(x, t.exp(y)).log_prob(y) | t.distributions.Exponential(t.exp(x)).log_prob(t.exp(y)) | t.distributions.LogNormal(x, t.exp(y)).log_prob(t.exp(y))
t.sort(x, dim=1, descending=True, stable=True) | t.argsort(x, dim=0, stable=True) | t.cumulative_trapezoid(x) | t.trapezoid(x, y, dim=0) | t.linalg.matrix_rank(x) | t.linalg.matrix_norm(x) | t.linalg.matrix_norm(x, 1)
t.linalg.cond(x[:, :2]) | t.linalg.vecdot(x, y) | t.linalg.diagonal(x, offset=1) | t.gradient(x) | t.gradient(x, dim=1, spacing=0.5, edge_order=2) | t.gradient(x[0], spacing=(t.tensor([0.0, 1.0, 3.0]),))
t.logspace(0, 3, 4, dtype=t.int64) | t.cdist(x, y, 2.0, "use_mm_for_euclid_dist") | t.nn.functional.group_norm(x[:0], 3) | t.nn.functional.local_response_norm(x[:0, :, None], 2)
t.distributions.Independent(t.distributions.Normal(x, t.exp(y)), 1).log_prob(y) | t.distributions.MultivariateNormal(x[0], t.eye(3) * 2).log_prob(y[0]) | t.distributions.Laplace(x, t.exp(y)).entropy()
"""
CALLS = [call.strip() for line in CALLS.strip().splitlines() for call in line.split(" | ")]


@pytest.mark.parametrize("call", CALLS)
def test_a_function_gives_what_pytorchs_gives(call):
    B = A[::-1].copy() + 0.5
    theirs = eval(call, {"t": torch, "x": torch.tensor(A), "y": torch.tensor(B)})
    mine = eval(call, {"t": lathe, "x": Tensor(A), "y": Tensor(B)})
    assert_same(_plain(mine), _plain(theirs))


def _plain(out):
    return list(out) if isinstance(out, (tuple, list)) else out


def test_every_function_has_a_docstring():
    for name in functions.names():
        value = getattr(lathe, name)
        if callable(value):
            assert (value.__doc__ or "").strip(), name


def test_a_misspelt_function_is_answered_with_the_nearest():
    with pytest.raises(AttributeError, match="did you mean softmax"):
        lathe.sofmax


@pytest.mark.parametrize("make", [lambda: lathe.zeros(2, dtpye=lathe.float32), lambda: lathe.tensor([1.0], requires_gard=True)])
def test_a_misspelt_argument_is_an_error(make):
    with pytest.raises(TypeError, match="there is no argument"):
        make()


def test_out_takes_the_result():
    out = lathe.zeros(3)
    assert lathe.add(lathe.ones(3), 1, out=out) is out and out.tolist() == [2, 2, 2]


def test_devices_are_strings_with_parts():
    cpu = lathe.device("cpu")
    assert cpu == "CPU" and cpu.type == "cpu" and cpu.index is None and isinstance(cpu, lathe.device)
    assert lathe.ones(1).device == cpu and lathe.ones(1, device=cpu).device.type == "cpu"
    assert lathe.device("cuda:1").index == 1 and copy.deepcopy(cpu) == cpu
    with pytest.raises(lathe.UserError, match="device"):
        lathe.device("gpuu")


def test_data_is_the_tensor_without_its_gradient():
    w = Tensor([1.0, 2.0], requires_grad=True)
    w.data.mul_(2).add_(1)
    assert w.tolist() == [3.0, 5.0] and w.requires_grad is True
    w.data[0] = 7.0
    assert w.tolist() == [7.0, 5.0] and bytes(w.data())[:4] == np.float32(7).tobytes()
    other = Tensor([0.0, 1.0])
    w.data = other
    assert w.tolist() == [0.0, 1.0] and w.requires_grad is True
    (w * 2).sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]


def test_a_tensor_of_one_element_is_true_or_false():
    assert Tensor([1.0]) and not Tensor(0) and (Tensor([1, 2]) > 0).all()
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(Tensor([1, 2]))


@pytest.mark.parametrize("shape,mask", [((5,), [1, 0, 1, 1, 0]), ((3, 2), [1, 0, 1]), ((2, 2), [[1, 0], [1, 1]]), ((3,), [0, 0, 0])])
def test_values_are_set_through_a_mask_in_order(shape, mask):
    mask = np.array(mask, dtype=bool)
    rest = shape[mask.ndim :]
    values = np.arange(1, 1 + int(mask.sum()) * math.prod(rest), dtype=np.float32).reshape(-1, *rest)
    mine, theirs = Tensor.zeros(*shape).contiguous(), torch.zeros(*shape)
    mine[Tensor(mask)], theirs[torch.tensor(mask)] = Tensor(values), torch.tensor(values)
    assert_same(mine, theirs)
    if mask.sum():
        with pytest.raises(lathe.UserError, match="as many values as the mask has True"):
            mine[Tensor(mask)] = Tensor.zeros(9, *rest)


def test_gradients_flow_through_values_set_by_a_mask():
    def run(t, tensor):
        v = tensor([1.0, 2.0])
        v.requires_grad_(True)
        x = t.zeros(3) if t is torch else t.zeros(3).contiguous()
        x[tensor([True, False, True])] = v * 3
        (x * tensor([1.0, 5.0, 7.0])).sum().backward()
        return v.grad

    assert_same(run(lathe, Tensor), run(torch, torch.tensor))


def test_gradients_can_be_switched_off_and_on():
    x = Tensor([2.0], requires_grad=True)
    with lathe.no_grad():
        assert not lathe.is_grad_enabled()
        with lathe.enable_grad():
            y = (x * 3).sum()
    y.backward()
    assert x.grad.item() == 3.0
    lathe.set_grad_enabled(False)
    try:
        assert (x * 2).requires_grad is not True and not lathe.is_grad_enabled()
    finally:
        lathe.set_grad_enabled(True)
    with lathe.set_grad_enabled(False):
        pass
    assert lathe.is_grad_enabled()


class _Cube(lathe.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * x * scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x * ctx.scale * 10, None  # ten times what it is, to tell it from the built-in one


def test_a_function_of_ones_own_has_its_own_gradient():
    x = Tensor([1.0, 2.0], requires_grad=True)
    for scale in (1.0, 2.0):
        x.grad = None
        out = _Cube.apply(x, scale)
        assert out.tolist() == [scale, 8 * scale]
        out.sum().backward()
        assert x.grad.tolist() == [30 * scale, 120 * scale]


def test_autograd_grad_agrees_with_pytorch():
    def run(t, tensor):
        x, y = tensor([1.0, 2.0]), tensor([3.0, -1.0])
        x.requires_grad_(True), y.requires_grad_(True)
        gx, gy = t.autograd.grad((x**2 * y).sum(), [x, y], create_graph=True)
        (gg,) = t.autograd.grad(gx, x, grad_outputs=t.ones_like(gx))
        return [gx.detach(), gy.detach(), gg, t.autograd.functional.jacobian(lambda v: v**2, tensor([1.0, 3.0])),
                t.autograd.functional.hessian(lambda v: (v**3).sum(), tensor([1.0, 3.0]))]  # fmt: skip

    assert_same(run(lathe, Tensor), run(torch, torch.tensor))
    with pytest.raises(lathe.UserError, match="needs grad_outputs"):
        lathe.autograd.grad(Tensor([1.0, 2.0], requires_grad=True) * 2, Tensor([1.0]))


# ---- mixed precision


def test_autocast_lowers_products_and_keeps_sums():
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(32, 3), nn.LayerNorm(3))
    x = Tensor.randn(2, 1, 6, 6).realize()
    with lathe.autocast("cpu", dtype=lathe.bfloat16):
        hidden = net[:3](x)
        assert hidden.dtype == lathe.bfloat16 and net[3](hidden).dtype == lathe.float32
        assert hidden.softmax(-1).dtype == lathe.float32 and (x @ x).dtype == lathe.bfloat16
        assert lathe.einsum("bcij->b", x).dtype == lathe.bfloat16 and (x + x).dtype == lathe.float32
        loss = nn.functional.cross_entropy(hidden, Tensor([0, 1]))
        assert loss.dtype == lathe.float32
        with lathe.autocast("cpu", enabled=False):
            assert (x @ x).dtype == lathe.float32
        assert (x.double() @ x.double()).dtype == lathe.float64 and (x.int() @ x.int()).dtype == lathe.int32
    loss.backward()
    assert all(p.grad.dtype == lathe.float32 for p in net.parameters() if p.grad is not None)
    assert (x @ x).dtype == lathe.float32
    with pytest.raises(lathe.UserError, match="not a float of at most 32 bits"):
        with lathe.autocast("cpu", dtype=lathe.int32):
            pass


def test_a_scaler_that_is_off_lets_everything_pass():
    w = Tensor([2.0], requires_grad=True)
    opt, scaler = nn.optim.SGD([w], lr=0.5), lathe.amp.GradScaler("cuda", enabled=False)
    loss = (w * 3).sum()
    assert scaler.scale(loss) is loss and scaler.get_scale() == 1.0 and not scaler.is_enabled()
    loss.backward()
    with Tensor.train():
        scaler.unscale_(opt), scaler.step(opt), scaler.update()
    assert w.item() == 0.5


# ---- layers as PyTorch's programs call them


def test_a_row_for_padding_is_not_trained():
    def run(t, nn, tensor):
        layer = nn.Embedding(4, 2, padding_idx=1)
        w = np.arange(8, dtype=np.float32).reshape(4, 2)
        w[1] = 0
        layer.load_state_dict({"weight": tensor(w)})
        layer(tensor([[1, 2], [2, 3]])).sum().backward()
        return layer.weight.grad

    assert_same(run(lathe, nn, Tensor), run(torch, torch.nn, torch.tensor))
    assert nn.Embedding(4, 2, padding_idx=-1).padding_idx == 3 and nn.Embedding(4, 2, 0).weight[0].abs().sum().item() == 0


def test_layers_know_their_sizes():
    assert nn.Linear(3, 5).in_features == 3 and nn.Linear(3, 5).out_features == 5
    conv = nn.Conv2d(4, 6, 3, groups=2)
    assert (conv.in_channels, conv.out_channels) == (4, 6)
    assert nn.BatchNorm2d(7).num_features == 7 and nn.Embedding(4, 2).embedding_dim == 2
    assert nn.BatchNorm2d(7, 1e-3, 0.2).momentum == 0.2 and nn.Linear(2, 2, dtype=lathe.float16).weight.dtype == lathe.float16


@pytest.mark.parametrize("make,text", [
    (lambda: nn.Linear(3, 4, biass=False), "lathe: Linear: there is no argument biass; did you mean bias?\n  help: it takes in_features, out_features, bias"),
    (lambda: nn.Conv2d(1, 2), "lathe: Conv2d: cannot be made from (1, 2)\n  help: it takes in_channels"),
    (lambda: nn.Linear("a", 4), "lathe: Linear: cannot be made from ('a', 4)"),
    (lambda: nn.optim.RMSprop([Tensor([1.0])], weigth_decay=1), "lathe: RMSprop: there is no argument weigth_decay; did you mean weight_decay?"),
])  # fmt: skip
def test_a_wrong_constructor_is_answered_in_words(make, text):
    with pytest.raises(TypeError) as error:
        make()
    assert text in str(error.value)


def test_sequences_of_several_lengths_are_run_to_their_ends():
    rng = np.random.default_rng(0)
    x, lengths = rng.normal(size=(3, 5, 4)).astype(np.float32), [3, 5, 1]
    for kind, both in (("LSTM", True), ("GRU", False), ("RNN", True)):
        mine, theirs = getattr(nn, kind)(4, 3, batch_first=True, bidirectional=both), getattr(torch.nn, kind)(4, 3, batch_first=True, bidirectional=both)
        mine.load_state_dict(theirs.state_dict())
        outs = []
        for t, tensor, net in ((nn, Tensor, mine), (torch.nn, torch.tensor, theirs)):
            rnn = t.utils.rnn
            packed = rnn.pack_padded_sequence(tensor(x), tensor(lengths), batch_first=True, enforce_sorted=False)
            out, last = net(packed)
            padded, sizes = rnn.pad_packed_sequence(out, batch_first=True, padding_value=-1.0)
            outs.append([padded.detach(), sizes, *(h.detach() for h in (last if isinstance(last, tuple) else [last]))])
        assert_same(*outs)
    with pytest.raises(lathe.UserError, match="enforce_sorted=False"):
        nn.utils.rnn.pack_padded_sequence(Tensor(x), lengths, batch_first=True)


def test_adam_with_the_largest_square_agrees_with_pytorch():
    for kind in ("Adam", "AdamW"):
        mine, theirs = Tensor([1.0, -2.0], requires_grad=True), torch.tensor([1.0, -2.0], requires_grad=True)
        a = getattr(nn.optim, kind)([mine], lr=0.1, amsgrad=True, weight_decay=0.1)
        b = getattr(torch.optim, kind)([theirs], lr=0.1, amsgrad=True, weight_decay=0.1)
        for factor in (3.0, 0.1, 1.0):
            for w, opt in ((mine, a), (theirs, b)):
                opt.zero_grad()
                (w * w * factor).sum().backward()
                with Tensor.train():
                    opt.step()
        assert_same(mine, theirs)


def test_batches_of_datasets_and_samplers():
    data = lathe.utils.data
    rows = data.TensorDataset(Tensor.arange(5), Tensor.arange(5) * 10)
    assert [b[1].tolist() for b in data.DataLoader(rows, batch_size=2)] == [[0, 10], [20, 30], [40]]
    assert [b.tolist() for b in data.DataLoader(list(range(4)), batch_size=2, sampler=[3, 2, 1, 0])] == [[3, 2], [1, 0]]
    assert [b.tolist() for b in data.DataLoader(list(range(4)), batch_sampler=[[0], [1, 2, 3]])] == [[0], [1, 2, 3]]
    assert next(iter(data.DataLoader([1, 2], batch_size=2, collate_fn=sum))) == 3

    class Stream(data.IterableDataset):
        def __iter__(self):
            return iter(range(3))

    assert [b.tolist() for b in data.DataLoader(Stream(), batch_size=2)] == [[0, 1], [2]]
    with pytest.raises(lathe.UserError, match="shuffle"):
        data.DataLoader([1], sampler=[0], shuffle=True)


def test_reading_a_parameter_before_training_does_not_stop_it():
    """The gradient read memory "that was written to since" where parameters had been read through detach()."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(Tensor.full((1,), 0.25)), nn.Parameter(Tensor.full((2,), 0.5))

    net = Net()
    for p in net.parameters():
        p.detach().numpy()
    opt = nn.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        opt.zero_grad()
        (Tensor([[1.0, -2.0]]) * net.a * net.b).sum().backward()
        with Tensor.train():
            opt.step()
    np.testing.assert_allclose(net.a.tolist() + net.b.tolist(), [0.44, 0.40875, 0.6825], rtol=1e-5)


def test_the_next_of_parameters_is_the_first():
    net = nn.Linear(2, 3)
    assert next(net.parameters()).shape == (3, 2) and all(p.requires_grad is True for p in net.parameters())
    assert len(net.parameters()) == 2 and next(iter(net.parameters())) is net.weight


def test_a_parameter_that_was_frozen_for_a_while_gets_its_gradient_once():
    w = Tensor([3.0], requires_grad=True)
    w.requires_grad = False
    w.requires_grad = True
    (w * 2).sum().backward()
    assert w.grad.item() == 2.0
