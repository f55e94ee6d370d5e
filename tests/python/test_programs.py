"""Programs as PyTorch users write them, run by both libraries from the same text: losses are equal step by step."""

import types

import numpy as np
import pytest
import torch

import lathe
from lathe import Tensor, nn


def cat(tensors, dim=0):
    return tensors[0].cat(*tensors[1:], dim=dim)


LATHE = types.SimpleNamespace(
    nn=nn, F=nn.functional, optim=nn.optim, tensor=lambda a: Tensor(a), no_grad=lathe.no_grad, cat=cat,
    ones=lambda *s: Tensor.ones(*s), zeros=lambda *s: Tensor.zeros(*s), arange=lambda n: Tensor.arange(n),
)  # fmt: skip
TORCH = types.SimpleNamespace(
    nn=torch.nn, F=torch.nn.functional, optim=torch.optim, tensor=torch.tensor, no_grad=torch.no_grad, cat=torch.cat,
    ones=torch.ones, zeros=torch.zeros, arange=torch.arange,
)  # fmt: skip


def classifier(t):
    nn = t.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2))
            self.head = nn.Linear(4 * 4 * 4, 3)

        def forward(self, x):
            return self.head(self.features(x).flatten(1))

    net = Net()
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    return [net], t.optim.SGD(net.parameters(), lr=0.1, momentum=0.9), lambda x, y: loss(net(x.reshape(-1, 1, 8, 8)), y)


def autoencoder(t):
    nn, F = t.nn, t.F

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.mean, self.spread = nn.Linear(64, 16), nn.Linear(16, 4), nn.Linear(16, 4)
            self.decoder = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 64))

        def forward(self, x, noise):
            hidden = F.relu(self.encoder(x))
            mean, spread = self.mean(hidden), self.spread(hidden)
            return self.decoder(mean + noise * (0.5 * spread).exp()), mean, spread

    net = VAE()

    def step(x, y):
        out, mean, spread = net(x, x[:, :4])
        kl = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum(dim=1).mean()
        return F.binary_cross_entropy_with_logits(out, x.sigmoid(), reduction="sum") / x.shape[0] + kl

    return [net], t.optim.Adam(net.parameters(), lr=1e-2), step


def language_model(t):
    nn, F = t.nn, t.F

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

        def forward(self, x, mask):
            h = self.ln1(x)
            out, _ = self.attn(h, h, h, attn_mask=mask, need_weights=False)
            x = x + out
            return x + self.mlp(self.ln2(x))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tok, self.pos = nn.Embedding(10, 8), nn.Embedding(8, 8)
            self.blocks = nn.ModuleList([Block(8, 2) for _ in range(2)])
            self.head = nn.Linear(8, 10, bias=False)

        def forward(self, x):
            length = x.shape[1]
            mask = (t.arange(length).reshape(1, length) > t.arange(length).reshape(length, 1))
            x = self.tok(x) + self.pos(t.arange(length))
            for block in self.blocks:
                x = block(x, mask)
            return self.head(x)

    net = GPT()
    decay = [p for p in net.parameters() if p.dim() >= 2]
    plain = [p for p in net.parameters() if p.dim() < 2]
    optimizer = t.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=1e-2, betas=(0.9, 0.95))

    def step(x, y):
        tokens = (x[:, :8].abs() * 10).long() % 10
        logits = net(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, 10), tokens[:, 1:].reshape(-1))
        return loss

    return [net], optimizer, step


def tagger(t):
    nn, F = t.nn, t.F

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 6, bidirectional=True, batch_first=True)
            self.out = nn.Linear(12, 3)

        def forward(self, x):
            hidden, (h, c) = self.lstm(x)
            return F.log_softmax(self.out(hidden), dim=-1), h

    net = Tagger()

    def step(x, y):
        logs, h = net(x.reshape(-1, 8, 8))
        return F.nll_loss(logs[:, -1], y) + 0.01 * h.pow(2).mean()

    return [net], t.optim.RMSprop(net.parameters(), lr=1e-2), step


def segmenter(t):
    nn, F = t.nn, t.F

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.middle = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
            self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
            self.norm, self.out = nn.GroupNorm(2, 8), nn.Conv2d(8, 1, 1)

        def forward(self, x):
            a = F.silu(self.down(x))
            b = F.silu(self.middle(F.avg_pool2d(a, 2)))
            return self.out(self.norm(t.cat([a, self.up(b)], dim=1)))

    net = UNet()
    return [net], t.optim.Adam(net.parameters(), lr=1e-2), lambda x, y: F.mse_loss(net(x.reshape(-1, 1, 8, 8)), x.reshape(-1, 1, 8, 8).tanh())


def distillation(t):
    nn, F = t.nn, t.F
    teacher = nn.Sequential(nn.Linear(64, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, 3))
    student = nn.Sequential(nn.Linear(64, 4), nn.PReLU(), nn.Linear(4, 3))
    teacher.eval()
    student.train()

    def step(x, y):
        with t.no_grad():
            soft = F.softmax(teacher(x) / 2.0, dim=1)
        out = student(x)
        return F.kl_div(F.log_softmax(out / 2.0, dim=1), soft, reduction="batchmean") * 4 + 0.5 * F.cross_entropy(out, y)

    return [teacher, student], t.optim.SGD(student.parameters(), lr=0.1), step


def low_rank(t):
    nn, F = t.nn, t.F

    class LoRA(nn.Module):
        def __init__(self, base, rank=2):
            super().__init__()
            self.base = base
            for p in self.base.parameters():
                p.requires_grad_(False)
            self.a, self.b = nn.Parameter(t.ones(rank, 64) * 0.1), nn.Parameter(t.zeros(3, rank) + 0.01)

        def forward(self, x):
            return self.base(x) + x @ self.a.t() @ self.b.t()

    net = LoRA(nn.Linear(64, 3))
    return [net], t.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=1e-2), lambda x, y: F.cross_entropy(net(x), y)


def detector(t):
    nn, F = t.nn, t.F

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2)
            self.queries = nn.Parameter(t.ones(2, 8) * 0.1)
            self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 1)
            self.box, self.label = nn.Linear(8, 4), nn.Linear(8, 3)

        def forward(self, x):
            memory = self.encoder(x)
            out = self.decoder(self.queries.unsqueeze(0).expand(x.shape[0], 2, 8), memory)
            return self.box(out).sigmoid(), self.label(out)

    net = Detector()

    def step(x, y):
        box, label = net(x.reshape(-1, 8, 8))
        return F.smooth_l1_loss(box, t.ones(x.shape[0], 2, 4) * 0.5) + F.cross_entropy(label[:, 0], y)

    return [net], t.optim.AdamW(net.parameters(), lr=1e-2), step


def experts(t):
    nn, F = t.nn, t.F

    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(64, 3)
            self.experts = nn.ModuleDict({str(i): nn.Linear(64, 3) for i in range(3)})

        def forward(self, x):
            weights, chosen = self.gate(x).softmax(dim=-1).topk(2, dim=-1)
            outs = t.cat([e(x).unsqueeze(1) for e in self.experts.values()], dim=1)
            picked = outs.gather(1, chosen.unsqueeze(-1).expand(-1, -1, 3))
            return (picked * weights.unsqueeze(-1)).sum(dim=1)

    net = Mixture()
    return [net], t.optim.Adagrad(net.parameters(), lr=0.05), lambda x, y: F.cross_entropy(net(x), y)


PROGRAMS = [classifier, autoencoder, language_model, tagger, segmenter, distillation, low_rank, detector, experts]


@pytest.mark.parametrize("program", PROGRAMS, ids=[p.__name__ for p in PROGRAMS])
def test_a_program_has_pytorchs_losses(program):
    mine, theirs = program(LATHE), program(TORCH)
    for a, b in zip(mine[0], theirs[0]):
        assert [n for n, _ in a.named_parameters()] == [n for n, _ in b.named_parameters()]
        a.load_state_dict(b.state_dict())
    for step in range(4):
        x = np.random.default_rng(step).normal(size=(6, 64)).astype(np.float32)
        y = np.random.default_rng(step).integers(0, 3, 6)
        losses = []
        for t, (_, optimizer, loss_of) in ((LATHE, mine), (TORCH, theirs)):
            optimizer.zero_grad()
            loss = loss_of(t.tensor(x), t.tensor(y))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert abs(losses[0] - losses[1]) < 2e-3 * max(1, abs(losses[1])), (step, losses)


def test_a_gan_trains_two_nets_in_turn():
    def run(t):
        nn, F = t.nn, t.F
        G = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 64), nn.Tanh())
        D = nn.Sequential(nn.Linear(64, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
        rng = np.random.default_rng(0)
        for net in (G, D):
            state = {n: rng.normal(size=tuple(p.shape)).astype(np.float32) * 0.2 for n, p in net.state_dict().items()}
            net.load_state_dict({n: t.tensor(v) for n, v in state.items()})
        optG, optD = t.optim.Adam(G.parameters(), lr=1e-2, betas=(0.5, 0.999)), t.optim.Adam(D.parameters(), lr=1e-2, betas=(0.5, 0.999))
        losses = []
        for step in range(3):
            real, z = (t.tensor(rng.normal(size=s).astype(np.float32)) for s in ((6, 64), (6, 4)))
            fake = G(z)
            optD.zero_grad()
            lossD = F.binary_cross_entropy_with_logits(D(real), t.ones(6, 1)) + F.binary_cross_entropy_with_logits(D(fake.detach()), t.zeros(6, 1))
            lossD.backward()
            optD.step()
            optG.zero_grad()
            lossG = F.binary_cross_entropy_with_logits(D(fake), t.ones(6, 1))
            lossG.backward()
            optG.step()
            losses += [lossD.item(), lossG.item()]
        return losses

    np.testing.assert_allclose(run(LATHE), run(TORCH), rtol=2e-3)
