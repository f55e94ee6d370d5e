"""A classifier is trained and explained: hooks on activations and their gradients, weighted maps, saliency, frozen layers."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, integers, noise


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 6, 3, padding=1), nn.ReLU())
        self.pool, self.classifier = nn.AdaptiveMaxPool2d(2), nn.Linear(24, 3)
        self.gradients = None

    def forward(self, x, explain=False):
        x = self.features(x)
        if explain:
            self.activations = x
            x.register_hook(self.keep)
        return self.classifier(torch.flatten(self.pool(x), 1))

    def keep(self, grad):
        self.gradients = grad


net = Net()
fill(net)
for p in net.features[0].parameters():
    p.requires_grad = False
net.classifier.weight.register_hook(lambda g: g.clamp(-0.05, 0.05))
optimizer = torch.optim.Adagrad(filter(lambda p: p.requires_grad, net.parameters()), lr=0.05)
losses = []
for step in range(3):
    x, y = torch.from_numpy(noise(4, 2, 6, 6)), torch.from_numpy(integers(0, 3, (4,)))
    optimizer.zero_grad()
    loss = F.nll_loss(F.log_softmax(net(x), 1), y)
    loss.backward()
    optimizer.step()
    losses += [loss.item(), net.classifier.weight.grad.abs().max().item()]
net.eval()
image = torch.from_numpy(noise(1, 2, 6, 6)).requires_grad_()
scores = net(image, explain=True)
best = scores.argmax(1).item()
scores[0, best].backward()
weights = net.gradients.mean(dim=(2, 3), keepdim=True)
cam = F.relu((weights * net.activations.detach()).sum(1, keepdim=True))
cam = F.interpolate(cam, size=(12, 12), mode="bilinear", align_corners=False)
losses += [float(best), cam.sum().item(), image.grad.abs().max(dim=1)[0].sum().item()]
