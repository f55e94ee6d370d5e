"""A normalizing flow of coupling layers, with densities by torch.distributions."""

import torch
from torch import distributions, nn, optim
from start import fill, noise


class RealNVP(nn.Module):
    def __init__(self, nets, nett, mask, prior):
        super(RealNVP, self).__init__()
        self.prior = prior
        self.mask = nn.Parameter(mask, requires_grad=False)
        self.t = torch.nn.ModuleList([nett() for _ in range(len(mask))])
        self.s = torch.nn.ModuleList([nets() for _ in range(len(mask))])

    def g(self, z):
        x = z
        for i in range(len(self.t)):
            x_ = x * self.mask[i]
            s = self.s[i](x_) * (1 - self.mask[i])
            t = self.t[i](x_) * (1 - self.mask[i])
            x = x_ + (1 - self.mask[i]) * (x * torch.exp(s) + t)
        return x

    def f(self, x):
        log_det_J, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.mask[i] * z
            s = self.s[i](z_) * (1 - self.mask[i])
            t = self.t[i](z_) * (1 - self.mask[i])
            z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + z_
            log_det_J -= s.sum(dim=1)
        return z, log_det_J

    def log_prob(self, x):
        z, logp = self.f(x)
        return self.prior.log_prob(z).sum(-1) + logp


nets = lambda: nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(), nn.Linear(8, 2), nn.Tanh())  # noqa: E731
nett = lambda: nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(), nn.Linear(8, 2))  # noqa: E731
masks = torch.tensor([[0, 1], [1, 0]] * 2, dtype=torch.float32)
prior = distributions.Normal(torch.zeros(2), torch.ones(2))
flow = RealNVP(nets, nett, masks, prior)
fill(flow.t)
fill(flow.s)
optimizer = optim.Adam([p for p in flow.parameters() if p.requires_grad is True], lr=1e-2)
losses = []
for t in range(3):
    x = torch.tensor(noise(8, 2)) * torch.tensor([0.5, 2.0]) + 1.0
    loss = -flow.log_prob(x).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    losses.append(loss.item())
z = torch.tensor(noise(3, 2))
with torch.no_grad():
    back, _ = flow.f(flow.g(z))
assert torch.allclose(back, z, atol=1e-4)
assert flow.prior.sample((5,)).shape == (5, 2) and flow.prior.rsample(torch.Size([3])).shape == (3, 2)
losses += flow.g(z).detach().flatten().tolist()
losses.append(distributions.kl_divergence(distributions.Normal(0.5, 2.0), distributions.Normal(0.0, 1.0)).item())
