"""The U-net of Stable Diffusion 1: what of an image in the autoencoder's features is noise, by the time and by a text. Named as
in the files of the library diffusers."""

import lathe
from lathe import nn
from lathe.models.attention import attend, join_heads, split_heads
from lathe.models.diffusion_parts import Down, ResNet, Up, waves


class Attention(nn.Module):
    def __init__(self, dim, heads, context):
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = nn.Linear(dim, dim, bias=False), nn.Linear(context, dim, bias=False), nn.Linear(context, dim, bias=False)
        self.to_out = nn.Sequential(nn.Linear(dim, dim))

    def forward(self, x, seen):
        query, key, value = (split_heads(t, self.heads) for t in (self.to_q(x), self.to_k(seen), self.to_v(seen)))
        return self.to_out(join_heads(attend(query, key, value)))


class Gated(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.proj = nn.Linear(dim, 2 * width)

    def forward(self, x):
        x, gate = self.proj(x).chunk(2, -1)
        return x * nn.functional.gelu(gate)


class Feed(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(Gated(dim, 4 * dim), nn.Identity(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        return self.net(x)


class TransformerBlock(nn.Module):
    def __init__(self, dim, heads, context):
        super().__init__()
        self.norm1, self.attn1 = nn.LayerNorm(dim), Attention(dim, heads, dim)
        self.norm2, self.attn2 = nn.LayerNorm(dim), Attention(dim, heads, context)
        self.norm3, self.ff = nn.LayerNorm(dim), Feed(dim)

    def forward(self, x, text):
        own = self.norm1(x)
        x = x + self.attn1(own, own)
        x = x + self.attn2(self.norm2(x), text)
        return x + self.ff(self.norm3(x))


class Transformer(nn.Module):
    def __init__(self, dim, heads, context, groups):
        super().__init__()
        self.norm, self.proj_in = nn.GroupNorm(groups, dim, eps=1e-6), nn.Conv2d(dim, dim, 1)
        self.transformer_blocks = nn.ModuleList([TransformerBlock(dim, heads, context)])
        self.proj_out = nn.Conv2d(dim, dim, 1)

    def forward(self, x, text):
        batch, dim, height, width = x.shape
        out = self.proj_in(self.norm(x)).reshape(batch, dim, height * width).transpose(1, 2)
        for block in self.transformer_blocks:
            out = block(out, text)
        return x + self.proj_out(out.transpose(1, 2).reshape(batch, dim, height, width))


class Level(nn.Module):
    """ResNets, each followed by a transformer if `heads` is not 0, then a change of size."""

    def __init__(self, shapes, time, heads, context, groups, sampler, name):
        super().__init__()
        self.resnets = nn.ModuleList([ResNet(i, o, groups, 1e-5, time) for i, o in shapes])
        self.attentions = nn.ModuleList([Transformer(o, heads, context, groups) for _, o in shapes] if heads else [])
        self.samplers = name if sampler is not None else None
        if sampler is not None:
            setattr(self, name, nn.ModuleList([sampler]))

    def steps(self):
        for i, resnet in enumerate(self.resnets):
            yield resnet, self.attentions[i] if len(self.attentions) else None

    def sampled(self, x):
        return getattr(self, self.samplers)[0](x)


class Middle(nn.Module):
    def __init__(self, dim, time, heads, context, groups):
        super().__init__()
        self.resnets = nn.ModuleList([ResNet(dim, dim, groups, 1e-5, time) for _ in range(2)])
        self.attentions = nn.ModuleList([Transformer(dim, heads, context, groups)])

    def forward(self, x, time, text):
        return self.resnets[1](self.attentions[0](self.resnets[0](x, time), text), time)


class TimeEmbedding(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(inputs, outputs), nn.Linear(outputs, outputs)

    def forward(self, x):
        return self.linear_2(nn.functional.silu(self.linear_1(x)))


class UNet(nn.Module):
    """x: (batch, channels, height, width), times: (batch), text: (batch, tokens, context) to the noise in x. The innermost level
    has no transformers."""

    def __init__(self, channels=4, widths=(320, 640, 1280, 1280), layers=2, heads=8, context=768, groups=32):
        super().__init__()
        time = 4 * widths[0]
        self.conv_in = nn.Conv2d(channels, widths[0], 3, padding=1)
        self.time_embedding = TimeEmbedding(widths[0], time)
        self.width, last = widths[0], len(widths) - 1
        downs, skips, width = [], [widths[0]], widths[0]
        for i, out in enumerate(widths):
            shapes = [(width if k == 0 else out, out) for k in range(layers)]
            downs.append(Level(shapes, time, heads if i < last else 0, context, groups, Down(out) if i < last else None, "downsamplers"))
            skips += [out] * (layers + (i < last))
            width = out
        self.down_blocks = nn.ModuleList(downs)
        self.mid_block = Middle(width, time, heads, context, groups)
        ups = []
        for i, out in enumerate(reversed(widths)):
            shapes = []
            for _ in range(layers + 1):
                shapes.append((width + skips.pop(), out))
                width = out
            ups.append(Level(shapes, time, heads if i > 0 else 0, context, groups, Up(out) if i < last else None, "upsamplers"))
        self.up_blocks = nn.ModuleList(ups)
        self.conv_norm_out, self.conv_out = nn.GroupNorm(groups, widths[0], eps=1e-5), nn.Conv2d(widths[0], channels, 3, padding=1)

    def forward(self, x, times, text):
        time = self.time_embedding(waves(times, self.width))
        x = self.conv_in(x)
        skips = [x]
        for level in self.down_blocks:
            for resnet, attention in level.steps():
                x = resnet(x, time)
                x = x if attention is None else attention(x, text)
                skips.append(x)
            if level.samplers:
                x = level.sampled(x)
                skips.append(x)
        x = self.mid_block(x, time, text)
        for level in self.up_blocks:
            for resnet, attention in level.steps():
                x = resnet(lathe.cat([x, skips.pop()], 1), time)
                x = x if attention is None else attention(x, text)
            if level.samplers:
                x = level.sampled(x)
        return self.conv_out(nn.functional.silu(self.conv_norm_out(x)))

    def loss(self, x, noise, share, times, text):
        """How badly the noise is told that x was mixed with; share: (batch), of x in the mixture's variance."""
        share = share.reshape(-1, 1, 1, 1)
        mixed = x * share.sqrt() + noise * (1 - share).sqrt()
        return (self(mixed, times, text) - noise).pow(2).mean()
