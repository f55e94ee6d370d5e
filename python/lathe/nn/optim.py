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
    UserError,
    clip_grad_value_,
)
from lathe._core import clip_grad_norm_ as _clip_by_length
from lathe.helpers import no_grad


def clip_grad_norm_(parameters, max_norm, norm_type=2.0):
    """Scales all gradients so that their norm together is at most `max_norm`; returns the norm. `norm_type` is its
    exponent, or infinity for the largest magnitude.

    >>> w = Tensor([3.0, 4.0], requires_grad=True)
    >>> out = w.square().sum().backward()
    >>> nn.optim.clip_grad_norm_([w], 5.0).item(), round(w.grad[0].item(), 3)
    (10.0, 3.0)
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if norm_type == 2:
        return _clip_by_length(parameters, max_norm)
    grads = [p.grad.float().abs() for p in parameters if p.grad is not None]
    if not grads:
        raise UserError("lathe: clip_grad_norm_: no parameter has a gradient\n  help: call backward() first")
    with no_grad():
        if norm_type == float("inf"):
            norm = Tensor.stack(*[g.max() for g in grads]).max()
        else:
            norm = Tensor.stack(*[g.pow(norm_type).sum() for g in grads]).sum().pow(1 / norm_type)
        scale = (max_norm / (norm + 1e-6)).minimum(1.0)
        for p in parameters:
            if p.grad is not None:
                p.grad = (p.grad * scale).cast(p.grad.dtype)
    return norm


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
