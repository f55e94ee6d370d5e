"""Dilated causal convolutions with gates and skips over mu-law samples; what is generated one by one equals the whole pass."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, noise

LEVELS = 16


class Layer(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.dilation = dilation
        self.conv = nn.Conv1d(channels, 2 * channels, 2, dilation=dilation)
        self.skip, self.out = nn.Conv1d(channels, 8, 1), nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        f, g = self.conv(F.pad(x, (self.dilation, 0))).chunk(2, dim=1)
        z = torch.tanh(f) * torch.sigmoid(g)
        return x + self.out(z), self.skip(z)


class WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.inlet = nn.Conv1d(LEVELS, 6, 1)
        self.layers = nn.ModuleList([Layer(6, 2**i) for i in range(4)])
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(8, LEVELS, 1))

    def forward(self, tokens):
        x = self.inlet(F.one_hot(tokens, LEVELS).float().transpose(1, 2))
        skips = 0
        for layer in self.layers:
            x, skip = layer(x)
            skips = skips + skip
        return self.head(skips)


def mu_law(x, mu=LEVELS - 1):
    y = torch.sign(x) * torch.log1p(mu * x.abs()) / torch.log1p(torch.tensor(float(mu)))
    return ((y + 1) / 2 * mu + 0.5).long().clamp(0, mu)


wave = torch.tanh(torch.tensor(noise(2, 24)).cumsum(1) * 0.5)
tokens = mu_law(wave)
model = WaveNet()
fill(model)
optimizer = torch.optim.Adamax(model.parameters(), lr=5e-3)
losses = []
for step in range(5):
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits, tokens[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
with torch.no_grad():
    whole = model(tokens)
    for length in (3, 9, 17):
        part = model(tokens[:, :length])[:, :, -1]
        assert torch.allclose(part, whole[:, :, length - 1], atol=1e-5)
    seen = tokens[:1, :4]
    for _ in range(5):
        seen = torch.cat((seen, model(seen)[:, :, -1].argmax(1, keepdim=True)), 1)
losses += seen.flatten().float().tolist()
