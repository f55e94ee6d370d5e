"""What the U-net and the autoencoder of Stable Diffusion share."""

import lathe
from lathe import nn


class ResNet(nn.Module):
    """Two convolutions with a shortcut; `time` features, if any, are added between them."""

    def __init__(self, inputs, outputs, groups, eps, time=0):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, inputs, eps=eps), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time_emb_proj = nn.Linear(time, outputs) if time else None
        self.norm2, self.conv2 = nn.GroupNorm(groups, outputs, eps=eps), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.conv_shortcut = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x, time=None):
        silu = nn.functional.silu
        out = self.conv1(silu(self.norm1(x)))
        if self.time_emb_proj is not None:
            out = out + self.time_emb_proj(silu(time)).unsqueeze(-1).unsqueeze(-1)
        out = self.conv2(silu(self.norm2(out)))
        return out + (x if self.conv_shortcut is None else self.conv_shortcut(x))


class Down(nn.Module):
    """Halves the size. With `after` the padding is one row and column only at the end of the image, as in the autoencoder."""

    def __init__(self, channels, after=False):
        super().__init__()
        self.after, self.conv = after, nn.Conv2d(channels, channels, 3, stride=2, padding=0 if after else 1)

    def forward(self, x):
        return self.conv(nn.functional.pad(x, (0, 1, 0, 1)) if self.after else x)


class Up(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return self.conv(nn.functional.interpolate(x, scale_factor=2.0, mode="nearest"))


def waves(times, size):
    """Cosines, then sines of each time, at frequencies from 1 to 1 / 10000: (batch, size)."""
    half = size // 2
    frequencies = 10000.0 ** (-lathe.arange(half, dtype=lathe.float32) / half)
    angles = times.float().reshape(-1, 1) * frequencies
    return lathe.cat([angles.cos(), angles.sin()], -1)
