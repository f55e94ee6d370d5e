"""Self-supervised learning without negatives: a predictor, a target net that follows in place, a stopped gradient."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, noise


def mlp(size, hidden, out):
    return nn.Sequential(nn.Linear(size, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(inplace=True), nn.Linear(hidden, out))


online, predictor = mlp(6, 10, 5), mlp(5, 8, 5)
fill(online)
fill(predictor)
target = copy.deepcopy(online)
for p in target.parameters():
    p.requires_grad_(False)
for net in (online, predictor, target):
    net.train()
optimizer = torch.optim.Adam([*online.parameters(), *predictor.parameters()], lr=1e-2, betas=(0.9, 0.95))


def loss_of(p, z):
    return 2 - 2 * (F.normalize(p, dim=-1) * F.normalize(z.detach(), dim=-1)).sum(-1)


losses = []
for step in range(4):
    x = torch.from_numpy(noise(7, 6))
    one, two = x + 0.1 * torch.from_numpy(noise(7, 6)), x * 1.1
    with torch.no_grad():
        aim_one, aim_two = target(one), target(two)
    loss = (loss_of(predictor(online(one)), aim_two) + loss_of(predictor(online(two)), aim_one)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for o, t in zip(online.parameters(), target.parameters()):
            t.data.mul_(0.9).add_(o.data, alpha=0.1)
        for o, t in zip(online.buffers(), target.buffers()):
            t.copy_(o)
    losses += [loss.item(), sum(p.sum().item() for p in target.parameters())]
