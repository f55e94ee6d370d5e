"""Sharpness-aware minimization: weights are moved in place to where the loss is worst, and back."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, integers, noise


class SAM:
    def __init__(self, params, base, rho=0.05, **options):
        self.params, self.rho, self.state = list(params), rho, {}
        self.base = base(self.params, **options)

    @torch.no_grad()
    def first_step(self):
        norm = torch.norm(torch.stack([p.grad.norm(p=2) for p in self.params]), p=2)
        scale = self.rho / (norm + 1e-12)
        for p in self.params:
            self.state[p] = p.data.clone()
            p.add_(p.grad * scale)
        self.base.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for p in self.params:
            p.data = self.state[p]
        self.base.step()
        self.base.zero_grad()


net = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Linear(12, 4))
fill(net)
optimizer = SAM(net.parameters(), torch.optim.SGD, rho=0.1, lr=0.1, momentum=0.9, nesterov=True)
x, y = torch.from_numpy(noise(10, 5)), torch.from_numpy(integers(0, 4, (10,)))
weights = torch.tensor([1.0, 2.0, 0.5, 1.0])
losses = []
for step in range(5):
    loss = F.cross_entropy(net(x), y, weight=weights)
    loss.backward()
    optimizer.first_step()
    worse = F.cross_entropy(net(x), y, weight=weights)
    worse.backward()
    optimizer.second_step()
    losses += [loss.item(), worse.item()]
