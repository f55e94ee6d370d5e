"""A restricted Boltzmann machine by contrastive divergence: gradients by hand, samples from given noise, free energy."""

import torch
import torch.nn.functional as F
from start import noise

data = (torch.tensor(noise(16, 12)) > 0).float()
W = torch.tensor(noise(12, 6)) * 0.1
a, b = torch.zeros(12), torch.zeros(6)
velocity = torch.zeros_like(W)
losses = []


def uniform(*shape):
    return (torch.tensor(noise(*shape)) * 0.25 + 0.5).clamp(0, 1)


def free_energy(v):
    return -v @ a - F.softplus(v @ W + b).sum(dim=1)


for step in range(6):
    h = torch.sigmoid(torch.addmm(b, data, W))
    sample = (h > uniform(16, 6)).to(h.dtype)
    v1 = torch.sigmoid(sample.mm(W.t()).add_(a))
    h1 = torch.sigmoid(v1.matmul(W) + b)
    update = (data.t() @ h - v1.t() @ h1) / data.size(0)
    velocity.mul_(0.5).add_(update, alpha=0.2)
    W += velocity
    a.add_((data - v1).mean(0) * 0.2)
    b += 0.2 * (h - h1).mean(dim=0)
    losses.append(F.mse_loss(v1, data).item())
    losses.append((free_energy(data).mean() - free_energy(v1.round()).mean()).item())
losses += W.norm(dim=0).tolist() + [W.norm(p=1).item(), W.norm(float("inf")).item()]
