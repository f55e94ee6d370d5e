"""Functions with gradients of their own, and activation checkpointing."""

import itertools

from lathe import _core
from lathe._core import Tensor

_names = itertools.count()


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
    takes and gives tensors; tensors it reads besides its arguments get no gradient.

    >>> x = Tensor([3.0], requires_grad=True)
    >>> checkpoint(lambda t: (t * t).exp(), x).shape
    (1,)
    """

    def gradient(given, output, grad):
        fresh = [t.detach() for t in given]
        return function(*fresh).gradient(*fresh, gradient=grad)

    name = f"checkpoint_{next(_names)}"
    _core.register_op(name, function, gradient)
    return _core.custom(name, list(inputs))


__all__ = ["Tensor", "checkpoint", "register_op"]
