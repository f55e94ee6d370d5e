"""Principal components by svd, then k-means by cdist and index_add_, and how tight the clusters are."""

import torch
from start import noise

torch.manual_seed(0)
data = torch.tensor(noise(60, 5))
data[20:40] += 3.0
data[40:] -= torch.tensor([2.0, 0.0, 4.0, 0.0, 1.0])

centred = data - data.mean(dim=0, keepdim=True)
U, S, V = torch.svd(centred)
assert V.shape == (5, 5) and U.shape == (60, 5)
explained = S**2 / (S**2).sum()
losses = explained.tolist()
again = torch.linalg.svd(centred, full_matrices=False)
losses += (again.S - S).abs().tolist() + (torch.abs(again.Vh @ V).diagonal()).tolist()
projected = (centred @ V[:, :2]).abs()

centres = projected[[0, 25, 50]].clone()
for step in range(6):
    distances = torch.cdist(projected, centres)
    nearest, label = distances.min(dim=1)
    sums = torch.zeros(3, 2).index_add_(0, label, projected)
    counts = torch.bincount(label, minlength=3).clamp(min=1).unsqueeze(1)
    centres = sums / counts
    losses.append(nearest.pow(2).mean().item())
losses += centres.flatten().tolist() + counts.flatten().float().tolist()
order = torch.argsort(label, stable=True)
losses += label[order].float().tolist()
