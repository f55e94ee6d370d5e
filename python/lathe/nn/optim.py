"""Optimizers, and gradient clipping."""

from lathe._core import (
    LAMB,
    LARS,
    SGD,
    Adam,
    AdamW,
    Muon,
    Optimizer,
    OptimizerGroup,
    Tensor,
    clip_grad_norm_,
    clip_grad_value_,
)
from lathe.dtype import dtypes


def _new_optim_param(self):
    """Zeros shaped like each parameter, for the state of an optimizer of one's own."""
    return [Tensor.zeros(*p.shape, dtype=dtypes.float32, device=p.device).contiguous().realize() for p in self.params]


Optimizer._new_optim_param = _new_optim_param

__all__ = [
    "Adam",
    "AdamW",
    "LAMB",
    "LARS",
    "Muon",
    "Optimizer",
    "OptimizerGroup",
    "SGD",
    "clip_grad_norm_",
    "clip_grad_value_",
]
