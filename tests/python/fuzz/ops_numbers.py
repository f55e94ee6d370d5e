"""Division and remainders, shifts, numbers of another kind than the tensor, and bits read as another dtype."""

from fuzz import dtypes
from fuzz.program import Text
from fuzz.table import common, given, op, same


def two(g, kind):
    x = g.pick(kind)
    return g.bound(x=x, y=g.partner(x, kind))


def two_exact(kind):
    """Operands of an op that jumps and is not constant between its jumps: only integers tell where it does."""

    def draw(g):
        if not g.program.exact:
            return None
        x = g.pick(kind)
        return g.bound(x=x, y=g.partner(x, kind))

    return draw


def with_divisor(kind):
    def draw(g):
        if kind == "float" and not g.program.exact:
            return None
        x = g.pick(kind)
        low = 1 if x.dtype[0] == "u" else -7
        c = int(g.rng.choice([n for n in range(low, 8) if n]))
        return g.bound(x=x, c=float(c) if kind == "float" else c)

    return draw


op("trunc_divide", "integer", lambda g: two(g, "integer"), common, "{x}.div({y}, rounding_mode='trunc')", "trunc_divide({x}, {y})", None, exact=True, symbolic=True, lift=True)
op("floor_divide_number", "integer", with_divisor("integer"), same, "{x} // {c}", "({x} // {c})", "=", exact=True, symbolic=True)
op("remainder_number", "integer", with_divisor("integer"), same, "{x} % {c}", "({x} % {c})", "=", exact=True, symbolic=True)
op("number_remainder", "integer", with_divisor("integer"), same, "{c} % ({x} | 1)", "({c} % ({x} | 1))", None, exact=True, symbolic=True)
op("fmod_number", "integer", with_divisor("integer"), same, "{x}.fmod({c})", "np.fmod({x}, {c})", "torch.fmod({x}, {c})", exact=True, symbolic=True)
op("float_remainder", "binary", two_exact("float"), common, "{x} % ({y}.abs() + 1)", "({x} % kept(np.abs({y}) + 1))", "=", exact=True, symbolic=True, lift=True, smooth=False, weight=0.5)
op("float_fmod", "binary", two_exact("float"), common, "{x}.fmod({y}.abs() + 1)", "np.fmod({x}, kept(np.abs({y}) + 1))", "torch.fmod({x}, {y}.abs() + 1)", exact=True, symbolic=True, lift=True, smooth=False, weight=0.5)
op("float_floor_divide", "binary", two_exact("float"), common, "{x} // ({y}.abs() + 1)", "({x} // kept(np.abs({y}) + 1))", "=", exact=True, symbolic=True, lift=True, smooth=False, weight=0.5)
op("float_remainder_number", "binary", with_divisor("float"), same, "{x} % {c}", "({x} % {c})", "=", exact=True, symbolic=True, smooth=False, weight=0.5)


# ---- shifts

SHIFTED = {"shift_left_by": "<<", "shift_right_by": ">>"}
for name, sign in SHIFTED.items():
    text = f"{{x}} {sign} ({{y}} & 3)"
    op(name, "integer", lambda g: two(g, "integer"), common, text, text, None, exact=True, symbolic=True, lift=True)


# ---- numbers of another kind


def draw_weak_float(g):
    """A float number beside integers and truths."""
    x = g.pick("whole")
    return g.bound(x=x, c=float(g.rng.integers(-3, 4)) if g.program.exact else float(g.rng.integers(-16, 17)) / 8)


op("add_weak_float", "binary", draw_weak_float, lambda d: "float32", "{x} + {c}", "({x}.astype(np.float64) + {c})", "({x}.double() + {c})", exact=True, symbolic=True)
op("mul_weak_float", "binary", draw_weak_float, lambda d: "float32", "{c} * {x}", "({c} * {x}.astype(np.float64))", "({c} * {x}.double())", exact=True, symbolic=True)
op("less_weak_float", "compare", draw_weak_float, lambda d: "bool", "{x} < ({c} + 0.25)", "({x}.astype(np.float64) < ({c} + 0.25))", None, exact=True, symbolic=True)


def draw_weak_integer(g):
    return g.bound(x=g.pick("bool"), c=int(g.rng.integers(-3, 4)))


op("add_to_truth", "binary", draw_weak_integer, lambda d: "int32", "{x} + {c}", "({x}.astype(np.int32) + {c})", "({x}.int() + {c})", exact=True, symbolic=True)


def draw_clamp_whole(g):
    return g.bound(x=g.pick("integer"), low=int(g.rng.integers(0, 3)), high=int(g.rng.integers(2, 5)))


op("clamp_whole", "elementwise", draw_clamp_whole, same, "{x}.clamp({low}, {high})", "np.clip({x}, {low}, {high})", "=", exact=True, symbolic=True)


# ---- bits

# (in bytes: source, target, how many of one are an element of the other)
SIZES = [("int32", "uint8"), ("float32", "uint8"), ("int32", "int16"), ("int64", "uint32"), ("float64", "int32"), ("uint16", "uint8")]


def draw_split_bits(g):
    source, target = SIZES[g.rng.integers(len(SIZES))]
    return g.bound(x=g.pick(source, rank=(1, 3), fixed=True, most=4000), dtype=Text(f"dtypes.{target}"), source=source, target=target)


op("split_bits", "cast", draw_split_bits, given, "{x}.bitcast({dtype})", "bits(np.ascontiguousarray({x}), {source}, {target})", None, exact=True, steps=True, signs=True)


def draw_join_bits(g):
    source, target = ("uint8", "uint32") if g.rng.random() < 0.5 else ("int16", "int32")
    times = dtypes.storage(target).itemsize // dtypes.storage(source).itemsize
    x = g.pick(source, rank=(1, 3), fixed=True, most=4000, cond=lambda v: v.shape[-1] and v.shape[-1] % times == 0)
    return g.bound(x=x, dtype=Text(f"dtypes.{target}"), source=source, target=target)


op("join_bits", "cast", draw_join_bits, given, "{x}.bitcast({dtype})", "bits(np.ascontiguousarray({x}), {source}, {target})", None, exact=True, steps=True)

# Numbers 1, 2, 4, ... 128 by their exponents.
POWER = "((({x} & 7) << 23) + 0x3f800000)"
op("power_by_bits", "cast", lambda g: g.bound(x=g.pick("int32")), lambda d: "float32", POWER + ".bitcast(dtypes.float32)", f"bits({POWER}, 'int32', 'float32')", POWER + ".view(torch.float32).double()", exact=True, symbolic=True, moves=True)
