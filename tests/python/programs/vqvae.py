"""A VQ-VAE: nearest codes, the straight-through estimator, a codebook that follows by running averages."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, noise


class Quantizer(nn.Module):
    def __init__(self, codes, width, decay=0.9):
        super().__init__()
        self.decay = decay
        self.register_buffer("embedding", torch.from_numpy(noise(codes, width)))
        self.register_buffer("size", torch.zeros(codes))
        self.register_buffer("total", self.embedding.clone())

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])
        distance = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.embedding.t() + self.embedding.pow(2).sum(1)
        index = distance.argmin(1)
        hot = F.one_hot(index, self.embedding.shape[0]).type(flat.dtype)
        q = F.embedding(index, self.embedding).view(z.shape[0], z.shape[2], z.shape[3], -1).permute(0, 3, 1, 2)
        if self.training:
            with torch.no_grad():
                self.size.mul_(self.decay).add_(hot.sum(0), alpha=1 - self.decay)
                self.total.mul_(self.decay).add_(hot.t() @ flat, alpha=1 - self.decay)
                n = self.size.sum()
                size = (self.size + 1e-5) / (n + self.size.numel() * 1e-5) * n
                self.embedding.copy_(self.total / size.unsqueeze(1))
        loss = 0.25 * F.mse_loss(q.detach(), z)
        return z + (q - z).detach(), loss, index


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 4, 4, 2, 1), nn.ReLU(), nn.Conv2d(4, 3, 3, 1, 1))
        self.quantizer = Quantizer(5, 3)
        self.decoder = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), nn.ReLU(inplace=True), nn.ConvTranspose2d(4, 1, 4, 2, 1))

    def forward(self, x):
        q, loss, index = self.quantizer(self.encoder(x))
        return self.decoder(q), loss, index


net = VQVAE()
fill(net)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.from_numpy(noise(2, 1, 8, 8))
losses = []
for step in range(4):
    out, commit, index = net(x)
    loss = F.mse_loss(out, x) + commit
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses += [loss.item(), commit.item(), float(index.sum())]
losses += [net.quantizer.embedding.abs().sum().item(), float(len(net.state_dict()))]
