"""A variational autoencoder with a convolution in front."""

import torch
from torch import nn, optim
from torch.nn import functional as F
from start import fill, noise


class VAE(nn.Module):
    def __init__(self, latent=3):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, stride=2, padding=1)
        self.fc21 = nn.Linear(32, latent)
        self.fc22 = nn.Linear(32, latent)
        self.fc3 = nn.Linear(latent, 16)
        self.fc4 = nn.Linear(16, 64)

    def encode(self, x):
        h = torch.flatten(F.relu(self.conv(x)), start_dim=1)
        return self.fc21(h), self.fc22(h)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.as_tensor(noise(*std.shape), dtype=std.dtype, device=std.device)
        return eps.mul(std).add_(mu)

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.elu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


model = VAE()
fill(model)
optimizer = optim.Adam(model.parameters(), lr=1e-2)
losses = []
model.train()
train_loss = 0
for batch in range(3):
    data = torch.sigmoid(torch.tensor(noise(4, 1, 8, 8)))
    optimizer.zero_grad()
    recon_batch, mu, logvar = model(data)
    loss = loss_function(recon_batch, data, mu, logvar)
    loss.backward()
    train_loss += loss.item()
    optimizer.step()
    losses.append(loss.item() / len(data))
losses.append(train_loss)
model.eval()
with torch.no_grad():
    sample = model.decode(torch.linspace(-1, 1, 6).reshape(2, 3)).cpu()
    losses += sample.view(2, 1, 8, 8).mean(dim=(1, 2, 3)).tolist()
