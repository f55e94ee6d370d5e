"""A denoising diffusion model: a small conditional U-net, the noise schedule, sampling."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from start import fill, integers, noise

T = 10


class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        half_dim = self.dim // 2
        emb = math.log(10000) / (half_dim - 1)
        emb = torch.exp(torch.arange(half_dim, device=x.device) * -emb)
        emb = x[:, None] * emb[None, :]
        return torch.cat((emb.sin(), emb.cos()), dim=-1)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, time):
        super().__init__()
        self.time_mlp = nn.Sequential(nn.SiLU(), nn.Linear(time, cout * 2))
        self.norm1, self.norm2 = nn.GroupNorm(2, cin), nn.GroupNorm(2, cout)
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.res_conv = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.time_mlp(t)[:, :, None, None].chunk(2, dim=1)
        h = self.norm2(h) * (scale + 1) + shift
        return self.conv2(F.silu(h)) + self.res_conv(x)


class UNet(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.time = nn.Sequential(SinusoidalPosEmb(dim), nn.Linear(dim, 8), nn.GELU(), nn.Linear(8, 8))
        self.inp = nn.Conv2d(1, dim, 3, padding=1)
        self.down1 = ResBlock(dim, dim * 2, 8)
        self.pool = nn.Conv2d(dim * 2, dim * 2, 4, 2, 1)
        self.mid = ResBlock(dim * 2, dim * 2, 8)
        self.up1 = ResBlock(dim * 4, dim, 8)
        self.out = nn.Conv2d(dim, 1, 1)

    def forward(self, x, t):
        t = self.time(t)
        h1 = self.down1(self.inp(x), t)
        h = self.mid(self.pool(h1), t)
        h = F.interpolate(h, scale_factor=2, mode="nearest")
        return self.out(self.up1(torch.cat([h, h1], dim=1), t))


def extract(a, t, x_shape):
    b, *_ = t.shape
    out = a.gather(-1, t)
    return out.reshape(b, *((1,) * (len(x_shape) - 1)))


class Diffusion(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        betas = torch.linspace(1e-4, 0.02, T)
        alphas = 1.0 - betas
        alphas_cumprod = torch.cumprod(alphas, dim=0)
        prev = F.pad(alphas_cumprod[:-1], (1, 0), value=1.0)
        self.register_buffer("betas", betas)
        self.register_buffer("sqrt_recip_alphas", torch.sqrt(1.0 / alphas))
        self.register_buffer("sqrt_alphas_cumprod", torch.sqrt(alphas_cumprod))
        self.register_buffer("sqrt_one_minus_alphas_cumprod", torch.sqrt(1.0 - alphas_cumprod))
        self.register_buffer("posterior_variance", betas * (1.0 - prev) / (1.0 - alphas_cumprod))

    def q_sample(self, x0, t, eps):
        return extract(self.sqrt_alphas_cumprod, t, x0.shape) * x0 + extract(self.sqrt_one_minus_alphas_cumprod, t, x0.shape) * eps

    def forward(self, x0, t, eps):
        return F.l1_loss(self.model(self.q_sample(x0, t, eps), t), eps)

    @torch.no_grad()
    def p_sample(self, x, i):
        t = torch.full((x.shape[0],), i, dtype=torch.long)
        mean = extract(self.sqrt_recip_alphas, t, x.shape) * (
            x - extract(self.betas, t, x.shape) * self.model(x, t) / extract(self.sqrt_one_minus_alphas_cumprod, t, x.shape)
        )
        if i == 0:
            return mean
        return mean + torch.sqrt(extract(self.posterior_variance, t, x.shape)) * torch.from_numpy(noise(*x.shape))


diffusion = Diffusion(UNet())
fill(diffusion)
opt = torch.optim.AdamW(diffusion.parameters(), lr=1e-3)
losses = []
for step in range(2):
    x0 = torch.tensor(noise(3, 1, 4, 4)).clamp(-1, 1)
    t = torch.from_numpy(integers(0, T, (3,))).long()
    loss = diffusion(x0, t, torch.tensor(noise(3, 1, 4, 4)))
    opt.zero_grad()
    loss.backward()
    opt.step()
    losses.append(loss.item())
img = torch.from_numpy(noise(1, 1, 4, 4))
for i in reversed(range(0, 3)):
    img = diffusion.p_sample(img, i)
losses.extend(img.flatten()[:4].tolist())
