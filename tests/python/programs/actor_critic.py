"""Advantage actor-critic on a walk along a line: returns discounted backwards, entropy bonus, gradients clipped."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, noise


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 16)
        self.actor, self.critic = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, x):
        x = torch.relu(self.body(x))
        return F.softmax(self.actor(x), dim=-1), self.critic(x).squeeze(-1)


model = ActorCritic()
fill(model)
optimizer = torch.optim.RMSprop(model.parameters(), lr=7e-3, alpha=0.99, eps=1e-5)
luck = (torch.tensor(noise(5, 8)) + 2) / 4
losses = []
for episode in range(5):
    position, log_probs, values, rewards, entropies = 0.0, [], [], [], []
    for t in range(8):
        probs, value = model(torch.tensor([position, t / 8.0]))
        cumulative = torch.cumsum(probs.detach(), dim=0)
        action = int((luck[episode, t].clamp(0.01, 0.99) > cumulative).sum().clamp(max=1).item())
        position += 0.25 if action == 1 else -0.25
        log_probs.append(torch.log(probs[action]))
        entropies.append(-(probs * probs.clamp_min(1e-8).log()).sum())
        values.append(value)
        rewards.append(-abs(1.0 - position))
    returns, running = [], 0.0
    for r in reversed(rewards):
        running = r + 0.95 * running
        returns.insert(0, running)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    values, log_probs = torch.stack(values), torch.stack(log_probs)
    advantage = returns - values
    loss = -(log_probs * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean() - 0.01 * torch.stack(entropies).mean()
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    losses += [loss.item(), float(norm), position]
