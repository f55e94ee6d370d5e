"""GPT-2: causal transformer blocks whose output layer is the token table. Named as the published files, whose products are
stored (in, out): theirs are to be transposed."""

import lathe
from lathe import nn
from lathe.models.attention import attend, join_heads, split_heads


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.c_attn, self.c_proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, mask):
        query, key, value = (split_heads(part, self.heads) for part in self.c_attn(x).chunk(3, -1))
        return self.c_proj(join_heads(attend(query, key, value, mask)))


class Feed(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.c_proj(nn.functional.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(dim), Attention(dim, heads), nn.LayerNorm(dim), Feed(dim)

    def forward(self, x, mask):
        x = x + self.attn(self.ln_1(x), mask)
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """The default is the smallest published size; tokens (batch, time) to (batch, time, vocabulary)."""

    def __init__(self, vocabulary=50257, context=1024, layers=12, heads=12, dim=768):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, dim), nn.Embedding(context, dim)
        self.h = nn.ModuleList([Block(dim, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(dim)

    def forward(self, tokens):
        time = tokens.shape[1]
        x = self.wte(tokens) + self.wpe.weight[:time]
        mask = lathe.ones(time, time, dtype=lathe.bool).tril()
        for block in self.h:
            x = block(x, mask)
        return self.ln_f(x) @ self.wte.weight.T

    def loss(self, tokens, targets):
        return nn.functional.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())
