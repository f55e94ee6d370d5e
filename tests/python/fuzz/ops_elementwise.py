"""Elementwise ops, casts and constants."""

from fuzz import dtypes
from fuzz.program import Text
from fuzz.table import boolean, common, given, lifted, lifted_common, op, same


def one(kind):
    return lambda g: g.bound(x=g.pick(kind))


def two(kind):
    def draw(g):
        x = g.pick(kind)
        return g.bound(x=x, y=g.partner(x, kind))

    return draw


def with_number(kind, **numbers):
    def draw(g):
        x = g.pick(kind)
        return g.bound(x=x, c=g.number(x.dtype, **numbers))

    return draw


# name: (Lathe, numpy, torch); functions of a float
# fmt: off
FUNCTIONS = {
    "exp":         ("({x} * 0.5).exp()",              "np.exp({x} * 0.5)",                       "="),
    "exp2":        ("({x} * 0.5).exp2()",             "np.exp2({x} * 0.5)",                      "="),
    "log":         ("({x}.abs() + 0.5).log()",        "np.log(np.abs({x}) + 0.5)",               "="),
    "log2":        ("({x}.abs() + 0.5).log2()",       "np.log2(np.abs({x}) + 0.5)",              "="),
    "log10":       ("({x}.square() + 0.5).log10()",   "np.log10(kept(np.square({x})) + 0.5)",    "="),
    "sqrt":        ("({x}.abs() + 0.25).sqrt()",      "np.sqrt(np.abs({x}) + 0.25)",             "="),
    "rsqrt":       ("({x}.square() + 0.25).rsqrt()",  "1 / np.sqrt(kept(np.square({x})) + 0.25)", "="),
    "reciprocal":  ("({x}.square() + 1).reciprocal()", "1 / (kept(np.square({x})) + 1)",         "="),
    "sin":         ("{x}.sin()",                      "np.sin({x})",                             "="),
    "cos":         ("{x}.cos()",                      "np.cos({x})",                             "="),
    "tan":         ("{x}.sin().tan()",                "np.tan(np.sin({x}))",                     "="),
    "asin":        ("({x}.tanh() * 0.875).asin()",    "np.arcsin(np.tanh({x}) * 0.875)",         "(tanh({x}, kept) * 0.875).asin()"),
    "acos":        ("({x}.tanh() * 0.875).acos()",    "np.arccos(np.tanh({x}) * 0.875)",         "(tanh({x}, kept) * 0.875).acos()"),
    "atan":        ("{x}.atan()",                     "np.arctan({x})",                          "="),
    "sinh":        ("({x} * 0.5).sinh()",             "np.sinh({x} * 0.5)",                      "="),
    "cosh":        ("({x} * 0.5).cosh()",             "np.cosh({x} * 0.5)",                      "="),
    "tanh":        ("{x}.tanh()",                     "np.tanh({x})",                            "tanh({x}, kept)"),
    "asinh":       ("{x}.asinh()",                    "np.arcsinh({x})",                         "="),
    "acosh":       ("({x}.abs() + 1.5).acosh()",      "np.arccosh(np.abs({x}) + 1.5)",           "="),
    "atanh":       ("({x}.tanh() * 0.875).atanh()",   "np.arctanh(np.tanh({x}) * 0.875)",        "(tanh({x}, kept) * 0.875).atanh()"),
    "erf":         ("{x}.erf()",                      "erf({x})",                                "="),
    "sigmoid":     ("{x}.sigmoid()",                  "sigmoid({x})",                            "sigmoid({x}, kept)"),
    "silu":        ("{x}.silu()",                     "{x} * sigmoid({x})",                      "F.silu({x})"),
    "gelu":        ("{x}.gelu()", "{x} * sigmoid(2 * np.sqrt(2 / np.pi) * ({x} + 0.044715 * kept({x} ** 3)))", "F.gelu({x}, approximate='tanh')"),
    "quick_gelu":  ("{x}.quick_gelu()",               "{x} * sigmoid({x} * 1.702)",              "{x} * torch.sigmoid({x} * 1.702)"),
    "softplus":    ("{x}.softplus()",                 "softplus({x})",                           "torch.logaddexp({x}, torch.zeros_like({x}))"),
    "logsigmoid":  ("{x}.logsigmoid()",               "-softplus(-{x})",                         "F.logsigmoid({x})"),
    "mish":        ("{x}.mish()",                     "{x} * np.tanh(softplus({x}))",            "F.mish({x})"),
    "elu":         ("{x}.elu()",                      "np.where({x} > 0, {x}, np.expm1({x}))",   "F.elu({x})"),
    "celu":        ("{x}.celu(2.0)",                  "np.maximum({x}, 0) + np.minimum(2 * np.expm1({x} / 2), 0)", "F.celu({x}, 2.0)"),
    "selu":        ("{x}.selu()", "1.0507009873554805 * np.where(beside({x}) > 0, {x}, 1.6732632423543772 * np.expm1({x}))", "F.selu({x})"),
    "softsign":    ("{x}.softsign()",                 "{x} / (1 + np.abs({x}))",                 "F.softsign({x})"),
    "hardswish":   ("{x}.hardswish()",                "{x} * np.clip({x} + 3, 0, 6) / 6",        "{x} * torch.clip({x} + 3, 0, 6) / 6"),
    "hardsigmoid": ("{x}.hardsigmoid()",              "np.clip({x} / 6 + 0.5, 0, 1)",            "torch.clip({x} / 6 + 0.5, 0, 1)"),
    "relu6":       ("{x}.relu6()",                    "np.clip({x}, 0, 6)",                      "F.relu6({x})"),
    "hardtanh":    ("{x}.hardtanh(-1.1, 1.2)",        "np.clip({x}, -1.1, 1.2)",                 "F.hardtanh({x}, -1.1, 1.2)"),
    "leaky_relu":  ("{x}.leaky_relu(0.125)",          "np.where(beside({x}) > 0, {x}, {x} * 0.125)", "F.leaky_relu({x}, 0.125)"),
}
# (PyTorch's own hardsigmoid and hardswish take a sixth as a float32 on the way back.)
# Polynomials and formulas with the precision of float32, whatever the dtype.
SINGLE = {"asin", "acos", "atan", "asinh", "acosh", "atanh", "sinh", "erf", "softplus", "logsigmoid", "mish", "tanh"}
# Values of the smaller floats fall on their edges.
EDGES = {"relu6", "hardtanh", "hardswish", "hardsigmoid"}
WHOLE = {  # functions that keep whole numbers whole
    "neg":         ("-{x}",                           "-{x}",                                    "=", "number"),
    "abs":         ("{x}.abs()",                      "np.abs({x})",                             "=", "number"),
    "relu":        ("{x}.relu()",                     "np.maximum({x}, 0)",                      "=", "number"),
    "square":      ("{x}.square()",                   "np.square({x})",                          "=", "number"),
}
STEPS = {  # functions that jump
    "floor":       ("{x}.floor()",                    "np.floor({x})",                           "="),
    "ceil":        ("{x}.ceil()",                     "np.ceil({x})",                            "="),
    "trunc":       ("{x}.trunc()",                    "np.trunc({x})",                           "="),
    "round":       ("{x}.round()",                    "np.round({x})",                           "="),
    "sign":        ("{x}.sign()",                     "np.sign({x})",                            "="),
}
ARITHMETIC = {  # of two tensors
    "add":         ("{x} + {y}",                      "{x} + {y}",                               "=", True),
    "sub":         ("{x} - {y}",                      "{x} - {y}",                               "=", True),
    "mul":         ("{x} * {y}",                      "{x} * {y}",                               "=", True),
    "maximum":     ("{x}.maximum({y})",               "np.maximum({x}, {y})",                    "=", True),
    "minimum":     ("{x}.minimum({y})",               "np.minimum({x}, {y})",                    "=", True),
}
COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">="}
BITS = {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}
# fmt: on

for name, (lathe, numpy, torch) in FUNCTIONS.items():
    op(name, "function", one("precise" if name in EDGES else "wide"), lifted, lathe, numpy, torch, ulps=8, symbolic=True, single=name in SINGLE)
for name, (lathe, numpy, torch, kind) in WHOLE.items():
    op(name, "elementwise", one(kind), same, lathe, numpy, torch, exact=True, symbolic=True, ties=name in ("abs", "relu"))
for name, (lathe, numpy, torch) in STEPS.items():
    op(name, "elementwise", one("float"), same, lathe, numpy, torch, exact=True, steps=True, symbolic=True, weight=0.5)
for name, (lathe, numpy, torch, exact) in ARITHMETIC.items():
    op(name, "binary", two("number"), common, lathe, numpy, torch, exact=exact, symbolic=True, lift=True, weight=2, ties=name.endswith("mum"))
SIDES = "np.sign({x} * 1.0 - {y})"
for name, sign in COMPARISONS.items():
    text = f"{{x}} {sign} {{y}}"
    op(name, "compare", two("number"), boolean, text, text, "=", exact=True, steps=True, symbolic=True, lift=True, edge=SIDES)
for name, sign in BITS.items():
    text = f"{{x}} {sign} {{y}}"
    op(name, "integer", two("whole"), common, text, text, "=", exact=True, symbolic=True, lift=True)

def draw_divide(g):
    """The divisor is rounded as the quotient is: of half and bfloat16 neither is."""
    d = two("number")(g)
    wanted = dtypes.lifted(dtypes.common(d["x"].dtype, d["y"].dtype))
    for x, y in ((d["x"], d["y"]), (d["y"], d["x"])):
        if wanted == y.dtype or not dtypes.is_float(y.dtype):
            return g.bound(x=x, y=y)
    return None


op("divide", "binary", draw_divide, lifted_common, "{x} / ({y}.abs() + 1)", "{x} / (np.abs({y}) + 1)", "=", symbolic=True, ulps=4)
op("logaddexp", "binary", two("float"), common, "{x}.logaddexp({y})", "np.logaddexp({x}, {y})", "=", symbolic=True, ulps=8, lift=True)
op("lerp", "binary", two("float"), common, "{x}.lerp({y}, 0.25)", "{x} + kept(({y} - {x}) * 0.25)", "torch.lerp({x}, {y}, 0.25)", ulps=4, lift=True)
op("floor_divide", "integer", two("integer"), common, "{x} // {y}", "floor_divide({x}, {y})", None, exact=True, symbolic=True, lift=True)
op("remainder", "integer", two("integer"), common, "{x} % {y}", "remainder({x}, {y})", None, exact=True, symbolic=True, lift=True)
op("bitwise_not", "integer", one("integer"), same, "{x}.bitwise_not()", "~{x}", "~{x}", exact=True, symbolic=True)
op("logical_not", "compare", one("any"), boolean, "{x}.logical_not()", "{x} == 0", "=", exact=True, steps=True, symbolic=True, edge="np.sign({x} * 1.0)")
op("add_number", "binary", with_number("number"), same, "{x} + {c}", "({x} + {c})", "=", exact=True, symbolic=True)
op("mul_number", "binary", with_number("number"), same, "{c} * {x}", "({c} * {x})", "=", exact=True, symbolic=True)
op("sub_from", "binary", with_number("number"), same, "{c} - {x}", "({c} - {x})", "=", exact=True, symbolic=True)
op("less_number", "compare", with_number("number"), boolean, "{x} < {c}", None, "=", exact=True, steps=True, symbolic=True)
op("clamp", "elementwise", one("precise"), same, "{x}.clamp(-1.3, 2.4)", "np.clip({x}, -1.3, 2.4)", "=", symbolic=True)


def draw_power(g):
    x = g.pick("float")
    return g.bound(x=x, n=int(g.rng.choice([2, 3])))


op("power", "elementwise", draw_power, same, "{x} ** {n}", None, "=", exact=True, ulps=16, symbolic=True)


def draw_where(g):
    x = g.pick("number")
    return g.bound(c=g.partner(x, "bool"), x=x, y=g.partner(x, "number"))


op("where", "binary", draw_where, common, "{c}.where({x}, {y})", "np.where({c}, {x}, {y})", "where({c}, {x}, {y})", exact=True, moves=True, symbolic=True, lift=True)


def draw_masked(g):
    x = g.pick("number")
    return g.bound(x=x, m=g.partner(x, "bool", inside=True), c=g.number(x.dtype))


op("masked_fill", "binary", draw_masked, same, "{x}.masked_fill({m}, {c})", "np.where({m}, {c}, {x})", "=", exact=True, moves=True, symbolic=True)


def draw_shift(g):
    return g.bound(x=g.pick("integer"), n=int(g.rng.integers(0, 4)))


op("shift_left", "integer", draw_shift, same, "{x} << {n}", None, "=", exact=True, symbolic=True)
op("shift_right", "integer", draw_shift, same, "{x} >> {n}", None, "=", exact=True, symbolic=True)


# ---- casts

ALL = ["bool", *dtypes.INTEGERS, *dtypes.FLOATS]


def draw_cast(g):
    x = g.pick("any")
    target = str(g.rng.choice(["float32", "float16", "bfloat16"] if g.rng.random() < 0.4 else ALL))
    return g.bound(x=x, dtype=Text(f"dtypes.{target}"), source=x.dtype, target=target)


op("cast", "cast", draw_cast, given, "{x}.cast({dtype})", "cast({x}, {source}, {target})", "cast({x}, {source}, {target})", exact=True, steps=True, symbolic=True, weight=4, ulps=1)

SAME_SIZE = [("float32", "int32"), ("int32", "float32"), ("int32", "uint32"), ("uint8", "int8"), ("int16", "uint16"), ("int64", "uint64"), ("float32", "uint32")]


def draw_bits(g):
    source, target = SAME_SIZE[g.rng.integers(len(SAME_SIZE))]
    if target == "float32":
        return None  # any bits: NaN and infinities
    return g.bound(x=g.pick(source), dtype=Text(f"dtypes.{target}"), source=source, target=target)


op("bitcast", "cast", draw_bits, given, "{x}.bitcast({dtype})", "bits({x}, {source}, {target})", None, exact=True, steps=True, symbolic=True, signs=True)


# ---- constants


def draw_full(g):
    dtype = g.dtype()
    return g.bound(shape=g.shape(), c=g.number(dtype), dtype=Text(f"dtypes.{dtype}"), store=dtypes.storage(dtype).name, kind=dtype)


op("full", "constant", draw_full, given, "Tensor.full({shape}, {c}, dtype={dtype})", "np.full({shape}, {c}, {store})", "torch.full({shape}, {c}, dtype=dtype_of({kind}))", exact=True, moves=True, weight=2)


def draw_expanded(g):
    shape = g.shape(rank=(1, 4))
    inner = tuple(1 if g.rng.random() < 0.6 else n for n in shape)
    values = g.leaf(inner)
    return g.bound(x=values, shape=shape)


op("expanded", "constant", draw_expanded, same, "{x}.expand({shape})", "np.broadcast_to({x}, {shape})", "=", exact=True, moves=True, weight=2)


def draw_arange(g):
    n, step = int(g.rng.integers(1, 20)), int(g.rng.choice([1, 2, -1, 3]))
    start = int(g.rng.integers(-4, 5))
    dtype = str(g.rng.choice(["int32", "float32", "int64"]))
    return g.bound(a=start, b=start + step * n, s=step, dtype=Text(f"dtypes.{dtype}"), store=dtypes.storage(dtype).name, kind=dtype)


op("arange", "constant", draw_arange, given, "Tensor.arange({a}, {b}, {s}, dtype={dtype})", "np.arange({a}, {b}, {s}, dtype={store})", "torch.arange({a}, {b}, {s}, dtype=dtype_of({kind}))", exact=True, moves=True)


def draw_eye(g):
    return g.bound(n=int(g.rng.integers(1, 9)), m=int(g.rng.integers(1, 9)))


op("eye", "constant", draw_eye, lambda d: "float32", "Tensor.eye({n}, {m})", "np.eye({n}, {m})", "torch.eye({n}, {m}, dtype=torch.float64)", exact=True, moves=True, weight=0.5)
