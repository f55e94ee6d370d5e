"""Draws programs. A step is kept when the numpy evaluator computes it under every environment, with and without rounding."""

from types import SimpleNamespace

import numpy as np

from fuzz import dtypes, evaluate, ops_elementwise, ops_index, ops_masks, ops_movement, ops_numbers, ops_products, ops_reduce, ops_state, ops_symbolic
from fuzz.program import READS, Environment, Input, Program, Step, Variable
from fuzz.table import ROWS

assert ops_elementwise and ops_index and ops_masks and ops_movement and ops_numbers and ops_products and ops_reduce and ops_state and ops_symbolic  # they fill ROWS

KINDS = {
    "any": lambda d: True,
    "number": lambda d: d != "bool",
    "float": dtypes.is_float,
    "wide": lambda d: dtypes.is_float(d) and not d.startswith("fp8"),
    "precise": lambda d: d in ("float32", "float64"),
    "integer": dtypes.is_integer,
    "whole": lambda d: not dtypes.is_float(d),
    "bool": lambda d: d == "bool",
}
FAMILY_WEIGHTS = {
    "function": 1.5, "elementwise": 1, "binary": 2.5, "compare": 0.6, "integer": 0.6, "cast": 0.8, "constant": 1.2, "movement": 4, "keep": 0.7,
    "write": 1, "reduce": 2.5, "norm": 1.2, "scan": 1.2, "sort": 0.4, "index": 1.2, "product": 2.5, "symbolic": 6,
}  # fmt: skip


# Families that are drawn more often for what the step before made.
FOLLOWS = {"norm": 5, "reduce": 3, "scan": 3, "movement": 2}
MOVES = ("permute", "permute", "slice", "take", "gather", "pad", "expand_axis", "reshape", "sum", "cat_self", "flip")
ROUNDED, ADDED = ("square", "mul", "mul", "softmax"), ("add", "add_number", "sub", "lerp", "where", "masked_fill")
KEPT = ("neg", "where", "contiguous", "permute", "relu", "clamp", "flip", "pad")
EXTREMES = ("max", "min", "cummax", "cummin", "sort", "topk")
PLACES = [0.2, 0.1, 0.2, 0.1, 0.15, 0.15, 0.1]
HUGE = 72 << 20  # bytes
DOUBTS, LOUD = 10, 4.0  # how often what jumps is computed again, with how much more noise
VIEWS = ("movement", "keep", "constant", "symbolic")


class Value:
    """A value of the program being drawn, under every environment."""

    def __init__(self, name, dtype, arrays):
        self.name, self.dtype, self.arrays = name, dtype, arrays
        shapes = [a.shape for a in arrays]
        self.ndim = len(shapes[0])
        self.shape = tuple(shapes[0][i] if all(s[i] == shapes[0][i] for s in shapes) else None for i in range(self.ndim))
        self.shapes = shapes
        self.size = max(a.size for a in arrays)
        self.fixed = None not in self.shape


class NothingFits(Exception):
    """There is no operand for an op."""


class Generator:
    """The state of one drawing: the program so far and the values it has."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        kind = rng.random()
        self.symbolic = kind < 0.12
        self.large = kind > 0.88
        self.huge = kind > 0.995  # a walk over more memory than caches hold
        captured = rng.random() < (0.5 if self.symbolic else 0.12)
        mode = "captured" if captured else str(rng.choice(["gradient", "backward"], p=[0.75, 0.25]))
        reads = str(rng.choice(READS, p=[0.5, 0.25, 0.25, 0] if captured else [0.4, 0.15, 0.3, 0.15]))
        if self.huge:
            captured, mode, reads = False, "gradient", "each"
        self.program = Program(seed=seed, exact=bool(rng.random() < 0.5) or self.huge, mode=mode, reads=reads)
        if self.symbolic:
            self.program.variables = [Variable("n", 2, 7)]
            if rng.random() < 0.6:
                self.program.variables.append(Variable("m", 1, 2))
        count = 3 if self.symbolic else 2 if captured else 1
        self.program.environments = [
            Environment({}, {v.name: int(rng.integers(v.low, v.high + 1)) for v in self.program.variables}) for _ in range(count)
        ]
        if self.symbolic:  # at least two sizes, so that it shows which axes are symbolic
            for v in self.program.variables:
                self.program.environments[0].sizes[v.name], self.program.environments[1].sizes[v.name] = v.high, v.low
        self.values = []
        self.runs = None
        self.doubts = {}  # runs with more noise, made where they are needed
        self.pairs = set()  # values and the positions they were found at: both are outputs
        self.follow = False  # whether the next step reads what the last one made

    # ---- what a row's draw may ask for

    def bound(self, **words):
        return None if any(w is None for w in words.values()) else words

    def dtype(self, kind="any"):
        names = ["float32"] * 12 + ["float16", "bfloat16", "float64"] * 2 + ["fp8e4m3", "fp8e5m2"] + ["int32"] * 5 + ["bool"] * 2 + list(dtypes.INTEGERS)
        names = [n for n in names if KINDS[kind](n)]
        return str(self.rng.choice(names))

    def length(self):
        r = self.rng.random()
        if r < 0.012:
            return 0
        if r < 0.12:
            return 1
        if self.large and r < 0.5:
            return int(self.rng.choice([32, 48, 64, 65, 96, 100, 128, 256]))
        if r < 0.4:
            return int(self.rng.choice([2, 3, 4, 8, 16]))
        if r < 0.85:
            return int(self.rng.integers(2, 10))
        return int(self.rng.integers(8, 34))

    def shape(self, rank=(1, 3)):
        while True:
            shape = tuple(self.length() for _ in range(int(self.rng.integers(rank[0], rank[1] + 1))))
            if np.prod(shape, dtype=np.int64) <= (1 << 18 if self.large else 4000):
                return shape

    def number(self, dtype):
        if dtype == "bool":
            return bool(self.rng.random() < 0.5)
        if dtypes.is_integer(dtype):
            return int(self.rng.integers(0 if dtype[0] == "u" else -3, 4))
        if self.program.exact:
            return float(self.rng.integers(-3, 4))
        return float(dtypes.rounded(self.rng.integers(-16, 17) / 8, dtype))

    def array(self, shape, dtype):
        if dtype == "bool":
            return self.rng.random(shape) < 0.5
        if dtypes.is_integer(dtype):
            low = 0 if dtype[0] == "u" else -5
            return self.rng.integers(low, 7, shape).astype(dtype)
        if self.program.exact:  # sums of many have to fit as well
            most = 1 if dtype in dtypes.SMALL_FLOATS and self.large else 3
            return self.rng.integers(-most, most + 1, shape, dtype=np.int8).astype(np.float64)
        return dtypes.rounded(self.rng.uniform(-2, 2, shape), dtype)

    def input(self, arrays, dtype, constant=None):
        name = f"a{len(self.program.inputs)}"
        self.program.inputs.append(Input(name, dtype, constant))
        for environment, array in zip(self.program.environments, arrays):
            environment.arrays[name] = array
        value = Value(name, dtype, arrays)
        self.values.append(value)
        for run in self.runs:
            run.add_input(name)
        return value

    def leaf(self, shape=None, dtype=None, kind="number"):
        """A new input: an array, or a constant that is stored."""
        shape = self.shape() if shape is None else shape
        if self.program.mode == "captured" and not shape:
            raise NothingFits  # a number is a constant of what is captured, not an argument
        dtype = dtype or self.dtype(kind)
        count = len(self.program.environments)
        twins = [i.constant for i in self.program.inputs if i.constant is not None and i.dtype == dtype and self.shape_of(i) == shape]
        if dtypes.is_float(dtype) and self.rng.random() < (0.6 if twins else 0.15) and 0 not in shape:
            constant = twins[0] if twins else float(self.rng.choice([0.0, 1.0, 2.0]))
            return self.input([np.full(shape, constant)] * count, dtype, constant)
        return self.input([self.array(shape, dtype) for _ in range(count)], dtype)

    def shape_of(self, given):
        return self.program.environments[0].arrays[given.name].shape

    def index(self, shape, size, negative=True, unique=None):
        """An input of positions below `size`, along one axis all different where asked for."""
        arrays = []
        for _ in self.program.environments:
            if unique is None:
                arrays.append(self.rng.integers(-size if negative and self.rng.random() < 0.3 else 0, size, shape).astype(np.int32))
            else:
                keys = self.rng.random([size if a == unique else n for a, n in enumerate(shape)])
                arrays.append(np.take(np.argsort(keys, axis=unique), np.arange(shape[unique]), axis=unique).astype(np.int32))
        return self.input(arrays, "int32")

    def fitting(self, kind, rank, fixed, most, cond):
        known = KINDS.get(kind, lambda d: d == kind)
        return [
            v
            for v in self.values
            if known(v.dtype) and rank[0] <= v.ndim <= rank[1] and (v.fixed or not fixed) and v.size <= most and (not cond or cond(v))
        ]

    def pick(self, kind="number", rank=(0, 6), fixed=None, most=1 << 20, cond=None, chance=0.9, captured=True):
        """A value the program has, most often a new one; else a new input."""
        if self.huge:
            return self.values[0]
        if not captured and self.program.mode == "captured":
            raise NothingFits
        fixed = self.fixed_only if fixed is None else fixed
        found = self.fitting(kind, rank, fixed, most, cond)
        if found and self.follow and found[-1] is self.values[-1]:
            return found[-1]
        if found and self.rng.random() < chance:
            weights = np.array([1.5 ** (i - len(found)) + 0.02 for i in range(len(found))])
            return found[int(self.rng.choice(len(found), p=weights / weights.sum()))]
        shape = self.shape(rank=(min(rank[0], 4), max(rank[0], min(rank[1], 3))))
        if np.prod(shape, dtype=np.int64) > most or (cond and not cond(SimpleNamespace(shape=shape))):
            raise NothingFits
        return self.leaf(shape, kind if kind not in KINDS else None, kind if kind in KINDS else "any")

    def like(self, other, dtype=None):
        """A value of the same shape, or a new input."""
        shape = other if isinstance(other, tuple) else None
        shapes = [shape] * len(self.program.environments) if shape is not None else other.shapes
        found = [v for v in self.values if v.shapes == shapes and (v.dtype == dtype if dtype else v.dtype != "bool")]
        if found and (self.rng.random() < 0.7 or (shape is None and not other.fixed)):
            return found[int(self.rng.integers(len(found)))]
        if shape is None and not other.fixed:
            raise NothingFits
        return self.leaf(shapes[0], dtype)

    def partner(self, x, kind, inside=False):
        """A value that broadcasts with x; inside: to x's own shape."""
        found = [v for v in self.values if KINDS[kind](v.dtype) and v.shapes == x.shapes]
        if not inside:
            found += [v for v in self.values if KINDS[kind](v.dtype) and v.shapes != x.shapes and broadcasts(v, x)]
        if found and self.rng.random() < 0.65:
            return found[int(self.rng.integers(len(found)))]
        one = 0 if self.rng.random() < 0.4 else 0.3
        shape = [1 if n is None or self.rng.random() < one else n for n in x.shape]
        if shape and one and self.rng.random() < 0.3:
            shape = shape[1:]
        dtype = x.dtype if KINDS[kind](x.dtype) and self.rng.random() < 0.8 else None
        return self.leaf(tuple(shape), dtype, kind)

    def axis(self, x, fixed=False):
        if x.ndim and self.rng.random() < 0.3 and x.shape[-1] is not None:
            return x.ndim - 1
        axes = [a for a in range(x.ndim) if not fixed or x.shape[a] is not None]
        return int(self.rng.choice(axes)) if axes else None

    # ---- steps

    def step(self, row):
        """Tries to add one step of the row."""
        before = len(self.program.inputs), len(self.values)
        self.fixed_only = not row.symbolic
        try:
            drawn = row.draw(self)
        except NothingFits:
            drawn = None
        if drawn is not None and self.keeps(row, drawn):
            if row.then and self.rng.random() < 0.5 and self.keeps(ROWS[row.then], drawn):
                self.pairs.update(s.name for s in self.program.steps[-2:])
            return True
        for unused in self.program.inputs[before[0] :]:
            for environment in self.program.environments:
                del environment.arrays[unused.name]
            for run in self.runs:
                run.forget(unused.name)
        del self.program.inputs[before[0] :], self.values[before[1] :]
        return False

    def keeps(self, row, drawn):
        operands = {k: v.name for k, v in drawn.items() if isinstance(v, Value)}
        params = {k: v for k, v in drawn.items() if not isinstance(v, Value)}
        if not row.symbolic and any(isinstance(v, Value) and not v.fixed for v in drawn.values()):
            return False
        if row.ties and not self.program.exact and not all(self.tells_apart(v) for v in drawn.values() if isinstance(v, Value)):
            return False
        step = Step(f"v{len(self.program.steps)}", row, operands, params, row.dtype(drawn))
        try:
            arrays = [run.compute(step) for run in dict.fromkeys(self.runs)]
            arrays *= len(self.runs) // len(arrays)
        except (ValueError, IndexError, AssertionError, TypeError, ArithmeticError):
            return False
        count = len(self.program.environments)
        plain, noisy = arrays[:count], arrays[count:]
        if not all(self.sound(step, p, n) for p, n in zip(plain, noisy)) or not self.decided(step, plain):
            return False
        for run, array in zip(self.runs, arrays):
            run.keep(step, array)
        self.program.steps.append(step)
        self.values.append(Value(step.name, step.dtype, plain))
        return True

    def decided(self, step, plain):
        """Whether a result that jumps is the same however its operands are rounded: what is next to an edge falls to either side."""
        jumps = step.row.steps and not (step.row.family == "cast" and dtypes.is_float(step.dtype))
        if self.program.exact or not jumps or not any(dtypes.is_float(self.program.dtype(n)) for n in step.operands.values()):
            return True
        for k in range(DOUBTS):
            for environment, value in zip(self.program.environments, plain):
                run = self.doubts.setdefault((k, id(environment)), evaluate.NumpyRun(self.program, environment, np.random.default_rng(100 + k), LOUD))
                for given in self.program.inputs:
                    run.add_input(given.name)
                try:
                    for s in self.program.steps:
                        if s.name not in run.values:
                            run.keep(s, run.compute(s))
                    if not np.array_equal(run.compute(step), value):
                        return False
                    if step.row.edge and not np.array_equal(run.compute(step, "edge"), self.plain_run(environment).compute(step, "edge")):
                        return False
                except AssertionError:
                    return False
        return True

    def plain_run(self, environment):
        return next(r for r in self.runs if r.environment is environment and r.noise is None)

    @staticmethod
    def tells_apart(value):
        """Whether elements that differ still do when rounded: computed values of the small floats may become equal."""
        return value.dtype not in dtypes.SMALL_FLOATS or all(dtypes.fits(a, value.dtype) for a in value.arrays)

    def sound(self, step, plain, noisy):
        """Whether a comparison of the value will mean something."""
        if plain.size > (HUGE if self.huge else 1 << 20 if self.large else 1 << 15) or plain.ndim > 6 or plain.shape != noisy.shape:
            return False
        if not dtypes.is_float(step.dtype):
            return np.array_equal(plain, noisy)
        if plain.size == 0:
            return True
        if not np.isfinite(plain).all():
            return False
        largest = np.abs(plain).max()
        if self.program.exact:
            return dtypes.fits(plain, step.dtype) and largest <= 1 << 16
        if largest > min(1e4, dtypes.FLOATS[step.dtype][2] / 8):
            return False
        spread = np.abs(plain - noisy)
        return not step.row.steps or bool((spread <= 0.05 * np.abs(plain) + 0.05).all())

    def draw(self):
        rng, program = self.rng, self.program
        self.runs = [evaluate.NumpyRun(program, e) for e in program.environments]
        if program.exact:
            self.runs += self.runs
        else:
            self.runs += [evaluate.NumpyRun(program, e, np.random.default_rng(i)) for i, e in enumerate(program.environments)]
        if self.huge:
            return self.draw_huge()
        length = int(rng.integers(8, 16)) if not self.large else int(rng.integers(4, 9))
        rows = [r for r in ROWS.values() if (r.exact or not program.exact) and (self.symbolic or r.family != "symbolic")]
        families = sorted({r.family for r in rows})
        if self.symbolic:
            self.step(ROWS["slice_by_variable"])
        elif not self.large and not program.exact and rng.random() < 0.3:
            self.draw_extremes()
        elif not self.large and rng.random() < 0.6:
            self.draw_moved_rows(rows)
        weights = np.array([FAMILY_WEIGHTS[f] * (5 if self.large and f == "product" else 1) for f in families])
        tries = 0
        while len(program.steps) < length and tries < 200:
            tries += 1
            self.follow = bool(self.values) and rng.random() < 0.4
            chances = weights * np.array([FOLLOWS.get(f, 1) for f in families]) if self.follow else weights
            family = str(rng.choice(families, p=chances / chances.sum()))
            members = [r for r in rows if r.family == family]
            shares = np.array([r.weight for r in members])
            self.step(members[int(rng.choice(len(members), p=shares / shares.sum()))])
        self.choose_outputs()
        return program.pruned()

    def draw_moved_rows(self, rows):
        """A small array that is moved, and then worked on row by row."""
        sizes = self.rng.choice([1, 2, 3, 4, 8, 5, 7, 9, 16, 17], 2 if self.rng.random() < 0.7 else 3)
        self.leaf(tuple(int(n) for n in sizes), "float32" if self.rng.random() < 0.7 else None)
        family = "norm" if self.rng.random() < 0.6 else str(self.rng.choice(["reduce", "scan"]))
        workers = [r.name for r in rows if r.family == family] or ["sum", "max", "cumsum"]
        for name in (self.rng.choice(MOVES), self.rng.choice(workers)):
            self.follow = True
            self.step(ROWS[str(name)])
        if self.rng.random() < 0.6:  # nothing else reads it: it is a kernel of its own
            del self.values[1:]

    def draw_extremes(self):
        """Values that two kernels may round differently, and the extremes among them: an op that looks for where an extreme
        stood compares it with the values."""
        self.leaf(tuple(int(n) for n in self.rng.choice([3, 5, 7, 8, 16, 37, 70], int(self.rng.integers(1, 4)), p=PLACES)), "float32")
        moved = [str(self.rng.choice(m)) for m in (ROUNDED, ADDED, KEPT) if m is not KEPT or self.rng.random() < 0.4]
        for name in [*moved, str(self.rng.choice(EXTREMES))]:
            self.follow = True
            if not self.step(ROWS[name]):
                return
        self.pairs.add(next(s.name for s in reversed(self.program.steps) if s.row.name in EXTREMES))

    def draw_huge(self):
        """A few walks over one array that is larger than the last cache of most machines."""
        columns = int(self.rng.choice([2048, 4096, 4160]))
        dtype = str(self.rng.choice(["float32", "float32", "bfloat16"]))
        size = 4 if dtype == "float32" else 2
        self.leaf((HUGE // size // columns, columns), dtype)
        for name in ["rows_matmul", *self.rng.permutation(["sum", "max", "matmul_vector", "rows_matmul", "add_number"])[:2]]:
            self.step(ROWS[str(name)])
        self.program.outputs = [s.name for s in self.program.steps]
        return self.program.pruned()

    def choose_outputs(self):
        """What no step reads, and now and then something in between."""
        program, rng = self.program, self.rng
        read = {name for s in program.steps for name in s.operands.values()}
        ends = [s.name for s in program.steps if s.name not in read]
        between = [s.name for s in program.steps if s.name in read and (rng.random() < 0.12 or s.name in self.pairs)]
        if program.mode == "captured":  # a constant, or a view of an argument, is no result of a replay
            fed, made = {i.name for i in program.inputs}, set()
            for s in program.steps:
                reads = set(s.operands.values())
                fed |= {s.name} if reads & fed else set()
                made |= {s.name} if reads & made or (reads & fed and s.row.family not in VIEWS) else set()
            ends, between = [n for n in ends if n in made], [n for n in between if n in made]
        program.outputs = sorted({*ends, *between}, key=lambda n: int(n[1:]))
        if rng.random() < (0.5 if self.large else 0.85):
            floats = [i.name for i in program.inputs if dtypes.is_float(i.dtype)]
            program.wrt = [n for n in floats if rng.random() < 0.9]


def broadcasts(a, b):
    try:
        return all(np.broadcast_shapes(s, t) is not None for s, t in zip(a.shapes, b.shapes)) and a.fixed and b.fixed
    except ValueError:
        return False


def generate(seed):
    """The program of a seed."""
    return Generator(seed).draw()
