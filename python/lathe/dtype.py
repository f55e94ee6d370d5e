"""Dtypes and how they meet."""

from lathe import _core
from lathe._core import DType, least_upper_dtype, least_upper_float, sum_acc_dtype, to_dtype

DTypeLike = str | DType
ConstType = float | int | bool
PyConst = ConstType

_ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "weakint": "int32",
    "weakfloat": "float32",
}


def _named(name):
    return _core.parse_dtype(name)


class _Dtypes:
    """The dtypes by name, their groups, and the defaults of literals that meet no tensor."""

    def __init__(self):
        for dtype in _core.dtype_groups["all"]:
            setattr(self, dtype.name, dtype)
        for alias, name in _ALIASES.items():
            setattr(self, alias, getattr(self, name))
        for group in ("all", "floats", "ints", "sints", "uints", "fp8s"):
            setattr(self, group, _core.dtype_groups[group])

    @property
    def default_float(self):
        """The dtype of float literals."""
        return _core.default_float()

    @default_float.setter
    def default_float(self, dtype):
        _core.set_default_float(dtype)

    @property
    def default_int(self):
        """The dtype of integer literals."""
        return _core.default_int()

    @default_int.setter
    def default_int(self, dtype):
        _core.set_default_int(dtype)

    def is_float(self, dtype):
        """Whether it is one of the floats."""
        return dtype in self.floats

    def is_int(self, dtype):
        """Whether it is a signed or unsigned integer (not bool)."""
        return dtype in self.ints

    def is_unsigned(self, dtype):
        """Whether it is an unsigned integer."""
        return dtype in self.uints

    def is_bool(self, dtype):
        """Whether it is bool."""
        return dtype is self.bool

    def from_py(self, value):
        """The dtype a Python number, or a nested list of them, gets."""
        if isinstance(value, bool):
            return self.bool
        if isinstance(value, int):
            return self.default_int
        if isinstance(value, float):
            return self.default_float
        if isinstance(value, (list, tuple)):
            return max((self.from_py(v) for v in value), default=self.default_float)
        raise _core.TypeError(f"lathe: from_py: {value!r} is no number")

    def min(self, dtype):
        """The least value, -inf for floats."""
        return dtype.min

    def max(self, dtype):
        """The greatest value, inf for floats."""
        return dtype.max

    def finfo(self, dtype):
        """The bits of exponent and mantissa of a float dtype."""
        return _core.finfo(dtype)[:2]

    def as_const(self, value, dtype):
        """The Python number as the dtype holds it: int, float or bool."""
        return float(value) if self.is_float(dtype) else bool(value) if self.is_bool(dtype) else int(value)

    def fields(self):
        """All dtypes by name."""
        return {dtype.name: dtype for dtype in self.all}


dtypes = _Dtypes()
DTYPES_DICT = dtypes.fields()


def truncate_fp16(x):
    """The nearest float16, infinite where it is out of range."""
    return _core.Tensor(float(x), dtype=dtypes.float16).item()


__all__ = ["DType", "dtypes", "least_upper_dtype", "least_upper_float", "sum_acc_dtype", "to_dtype", "ConstType"]
