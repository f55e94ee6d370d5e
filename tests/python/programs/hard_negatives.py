"""Triplets whose negatives are mined in the batch: the hardest for each anchor, and a margin softened by softplus."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, noise

labels = torch.tensor([0, 0, 1, 1, 2, 2, 0, 1])
net = nn.Sequential(nn.Linear(6, 16), nn.PReLU(), nn.Linear(16, 4))
fill(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, dampening=0.1, weight_decay=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
losses = []
for step in range(6):
    x = torch.tensor(noise(8, 6))
    z = F.normalize(net(x), dim=1)
    distance = torch.cdist(z, z)
    same = labels[:, None] == labels[None, :]
    alone = same & ~torch.eye(8, dtype=torch.bool)
    hardest_positive = distance.masked_fill(~alone, float("-inf")).max(dim=1).values
    hardest_negative, which = distance.masked_fill(same, float("inf")).min(dim=1)
    assert not (labels[which] == labels).any()
    loss = F.softplus(hardest_positive - hardest_negative).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
    losses.append(torch.topk(distance, k=3, dim=1, largest=False).values.sum().item())
losses += [p.grad.norm().item() for p in net.parameters()]
