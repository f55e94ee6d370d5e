"""A Wasserstein GAN with a penalty on gradients: gradients of gradients."""

import torch
import torch.autograd as autograd
import torch.nn as nn
from start import fill, noise

G = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4))
D = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 8), nn.Softplus(), nn.Linear(8, 1, bias=False))
fill(G)
fill(D)


def compute_gradient_penalty(D, real_samples, fake_samples):
    alpha = torch.sigmoid(torch.tensor(noise(real_samples.size(0), 1)))
    interpolates = (alpha * real_samples + ((1 - alpha) * fake_samples)).requires_grad_(True)
    d_interpolates = D(interpolates)
    fake = torch.ones(real_samples.shape[0], 1, requires_grad=False)
    gradients = autograd.grad(
        outputs=d_interpolates, inputs=interpolates, grad_outputs=fake, create_graph=True, retain_graph=True, only_inputs=True
    )[0]
    gradients = gradients.view(gradients.size(0), -1)
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


optimizer_G = torch.optim.Adam(G.parameters(), lr=0.01, betas=(0.5, 0.9))
optimizer_D = torch.optim.Adam(D.parameters(), lr=0.01, betas=(0.5, 0.9))
losses = []
for i in range(3):
    real = torch.tensor(noise(5, 4)) + 1.0
    optimizer_D.zero_grad()
    fake = G(torch.tensor(noise(5, 3)))
    gradient_penalty = compute_gradient_penalty(D, real.data, fake.data)
    d_loss = -torch.mean(D(real)) + torch.mean(D(fake.detach())) + 10 * gradient_penalty
    d_loss.backward()
    optimizer_D.step()
    optimizer_G.zero_grad()
    if i % 2 == 0:
        for p in D.parameters():
            p.requires_grad = False
        g_loss = -torch.mean(D(G(torch.tensor(noise(5, 3)))))
        g_loss.backward()
        optimizer_G.step()
        for p in D.parameters():
            p.requires_grad = True
    losses += [d_loss.item(), g_loss.item(), gradient_penalty.item()]
