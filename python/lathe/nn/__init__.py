"""Layers, with tinygrad's and PyTorch's names. Their tensors are attributes (`layer.weight`), and classes may derive
from them; `Module` is their base, and the base of nets of one's own."""

from lathe._core import (
    BatchNorm,
    Conv1d,
    Conv2d,
    ConvTranspose1d,
    ConvTranspose2d,
    Dropout,
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
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from lathe._core import Tensor  # noqa: F401
from lathe.nn import datasets, optim, schedulers, state
from lathe.nn.module import Parameter
from lathe.nn.native import Embedding
from lathe.nn import containers, functional, init, layers, recurrent, utils
from lathe.nn.containers import *  # noqa: F403
from lathe.nn.layers import *  # noqa: F403
from lathe.nn.recurrent import *  # noqa: F403
from lathe.printing import summary

TYPE_CHECKING = False  # which editors and type checkers take for true
if TYPE_CHECKING:
    from lathe.nn._typed import *  # noqa: F403

BatchNorm1d = BatchNorm2d = BatchNorm3d = BatchNorm

__all__ = sorted([
    "BatchNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d", "Dropout",
    "Embedding", "GRUCell", "GroupNorm", "InstanceNorm", "LSTMCell", "LayerNorm", "LayerNorm2d", "Linear", "Module", "MultiHeadAttention",
    "Parameter", "RMSNorm", "TransformerBlock", "TransformerDecoderLayer", "TransformerEncoderLayer", "datasets", "functional", "init",
    "optim", "schedulers", "state", "summary", "utils", *containers.__all__, *layers.__all__, *recurrent.__all__,
])  # fmt: skip
