"""What the transformers of this folder share: heads, and how they look at each other."""

import math


def split_heads(x, heads):
    """(batch, time, features) to (batch, heads, time, features of a head)."""
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(1, 2)


def join_heads(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def attend(query, key, value, mask=None):
    """Values by how well each query fits each key; `mask` is true where a query may look."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask.logical_not(), float("-inf"))
    return scores.softmax(-1) @ value
