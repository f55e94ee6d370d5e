"""Lathe: lazy tensors, gradients and compiled kernels. `from lathe import Tensor` and go on."""

import os

from lathe import _core
from lathe.errors import JitError, KernelOptError, UserError
from lathe.helpers import Context, GlobalCounters, fetch, getenv, live_buffers, memory_report, memory_stats, no_grad
from lathe.dtype import dtypes
from lathe.device import Device
from lathe.tensor import Tensor
from lathe.uop.ops import UOp, Variable
from lathe.jit import TinyJit, function, jit
from lathe.options import Opt, OptOps, set_options

__version__ = "0.1.0"
_core.keep_places(os.path.dirname(__file__) + os.sep)  # of tensors: lines of the program, not of this package


def __getattr__(name):  # what costs time to import and is not always needed
    import importlib

    if name in ("nn", "amp", "data", "bench", "linalg"):
        return importlib.import_module(f"lathe.{name}")
    if name in ("save", "load"):
        return getattr(importlib.import_module("lathe.nn.state"), name)
    if name in ("set_printoptions", "summary"):
        return getattr(importlib.import_module("lathe.printing"), name)
    if name in ("checkpoint", "register_op"):
        return getattr(importlib.import_module("lathe.autograd"), name)
    raise AttributeError(f"module 'lathe' has no attribute {name!r}")


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
