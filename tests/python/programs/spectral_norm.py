"""A critic under spectral normalization by power iteration, trained with the hinge loss; buffers are part of its state."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, noise


class Spectral(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        u = F.normalize(torch.tensor(noise(layer.weight.shape[0])), dim=0)
        self.register_buffer("u", u)

    def forward(self, x):
        w = self.layer.weight
        flat = w.reshape(w.shape[0], -1)
        if self.training:
            with torch.no_grad():
                v = F.normalize(flat.t().mv(self.u), dim=0, eps=1e-12)
                self.u.copy_(F.normalize(flat.mv(v), dim=0, eps=1e-12))
        else:
            v = F.normalize(torch.mv(flat.t(), self.u), dim=0)
        sigma = torch.dot(self.u.clone(), flat.mv(v.clone() if self.training else v))
        w = w / sigma
        if isinstance(self.layer, nn.Conv2d):
            return F.conv2d(x, w, self.layer.bias, stride=self.layer.stride, padding=self.layer.padding)
        return F.linear(x, w, self.layer.bias)


critic = nn.Sequential(
    Spectral(nn.Conv2d(1, 4, 3, stride=2, padding=1)), nn.LeakyReLU(0.2), nn.Flatten(), Spectral(nn.Linear(4 * 4 * 4, 1))
)
fill(critic)
optimizer = torch.optim.Adam(critic.parameters(), lr=4e-3, betas=(0.0, 0.9))
losses = []
for step in range(5):
    real, fake = torch.tensor(noise(4, 1, 8, 8)) + 1, torch.tensor(noise(4, 1, 8, 8)) * 2
    loss = F.relu(1.0 - critic(real)).mean() + F.relu(1.0 + critic(fake)).mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
critic.eval()
twin = nn.Sequential(
    Spectral(nn.Conv2d(1, 4, 3, stride=2, padding=1)), nn.LeakyReLU(0.2), nn.Flatten(), Spectral(nn.Linear(4 * 4 * 4, 1))
)
twin.load_state_dict(critic.state_dict())
twin.eval()
with torch.no_grad():
    assert torch.equal(critic(real), twin(real))
    losses += critic(real).flatten().tolist()
assert sorted(critic.state_dict()) == ["0.layer.bias", "0.layer.weight", "0.u", "3.layer.bias", "3.layer.weight", "3.u"]
