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
    MultiheadAttention,
    MultiHeadAttention,
    RMSNorm,
    TransformerBlock,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from lathe._core import Tensor  # noqa: F401
from lathe.nn import datasets, optim, schedulers, state


class Sequential:
    """Layers one after the other: anything that is called with a tensor. `net[i]` is layer i.

    >>> net = nn.Sequential(nn.Linear(2, 3), Tensor.relu, nn.Linear(3, 1))
    >>> net(Tensor.ones(4, 2)).shape, list(nn.state.get_state_dict(net))
    ((4, 1), ['0.weight', '0.bias', '2.weight', '2.bias'])
    """

    def __init__(self, *layers):
        self.layers = list(layers)

    def __call__(self, x):
        return x.sequential(self.layers)

    def __getitem__(self, i):
        return Sequential(*self.layers[i]) if isinstance(i, slice) else self.layers[i]

    def __len__(self):
        return len(self.layers)

    def __iter__(self):
        return iter(self.layers)

    def _asdict(self):
        return {str(i): layer for i, layer in enumerate(self.layers)}


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
    "MultiheadAttention",
    "RMSNorm",
    "Sequential",
    "TransformerBlock",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
    "datasets",
    "optim",
    "schedulers",
    "state",
]
