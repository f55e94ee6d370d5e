"""Graph attention over an edge list: softmax of the edges of each node by scatter, messages by index_add."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, integers, noise

NODES, EDGES = 10, 30
source, target = torch.tensor(integers(0, NODES, (EDGES,))), torch.tensor(integers(0, NODES, (EDGES,)))


class GAT(nn.Module):
    def __init__(self, inside, outside, heads):
        super().__init__()
        self.heads = heads
        self.lin = nn.Linear(inside, heads * outside, bias=False)
        self.att = nn.Parameter(torch.ones(2, heads, outside) * 0.1)

    def forward(self, x):
        h = self.lin(x).view(x.size(0), self.heads, -1)
        score = F.leaky_relu((h * self.att[0]).sum(-1)[source] + (h * self.att[1]).sum(-1)[target], 0.2)
        index = target.unsqueeze(-1).expand_as(score)
        most = torch.full((NODES, self.heads), float("-inf")).scatter_reduce(0, index, score.detach(), "amax", include_self=True)
        e = torch.exp(score - most[target])
        total = torch.zeros(NODES, self.heads).index_add(0, target, e)
        alpha = e / (total[target] + 1e-16)
        out = torch.zeros_like(h).index_add_(0, target, h[source] * alpha.unsqueeze(-1))
        return out.flatten(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = GAT(5, 4, 2), GAT(8, 3, 1)

    def forward(self, x):
        return self.second(F.elu(self.first(x)))


net = Net()
fill(net)
with torch.no_grad():
    net.first.att.mul_(2)
x, y = torch.tensor(noise(NODES, 5)), torch.tensor(integers(0, 3, (NODES,)))
train = torch.zeros(NODES, dtype=torch.bool)
train[::2] = True
optimizer = torch.optim.Adam(net.parameters(), lr=2e-2, weight_decay=5e-4)
losses = []
for _ in range(6):
    optimizer.zero_grad()
    out = net(x)
    loss = F.nll_loss(out.log_softmax(1)[train], y[train])
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    losses.append((out.argmax(1)[~train] == y[~train]).float().mean().item())
degree = torch.zeros(NODES).scatter_add_(0, target, torch.ones(EDGES))
losses += degree.tolist()
