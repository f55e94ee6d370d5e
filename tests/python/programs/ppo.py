"""Proximal policy optimisation: advantages of a rollout, clipped ratios over several epochs, a value loss, entropy."""

import torch
import torch.nn as nn
from start import fill, integers, noise
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
        self.actor, self.critic = nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, x):
        h = self.body(x)
        return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)


net = ActorCritic()
fill(net)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, eps=1e-5)
states = torch.from_numpy(noise(12, 4))
actions = torch.from_numpy(integers(0, 3, (12,)))
rewards = noise(12)
masks = [0.0 if i % 5 == 4 else 1.0 for i in range(12)]
with torch.no_grad():
    dist, values = net(states)
    old = dist.log_prob(actions)
    _, last = net(torch.ones(1, 4))
gamma, lam, gae, returns = 0.99, 0.95, 0.0, []
padded = values.tolist() + last.tolist()
for i in reversed(range(12)):
    delta = float(rewards[i]) + gamma * padded[i + 1] * masks[i] - padded[i]
    gae = delta + gamma * lam * masks[i] * gae
    returns.insert(0, gae + padded[i])
returns = torch.tensor(returns, dtype=torch.float32)
advantages = returns - values
advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
losses = []
for epoch in range(3):
    for part in torch.arange(12).split(4):
        dist, value = net(states[part])
        ratio = (dist.log_prob(actions[part]) - old[part]).exp()
        first, second = ratio * advantages[part], torch.clamp(ratio, 0.8, 1.2) * advantages[part]
        loss = -torch.min(first, second).mean() + 0.5 * (returns[part] - value).pow(2).mean() - 0.01 * dist.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
