"""Lathe: lazy tensors, gradients and compiled kernels. `from lathe import Tensor` and go on; programs of PyTorch users may also say
`import lathe as torch`."""

import os

from lathe import _core
from lathe.errors import JitError, KernelOptError, UserError
from lathe.helpers import Context, GlobalCounters, fetch, getenv, live_buffers, memory_report, memory_stats, no_grad
from lathe.dtype import dtypes
from lathe.device import Device, device
from lathe.tensor import Tensor
from lathe.uop.ops import UOp
from lathe.jit import TinyJit, function, jit
from lathe.options import Opt, OptOps, set_options

__version__ = "0.1.0"
_core.keep_places(os.path.dirname(__file__) + os.sep)  # of tensors: lines of the program, not of this package

_MODULES = "amp autograd backends bench cuda data distributions functions linalg llm nn optim special utils".split()
_ELSEWHERE = {
    "save": "nn.state", "load": "nn.state", "set_printoptions": "printing", "summary": "printing", "checkpoint": "autograd",
    "register_op": "autograd", "autocast": "amp",
}  # fmt: skip


TYPE_CHECKING = False  # which editors and type checkers take for true; typing's own would cost its import
if TYPE_CHECKING:
    from typing import Any

    from lathe import amp, autograd, backends, bench, cuda, data, distributions, functions, linalg, nn, optim, special, utils
    from lathe.amp import autocast
    from lathe.autograd import checkpoint, register_op
    from lathe.nn.state import load, save
    from lathe.printing import set_printoptions, summary
    from lathe._core import Variable
    from lathe._typed import *  # noqa: F403
else:
    from lathe.uop.ops import Variable


def __getattr__(name: str) -> "Any":  # what costs time to import and is not always needed
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"lathe.{name}")
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(f"lathe.{_ELSEWHERE[name]}"), name)
    from lathe import functions
    from lathe.errors import nearest

    try:
        return functions.find(name)
    except AttributeError:
        known = [*_MODULES, *_ELSEWHERE, *__all__, *functions.names()]
        raise AttributeError(f"module 'lathe' has no attribute {name!r}{nearest(name, known)}", name=name) from None


__all__ = [
    "Context",
    "Device",
    "GlobalCounters",
    "JitError",
    "KernelOptError",
    "Opt",
    "OptOps",
    "Tensor",
    "TinyJit",
    "UOp",
    "UserError",
    "Variable",
    "device",
    "dtypes",
    "fetch",
    "function",
    "getenv",
    "jit",
    "live_buffers",
    "memory_report",
    "memory_stats",
    "no_grad",
    "set_options",
]
