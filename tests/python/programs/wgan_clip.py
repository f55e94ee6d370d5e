"""A Wasserstein GAN as it was first: weights of the critic are clipped in place, several critic steps a generator step."""

import torch
import torch.nn as nn
import torch.optim as optim
from start import fill, noise

G = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 4), nn.Tanh())
D = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 1))
fill(G)
fill(D)
G.train()
opt_G, opt_D = optim.RMSprop(G.parameters(), lr=5e-3), optim.RMSprop(D.parameters(), lr=5e-3)
losses = []
for step in range(4):
    for _ in range(2):
        real, z = torch.from_numpy(noise(6, 4)), torch.from_numpy(noise(6, 3))
        opt_D.zero_grad()
        fake = G(z).detach()
        loss_D = -torch.mean(D(real)) + torch.mean(D(fake))
        loss_D.backward()
        opt_D.step()
        for p in D.parameters():
            p.data.clamp_(-0.1, 0.1)
        losses.append(loss_D.item())
    opt_G.zero_grad()
    z = torch.from_numpy(noise(6, 3))
    loss_G = -torch.mean(D(G(z)))
    loss_G.backward()
    opt_G.step()
    losses.append(loss_G.item())
losses += [p.abs().max().item() for p in D.parameters()]
losses.append(G[1].running_var.sum().item())
