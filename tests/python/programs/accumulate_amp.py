"""Mixed precision with a scaler, gradients accumulated over small batches, layers recomputed, then a short last batch."""

import contextlib

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint
from start import fill, integers, noise

device = "cuda" if torch.cuda.is_available() else "cpu"


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.fc2(nn.functional.gelu(self.fc1(self.norm(x))))


class Net(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.blocks = nn.ModuleList([Block(dim), Block(dim)])
        self.head = nn.Linear(dim, 3)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.head(x)


losses = []
for amp in (False, True):
    model = Net().to(device)
    fill(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler = torch.cuda.amp.GradScaler(enabled=torch.cuda.is_available())
    criterion = nn.CrossEntropyLoss()
    accumulation_steps = 2
    for step, size in enumerate((4, 4, 4, 3)):
        x, y = torch.tensor(noise(size, 8)).to(device), torch.tensor(integers(0, 3, (size,))).to(device)
        with torch.autocast(device_type=device, dtype=torch.bfloat16) if amp else contextlib.nullcontext():
            out = model(x)
            assert not amp or out.dtype == torch.bfloat16, out.dtype
            loss = criterion(out.float(), y) / accumulation_steps
        assert loss.dtype == torch.float32
        scaler.scale(loss).backward()
        if (step + 1) % accumulation_steps == 0:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    assert all(p.dtype == torch.float32 for p in model.parameters())
