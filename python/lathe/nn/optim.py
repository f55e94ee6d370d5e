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
    clip_grad_norm_,
    clip_grad_value_,
)

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
