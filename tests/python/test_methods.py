"""Every method of Tensor that computes something, on every dtype, against numpy: whole numbers exactly, floats within what the dtype holds.

A dtype that a row does not take has to be refused with a UserError. Integers include the extremes of their dtype, where everything wraps.
"""

import math
from dataclasses import dataclass
from typing import Callable

import numpy as np
import pytest

from fuzz import numpy_words as words
from lathe import Tensor, UserError, dtypes
from lathe.methods import _NAMES as written_in_python


def exactly(value, size=None, wide=False):
    """What an op keeps inside itself, not rounded."""
    return value


# bits of the significand, least exponent of a normal number
FLOATS = {
    "fp8e4m3": (4, -6),
    "fp8e5m2": (3, -14),
    "fp8e4m3fnuz": (4, -7),
    "fp8e5m2fnuz": (3, -15),
    "float16": (11, -14),
    "bfloat16": (8, -126),
    "float32": (24, -126),
    "float64": (53, -1022),
}
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
ALL = ("bool", *INTEGERS, *FLOATS)
KINDS = {
    "any": ALL,
    "number": (*INTEGERS, *FLOATS),
    "integer": INTEGERS,
    "whole": ("bool", *INTEGERS),
    "float": tuple(FLOATS),
    "bool": ("bool",),
}


def rounded(values, name):
    """The nearest numbers of a float dtype, as float64."""
    bits, least = FLOATS[name]
    _, exponent = np.frexp(values)
    step = np.ldexp(1.0, np.maximum(exponent - bits, least - bits + 1))
    return np.round(values / step) * step


def storage(name):
    return np.dtype("float64" if name in FLOATS else name)


def tensor(values, name):
    return Tensor(np.asarray(values, dtype=storage(name)).copy(), dtype=getattr(dtypes, name))


def values_of(name, shape=(3, 4), low=-3.0, high=3.0, seed=0, edges=True):
    """Values of a dtype in a domain; of integers with the extremes where the domain has no end of its own."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape))
    if name == "bool":
        return (rng.random(size) < 0.5).reshape(shape)
    if name in FLOATS:
        return rounded(rng.uniform(low, high, size), name).reshape(shape)
    info = np.iinfo(name)
    first, last = max(math.ceil(low), info.min), max(math.floor(high), 1)
    out = rng.integers(first, last + 1, size).astype(name)
    if edges:
        extremes = [v for v in (info.min, info.max, info.min + 1, info.max // 2 + 1) if low < 0 or v > 0]
        out[1 : 1 + 2 * len(extremes) : 2][: len(extremes)] = np.array(extremes, dtype=name)[: len(out[1::2])]
    return out.reshape(shape)


# ---- dtypes of results, by name of the operand's


def same(d):
    return d


def boolean(_):
    return "bool"


def position(_):
    return "int32"


def lifted(d):
    return d if d in FLOATS else "float32"


def with_number(d):
    """Beside an integer, which makes an int32 of a truth."""
    return "int32" if d == "bool" else d


def summed(d):
    return {"bool": "int32", "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}.get(d, d)


@dataclass
class Row:
    lathe: Callable
    numpy: Callable
    dtype: Callable = same
    kind: str = "any"
    domain: tuple = (-3.0, 3.0)
    ulps: float = 1.0  # of the result's dtype, for floats
    absolute: float = 0.0  # in units of the dtype, where parts cancel
    edges: bool = True
    shape: tuple = (3, 4)
    count: int = 1  # operands of the same dtype
    single: bool = False  # no more precise than float32
    refuses: tuple = ()  # dtypes


ROWS = {}


def row(name, lathe, numpy, *arguments, **flags):
    assert name not in ROWS, name
    ROWS[name] = Row(lathe, numpy, *arguments, **flags)


def method(name, *arguments, **keywords):
    return lambda *x: getattr(x[0], name)(*x[1:], *arguments, **keywords)


def wide(function, dtype=None):
    """A float function of any operand."""
    return lambda *x: function(*[np.asarray(v, np.float64) for v in x])


def number(x):
    return x.astype(np.int32) if x.dtype == bool else x


def batchnorm(x):
    shape = (1, 4)
    return (x - x[0].reshape(shape)) * (np.square(x[1]) + 1).reshape(shape)


def product(x, y):
    if x.dtype == bool:
        return np.matmul(x.astype(np.int32), y.astype(np.int32)) != 0
    return np.matmul(x, y)


def convolved(x, y):
    x, y = x.reshape(1, 1, 3, 4), y.reshape(1, 1, 3, 4)[:, :, :2, :2]
    if x.dtype == bool:
        return words.conv2d(x.astype(np.int32), y.astype(np.int32), None, 1, (1, 1), (1, 1), (0, 0, 0, 0), exactly) != 0
    return words.conv2d(x, y, None, 1, (1, 1), (1, 1), (0, 0, 0, 0), exactly)


def transposed(x, y):
    x, y = x.reshape(1, 1, 3, 4), y.reshape(1, 1, 3, 4)[:, :, :2, :2]
    if x.dtype == bool:
        return words.conv_transpose2d(x.astype(np.int32), y.astype(np.int32), 1, (1, 1), (1, 1), (0, 0), (0, 0)) != 0
    return words.conv_transpose2d(x, y, 1, (1, 1), (1, 1), (0, 0), (0, 0))


# fmt: off
sigmoid = words.sigmoid
FLOAT_FUNCTIONS = {  # name: numpy, domain, ulps
    "exp": (np.exp, (-3, 3), 8), "exp2": (np.exp2, (-3, 3), 8), "expm1": (np.expm1, (-3, 3), 16), "log": (np.log, (0.1, 6), 8),
    "log2": (np.log2, (0.1, 6), 8), "log10": (np.log10, (0.1, 6), 8), "log1p": (np.log1p, (-0.5, 6), 16), "sqrt": (np.sqrt, (0, 6), 4),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0.2, 6), 4), "reciprocal": (lambda x: 1 / x, (0.2, 6), 4), "sin": (np.sin, (-3, 3), 8), "cos": (np.cos, (-3, 3), 8),
    "tan": (np.tan, (-1, 1), 16), "asin": (np.arcsin, (-1, 1), 16), "acos": (np.arccos, (-1, 1), 16), "atan": (np.arctan, (-3, 3), 16), "sinh": (np.sinh, (-3, 3), 16),
    "cosh": (np.cosh, (-3, 3), 16), "tanh": (np.tanh, (-3, 3), 16), "asinh": (np.arcsinh, (-3, 3), 16), "acosh": (np.arccosh, (1, 6), 16), "atanh": (np.arctanh, (-0.8, 0.8), 16),
    "erf": (words.erf, (-3, 3), 16), "erfc": (words.erfc, (-3, 3), 16), "sigmoid": (sigmoid, (-3, 3), 8), "hardsigmoid": (lambda x: np.clip(x / 6 + 0.5, 0, 1), (-3, 3), 4),
    "hardswish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, (-3, 3), 8), "selu": (lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), (-3, 3), 16),
    "quick_gelu": (lambda x: x * sigmoid(x * 1.702), (-3, 3), 16), "silu": (lambda x: x * sigmoid(x), (-3, 3), 16), "swish": (lambda x: x * sigmoid(x), (-3, 3), 16),
    "mish": (lambda x: x * np.tanh(words.softplus(x)), (-3, 3), 16), "logsigmoid": (lambda x: -words.softplus(-x), (-3, 3), 16),
    "softsign": (lambda x: x / (1 + np.abs(x)), (-3, 3), 8), "leaky_relu": (lambda x: np.where(x > 0, x, x * 0.01), (-3, 3), 4),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(x)), (-3, 3), 16), "celu": (lambda x: np.where(x > 0, x, np.expm1(x)), (-3, 3), 16),
    "softplus": (words.softplus, (-3, 3), 16), "gelu": (lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))), (-3, 3), 16),
}
SINGLE = {"asin", "acos", "atan", "asinh", "acosh", "atanh", "sinh", "erf", "erfc", "softplus", "logsigmoid", "mish", "tanh", "gelu", "expm1", "log1p", "cosh"}
for name, (numpy, domain, ulps) in FLOAT_FUNCTIONS.items():
    row(name, method(name), wide(numpy), lifted, domain=domain, ulps=ulps, absolute=ulps / 2, edges=False, single=name in SINGLE)

row("neg", method("neg"), lambda x: ~x if x.dtype == bool else -x)
row("abs", method("abs"), np.abs)
row("sign", method("sign"), lambda x: np.sign(x) if x.dtype != bool else x)
row("square", method("square"), np.square)
row("relu", method("relu"), lambda x: np.maximum(number(x), 0), with_number)
row("relu6", method("relu6"), lambda x: np.clip(number(x), 0, 6), with_number, domain=(-3, 9))
row("hardtanh", method("hardtanh"), wide(lambda x: np.clip(x, -1, 1)), lifted)
for name in ("floor", "ceil", "trunc", "round"):
    row(name, method(name), lambda x, f=getattr(np, name): f(x) if x.dtype.kind == "f" else x)
row("logical_not", method("logical_not"), lambda x: x == 0, boolean)
row("bitwise_not", method("bitwise_not"), np.invert, kind="whole", refuses=KINDS["float"])
for name in ("isnan", "isinf"):
    row(name, method(name), lambda x: np.zeros(x.shape, bool), boolean)
row("isfinite", method("isfinite"), lambda x: np.ones(x.shape, bool), boolean)
row("clamp", method("clamp", 1, 2), lambda x: np.clip(number(x), 1, 2), with_number)
row("clip", method("clip", 0, 1), lambda x: np.clip(number(x), 0, 1), with_number)


def truncated(x, y):
    """The quotient of integers toward zero; by 0 it is 0, and the smallest by -1 wraps."""
    out = []
    for a, b in zip(x.ravel().tolist(), y.ravel().tolist()):
        out.append(0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))
    return wrapped(out, x.dtype).reshape(x.shape)


def wrapped(numbers, dtype):
    bits = 8 * dtype.itemsize
    return np.array([n % (1 << bits) for n in numbers], dtype=f"uint{bits}").view(dtype)


def whole_pairs(function):
    """A function of Python's integers, wrapped to the dtype."""
    return lambda x, y: wrapped([function(a, b) for a, b in zip(x.ravel().tolist(), y.ravel().tolist())], x.dtype).reshape(x.shape)


def shifted(left):
    def one(a, b, bits):
        if b < 0 or b >= bits:
            return -1 if a < 0 and not left else 0
        return a << b if left else a >> b

    return lambda x, y: wrapped([one(a, b, 8 * x.dtype.itemsize) for a, b in zip(x.ravel().tolist(), y.ravel().tolist())], x.dtype).reshape(x.shape)


def logic(numbers, truths):
    return lambda x, y: truths(x, y) if x.dtype == bool else numbers(x, y)


row("add", method("add"), logic(np.add, np.logical_or), count=2)
row("sub", method("sub"), np.subtract, kind="number", refuses=("bool",), count=2)
row("mul", method("mul"), np.multiply, count=2)
row("maximum", method("maximum"), np.maximum, count=2)
row("minimum", method("minimum"), np.minimum, count=2)
for name, numpy in {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}.items():
    row(name, method(name), numpy, boolean, count=2)
for name, numpy in {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}.items():
    row(name, method(name), numpy, kind="whole", count=2, refuses=KINDS["float"])
row("lshift", method("lshift"), shifted(True), kind="integer", count=2, refuses=KINDS["float"])
row("rshift", method("rshift"), shifted(False), kind="integer", count=2, refuses=KINDS["float"])
row("div", method("div"), wide(lambda x, y: x / y), lifted, domain=(0.5, 3), count=2, edges=False, ulps=4)
row("fdiv", method("fdiv"), wide(lambda x, y: x / y), lifted, domain=(0.5, 3), count=2, edges=False, ulps=4)
row("floor_divide", method("floor_divide"), whole_pairs(lambda a, b: a // b if b else 0), kind="integer", count=2)
row("floor_divide of floats", method("floor_divide"), lambda x, y: np.floor(x / y), kind="float", count=2, domain=(0.5, 9))
row("idiv", method("idiv"), truncated, kind="integer", count=2)
row("mod", method("mod"), whole_pairs(lambda a, b: a % b if b else 0), kind="integer", count=2)
row("mod of floats", method("mod"), np.remainder, kind="float", count=2, domain=(0.5, 9), ulps=4, absolute=8)
row("fmod", method("fmod"), whole_pairs(lambda a, b: int(math.copysign(1, a)) * (abs(a) % abs(b)) if b else 0), kind="integer", count=2)
row("fmod of floats", method("fmod"), np.fmod, kind="float", count=2, domain=(0.5, 9), ulps=4, absolute=8)
row("pow", method("pow", 2), lambda x: np.square(x) if x.dtype != bool else x.astype(np.int32), kind="number")
row("pow of two", method("pow"), wide(np.power), kind="float", count=2, domain=(0.5, 2), ulps=24)
row("pow of integers", lambda x: x.pow(3), lambda x: x * x * x, kind="integer")
row("copysign", method("copysign"), lambda x, y: np.copysign(x, y), lifted, kind="float", count=2, domain=(0.5, 3))
row("logaddexp", method("logaddexp"), wide(np.logaddexp), lifted, count=2, edges=False, ulps=16, absolute=16, single=True)
row("lerp", method("lerp", 0.5), lambda x, y: x + (y - x) * 0.5, kind="float", count=2, ulps=4, absolute=6)
row("where", lambda c, x, y: c.cast(dtypes.bool).where(x, y), lambda c, x, y: np.where(c != 0, x, y), count=3)
row("masked_fill", lambda x, y: x.masked_fill(y > 1, 1), lambda x, y: np.where(y > 1, np.ones_like(x), x), with_number, count=2)
row("isclose", method("isclose"), lambda x, y: np.isclose(np.asarray(x, float), np.asarray(y, float), atol=1e-8), boolean, count=2, edges=False)
row("allclose", lambda x, y: Tensor([x.allclose(y), x.allclose(x)]), lambda x, y: np.array([np.array_equal(x, y), True]), boolean, count=2, edges=False)

# Reduces and scans.
for axis in (None, 0, 1):
    at = f" along {axis}"
    row("sum" + at, method("sum", axis), lambda x, a=axis: np.sum(x, a, dtype=storage(summed(str(x.dtype)))) if x.dtype.kind != "f" else np.sum(x, a), summed, ulps=2, absolute=8)
    row("mean" + at, method("mean", axis), wide(lambda x, a=axis: np.mean(x, a)), lifted, ulps=4, absolute=1, edges=False)
    row("prod" + at, method("prod", axis), lambda x, a=axis: np.prod(x, a, dtype=storage(summed(str(x.dtype)))) if x.dtype.kind != "f" else np.prod(x, a), summed, domain=(0.6, 1.6), ulps=16)
    row("max" + at, method("max", axis), lambda x, a=axis: np.max(x, a))
    row("min" + at, method("min", axis), lambda x, a=axis: np.min(x, a))
    row("argmax" + at, method("argmax", axis), lambda x, a=axis: np.argmax(x, a), position)
    row("argmin" + at, method("argmin", axis), lambda x, a=axis: np.argmin(x, a), position)
    row("any" + at, method("any", axis), lambda x, a=axis: np.any(x != 0, a), boolean)
    row("all" + at, method("all", axis), lambda x, a=axis: np.all(x != 0, a), boolean)
row("usum", lambda x, y: x.usum(y), logic(np.add, np.logical_or), count=2)
row("uprod", lambda x, y: x.uprod(y), np.multiply, count=2)
row("var", method("var", 1), wide(lambda x: np.var(x, 1, ddof=1)), lifted, ulps=16, absolute=16, edges=False)
row("std", method("std", 1), wide(lambda x: np.std(x, 1, ddof=1)), lifted, ulps=16, absolute=16, edges=False)
row("var_mean", lambda x: x.var_mean(1)[0].cat(x.var_mean(1)[1]), wide(lambda x: np.concatenate([np.var(x, 1, ddof=1), np.mean(x, 1)])), lifted, ulps=16, absolute=16, edges=False)
row("std_mean", lambda x: x.std_mean(1)[0].cat(x.std_mean(1)[1]), wide(lambda x: np.concatenate([np.std(x, 1, ddof=1), np.mean(x, 1)])), lifted, ulps=16, absolute=16, edges=False)
row("logsumexp", method("logsumexp", 1), wide(lambda x: words.logsumexp(x, 1)), lifted, ulps=8, absolute=16, edges=False)
row("softmax", method("softmax", 1), wide(lambda x: words.softmax(x, 1)), lifted, ulps=16, absolute=1, edges=False)
row("softmin", method("softmin", 1), wide(lambda x: words.softmax(-x, 1)), lifted, ulps=16, absolute=1, edges=False, kind="float")
row("log_softmax", method("log_softmax", 1), wide(lambda x: x - words.logsumexp(x, 1, True)), lifted, ulps=8, absolute=32, edges=False)
row("logcumsumexp", method("logcumsumexp", 1), wide(lambda x: np.logaddexp.accumulate(x, 1)), lifted, ulps=16, absolute=32, edges=False)
row("layernorm", method("layernorm", 1), wide(lambda x: words.layernorm(x, 1, exactly)), lifted, ulps=32, absolute=32, edges=False)
row("normalize", lambda x: x.normalize(dim=1), wide(lambda x: x / np.maximum(np.sqrt((x * x).sum(1, keepdims=True)), 1e-12)), lifted, ulps=16, absolute=4, edges=False, domain=(0.5, 3))
row("cumsum", method("cumsum", 1), lambda x: np.cumsum(x, 1, dtype=storage(summed(str(x.dtype))) if x.dtype.kind != "f" else None), summed, ulps=4, absolute=8)
row("cumprod", method("cumprod", 1), lambda x: np.cumprod(x, 1, dtype=storage(summed(str(x.dtype))) if x.dtype.kind != "f" else None), summed, domain=(0.6, 1.6), ulps=16)
row("cummax", lambda x: x.cummax(1)[0], lambda x: np.maximum.accumulate(x, 1))
row("cummin", lambda x: x.cummin(1)[0], lambda x: np.minimum.accumulate(x, 1))
row("cummax's positions", lambda x: x.cummax(1)[1], lambda x: words.running_index(np.maximum, x, 1), position)
row("cummin's positions", lambda x: x.cummin(1)[1], lambda x: words.running_index(np.minimum, x, 1), position)
for down in (False, True):
    way = " down" if down else " up"
    row("sort" + way, lambda x, d=down: x.sort(1, d)[0], lambda x, d=down: words.sort(x, 1, d))
    row("sort's positions" + way, lambda x, d=down: x.sort(1, d)[1], lambda x, d=down: words.argsort(x, 1, d), position)
    row("argsort" + way, lambda x, d=down: x.argsort(1, d), lambda x, d=down: words.argsort(x, 1, d), position)
    row("topk" + way, lambda x, d=down: x.topk(2, 1, d)[0], lambda x, d=down: words.topk(x, 2, 1, d))
    row("topk's positions" + way, lambda x, d=down: x.topk(2, 1, d)[1], lambda x, d=down: words.argsort(x, 1, d)[:, :2], position)
row("sort of many", lambda x: x.sort(0)[0], lambda x: np.sort(x, 0), shape=(700,), domain=(-6, 7))
row("argsort of many", lambda x: x.argsort(0), lambda x: np.argsort(x, 0, kind="stable"), position, shape=(700,), domain=(-6, 7))
row("cumsum of many", lambda x: x.cumsum(0), lambda x: np.cumsum(x, dtype=storage(summed(str(x.dtype)))), summed, kind="whole", shape=(700,))

# Movement.
MOVES = {
    "reshape": (method("reshape", 4, 3), lambda x: x.reshape(4, 3)), "view": (method("view", 2, 6), lambda x: x.reshape(2, 6)), "flatten": (method("flatten"), np.ravel),
    "unflatten": (method("unflatten", 1, (2, 2)), lambda x: x.reshape(3, 2, 2)), "permute": (method("permute", 1, 0), np.transpose), "transpose": (method("transpose"), np.transpose),
    "T": (lambda x: x.T, np.transpose), "movedim": (method("movedim", 0, 1), lambda x: np.moveaxis(x, 0, 1)), "expand": (lambda x: x.unsqueeze(0).expand(2, 3, 4), lambda x: np.stack([x, x])),
    "squeeze": (lambda x: x.unsqueeze(1).squeeze(1), lambda x: x), "unsqueeze": (method("unsqueeze", 1), lambda x: x[:, None]), "flip": (method("flip", (0, 1)), lambda x: x[::-1, ::-1]),
    "shrink": (lambda x: x.shrink(((1, 3), (0, 2))), lambda x: x[1:3, 0:2]), "shrink_to": (lambda x: x.shrink_to(2, 3), lambda x: x[:2, :3]),
    "pad": (lambda x: x.pad(((1, 0), (0, 2)), value=1), lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=1)), "pad_to": (lambda x: x.pad_to(5, 5), lambda x: np.pad(x, ((0, 2), (0, 1)))),
    "pad with zeros": (lambda x: x.pad((1, 1)), lambda x: np.pad(x, ((0, 0), (1, 1)))), "repeat": (method("repeat", 2, 1), lambda x: np.tile(x, (2, 1))),
    "repeat_interleave": (method("repeat_interleave", 2, 1), lambda x: np.repeat(x, 2, 1)), "roll": (method("roll", 1, 0), lambda x: np.roll(x, 1, 0)), "unfold": (method("unfold", 1, 2, 1), lambda x: words.unfold(x, 1, 2, 1)),
    "tril": (method("tril"), np.tril), "triu": (method("triu"), np.triu), "diag": (lambda x: x.flatten().diag(), lambda x: np.diag(x.ravel())), "diagonal": (method("diagonal"), lambda x: np.diagonal(x)),
    "chunk": (lambda x: x.chunk(2, 1)[1], lambda x: x[:, 2:]), "split": (lambda x: x.split(3, 1)[0], lambda x: x[:, :3]), "rearrange": (lambda x: x.rearrange("a b -> b a"), np.transpose),
    "contiguous": (method("contiguous"), lambda x: x), "clone": (method("clone"), lambda x: x), "detach": (method("detach"), lambda x: x), "contiguous_backward": (method("contiguous_backward"), lambda x: x),
    "to": (lambda x: x.to("CPU:1").to("CPU"), lambda x: x), "realize": (method("realize"), lambda x: x), "index": (lambda x: x[1:, ::2], lambda x: x[1:, ::2]),
    "gather": (lambda x: x.gather(1, Tensor([[0, 3], [1, 1], [2, 0]])), lambda x: np.take_along_axis(x, np.array([[0, 3], [1, 1], [2, 0]]), 1)),
    "embedding": (lambda x: x.embedding(Tensor([2, 0])), lambda x: x[[2, 0]]), "index by a tensor": (lambda x: x[Tensor([2, 0])], lambda x: x[[2, 0]]),
    "masked_select": (lambda x: x.masked_select(x > 1), lambda x: x[x > 1]), "numpy": (lambda x: Tensor(x.numpy(), dtype=x.dtype), lambda x: x), "tolist": (lambda x: Tensor(x.tolist(), dtype=x.dtype), lambda x: x),
    "zeros_like": (method("zeros_like"), np.zeros_like), "ones_like": (method("ones_like"), np.ones_like), "full_like": (method("full_like", 1), np.ones_like), "const_like": (method("const_like", 1), np.ones_like),
    "sequential": (lambda x: x.sequential([lambda t: t, Tensor.flatten]), np.ravel),
}
for name, (lathe, numpy) in MOVES.items():
    row(name, lathe, numpy)
row("cat", lambda x, y: x.cat(y, dim=1), lambda x, y: np.concatenate([x, y], 1), count=2)
row("stack", lambda x, y: x.stack(y, dim=1), lambda x, y: np.stack([x, y], 1), count=2)
row("meshgrid", lambda x, y: x.meshgrid(y)[1], lambda x, y: np.meshgrid(x, y, indexing="ij")[1], count=2, shape=(3,))
row("nonzero", method("nonzero"), lambda x: np.argwhere(x), position)
row("one_hot", method("one_hot", 5), lambda x: words.one_hot(x, 5), position, kind="integer", domain=(0, 4), edges=False)
INDEX = np.array([[0, 2, 1, 0], [2, 1, 0, 2]])
row("scatter", lambda x, y: x.scatter(0, Tensor(INDEX), y), lambda x, y: words.scatter(x, 0, INDEX, y), count=2)
row("scatter that adds", lambda x, y: x.scatter(0, Tensor(INDEX), y, reduce="add"), lambda x, y: words.scatter(x, 0, INDEX, y, "add"), kind="number", count=2, ulps=2, absolute=4)
for how in ("sum", "prod", "amax", "amin"):
    row(f"scatter_reduce by {how}", lambda x, y, h=how: x.scatter_reduce(0, Tensor(INDEX), y, h), lambda x, y, h=how: words.scatter(x, 0, INDEX, y, h), kind="number", count=2, ulps=4, absolute=8)
row("assign", lambda x, y: x.clone().realize().assign(y), lambda x, y: y, count=2)
row("replace", lambda x, y: x.clone().replace(y), lambda x, y: y, count=2)
row("setitem", lambda x, y: put(x, y), lambda x, y: np.concatenate([x[:1], y[1:2], x[2:]]), count=2)


def put(x, y):
    x = x.clone().realize()
    x[1:2] = y[1:2]
    return x


# Products.
row("matmul", lambda x, y: x.matmul(y.transpose()), lambda x, y: product(x, y.T), count=2, ulps=2, absolute=8)
row("dot", lambda x, y: x.dot(y.transpose()), lambda x, y: product(x, y.T), count=2, ulps=2, absolute=8)
row("linear", lambda x, y: x.linear(y.transpose()), lambda x, y: product(x, y.T), count=2, ulps=2, absolute=8)
row("einsum", lambda x, y: Tensor.einsum("ij,kj->ik", x, y), lambda x, y: product(x, y.T), count=2, ulps=2, absolute=8)
row("conv2d", lambda x, y: x.reshape(1, 1, 3, 4).conv2d(y.reshape(1, 1, 3, 4)[:, :, :2, :2]), lambda x, y: convolved(x, y), count=2, ulps=2, absolute=8)
row("conv_transpose2d", lambda x, y: x.reshape(1, 1, 3, 4).conv_transpose2d(y.reshape(1, 1, 3, 4)[:, :, :2, :2]), lambda x, y: transposed(x, y), count=2, ulps=2, absolute=8)
row("max_pool2d", lambda x: x.reshape(1, 1, 3, 4).max_pool2d((2, 2), 1), lambda x: words.max_pool2d(x.reshape(1, 1, 3, 4), (2, 2), (1, 1), (1, 1), (0, 0)), kind="number")
row("avg_pool2d", lambda x: x.reshape(1, 1, 3, 4).avg_pool2d((2, 2), 1), lambda x: words.avg_pool2d(x.reshape(1, 1, 3, 4), (2, 2), (1, 1), (0, 0)), kind="float", ulps=4, absolute=4)
row("max_unpool2d", lambda x: x.reshape(1, 1, 3, 4).max_unpool2d(Tensor.arange(12).reshape(1, 1, 3, 4), output_size=(1, 1, 6, 8)), lambda x: np.pad(x.reshape(-1), (0, 36)).reshape(1, 1, 6, 8), kind="number")
row("interpolate", lambda x: x.reshape(1, 1, 3, 4).interpolate((6, 8)), wide(lambda x: words.interpolate(x.reshape(1, 1, 3, 4), (6, 8))), kind="float", ulps=8, absolute=8)
row("scaled_dot_product_attention", lambda x, y: x.unsqueeze(0).scaled_dot_product_attention(y.unsqueeze(0), y.unsqueeze(0)), lambda x, y: words.attention(x, y, y, False)[None], kind="float", count=2, ulps=16, absolute=32)
row("batchnorm", lambda x: x.batchnorm(None, None, x[0], x[1].square() + 1), batchnorm, kind="float", ulps=16, absolute=32)
row("binary_crossentropy", lambda x, y: x.binary_crossentropy(y), lambda x, y: np.mean(-y * np.log(x) - (1 - y) * np.log(1 - x)), kind="float", count=2, domain=(0.2, 0.8), ulps=32, absolute=16)
row("binary_crossentropy_logits", lambda x, y: x.binary_crossentropy_logits(y), lambda x, y: np.mean(np.maximum(x, 0) - x * y + np.log1p(np.exp(-np.abs(x)))), kind="float", count=2, domain=(0.2, 0.8), ulps=32, absolute=16)
LABELS = np.array([1, 0, 3])
row("cross_entropy", lambda x: x.cross_entropy(Tensor(LABELS)), lambda x: -np.mean((x - words.logsumexp(x, 1, True))[np.arange(3), LABELS]), kind="float", ulps=16, absolute=32)
row("sparse_categorical_crossentropy", lambda x: x.sparse_categorical_crossentropy(Tensor(LABELS)), lambda x: -np.mean((x - words.logsumexp(x, 1, True))[np.arange(3), LABELS]), kind="float", ulps=16, absolute=32)
row("nll_loss", lambda x: x.nll_loss(Tensor(LABELS)), lambda x: -np.mean(x[np.arange(3), LABELS]), kind="float", ulps=4, absolute=4)
# fmt: on


def difference(name, r):
    """What is wrong with a row on a dtype, as text, or None."""
    arrays = [values_of(name, r.shape, *r.domain, seed=k, edges=r.edges) for k in range(r.count)]
    with np.errstate(all="ignore"):
        want = np.asarray(r.numpy(*arrays))
    got = r.lathe(*[tensor(a, name) for a in arrays])
    expected = r.dtype(name)
    if got.dtype.name != expected:
        return f"dtype {got.dtype.name} instead of {expected}"
    if tuple(got.shape) != want.shape:
        return f"shape {tuple(got.shape)} instead of {want.shape}"
    if expected in FLOATS:
        bits, least = FLOATS["float32" if r.single and expected == "float64" else expected]
        mine = got.cast(dtypes.float64).numpy()
        unit = 2.0**-bits
        bound = r.ulps * unit * np.abs(want) + r.absolute * unit + 2.0 ** (least - bits)
        with np.errstate(all="ignore"):
            wrong = ~((np.abs(mine - want) <= bound) & np.isfinite(want) | (mine == want) | np.isnan(mine) & np.isnan(want))
    else:
        mine, bound = got.numpy(), np.zeros(want.shape)
        wrong = mine != want.astype(mine.dtype)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(np.atleast_1d(wrong))[0])[: want.ndim]
    return f"{int(wrong.sum())} of {want.size} elements, first at {at} of {[a[at].item() if a.shape == want.shape else '...' for a in arrays]}: {mine[at]} instead of {want[at]}, may differ by {np.asarray(bound)[at]:.3g}"


@pytest.mark.parametrize("name", ROWS)
def test_a_method_is_right_on_every_dtype(name):
    r = ROWS[name]
    found = []
    for dtype in KINDS[r.kind]:
        text = difference(dtype, r)
        found += [f"{dtype}: {text}"] if text else []
    assert not found, "\n".join(found)
    for dtype in r.refuses:
        with pytest.raises(UserError):
            r.lathe(*[tensor(values_of(dtype), dtype) for _ in range(r.count)]).numpy()


# What takes a dtype, and what every element then is.
MADE = {
    "zeros": (lambda d: Tensor.zeros(3, 2, dtype=d), lambda: np.zeros((3, 2))),
    "ones": (lambda d: Tensor.ones(3, 2, dtype=d), lambda: np.ones((3, 2))),
    "full": (lambda d: Tensor.full((3, 2), 1, dtype=d), lambda: np.ones((3, 2))),
    "eye": (lambda d: Tensor.eye(3, 4, dtype=d), lambda: np.eye(3, 4)),
    "arange": (lambda d: Tensor.arange(0, 7, 2, dtype=d), lambda: np.arange(0, 7, 2)),
    "linspace": (lambda d: Tensor.linspace(0, 6, 4, dtype=d), lambda: np.linspace(0, 6, 4)),
    "Tensor": (lambda d: Tensor([0, 1, 3], dtype=d), lambda: np.array([0, 1, 3])),
    "from_numpy": (lambda d: Tensor.from_numpy(np.array([0, 1, 3])).cast(d), lambda: np.array([0, 1, 3])),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("dtype", ALL)
def test_what_takes_a_dtype_makes_values_of_it(name, dtype):
    made, want = MADE[name]
    if dtype == "bool" and name in ("arange", "linspace"):
        return
    x = made(getattr(dtypes, dtype))
    assert x.dtype.name == dtype
    np.testing.assert_array_equal(x.cast(dtypes.float64).numpy(), want().astype(storage(dtype)))


def exact_cast(value, dtype):
    """A whole number in a dtype: integers wrap, floats are the nearest, ties to even; bfloat16 is that of the float32, as in PyTorch."""
    if dtype == "bfloat16":
        value = int(exact_cast(value, "float32"))
    if dtype == "bool":
        return value != 0
    if dtype in INTEGERS:
        return int(wrapped([value], np.dtype(dtype))[0])
    bits = FLOATS[dtype][0]
    size = abs(value)
    shift = max(size.bit_length() - bits, 0)
    quotient, rest = size >> shift, size & ((1 << shift) - 1)
    half = 1 << (shift - 1) if shift else 0
    quotient += shift > 0 and (rest > half or (rest == half and quotient % 2 == 1))
    return math.copysign(float(quotient << shift), value)


@pytest.mark.parametrize("source", ["bool", *INTEGERS])
def test_a_cast_of_whole_numbers_is_the_nearest_number(source):
    info = np.iinfo(source) if source != "bool" else None
    numbers = {0, 1}
    if info:
        near = [1 << k for k in range(info.bits)]
        ties = [(1 << k) + (1 << (k - b)) + e for k in range(3, info.bits) for b in (3, 4, 8, 11, 24, 53) if k > b for e in (-1, 0, 1)]
        ties += [(1 << k) + 3 * (1 << (k - b)) + e for k in range(3, info.bits) for b in (3, 4, 8, 11, 24, 53) if k > b for e in (-1, 0, 1)]
        numbers |= {s * v + e for v in near for e in (-1, 0, 1) for s in (1, -1)} | {s * v for v in ties for s in (1, -1)}
        numbers = {v for v in numbers if info.min <= v <= info.max}
    numbers = sorted(numbers)
    x = Tensor(np.array(numbers, dtype=source)).realize()
    for target in ALL:
        largest = {"fp8e4m3": 448, "fp8e5m2": 57344, "fp8e4m3fnuz": 240, "fp8e5m2fnuz": 57344, "float16": 65504}.get(target, math.inf)
        got = x.cast(getattr(dtypes, target))
        assert got.dtype.name == target
        got = got.cast(dtypes.float64).tolist() if target in FLOATS else got.tolist()
        wrong = [(v, g, exact_cast(v, target)) for v, g in zip(numbers, got) if g != exact_cast(v, target) and abs(exact_cast(v, target)) <= largest]
        assert not wrong, (target, wrong[:3])


# Names of Tensor that compute no value of their dtype, by why.
OTHERS = {
    "of the handle": "assign data device dtype element_size grad gradient backward is_floating_point is_leaf is_param is_param_ is_realized item kernelize nbytes ndim numel requires_grad requires_grad_ "
    "schedule schedule_linear schedule_with_vars linear_with_vars shape size test to_ tobytes train training shard shard_ shard_like",
    "memory of others": "from_blob from_dlpack from_url empty empty_like",
    "random": "dropout glorot_uniform kaiming_normal kaiming_uniform manual_seed multinomial normal rand rand_like randint randn randn_like random_bits randperm scaled_uniform uniform",
    "casts": "bfloat16 bitcast bool cast double float half int long short",
    "bytes": "hash keccak",
    "matrices": "newton_schulz qr svd",
    "given code": "custom_kernel",
}


def test_every_method_has_a_row():
    rows = {name.split("'")[0].split(" ")[0] for name in ROWS} | set(MADE)
    others = {name for names in OTHERS.values() for name in names.split()}
    # Those that are written with others are compared in test_torch_methods.py.
    names = {name for name in dir(Tensor) if not name.startswith("_")} - set(written_in_python)
    assert names - rows - others == set()
    assert others - names == set()
