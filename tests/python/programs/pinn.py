"""A net that learns a differential equation: its own derivatives are in the loss."""

import torch
import torch.nn as nn
from start import fill


class PINN(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in zip(layers[:-1], layers[1:])])
        self.activation = nn.Tanh()

    def forward(self, t, x):
        h = torch.cat([t, x], 1)
        for layer in self.layers[:-1]:
            h = self.activation(layer(h))
        return self.layers[-1](h)


model = PINN([2, 6, 6, 1])
fill(model)
t = torch.linspace(0, 1, 5).view(-1, 1).requires_grad_()
x = torch.linspace(-1, 1, 5).view(-1, 1)
x.requires_grad = True
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
losses = []
for epoch in range(3):
    optimizer.zero_grad()
    u = model(t, x)
    u_t = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]
    u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    (u_xx,) = torch.autograd.grad(u_x, x, grad_outputs=torch.ones_like(u_x), create_graph=True)
    residual = u_t + u * u_x - (0.01 / torch.pi) * u_xx
    start = model(torch.zeros_like(x), x) + torch.sin(torch.pi * x)
    loss = torch.mean(residual**2) + torch.mean(torch.square(start))
    loss.backward()
    optimizer.step()
    losses += [loss.item(), u_xx.abs().mean().item()]
