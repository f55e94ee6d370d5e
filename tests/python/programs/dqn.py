"""Deep Q-learning: a memory of transitions, a target net that follows, values clipped."""

import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from start import fill, integers, noise

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
device = torch.device("cpu")


class ReplayMemory(object):
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.Random(0).sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super(DQN, self).__init__()
        self.layer1, self.layer2 = nn.Linear(n_observations, 16), nn.Linear(16, 16)
        self.layer3 = nn.Linear(16, n_actions)

    def forward(self, x):
        return self.layer3(F.relu(self.layer2(F.relu(self.layer1(x)))))


BATCH_SIZE, GAMMA, TAU, LR = 8, 0.99, 0.05, 1e-3
policy_net, target_net = DQN(4, 3).to(device), DQN(4, 3).to(device)
fill(policy_net)
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=LR, amsgrad=True)
memory = ReplayMemory(100)
for i in range(12):
    state = torch.tensor(noise(4), dtype=torch.float32, device=device).unsqueeze(0)
    action = torch.tensor([[int(integers(0, 3, (1,))[0])]], device=device, dtype=torch.long)
    next_state = None if i % 5 == 4 else torch.tensor(noise(4), dtype=torch.float32, device=device).unsqueeze(0)
    memory.push(state, action, next_state, torch.tensor([float(i % 3)], device=device))

losses = []
for step in range(3):
    batch = Transition(*zip(*memory.sample(BATCH_SIZE)))
    non_final_mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), device=device, dtype=torch.bool)
    non_final_next_states = torch.cat([s for s in batch.next_state if s is not None])
    state_batch, action_batch, reward_batch = torch.cat(batch.state), torch.cat(batch.action), torch.cat(batch.reward)
    state_action_values = policy_net(state_batch).gather(1, action_batch)
    next_state_values = torch.zeros(BATCH_SIZE, device=device)
    with torch.no_grad():
        next_state_values[non_final_mask] = target_net(non_final_next_states).max(dim=1).values
    expected = (next_state_values * GAMMA) + reward_batch
    loss = nn.SmoothL1Loss()(state_action_values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    target_state, policy_state = target_net.state_dict(), policy_net.state_dict()
    for key in policy_state:
        target_state[key] = policy_state[key] * TAU + target_state[key] * (1 - TAU)
    target_net.load_state_dict(target_state)
    losses += [loss.item(), target_net.layer1.weight.sum().item()]
with torch.no_grad():
    losses.append(policy_net(torch.ones(1, 4)).max(dim=1)[1].view(1, 1).item())
