"""Symbolic sizes, as tinygrad programs import them."""

from lathe._core import Size, Variable

sint = int | Size


class _SizeKind(type):
    def __instancecheck__(cls, value):
        return isinstance(value, (Size, Variable))


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
        return Variable(name, min_val, max_val)


def resolve(x, default=True):
    """Whether a comparison holds."""
    return bool(x)


def sym_infer(x, var_vals=None):
    """The number a size has under the values its variables are bound to."""
    return x if isinstance(x, int) else x.val


__all__ = ["UOp", "Variable", "resolve", "sint", "sym_infer"]
