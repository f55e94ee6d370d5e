"""REINFORCE with a value head on a pole that falls."""

import math
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical
from start import fill, noise

SavedAction = namedtuple("SavedAction", ["log_prob", "value"])


class CartPole:
    def reset(self):
        self.state = [0.01, -0.02, 0.03, 0.04]
        return self.state

    def step(self, action):
        x, v, a, w = self.state
        force = 10.0 if action == 1 else -10.0
        cos, sin = math.cos(a), math.sin(a)
        temp = (force + 0.05 * w * w * sin) / 1.1
        acc = (9.8 * sin - cos * temp) / (0.5 * (4.0 / 3.0 - 0.1 * cos * cos / 1.1))
        self.state = [x + 0.02 * v, v + 0.02 * (temp - 0.05 * acc * cos / 1.1), a + 0.02 * w, w + 0.02 * acc]
        return self.state, 1.0, abs(self.state[2]) > 0.2


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 8)
        self.action_head = nn.Linear(8, 2)
        self.value_head = nn.Linear(8, 1)
        self.saved_actions, self.rewards, self.entropies = [], [], []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


model = Policy()
fill(model)
optimizer = optim.Adam(model.parameters(), lr=3e-2)
eps = 1e-7
env = CartPole()


def select_action(state):
    state = torch.tensor(state).float()
    probs, state_value = model(state)
    m = Categorical(probs)
    assert m.sample().item() in (0, 1)
    action = torch.tensor(int(float(noise(1)[0]) > 0.0))
    model.saved_actions.append(SavedAction(m.log_prob(action), state_value))
    model.entropies.append(m.entropy())
    return action.item()


losses = []
for episode in range(2):
    state, ep_reward = env.reset(), 0
    for t in range(6):
        state, reward, done = env.step(select_action(state))
        model.rewards.append(reward)
        ep_reward += reward
        if done:
            break
    R, policy_losses, value_losses, returns = 0, [], [], []
    for r in model.rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    for (log_prob, value), R in zip(model.saved_actions, returns):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum() - 0.01 * torch.stack(model.entropies).mean()
    loss.backward()
    optimizer.step()
    losses += [loss.item(), ep_reward]
    del model.rewards[:]
    del model.saved_actions[:]
    del model.entropies[:]
