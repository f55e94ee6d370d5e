#!/usr/bin/env python3
"""Times PyTorch's eager training step on the net of `lathe demo` (batch 512, Adam, float32): prints the best of a few steps
in milliseconds. Any PyTorch will do; `make test` installs the distribution's."""

import sys
import time

import torch
from torch import nn

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
net = nn.Sequential(
    nn.Conv2d(1, 32, 5), nn.ReLU(), nn.Conv2d(32, 32, 5), nn.ReLU(), nn.BatchNorm2d(32), nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.BatchNorm2d(64), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(576, 10))
optimizer = torch.optim.Adam(net.parameters())
x = torch.randn(512, 1, 28, 28)
y = torch.randint(0, 10, (512,))
best = 1e9
for _ in range(6):
    begin = time.perf_counter()
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
    best = min(best, time.perf_counter() - begin)
print(f"{best * 1e3:.1f} ms a step, PyTorch {torch.__version__} eager, {torch.get_num_threads()} threads")
