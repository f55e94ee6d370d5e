"""Kernel options: `Opt(OptOps.UPCAST, axis, arg)`, attached to the kernel of a tensor."""

import collections
import enum

from lathe import _core
from lathe.errors import KernelOptError

OptOps = enum.Enum(
    "OptOps",
    "TC UPCAST UNROLL LOCAL THREAD GROUP GROUPTOP PADTO SWAP NOLOCALS TILE STAGE PIPELINE JOIN",
    module=__name__,
)


class Opt(collections.namedtuple("Opt", ("op", "axis", "arg"), defaults=(None, None))):
    """One option: what, on which axis, with which argument (docs/options.md).

    >>> Opt(OptOps.UPCAST, 0, 4)
    Opt(op=<OptOps.UPCAST: 2>, axis=0, arg=4)
    """

    __slots__ = ()


def text_of(opt):
    """The option as the library writes it: UPCAST(0, 4)."""
    arg = () if opt.arg is None else opt.arg if isinstance(opt.arg, (tuple, list)) else (opt.arg,)
    parts = [0 if opt.axis is None else opt.axis, *arg]
    return f"{opt.op.name}({', '.join(str(int(p)) for p in parts)})"


def text_of_all(opts):
    """A list of options as the library writes it."""
    return " ".join(text_of(opt) for opt in opts)


def set_options(tensor, opts):
    """Compiles the kernel that stores this tensor with exactly these options.

    >>> out = set_options(Tensor.rand(16, 16) + 1, [Opt(OptOps.UPCAST, 0, 4)])
    >>> out.realize().shape
    (16, 16)
    """
    _core.set_options(tensor, text_of_all(opts))
    return tensor


__all__ = ["KernelOptError", "Opt", "OptOps", "set_options"]
