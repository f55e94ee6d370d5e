"""Adversarial training: the input is moved along the sign of its gradient and projected, then the net learns from it."""

import torch
import torch.nn as nn
from start import fill, integers, noise


def pgd_attack(model, images, labels, eps=0.3, alpha=0.1, iters=3):
    criterion = nn.CrossEntropyLoss()
    original = images.data
    for _ in range(iters):
        images.requires_grad = True
        outputs = model(images)
        model.zero_grad()
        cost = criterion(outputs, labels)
        cost.backward()
        moved = images + alpha * images.grad.sign()
        eta = torch.clamp(moved - original, min=-eps, max=eps)
        images = torch.clamp(original + eta, min=-2, max=2).detach_()
    return images


net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(12, 4))
fill(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, weight_decay=1e-2)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 3], gamma=0.1)
losses = []
for step in range(4):
    x, y = torch.from_numpy(noise(4, 1, 6, 6)), torch.from_numpy(integers(0, 4, (4,)))
    adversarial = pgd_attack(net, x.clone(), y)
    optimizer.zero_grad()
    loss = nn.CrossEntropyLoss()(net(adversarial), y)
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses += [loss.item(), (adversarial - x).abs().max().item(), scheduler.get_last_lr()[0]]
