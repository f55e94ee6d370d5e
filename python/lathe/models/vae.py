"""The autoencoder of Stable Diffusion: images to a few features of an eighth of their size, and back. Named as in the files of
the library diffusers."""

from lathe import nn
from lathe.models.attention import attend
from lathe.models.diffusion_parts import Down, ResNet, Up


class Attention(nn.Module):
    def __init__(self, dim, groups):
        super().__init__()
        self.group_norm = nn.GroupNorm(groups, dim, eps=1e-6)
        self.to_q, self.to_k, self.to_v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.to_out = nn.Sequential(nn.Linear(dim, dim))

    def forward(self, x):
        batch, dim, height, width = x.shape
        seen = self.group_norm(x).reshape(batch, dim, height * width).transpose(1, 2)
        mixed = self.to_out(attend(self.to_q(seen), self.to_k(seen), self.to_v(seen)))
        return x + mixed.transpose(1, 2).reshape(batch, dim, height, width)


class Middle(nn.Module):
    def __init__(self, dim, groups):
        super().__init__()
        self.resnets = nn.ModuleList([ResNet(dim, dim, groups, 1e-6) for _ in range(2)])
        self.attentions = nn.ModuleList([Attention(dim, groups)])

    def forward(self, x):
        return self.resnets[1](self.attentions[0](self.resnets[0](x)))


class Level(nn.Module):
    def __init__(self, inputs, outputs, layers, groups, sampler, name):
        super().__init__()
        self.resnets = nn.ModuleList([ResNet(inputs if i == 0 else outputs, outputs, groups, 1e-6) for i in range(layers)])
        self.samplers = name if sampler is not None else None
        if sampler is not None:
            setattr(self, name, nn.ModuleList([sampler]))

    def forward(self, x):
        for resnet in self.resnets:
            x = resnet(x)
        return getattr(self, self.samplers)[0](x) if self.samplers else x


class Coder(nn.Module):
    """Half of the autoencoder: `widths` from the outside for the encoder, from the inside for the decoder."""

    def __init__(self, inputs, outputs, widths, layers, groups, down):
        super().__init__()
        self.down, name = down, "downsamplers" if down else "upsamplers"
        self.conv_in = nn.Conv2d(inputs, widths[0], 3, padding=1)
        levels, width = [], widths[0]
        for i, out in enumerate(widths):
            sampler = None if i == len(widths) - 1 else Down(out, after=True) if down else Up(out)
            levels.append(Level(width, out, layers, groups, sampler, name))
            width = out
        setattr(self, "down_blocks" if down else "up_blocks", nn.ModuleList(levels))
        self.mid_block = Middle(widths[-1] if down else widths[0], groups)
        self.conv_norm_out, self.conv_out = nn.GroupNorm(groups, width, eps=1e-6), nn.Conv2d(width, outputs, 3, padding=1)

    def forward(self, x):
        x = self.conv_in(x)
        if not self.down:
            x = self.mid_block(x)
        for level in self.down_blocks if self.down else self.up_blocks:
            x = level(x)
        if self.down:
            x = self.mid_block(x)
        return self.conv_out(nn.functional.silu(self.conv_norm_out(x)))


class Vae(nn.Module):
    """The default is that of Stable Diffusion 1."""

    def __init__(self, channels=3, features=4, widths=(128, 256, 512, 512), layers=2, groups=32):
        super().__init__()
        self.encoder = Coder(channels, 2 * features, widths, layers, groups, True)
        self.decoder = Coder(features, channels, widths[::-1], layers + 1, groups, False)
        self.quant_conv, self.post_quant_conv = nn.Conv2d(2 * features, 2 * features, 1), nn.Conv2d(features, features, 1)

    def encode(self, images):
        """The mean and the logarithm of the variance of the features."""
        mean, spread = self.quant_conv(self.encoder(images)).chunk(2, 1)
        return mean, spread.clamp(-30.0, 20.0)

    def decode(self, features):
        return self.decoder(self.post_quant_conv(features))

    def forward(self, images, noise):
        mean, spread = self.encode(images)
        return self.decode(mean + (0.5 * spread).exp() * noise)

    def loss(self, images, noise, weight=1e-6):
        mean, spread = self.encode(images)
        shown = self.decode(mean + (0.5 * spread).exp() * noise)
        apart = 0.5 * (mean.pow(2) + spread.exp() - 1 - spread).sum((1, 2, 3)).mean()
        return (shown - images).pow(2).mean() + weight * apart
