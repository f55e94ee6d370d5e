"""Learning to learn: an inner step by hand, its gradient taken through; then a net by functional_call and vmap-free loops."""

import torch
import torch.nn.functional as F
from start import noise

params = [torch.tensor(noise(*s) * 0.4, requires_grad=True) for s in ((8, 1), (8,), (1, 8), (1,))]


def net(x, params):
    x = F.linear(x, params[0], params[1])
    x = torch.tanh(x)
    return F.linear(x, params[2], params[3])


opt = torch.optim.SGD(params, lr=0.05)
losses = []
for step in range(2):
    opt.zero_grad()
    meta_loss = 0.0
    for task in range(2):
        a, x = float(task) + 0.5, torch.tensor(noise(5, 1))
        y = torch.sin(x * a)
        inner = F.mse_loss(net(x[:3], params), y[:3])
        grads = torch.autograd.grad(inner, params, create_graph=True)
        fast = [p - 0.1 * g for p, g in zip(params, grads)]
        meta_loss = meta_loss + F.mse_loss(net(x[3:], fast), y[3:])
    meta_loss.backward()
    opt.step()
    losses += [meta_loss.item(), sum(p.grad.norm().item() for p in params)]
