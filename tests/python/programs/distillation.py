"""A small net learns from a large one: softened targets, labels, a cosine of features, a schedule with warm-up."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, integers, noise


def mlp(width):
    return nn.Sequential(nn.Flatten(), nn.Linear(12, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, 8), nn.SiLU(), nn.Linear(8, 5))


teacher, student = mlp(24), mlp(6)
fill(teacher)
fill(student)
teacher.eval()
for p in teacher.parameters():
    p.requires_grad = False
features = {}
student[4].register_forward_hook(lambda module, args, out: features.__setitem__("student", out))
teacher[4].register_forward_hook(lambda module, args, out: features.__setitem__("teacher", out))
decay, no_decay = [], []
for name, p in student.named_parameters():
    (no_decay if p.ndim == 1 else decay).append(p)
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}], lr=3e-2)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 3) * 0.5 * (1 + math.cos(math.pi * s / 8)))
T, alpha = 4.0, 0.7
losses = []
for step in range(5):
    x = torch.from_numpy(noise(6, 3, 4))
    y = torch.from_numpy(integers(0, 5, (6,)))
    with torch.no_grad():
        wanted = teacher(x)
    got = student(x)
    soft = F.kl_div(F.log_softmax(got / T, dim=1), F.softmax(wanted / T, dim=1), reduction="batchmean") * (T * T)
    hard = F.cross_entropy(got, y, label_smoothing=0.1)
    near = 1 - F.cosine_similarity(features["student"], features["teacher"], dim=-1).mean()
    loss = alpha * soft + (1 - alpha) * hard + 0.5 * near
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses += [loss.item(), optimizer.param_groups[0]["lr"]]
assert all(p.grad is None for p in teacher.parameters())
losses.append(sum(p.abs().sum().item() for p in student.parameters()))
