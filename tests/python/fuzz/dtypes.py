"""Dtypes as the evaluators see them: floats are float64 values that should fit a format, integers are numpy's."""

import numpy as np

# name: (bits of the significand, least exponent of a normal number, largest value)
FLOATS = {
    "float64": (53, -1022, 1.7e308),
    "float32": (24, -126, 3.4028234e38),
    "float16": (11, -14, 65504.0),
    "bfloat16": (8, -126, 3.38e38),
    "fp8e4m3": (4, -6, 448.0),
    "fp8e5m2": (3, -14, 57344.0),
}
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
TORCH_KNOWS = {"bool", "int8", "int16", "int32", "int64", "uint8", *FLOATS}
SMALL_FLOATS = ("float16", "bfloat16", "fp8e4m3", "fp8e5m2")


def is_float(name):
    return name in FLOATS


def is_integer(name):
    return name in INTEGERS


def storage(name):
    """The numpy dtype values of it are kept in."""
    return np.dtype("float64" if name in FLOATS else name)


def unit(name):
    """Half the distance from 1 to the next number."""
    return 2.0 ** -FLOATS[name][0]


def tiny(name):
    """Half the distance between the smallest numbers."""
    bits, least, _ = FLOATS[name]
    return 2.0 ** (least - bits)


def limits(name):
    """The least and the largest numbers it has all digits of."""
    return 2.0 ** FLOATS[name][1], FLOATS[name][2]


def accumulator(name):
    """What sums of it are formed in."""
    return "float64" if name == "float64" else "float32"


def rounded(values, name):
    """The nearest numbers of the format, ties to even."""
    values = np.asarray(values, dtype=np.float64)
    if name == "float64" or values.size == 0:
        return values
    bits, least, _ = FLOATS[name]
    _, exponent = np.frexp(values)
    step = np.ldexp(1.0, np.maximum(exponent - bits, least - bits + 1))
    return np.round(values / step) * step


def fits(values, name):
    """Whether all values are numbers of the dtype."""
    if name not in FLOATS:
        return True
    if name == "float32":
        with np.errstate(over="ignore"):
            return bool(np.array_equal(np.asarray(values).astype(np.float32), values)) and bool(np.isfinite(values).all())
    return bool(np.all(np.abs(values) <= FLOATS[name][2]) and np.array_equal(rounded(values, name), values))


def common(a, b):
    """The dtype in which two tensors meet."""
    if a == b:
        return a
    if a == "bool" or b == "bool":
        return b if a == "bool" else a
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    if is_float(a):
        if "float64" in (a, b):
            return "float64"
        eight = {"fp8e4m3", "fp8e5m2"}
        if a in eight and b in eight:
            return "float16"
        if a in eight or b in eight:
            return b if a in eight else a
        return "float32"
    met = np.promote_types(a, b).name
    return "float32" if met == "float64" else met  # no integer holds both


def lifted(a):
    """The float dtype functions of it are computed in."""
    return a if is_float(a) else "float32"


def summed(a):
    """The dtype of a sum."""
    if is_float(a):
        return a
    if a in ("uint8", "uint16"):
        return "uint32"
    return "int32" if a in ("bool", "int8", "int16") else a


def cast(values, source, target):
    """Values of one dtype in another: floats to integers toward zero through 32 or 64 bits, integers wrap."""
    if target == "bool":
        return values != 0
    if is_float(target):
        return values.astype(np.float64)
    if not is_float(source):
        return values.astype(storage(target))
    if target == "uint64":
        below = np.clip(np.trunc(values), -(2.0**63), 0).astype("int64").astype("uint64")
        return np.where(values < 0, below, np.clip(np.trunc(values), 0, 2.0**64 - 2048).astype("uint64"))
    high = 2.0**63 - 1024 if target in ("int64", "uint32") else 2.0**31 - 1
    low = -(2.0**63) if target in ("int64", "uint32") else -(2.0**31)
    return np.clip(np.trunc(values), low, high).astype("int64").astype(target)
