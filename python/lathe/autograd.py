"""Gradients by hand, functions with gradients of their own, and activation checkpointing."""

import contextlib

from lathe import _core
from lathe._core import Tensor
from lathe.errors import UserError


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


def _list(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=False, only_inputs=True,
         is_grads_batched=False, materialize_grads=False):  # fmt: skip
    """Gradients of outputs with respect to inputs, a tuple. With `create_graph` they can be differentiated again; zeros for an
    input that takes no part.

    >>> x = Tensor([3.0], requires_grad=True)
    >>> (first,) = lathe.autograd.grad((x**3).sum(), x, create_graph=True)
    >>> lathe.autograd.grad(first.sum(), x)[0].tolist()
    [18.0]
    """
    outputs, inputs = _list(outputs), _list(inputs)
    seeds = [None] * len(outputs) if grad_outputs is None else _list(grad_outputs)
    if len(seeds) != len(outputs):
        raise UserError(f"lathe: grad: {len(outputs)} outputs and {len(seeds)} grad_outputs")
    totals = None
    for output, seed in zip(outputs, seeds):
        if seed is None and output.numel() != 1:
            raise UserError(
                f"lathe: grad: an output of shape {tuple(output.shape)} needs grad_outputs\n  help: reduce it, output.sum(), or pass"
                " grad_outputs=output.ones_like()"
            )
        found = output.gradient(*inputs, gradient=seed)
        totals = found if totals is None else [a + b for a, b in zip(totals, found)]
    return tuple(totals if create_graph else [t.detach() for t in totals])


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False):
    """tensor.backward() of several.

    >>> x = Tensor([3.0], requires_grad=True)
    >>> lathe.autograd.backward([x.sum(), (x * 2).sum()])
    >>> x.grad.tolist()
    [3.0]
    """
    tensors = _list(tensors)
    for tensor, seed in zip(tensors, [None] * len(tensors) if grad_tensors is None else _list(grad_tensors)):
        tensor.backward(seed)


# ---- functions of one's own


class Context:
    """What `forward` leaves for `backward`."""

    def __init__(self, needs):
        self.needs_input_grad, self.saved_tensors = needs, ()

    def save_for_backward(self, *tensors):
        """Keeps tensors for backward."""
        self.saved_tensors = tensors

    def mark_dirty(self, *tensors):
        """Says nothing here: values are never changed under a graph."""

    def mark_non_differentiable(self, *tensors):
        """Says nothing here."""

    def set_materialize_grads(self, value):
        """Says nothing here: gradients are always tensors."""


_functions = {}  # the op of a function and its arguments that are no tensors


class Function:
    """A function with a gradient of its own, as PyTorch users write it: `forward(ctx, *inputs)` and `backward(ctx, grad)`, static,
    and one tensor comes out. `forward` is run again for the gradient, so it must depend on its inputs alone.

    >>> class Square(lathe.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2 * ctx.saved_tensors[0]
    >>> x = Tensor([3.0], requires_grad=True)
    >>> loss = Square.apply(x).sum().backward()
    >>> x.grad.tolist()
    [6.0]
    """

    @classmethod
    def apply(cls, *args):
        """Calls it."""
        places = tuple(i for i, a in enumerate(args) if isinstance(a, Tensor))
        if not places:
            raise UserError(f"lathe: {cls.__name__}: apply needs a tensor among its arguments")
        rest = tuple(None if i in places else a for i, a in enumerate(args))
        try:
            key = (cls, places, rest, tuple(map(type, rest)))
            known = _functions.get(key)
        except TypeError:
            raise UserError(
                f"lathe: {cls.__name__}: an argument that is not a tensor is told apart by its value, and one of {rest} cannot be\n"
                "  help: pass a tuple instead of a list"
            ) from None
        if known is None:
            known = _functions[key] = f"{cls.__module__}.{cls.__qualname__} {len(_functions)}"
            _core.register_op(known, *_callbacks(cls, places, rest))
        return _core.custom(known, [args[i] for i in places])


def _callbacks(cls, places, rest):
    def filled(tensors):
        given = list(rest)
        for place, tensor in zip(places, tensors):
            given[place] = tensor
        return given

    def run(tensors):
        ctx = Context(tuple(i in places for i in range(len(rest))))
        out = cls.forward(ctx, *filled(tensors))
        if not isinstance(out, Tensor):
            raise UserError(f"lathe: {cls.__name__}: forward gives one tensor, not {type(out).__name__}\n  help: a function for each output")
        return ctx, out

    def forward(*tensors):
        return run(tensors)[1]

    def gradient(tensors, output, grad):
        found = cls.backward(run(tensors)[0], grad)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        if len(found) != len(rest):
            raise UserError(f"lathe: {cls.__name__}: backward gave {len(found)} gradients for {len(rest)} arguments\n  help: one each, None for none")
        return [found[i] for i in places]

    return forward, gradient


def Variable(data, requires_grad=False, **ignored):
    """The tensor itself, as PyTorch's old name has it.

    >>> lathe.autograd.Variable(Tensor([1.0])).tolist()
    [1.0]
    """
    return data.requires_grad_(True) if requires_grad else data


@contextlib.contextmanager
def detect_anomaly(check_nan=True):
    """Does nothing; docs/python/recipes.md shows how to find where a NaN begins.

    >>> with lathe.autograd.detect_anomaly(): pass
    """
    yield


def set_detect_anomaly(mode, check_nan=True):
    """As detect_anomaly.

    >>> with lathe.autograd.set_detect_anomaly(True): pass
    """
    return detect_anomaly()


class functional:
    """Derivatives of functions.

    >>> lathe.autograd.functional.jacobian(lambda x: x * 2, Tensor([1.0])).tolist()
    [[2.0]]
    """

    @staticmethod
    def jacobian(func, inputs, create_graph=False, **ignored):
        """The derivative of every output by every input.

        >>> lathe.autograd.functional.jacobian(lambda x: x * x, Tensor([1.0, 2.0])).tolist()
        [[2.0, 0.0], [0.0, 4.0]]
        """
        single = isinstance(inputs, Tensor)
        points = [t if create_graph else t.detach().clone() for t in _list(inputs)]
        for t in points:
            t.requires_grad_(True)
        out = func(*points)
        rows = []
        for i in range(out.numel()):
            rows.append(out.reshape(-1)[i].gradient(*points))
        made = [Tensor.stack([r[k] for r in rows]).reshape(*out.shape, *points[k].shape) for k in range(len(points))]
        made = made if create_graph else [m.detach() for m in made]
        return made[0] if single else tuple(made)

    @staticmethod
    def hessian(func, inputs, **ignored):
        """The second derivatives of a function with one number as result.

        >>> lathe.autograd.functional.hessian(lambda x: (x**3).sum(), Tensor([1.0, 2.0])).tolist()
        [[6.0, 0.0], [0.0, 12.0]]
        """
        point = inputs.detach().clone().requires_grad_(True)
        (first,) = func(point).gradient(point)
        flat = first.reshape(-1)
        rows = [flat[i].gradient(point)[0].reshape(-1) for i in range(flat.shape[0])]
        return Tensor.stack(rows).reshape(*point.shape, *point.shape).detach()


__all__ = ["Function", "Tensor", "Variable", "backward", "checkpoint", "detect_anomaly", "functional", "grad", "register_op",
           "set_detect_anomaly"]  # fmt: skip
