"""Memory for time: values inside are computed again for the gradient."""

from lathe import autograd


def checkpoint(function, *args, use_reentrant=None, preserve_rng_state=True, **kwargs):
    """function(*args), whose inner values are computed again for the gradient (`lathe.checkpoint`). Random numbers are the same.

    >>> from lathe.utils.checkpoint import checkpoint
    >>> x = Tensor([3.0], requires_grad=True)
    >>> loss = checkpoint(lambda t: t * t, x, use_reentrant=False).sum().backward()
    >>> x.grad.tolist()
    [6.0]
    """
    from lathe import Tensor

    places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]

    def call(*tensors):
        given = list(args)
        for place, tensor in zip(places, tensors):
            given[place] = tensor
        return function(*given, **kwargs)

    return autograd.checkpoint(call, *(args[i] for i in places))


def checkpoint_sequential(functions, segments, input, **ignored):
    """Applies layers in order, in this number of parts, each a checkpoint.

    >>> from lathe.utils.checkpoint import checkpoint_sequential
    >>> checkpoint_sequential(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), 2, Tensor.ones(1, 2)).shape
    (1, 3)
    """
    layers = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = -(-len(layers) // segments)

    def run(part):
        def call(x):
            for layer in part:
                x = layer(x)
            return x

        return call

    for i in range(0, len(layers), size):
        input = checkpoint(run(layers[i : i + size]), input)
    return input


__all__ = ["checkpoint", "checkpoint_sequential"]
