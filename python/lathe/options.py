"""Kernel options: `Opt(OptOps.UPCAST, axis, arg)`, attached to the kernel of a tensor."""

import enum
import typing

from lathe import _core
from lathe.errors import KernelOptError

OptOps = enum.Enum(
    "OptOps",
    "TC UPCAST UNROLL LOCAL THREAD GROUP GROUPTOP PADTO SWAP NOLOCALS TILE STAGE PIPELINE",
    module=__name__,
)


class Opt(typing.NamedTuple):
    """One option: what, on which axis, with which argument (docs/options.md)."""

    op: OptOps
    axis: int | None = None
    arg: int | tuple | None = None


def text_of(opt):
    """The option as the library writes it: UPCAST(0, 4)."""
    arg = () if opt.arg is None else opt.arg if isinstance(opt.arg, (tuple, list)) else (opt.arg,)
    parts = [0 if opt.axis is None else opt.axis, *arg]
    return f"{opt.op.name}({', '.join(str(int(p)) for p in parts)})"


def set_options(tensor, opts):
    """Compiles the kernel that stores this tensor with exactly these options.

    >>> out = set_options(Tensor.rand(16, 16) + 1, [Opt(OptOps.UPCAST, 0, 4)])
    >>> out.realize().shape
    (16, 16)
    """
    _core.set_options(tensor, " ".join(text_of(opt) for opt in opts))
    return tensor


__all__ = ["KernelOptError", "Opt", "OptOps", "set_options"]
