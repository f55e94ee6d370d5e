"""Dtypes, how they meet, and numbers as they hold them."""

import enum
import math

from lathe import _core
from lathe.absent import absent
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
    """The dtypes by name, their groups, and the defaults of literals that meet no tensor.

    >>> dtypes.half.itemsize, dtypes.int8 in dtypes.ints, dtypes.default_float.name, dtypes.max(dtypes.uint8)
    (2, True, 'float32', 255)
    """

    # For editors and type checkers: the attributes that __init__ sets from the native table.
    float64: DType
    float32: DType
    float16: DType
    bfloat16: DType
    fp8e4m3: DType
    fp8e5m2: DType
    fp8e4m3fnuz: DType
    fp8e5m2fnuz: DType
    int64: DType
    int32: DType
    int16: DType
    int8: DType
    uint64: DType
    uint32: DType
    uint16: DType
    uint8: DType
    half: DType
    double: DType
    char: DType
    uchar: DType
    short: DType
    ushort: DType
    uint: DType
    long: DType
    ulong: DType
    weakint: DType
    weakfloat: DType
    all: tuple[DType, ...]
    floats: tuple[DType, ...]
    ints: tuple[DType, ...]
    sints: tuple[DType, ...]
    uints: tuple[DType, ...]
    fp8s: tuple[DType, ...]
    fp8_ocp: tuple[DType, ...]
    fp8_fnuz: tuple[DType, ...]

    def __init__(self):
        for dtype in _core.dtype_groups["all"]:
            setattr(self, dtype.name, dtype)
        for alias, name in _ALIASES.items():
            setattr(self, alias, getattr(self, name))
        for group in ("all", "floats", "ints", "sints", "uints", "fp8s"):
            setattr(self, group, _core.dtype_groups[group])
        self.fp8_ocp = tuple(d for d in self.fp8s if not d.name.endswith("fnuz"))
        self.fp8_fnuz = tuple(d for d in self.fp8s if d.name.endswith("fnuz"))

    @property
    def default_float(self) -> DType:
        """The dtype of float literals."""
        return _core.default_float()

    @default_float.setter
    def default_float(self, dtype: DType | str) -> None:
        _core.set_default_float(dtype)

    @property
    def default_int(self) -> DType:
        """The dtype of integer literals."""
        return _core.default_int()

    @default_int.setter
    def default_int(self, dtype: DType | str) -> None:
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
        raise _core.TypeError(f"lathe: from_py: {value!r} is not a number")

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

    def fields(self) -> dict[str, DType]:
        """All dtypes by name, also by their short ones."""
        aliases = {alias: getattr(self, name) for alias, name in _ALIASES.items() if not alias.startswith("weak")}
        return {dtype.name: dtype for dtype in self.all} | aliases

    # Last, because they hide Python's own in the class.
    bool: DType
    float: DType
    int: DType


dtypes = _Dtypes()
DTYPES_DICT = dtypes.fields()


INVERSE_DTYPES_DICT = {dtype: dtype.name for dtype in dtypes.all}


class AddrSpace(enum.IntEnum):
    """The kinds of memory a kernel sees."""

    GLOBAL = 1
    LOCAL = 2
    REG = 3
    ALU = 4


# ---- numbers as a dtype holds them


def _held(x, dtype):
    """x rounded to the dtype; fp8 dtypes saturate finite values."""
    if dtype in dtypes.fp8s and math.isfinite(x):
        most = _core.finfo(dtype)[2]
        x = max(-most, min(most, x))
    return _core.Tensor([x], dtype=dtype).item()


def float_to_fp16(x):
    """The nearest float16, infinite where it is out of range."""
    return _held(float(x), dtypes.float16)


truncate_fp16 = float_to_fp16


def float_to_bf16(x):
    """The nearest bfloat16."""
    return _held(float(x), dtypes.bfloat16)


def float_to_fp8(x, dtype):
    """The byte of the nearest number of an fp8 dtype."""
    if dtype not in dtypes.fp8s:
        raise _core.TypeError(f"lathe: float_to_fp8: {dtype} is not an fp8 dtype")
    byte = _core.Tensor([_held(float(x), dtype)], dtype=dtype).bitcast(dtypes.uint8).item()
    lost = not math.isfinite(x) and math.copysign(1, x) < 0 and "fnuz" not in dtype.name  # the sign of NaN
    return byte | 0x80 if lost else byte


def fp8_to_float(x, dtype):
    """The value of a byte in an fp8 dtype."""
    if dtype not in dtypes.fp8s:
        raise _core.TypeError(f"lathe: fp8_to_float: {dtype} is not an fp8 dtype")
    return _core.Tensor(int(x), dtype=dtypes.uint8).bitcast(dtype).cast(dtypes.float32).item()


def _wrapped(x, dtype):
    """An integer cut to the bits of the dtype."""
    low = int(x) % (1 << dtype.bitsize)
    return low - (1 << dtype.bitsize) if dtype in dtypes.sints and low >> (dtype.bitsize - 1) else low


def _truncation(dtype):
    if dtype is dtypes.bool:
        return bool
    if dtype in dtypes.ints:
        return lambda x: _wrapped(x, dtype)
    return lambda x: _held(float(x), dtype)


truncate = {dtype: _truncation(dtype) for dtype in dtypes.all}


def to_storage_scalar(x, dtype):
    """A number as it is stored: the bits as an integer for floats that Python's struct does not know."""
    if dtype is dtypes.bfloat16:
        return _core.Tensor(float(x), dtype=dtype).bitcast(dtypes.uint16).item()
    return float_to_fp8(x, dtype) if dtype in dtypes.fp8s else float_to_fp16(x) if dtype is dtypes.float16 else x


def from_storage_scalar(x, dtype):
    """The number that is stored so."""
    if dtype is dtypes.bfloat16:
        return _core.Tensor(int(x), dtype=dtypes.uint16).bitcast(dtype).cast(dtypes.float32).item()
    return fp8_to_float(x, dtype) if dtype in dtypes.fp8s else x


def bitcast(x, in_dtype, out_dtype):
    """The number of another dtype with the same bits."""
    return _core.Tensor(x, dtype=in_dtype).bitcast(out_dtype).item()


def can_lossless_cast(dt0, dt1):
    """Whether every number of the one dtype is one of the other."""
    if dt0 is dt1 or dt0 is dtypes.bool:
        return True
    if dt1 is dtypes.bool or (dtypes.is_float(dt0) and not dtypes.is_float(dt1)):
        return False
    if dtypes.is_float(dt0):
        (exponent0, mantissa0), (exponent1, mantissa1) = dtypes.finfo(dt0), dtypes.finfo(dt1)
        return exponent0 <= exponent1 and mantissa0 <= mantissa1
    bits = dt0.bitsize - (dt0 in dtypes.sints)
    if dtypes.is_float(dt1):
        exponent, mantissa = dtypes.finfo(dt1)
        return bits <= mantissa + 1 and bits < 1 << (exponent - 1)
    return bits <= dt1.bitsize - (dt1 in dtypes.sints) and (dt0 in dtypes.uints or dt1 in dtypes.sints)


def strong_dtype(dtype):
    """The dtype itself: literals get theirs at once."""
    return dtype


# ---- dtypes of other libraries


def _to_np_dtype(dtype):
    """The numpy dtype that `numpy()` gives: float32 for floats that numpy has not."""
    import numpy

    return numpy.float32 if dtype.fmt is None else numpy.dtype(dtype.fmt).type


def _from_np_dtype(dtype):
    """The dtype of a numpy dtype."""
    import numpy

    return getattr(dtypes, numpy.dtype(dtype).name)


def _to_torch_dtype(dtype):
    """The torch dtype of a dtype, or None where torch has none."""
    import torch

    return torch.uint8 if dtype in dtypes.fp8s else getattr(torch, dtype.name, None)


def _from_torch_dtype(torchdtype):
    """The dtype of a torch dtype."""
    return getattr(dtypes, str(torchdtype).removeprefix("torch."))


__getattr__ = absent(__name__)
__all__ = ["DType", "dtypes", "least_upper_dtype", "least_upper_float", "sum_acc_dtype", "to_dtype", "ConstType"]
