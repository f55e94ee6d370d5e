"""Symbolic sizes, as tinygrad programs import them."""

from lathe.absent import absent
from lathe import _core

sint = int | _core.Size


class _SizeKind(type):
    def __instancecheck__(cls, value):
        return isinstance(value, (_core.Size, _core.Variable))


class Variable(metaclass=_SizeKind):
    """A named integer with a range. Bound to a value it can be used in shapes and slices; kernels work for every value.

    >>> n = Variable("n", 1, 10).bind(3)
    >>> Tensor.arange(10)[:n].sum().item(), isinstance(n, Variable)
    (3, True)
    """

    def __new__(cls, name, min=None, max=None, dtype=None, *, min_val=None, max_val=None):
        low, high = (min_val if min is None else min), (max_val if max is None else max)
        if low is None or high is None:
            raise TypeError("a Variable needs its least and its greatest value")
        return _core.Variable(name, low, high)


class UOp(metaclass=_SizeKind):
    """What a symbolic size is to `isinstance`; `UOp.variable` makes a variable.

    >>> from lathe.uop.ops import UOp
    >>> n = UOp.variable("n", 1, 10).bind(3)
    >>> isinstance(n, UOp), isinstance(3, UOp)
    (True, False)
    """

    @staticmethod
    def variable(name, min_val, max_val, dtype=None):
        """A named integer from min_val to max_val."""
        return _core.Variable(name, min_val, max_val)


def resolve(x, default=True):
    """Whether a comparison holds."""
    return bool(x)


def sym_infer(x, var_vals=None):
    """The number a size has under the values its variables are bound to."""
    return x if isinstance(x, int) else x.val


__all__ = ["UOp", "Variable", "resolve", "sint", "sym_infer"]


__getattr__ = absent(__name__)
