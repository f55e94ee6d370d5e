"""Discrete latents by the Gumbel trick with a temperature that falls, a grouped and dilated autoencoder, mixed samples, focal loss."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, integers, noise


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv1d(2, 4, 3, stride=2, padding=1), nn.Conv1d(4, 6, 3, padding=2, dilation=2, groups=2)])
        self.norms = nn.ModuleList([nn.GroupNorm(2, 4), nn.InstanceNorm1d(6, affine=True)])
        self.logits = nn.Conv1d(6, 5, 1)
        self.up = nn.Sequential(nn.ConvTranspose1d(5, 4, 4, stride=2, padding=1), nn.ELU(), nn.Conv1d(4, 2, 3, padding="same"))
        self.head = nn.Linear(5, 3)
        self.register_buffer("temperature", torch.tensor(1.0))

    def forward(self, x, gumbel):
        for conv, norm in zip(self.down, self.norms):
            x = F.silu(norm(conv(x)))
        soft = F.softmax((self.logits(x) + gumbel) / self.temperature, dim=1)
        hard = torch.zeros_like(soft).scatter_(1, soft.argmax(1, keepdim=True), 1.0)
        code = hard - soft.detach() + soft
        return self.up(code), self.head(code.mean(-1)), soft


def focal(logits, y, gamma=2.0):
    ce = F.cross_entropy(logits, y, reduction="none")
    return ((1 - torch.exp(-ce)) ** gamma * ce).mean()


net = Net()
fill(net)
optimizer = torch.optim.NAdam(net.parameters(), lr=2e-2)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)
losses = []
for step in range(5):
    x, y = torch.from_numpy(noise(4, 2, 12)), torch.from_numpy(integers(0, 3, (4,)))
    uniform = torch.from_numpy(noise(4, 5, 6)).sigmoid()
    gumbel = -torch.log(-torch.log(uniform + 1e-9) + 1e-9)
    lam, other = 0.3 + 0.1 * step, torch.tensor([2, 0, 3, 1])
    mixed = lam * x + (1 - lam) * x[other]
    out, logits, soft = net(mixed, gumbel)
    prior = (soft * (soft * 5 + 1e-9).log()).sum(1).mean()
    loss = F.smooth_l1_loss(out, mixed) + lam * focal(logits, y) + (1 - lam) * focal(logits, y[other]) + 0.1 * prior
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    net.temperature.mul_(0.9).clamp_(min=0.5)
    losses += [loss.item(), prior.item(), net.temperature.item()]
