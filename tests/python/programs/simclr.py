"""Contrastive learning of two views."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, noise


class SimCLR(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(2, 4, kernel_size=3, padding=1), nn.BatchNorm1d(4), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten()
        )
        self.projector = nn.Sequential(nn.Linear(4, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Linear(8, 4))

    def forward(self, x):
        return self.projector(self.encoder(x))


def info_nce_loss(features, n_views=2, temperature=0.5):
    batch = features.shape[0] // n_views
    labels = torch.cat([torch.arange(batch) for i in range(n_views)], dim=0)
    labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
    features = F.normalize(features, dim=1)
    similarity_matrix = torch.matmul(features, features.T)
    mask = torch.eye(labels.shape[0], dtype=torch.bool)
    labels = labels[~mask].view(labels.shape[0], -1)
    similarity_matrix = similarity_matrix[~mask].view(similarity_matrix.shape[0], -1)
    positives = similarity_matrix[labels.bool()].view(labels.shape[0], -1)
    negatives = similarity_matrix[~labels.bool()].view(similarity_matrix.shape[0], -1)
    logits = torch.cat([positives, negatives], dim=1)
    return logits / temperature, torch.zeros(logits.shape[0], dtype=torch.long)


def nt_xent(z1, z2, temperature=0.5):
    z = F.normalize(torch.cat((z1, z2), dim=0), p=2, dim=-1)
    n = z.size(0)
    sim = torch.einsum("id,jd->ij", z, z) / temperature
    sim.fill_diagonal_(-9e15)
    positive = torch.cat([torch.diag(sim, n // 2), torch.diag(sim, -n // 2)])
    return (-positive + torch.logsumexp(sim, dim=-1)).mean()


model = SimCLR()
fill(model)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), 3e-3, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4, eta_min=0, last_epoch=-1)
losses = []
for step in range(3):
    x = torch.tensor(noise(4, 2, 10))
    views = [x + 0.1 * torch.tensor(noise(4, 2, 10)), torch.flip(x, dims=[-1]) * 0.9]
    features = model(torch.cat(views, dim=0))
    logits, labels = info_nce_loss(features)
    loss = criterion(logits, labels)
    other = nt_xent(*features.chunk(2))
    optimizer.zero_grad()
    (loss + other).backward()
    optimizer.step()
    scheduler.step()
    losses += [loss.item(), other.item(), scheduler.get_last_lr()[0]]
