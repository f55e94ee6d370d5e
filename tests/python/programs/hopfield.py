"""A classical Hopfield net that repairs patterns, and a modern one whose energy falls."""

import torch
import torch.nn.functional as F
from start import noise

patterns = torch.sign(torch.tensor(noise(3, 32)))
patterns[patterns == 0] = 1
W = torch.einsum("pi,pj->ij", patterns, patterns) / 32
W.fill_diagonal_(0)
state = patterns.clone()
state[:, ::5] *= -1
losses = []
for _ in range(4):
    field = state @ W
    state = torch.where(field >= 0, torch.ones_like(state), -torch.ones_like(state))
    energy = -0.5 * torch.einsum(state, [0, 1], W, [1, 2], state, [0, 2], [0])
    losses += energy.tolist()
losses.append((state == patterns).float().mean().item())

beta = 2.0
query = torch.tensor(noise(2, 8)).requires_grad_()
memory = torch.tensor(noise(6, 8))
for _ in range(3):
    energy = (-torch.logsumexp(beta * query @ memory.T, dim=-1) / beta + 0.5 * query.square().sum(-1)).sum()
    (slope,) = torch.autograd.grad(energy, query)
    step = F.softmax(beta * query @ memory.mT, dim=-1) @ memory
    assert torch.allclose(query - slope, step, atol=1e-5)
    query = step.detach().requires_grad_(True)
    losses.append(energy.item())
