"""Low-rank adapters put into a net that is there already, trained and merged."""

import math

import torch
from torch import nn
import torch.nn.functional as F
from start import fill, integers, noise


class LoRALinear(nn.Module):
    def __init__(self, linear: nn.Linear, r: int = 2, alpha: int = 4, dropout: float = 0.0):
        super().__init__()
        self.linear, self.r, self.scaling = linear, r, alpha / r
        self.lora_A = nn.Parameter(torch.zeros(r, linear.in_features))
        self.lora_B = nn.Parameter(torch.zeros(linear.out_features, r))
        self.lora_dropout = nn.Dropout(p=dropout) if dropout > 0.0 else nn.Identity()
        self.merged = False
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, x):
        out = self.linear(x)
        if self.merged:
            return out
        return out + (self.lora_dropout(x) @ self.lora_A.transpose(0, 1) @ self.lora_B.transpose(0, 1)) * self.scaling

    @torch.no_grad()
    def merge(self):
        self.linear.weight.data += (self.lora_B @ self.lora_A) * self.scaling
        self.merged = True


def add_lora(model, names):
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and any(name.endswith(n) for n in names):
            parent = model.get_submodule(name.rsplit(".", 1)[0]) if "." in name else model
            setattr(parent, name.rsplit(".", 1)[-1], LoRALinear(module))


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        return x + F.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


class Net(nn.Module):
    def __init__(self, dim=6):
        super().__init__()
        self.layers = nn.ModuleList(Layer(dim) for _ in range(2))
        self.head = nn.Linear(dim, 3)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(dim=1))


model = Net()
fill(model)
add_lora(model, ["q_proj", "v_proj"])
for n, p in model.named_parameters():
    if "lora_" not in n:
        p.requires_grad = False
    elif "lora_A" in n:
        p.data = torch.tensor(noise(*p.shape)) * 0.1
trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
total = sum(p.numel() for p in model.parameters())
losses = [trainable, total]
optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=5e-2)
for step in range(3):
    x, y = torch.tensor(noise(4, 5, 6)), torch.tensor(integers(0, 3, (4,)))
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    assert model.head.weight.grad is None
    optimizer.step()
    losses.append(loss.item())
adapters = {k: v for k, v in model.state_dict().items() if "lora_" in k}
losses.append(sum(v.abs().sum().item() for v in adapters.values()))
x = torch.tensor(noise(2, 5, 6))
model.eval()
before = model(x)
for m in model.modules():
    if isinstance(m, LoRALinear):
        m.merge()
assert torch.allclose(before, model(x), atol=1e-5)
losses += model(x).flatten().tolist()
