"""Gaussian process regression: the kernel's parameters are fitted with LBFGS, the prediction is by Cholesky."""

import math

import torch
from start import noise

X = torch.linspace(-3, 3, 20).unsqueeze(1).double()
y = torch.sin(2 * X).squeeze(1) + 0.1 * torch.tensor(noise(20)).double()
log_length = torch.zeros(1, dtype=torch.float64, requires_grad=True)
log_noise = torch.full((1,), -1.0, dtype=torch.float64, requires_grad=True)
log_scale = torch.zeros((), dtype=torch.float64, requires_grad=True)


def kernel(a, b):
    square = (a.unsqueeze(1) - b.unsqueeze(0)).pow(2).sum(-1)
    return log_scale.exp() * torch.exp(-0.5 * square / torch.exp(log_length) ** 2)


def negative_log_likelihood():
    K = kernel(X, X) + (torch.exp(log_noise) ** 2 + 1e-6) * torch.eye(len(X), dtype=torch.float64)
    L = torch.linalg.cholesky(K)
    alpha = torch.cholesky_solve(y.unsqueeze(1), L)
    return 0.5 * (y.unsqueeze(0) @ alpha).squeeze() + L.diagonal().log().sum() + 0.5 * len(X) * math.log(2 * math.pi)


losses = []
optimizer = torch.optim.LBFGS([log_length, log_noise, log_scale], lr=0.5, max_iter=8, line_search_fn="strong_wolfe")


def closure():
    optimizer.zero_grad()
    loss = negative_log_likelihood()
    loss.backward()
    return loss


for _ in range(3):
    losses.append(optimizer.step(closure).item())
with torch.no_grad():
    K = kernel(X, X) + (torch.exp(log_noise) ** 2 + 1e-6) * torch.eye(len(X), dtype=torch.float64)
    L = torch.linalg.cholesky(K)
    new = torch.tensor([[-2.5], [0.1], [4.0]], dtype=torch.float64)
    cross = kernel(X, new)
    mean = cross.T @ torch.cholesky_solve(y[:, None], L)
    v = torch.linalg.solve_triangular(L, cross, upper=False)
    spread = kernel(new, new).diagonal() - (v * v).sum(0)
losses += mean.flatten().tolist() + spread.tolist() + [log_length.item(), log_noise.item(), log_scale.item()]
sign, logdet = torch.linalg.slogdet(K)
losses += [sign.item(), logdet.item(), torch.linalg.slogdet(K).logabsdet.item()]
