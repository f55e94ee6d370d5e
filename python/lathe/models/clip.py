"""The text encoder of CLIP, which tells Stable Diffusion what to draw; named as Hugging Face's files."""

import lathe
from lathe import nn
from lathe.models.attention import attend, join_heads, split_heads


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, mask):
        parts = (split_heads(part(x), self.heads) for part in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(join_heads(attend(*parts, mask)))


class Feed(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        x = self.fc1(x)
        return self.fc2(x * (1.702 * x).sigmoid())


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.layer_norm1, self.self_attn = nn.LayerNorm(dim), Attention(dim, heads)
        self.layer_norm2, self.mlp = nn.LayerNorm(dim), Feed(dim)

    def forward(self, x, mask):
        x = x + self.self_attn(self.layer_norm1(x), mask)
        return x + self.mlp(self.layer_norm2(x))


class Embeddings(nn.Module):
    def __init__(self, vocabulary, context, dim):
        super().__init__()
        self.token_embedding, self.position_embedding = nn.Embedding(vocabulary, dim), nn.Embedding(context, dim)


class Encoder(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)


class Body(nn.Module):
    def __init__(self, vocabulary, context, layers, heads, dim):
        super().__init__()
        self.embeddings = Embeddings(vocabulary, context, dim)
        self.encoder = Encoder([Layer(dim, heads) for _ in range(layers)])
        self.final_layer_norm = nn.LayerNorm(dim)


class ClipText(nn.Module):
    """Tokens (batch, time) to (batch, time, dim). The default is that of Stable Diffusion 1."""

    def __init__(self, vocabulary=49408, context=77, layers=12, heads=12, dim=768):
        super().__init__()
        self.text_model = Body(vocabulary, context, layers, heads, dim)

    def forward(self, tokens):
        time, body = tokens.shape[1], self.text_model
        x = body.embeddings.token_embedding(tokens) + body.embeddings.position_embedding.weight[:time]
        mask = lathe.ones(time, time, dtype=lathe.bool).tril()
        for layer in body.encoder.layers:
            x = layer(x, mask)
        return body.final_layer_norm(x)
