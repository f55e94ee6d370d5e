"""Lathe's errors. A UserError is also a ValueError, a RuntimeError and an AssertionError; IndexError and TypeError are also
Python's own."""

from lathe._core import (
    CompileError,
    DeviceError,
    IndexError,
    InternalError,
    JitError,
    KernelOptError,
    OutOfMemory,
    TypeError,
    UnknownName,
    UserError,
)


class MissingNames(UserError, KeyError):
    """Names that are needed are not there."""

    __str__ = UserError.__str__


__all__ = [
    "CompileError",
    "DeviceError",
    "IndexError",
    "InternalError",
    "JitError",
    "KernelOptError",
    "MissingNames",
    "OutOfMemory",
    "TypeError",
    "UnknownName",
    "UserError",
]
