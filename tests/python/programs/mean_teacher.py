"""A teacher that is the moving average of its student."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, integers, noise


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.bn = nn.BatchNorm2d(3)
        self.fc = nn.Linear(3, 4)

    def forward(self, x):
        x = F.relu(self.bn(self.conv(x)))
        x = F.adaptive_avg_pool2d(x, 1)
        return self.fc(torch.flatten(x, 1))


class EMA:
    def __init__(self, model, decay):
        self.model, self.decay = model, decay
        self.shadow = {n: p.data.clone() for n, p in model.named_parameters() if p.requires_grad}
        self.backup = {}

    def update(self):
        for n, p in self.model.named_parameters():
            if p.requires_grad:
                assert n in self.shadow
                self.shadow[n] = ((1.0 - self.decay) * p.data + self.decay * self.shadow[n]).clone()

    def apply_shadow(self):
        for n, p in self.model.named_parameters():
            if p.requires_grad:
                self.backup[n] = p.data
                p.data = self.shadow[n]

    def restore(self):
        for n, p in self.model.named_parameters():
            if p.requires_grad:
                p.data = self.backup[n]
        self.backup = {}


@torch.no_grad()
def update_ema_variables(model, ema_model, alpha, global_step):
    alpha = min(1 - 1 / (global_step + 1), alpha)
    for ema_param, param in zip(ema_model.parameters(), model.parameters()):
        ema_param.data.mul_(alpha).add_(param.data, alpha=1 - alpha)
    for ema_buffer, buffer in zip(ema_model.buffers(), model.buffers()):
        ema_buffer.copy_(buffer)


student = Net()
fill(student)
teacher = copy.deepcopy(student)
for param in teacher.parameters():
    param.detach_()
    param.requires_grad_(False)
ema = EMA(student, 0.9)
optimizer = torch.optim.SGD(student.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
losses = []
for step in range(3):
    x, y = torch.tensor(noise(6, 1, 5, 5)), torch.tensor(integers(0, 4, (6,)))
    y[4:] = -1
    with torch.no_grad():
        ema_logit = teacher(x + 0.05 * torch.tensor(noise(*x.shape)))
    logit = student(x)
    class_loss = F.cross_entropy(logit, y, ignore_index=-1)
    consistency = F.mse_loss(torch.softmax(logit, dim=1), F.softmax(ema_logit, dim=1), reduction="sum") / 4
    loss = class_loss + 0.5 * consistency
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    update_ema_variables(student, teacher, 0.99, step + 1)
    ema.update()
    losses += [loss.item(), consistency.item(), teacher.fc.weight.square().sum().item()]
student.eval()
before = student(x).detach().clone()
ema.apply_shadow()
losses += student(x)[0].tolist()
ema.restore()
assert torch.equal(before, student(x))
