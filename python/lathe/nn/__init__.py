"""Layers, with tinygrad's and PyTorch's names. Their tensors are attributes (`layer.weight`), and classes may derive
from them."""

from lathe._core import (
    GRU,
    LSTM,
    BatchNorm,
    Conv1d,
    Conv2d,
    ConvTranspose1d,
    ConvTranspose2d,
    Dropout,
    Embedding,
    GroupNorm,
    GRUCell,
    InstanceNorm,
    LayerNorm,
    LayerNorm2d,
    Linear,
    LSTMCell,
    Module,
    MultiHeadAttention,
    RMSNorm,
    TransformerBlock,
)
from lathe.nn import datasets, optim, schedulers, state

BatchNorm1d = BatchNorm2d = BatchNorm3d = BatchNorm

__all__ = [
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "Dropout",
    "Embedding",
    "GRU",
    "GRUCell",
    "GroupNorm",
    "InstanceNorm",
    "LSTM",
    "LSTMCell",
    "LayerNorm",
    "LayerNorm2d",
    "Linear",
    "Module",
    "MultiHeadAttention",
    "RMSNorm",
    "TransformerBlock",
    "datasets",
    "optim",
    "schedulers",
    "state",
]
