"""An image optimized itself: Gram matrices, hooks that catch activations, total variation."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, noise

cnn = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(inplace=False), nn.AvgPool2d(2), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()).eval()
fill(cnn)
cnn.requires_grad_(False)
caught = {}


def catch(name):
    def hook(module, input, output):
        caught[name] = output

    return hook


handles = [layer.register_forward_hook(catch(name)) for name, layer in cnn.named_children() if isinstance(layer, nn.ReLU)]


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        self.std = torch.tensor(std).view(-1, 1, 1)

    def forward(self, img):
        return (img - self.mean) / self.std


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    return torch.mm(features, features.t()).div(a * b * c * d)


norm = Normalization([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
content, style = torch.tensor(noise(1, 3, 6, 6)).sigmoid(), torch.tensor(noise(1, 3, 6, 6)).sigmoid()
cnn(norm(content))
content_target = caught["4"].detach()
cnn(norm(style))
style_targets = {k: gram_matrix(v).detach() for k, v in caught.items()}
input_img = content.clone().requires_grad_(True)
optimizer = torch.optim.Adam([input_img], lr=0.05)
losses = []
for run in range(3):
    with torch.no_grad():
        input_img.clamp_(0, 1)
    optimizer.zero_grad()
    cnn(norm(input_img))
    style_score = sum(F.mse_loss(gram_matrix(caught[k]), style_targets[k]) for k in style_targets)
    content_score = F.mse_loss(caught["4"], content_target)
    tv = torch.sum(torch.abs(input_img[:, :, :, :-1] - input_img[:, :, :, 1:])) + torch.sum(torch.abs(input_img[:, :, :-1, :] - input_img[:, :, 1:, :]))
    loss = 1000 * style_score + content_score + 1e-3 * tv
    loss.backward()
    optimizer.step()
    losses += [loss.item(), style_score.item(), input_img.grad.abs().max().item()]
for handle in handles:
    handle.remove()
caught.clear()
cnn(norm(content))
assert not caught
