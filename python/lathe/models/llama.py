"""LLaMA: rotary positions, grouped heads of keys and values, gated feed-forward nets. Named as Hugging Face's files. To write
text there is lathe.llm; this is the net as a module, to train."""

import lathe
from lathe import nn
from lathe.models.attention import attend, join_heads, split_heads


class Norm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(lathe.ones(dim)), eps

    def forward(self, x):
        return x * (x.pow(2).mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight


def turned(x, base):
    """x: (batch, heads, time, features), its first half turned against the second by the position's angles."""
    half = x.shape[-1] // 2
    frequencies = base ** (-lathe.arange(half, dtype=lathe.float32) / half)
    angles = lathe.arange(x.shape[2], dtype=lathe.float32).reshape(-1, 1) * frequencies
    a, b = x.chunk(2, -1)
    return lathe.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


class Attention(nn.Module):
    def __init__(self, dim, heads, kv_heads, base):
        super().__init__()
        self.heads, self.kv_heads, self.base, width = heads, kv_heads, base, dim // heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * width, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * width, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, mask):
        group = self.heads // self.kv_heads
        query = turned(split_heads(self.q_proj(x), self.heads), self.base)
        key = turned(split_heads(self.k_proj(x), self.kv_heads), self.base).repeat_interleave(group, dim=1)
        value = split_heads(self.v_proj(x), self.kv_heads).repeat_interleave(group, dim=1)
        return self.o_proj(join_heads(attend(query, key, value, mask)))


class Feed(nn.Module):
    def __init__(self, dim, feed_forward):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(dim, feed_forward, bias=False), nn.Linear(dim, feed_forward, bias=False)
        self.down_proj = nn.Linear(feed_forward, dim, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, dim, heads, kv_heads, feed_forward, eps, base):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(dim, eps), Norm(dim, eps)
        self.self_attn, self.mlp = Attention(dim, heads, kv_heads, base), Feed(dim, feed_forward)

    def forward(self, x, mask):
        x = x + self.self_attn(self.input_layernorm(x), mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, vocabulary, dim, blocks, eps):
        super().__init__()
        self.embed_tokens, self.layers, self.norm = nn.Embedding(vocabulary, dim), nn.ModuleList(blocks), Norm(dim, eps)


class Llama(nn.Module):
    """The default is the published size of one billion parameters; tokens (batch, time) to (batch, time, vocabulary)."""

    def __init__(self, vocabulary=128256, dim=2048, feed_forward=8192, layers=16, heads=32, kv_heads=8, rope_theta=500000.0, eps=1e-5, tied=True):
        super().__init__()
        blocks = [Block(dim, heads, kv_heads, feed_forward, eps, rope_theta) for _ in range(layers)]
        self.model = Body(vocabulary, dim, blocks, eps)
        self.lm_head = None if tied else nn.Linear(dim, vocabulary, bias=False)

    def forward(self, tokens):
        time = tokens.shape[1]
        mask = lathe.ones(time, time, dtype=lathe.bool).tril()
        x = self.model.embed_tokens(tokens)
        for block in self.model.layers:
            x = block(x, mask)
        x = self.model.norm(x)
        return x @ self.model.embed_tokens.weight.T if self.lm_head is None else self.lm_head(x)

    def loss(self, tokens, targets):
        return nn.functional.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())
