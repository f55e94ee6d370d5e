"""Functions with gradients of their own, and activation checkpointing."""

from lathe import _core
from lathe._core import Tensor


def register_op(name, forward, gradient=None):
    """Adds an op: `forward(*inputs)` says what it computes, `gradient(inputs, output, grad)` gives one gradient an
    input (None for none). Gives the function that applies it.

    >>> cube = register_op("cube", lambda x: x * x * x, lambda inputs, output, grad: [grad * inputs[0].square() * 3])
    >>> x = Tensor([2.0], requires_grad=True)
    >>> loss = cube(x).sum().backward()
    >>> x.grad.tolist()
    [12.0]
    """
    _core.register_op(name, forward, gradient)
    return lambda *inputs: _core.custom(name, list(inputs))


def checkpoint(function, *inputs):
    """function(*inputs), whose inner values are computed again for the gradient instead of being kept. The function
    takes and gives tensors; other tensors it reads, such as weights, get their gradients too.

    >>> x = Tensor([3.0], requires_grad=True)
    >>> loss = checkpoint(lambda t: t * t, x).sum().backward()
    >>> x.grad.tolist()
    [6.0]
    """
    return _core.checkpoint(function, list(inputs))


__all__ = ["Tensor", "checkpoint", "register_op"]
