"""BERT with the two heads it is trained with: hidden words, and whether the second sentence follows the first. Named as the
published files."""

import lathe
from lathe import nn
from lathe.models.attention import attend, join_heads, split_heads


class Self(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)


class Output(nn.Module):
    """A product, and the norm of its sum with what it came from."""

    def __init__(self, inputs, dim, eps):
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(inputs, dim), nn.LayerNorm(dim, eps=eps)

    def forward(self, x, before, dropout):
        return self.LayerNorm(before + dropout(self.dense(x)))


class Attention(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.self, self.output = Self(dim), Output(dim, dim, eps)


class Dense(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.dense = nn.Linear(inputs, outputs)


class Layer(nn.Module):
    def __init__(self, dim, heads, feed_forward, eps, dropout):
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.attention = Attention(dim, eps)
        self.intermediate, self.output = Dense(dim, feed_forward), Output(feed_forward, dim, eps)

    def forward(self, x, mask):
        own = self.attention.self
        mixed = attend(*(split_heads(part(x), self.heads) for part in (own.query, own.key, own.value)), mask)
        x = self.attention.output(join_heads(mixed), x, self.dropout)
        return self.output(nn.functional.gelu(self.intermediate.dense(x)), x, self.dropout)


class Embeddings(nn.Module):
    def __init__(self, vocabulary, context, segments, dim, eps):
        super().__init__()
        self.word_embeddings, self.position_embeddings = nn.Embedding(vocabulary, dim), nn.Embedding(context, dim)
        self.token_type_embeddings, self.LayerNorm = nn.Embedding(segments, dim), nn.LayerNorm(dim, eps=eps)

    def forward(self, tokens, segments):
        places = self.position_embeddings.weight[: tokens.shape[1]]
        return self.LayerNorm(self.word_embeddings(tokens) + places + self.token_type_embeddings(segments))


class Encoder(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layer = nn.ModuleList(layers)


class Body(nn.Module):
    def __init__(self, vocabulary, context, segments, layers, heads, dim, feed_forward, eps, dropout):
        super().__init__()
        self.embeddings, self.dropout = Embeddings(vocabulary, context, segments, dim, eps), nn.Dropout(dropout)
        self.encoder = Encoder([Layer(dim, heads, feed_forward, eps, dropout) for _ in range(layers)])
        self.pooler = Dense(dim, dim)


class Transform(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.dense, self.LayerNorm = nn.Linear(dim, dim), nn.LayerNorm(dim, eps=eps)


class Predictions(nn.Module):
    def __init__(self, vocabulary, dim, eps):
        super().__init__()
        self.transform = Transform(dim, eps)
        self.bias = nn.Parameter(lathe.zeros(vocabulary))


class Heads(nn.Module):
    def __init__(self, vocabulary, dim, eps):
        super().__init__()
        self.predictions, self.seq_relationship = Predictions(vocabulary, dim, eps), nn.Linear(dim, 2)


class Bert(nn.Module):
    """The default is BERT base. tokens and segments: (batch, time); mask: (batch, time) bool, true where there is a word."""

    def __init__(self, vocabulary=30522, context=512, segments=2, layers=12, heads=12, dim=768, feed_forward=3072, eps=1e-12, dropout=0.1):
        super().__init__()
        self.bert = Body(vocabulary, context, segments, layers, heads, dim, feed_forward, eps, dropout)
        self.cls = Heads(vocabulary, dim, eps)

    def encode(self, tokens, segments, mask=None):
        x = self.bert.dropout(self.bert.embeddings(tokens, segments))
        if mask is not None:
            mask = mask.reshape(mask.shape[0], 1, 1, mask.shape[1])
        for layer in self.bert.encoder.layer:
            x = layer(x, mask)
        return x

    def word_logits(self, encoded):
        head = self.cls.predictions
        wide = head.transform.LayerNorm(nn.functional.gelu(head.transform.dense(encoded)))
        return wide @ self.bert.embeddings.word_embeddings.weight.T + head.bias

    def sentence_logits(self, encoded):
        return self.cls.seq_relationship(self.bert.pooler.dense(encoded[:, 0]).tanh())

    def forward(self, tokens, segments, mask=None):
        encoded = self.encode(tokens, segments, mask)
        return self.word_logits(encoded), self.sentence_logits(encoded)

    def loss(self, tokens, segments, words, follows):
        """Words that were not hidden have the target -100."""
        word_logits, sentence_logits = self(tokens, segments)
        entropy = nn.functional.cross_entropy
        return entropy(word_logits.flatten(0, 1), words.flatten(), ignore_index=-100) + entropy(sentence_logits, follows)
