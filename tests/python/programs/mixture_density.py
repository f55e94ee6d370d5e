"""A mixture density network: several normal distributions for each input, their likelihood by logsumexp."""

import math

import torch
import torch.nn as nn
from start import fill, noise


class MDN(nn.Module):
    def __init__(self, k=4):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 20), nn.SiLU())
        self.pi, self.mu, self.sigma = nn.Linear(20, k), nn.Linear(20, k), nn.Linear(20, k)

    def forward(self, x):
        h = self.hidden(x)
        return torch.log_softmax(self.pi(h), -1), self.mu(h), nn.functional.elu(self.sigma(h)) + 1 + 1e-6


def loss_of(log_pi, mu, sigma, y):
    z = (y - mu) / sigma
    log_prob = -0.5 * z * z - sigma.log() - 0.5 * math.log(2 * math.pi)
    return -torch.logsumexp(log_pi + log_prob, dim=1).mean()


model = MDN()
fill(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, amsgrad=True)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=8, cycle_momentum=False)
t = torch.tensor(noise(24, 1))
x = t + 0.3 * torch.sin(6 * t)
losses = []
for step in range(8):
    optimizer.zero_grad()
    loss = loss_of(*model(x), t)
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
log_pi, mu, sigma = model(x[:4])
best = log_pi.argmax(dim=1, keepdim=True)
losses += mu.gather(1, best).flatten().tolist()
normal = torch.distributions.Normal(mu, sigma)
mixture = (normal.log_prob(t[:4]) + log_pi).logsumexp(-1)
losses += mixture.tolist()
