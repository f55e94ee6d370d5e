"""Lathe's errors. A UserError is also a ValueError and a RuntimeError; IndexError and TypeError are also Python's own."""

from lathe._core import (
    CompileError,
    DeviceError,
    IndexError,
    InternalError,
    JitError,
    KernelOptError,
    OutOfMemory,
    TypeError,
    UserError,
)

__all__ = [
    "CompileError",
    "DeviceError",
    "IndexError",
    "InternalError",
    "JitError",
    "KernelOptError",
    "OutOfMemory",
    "TypeError",
    "UserError",
]
