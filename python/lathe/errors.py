"""Lathe's errors. A UserError is also a ValueError, a RuntimeError and an AssertionError; IndexError and TypeError are also
Python's own, a MissingFile is a FileNotFoundError, what is NotSupported a NotImplementedError."""

import functools

from lathe._core import (
    CompileError,
    DeviceError,
    IndexError,
    IndexTypeError,
    InternalError,
    JitError,
    KernelOptError,
    MissingFile,
    NotSupported,
    OutOfMemory,
    TypeError,
    UnknownName,
    UserError,
)


class MissingNames(UserError, KeyError):
    """Names that are needed are not there."""

    __str__ = UserError.__str__


def nearest(word, known):
    """"; did you mean ...?" where a known word is like it, or nothing."""
    import difflib

    found = difflib.get_close_matches(str(word), list(known), 1, 0.6)
    return f"; did you mean {found[0]}?" if found else ""


@functools.cache
def _broken_archive(kind):
    class BrokenArchive(UserError, kind):
        """An archive that is damaged or none."""

    return BrokenArchive


def broken_archive(error, kind):
    """The error of a reader, also of the kind that the standard library raises for such an archive."""
    if isinstance(error, (MissingFile, NotSupported)):
        return error
    return _broken_archive(kind)(str(error))


__all__ = [
    "CompileError",
    "DeviceError",
    "IndexError",
    "IndexTypeError",
    "InternalError",
    "JitError",
    "KernelOptError",
    "MissingFile",
    "MissingNames",
    "NotSupported",
    "OutOfMemory",
    "TypeError",
    "UnknownName",
    "UserError",
]
