"""Compares Lathe's results of a program with the evaluators': what differs is a finding."""

import traceback
from dataclasses import dataclass, field

import numpy as np

from fuzz import dtypes
from fuzz.evaluate import NumpyRun, difference, run_lathe, run_torch, torch_ready, weights_of

RUNS = 3  # with noise
SLACK = 12.0  # times what they show
NARROW = ("float16", "fp8e4m3", "fp8e5m2")  # with a largest number that gradients may reach
PLAIN = ("movement", "keep", "write", "index", "binary", "elementwise", "cast", "reduce", "scan", "sort")  # whose gradients have no large factors
PROBED = 64  # elements of a value whose gradients are looked at one by one


@dataclass
class Finding:
    kind: str  # value, gradient, dtype, shape, error, oracle
    name: str
    text: str
    environment: int = 0
    want: object = None
    got: object = None
    weights: dict = field(default_factory=dict)


def spread(plain, noisy, dtype):
    """How far each element may be off, from runs with noise."""
    most = np.zeros(plain.shape)
    for other in noisy:
        most = np.maximum(most, np.abs(other - plain))
    # Noise may be small by chance in all runs, or be rounded away in each; and the evaluator rounds too.
    return SLACK * most + 4 * (most.mean() if most.size else 0) + (4 * dtypes.unit(dtype) * np.abs(plain) if noisy else 0)


def undecided(plain, noisy, _):
    """As spread, of integers and truths: those that rounding changes may be anything."""
    return np.where(np.any([other != plain for other in noisy], axis=0), np.inf, 0.0) if noisy else np.zeros(plain.shape)


def differs(got, want, bound):
    """Where two arrays differ by more than the bound, as text; or None."""
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    with np.errstate(all="ignore"):
        wrong = ~(np.abs(got.astype(np.float64) - want.astype(np.float64)) <= bound) if want.dtype.kind == "f" else (got != want) & np.isfinite(bound)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    allowed = np.broadcast_to(bound, want.shape)[at] if want.dtype.kind == "f" else 0
    return f"{int(wrong.sum())} of {want.size} elements, first at {at}: {got[at]} instead of {want[at]}, may differ by {allowed:.3g}"


def exact_gradients(program):
    """Whether integers are exact on the way back too: small floats may not hold sums of them."""
    return program.exact and not any(v.dtype in dtypes.SMALL_FLOATS for v in [*program.inputs, *program.steps])


def check(program):
    """The first finding of a program, or None."""
    weights = weights_of(program) if program.wrt else {}
    wants = [expected(program, e, weights) for e in program.environments]
    if any(want is None for want in wants):
        return None
    for k, want in enumerate(wants):
        if isinstance(want, Finding):
            want.environment = k
            return want
    try:
        results = run_lathe(program, weights)
    except Exception as error:  # noqa: BLE001: whatever it is, it is a finding
        text = f"{type(error).__name__}: {error}".strip()
        if refusal_is_right(program, weights, wants, text):
            return None
        return Finding("error", program.outputs[0] if program.outputs else "", text, got=traceback.format_exc(), weights=short(weights))
    for k, ((values, bounds, gradients, slack), (outputs, grads)) in enumerate(zip(wants, results)):
        finding = compare(program, program.environments[k], weights, (values, bounds, gradients, slack), outputs, grads)
        if finding is not None:
            finding.environment, finding.weights = k, short(weights)
            return finding
        finding = by_differences(program, program.environments[k], weights, gradients, grads)
        if finding is not None:
            finding.environment, finding.weights = k, short(weights)
            return finding
    return None


def refusal_is_right(program, weights, wants, text):
    """Whether the evaluators too say that there is nothing to compute. What a lost gradient raises reads the same."""
    if "is symbolic where a plain number is needed" in text:
        return bool(program.variables)
    if "computed and returned nothing" in text:
        return not program.outputs
    if "does not depend on any tensor" in text:
        return not any(reaches_loss(program, e, weights, want) for e, want in zip(program.environments, wants))
    if "was written to since it was used" in text:  # a gradient that needs what a write in place replaced
        return "write" in [s.row.family for s in program.steps] and (program.reads == "before" or "realize" in program.ops())
    return False


def reaches_loss(program, environment, weights, want):
    """Whether an input that gradients are wanted of changes the loss: by PyTorch, or where it lacks an op by differences."""
    gradients, slack = want[2], want[3]
    if gradients is not None:
        return any(np.abs(g).max(initial=0) > np.max(s, initial=0) for g, s in zip(gradients, slack))
    reached = set(program.wrt)
    for s in program.steps:
        if dtypes.is_float(s.dtype) and s.row.smooth and not (s.row.steps and s.row.name != "cast"):
            reached |= {s.name} if any(n in reached and dtypes.is_float(program.dtype(n)) for n in s.operands.values()) else set()
    if not reached.intersection(program.differentiable()):
        return False
    directions = [np.random.default_rng(program.seed).uniform(-1, 1, environment.arrays[n].shape) for n in program.wrt]
    return any(difference(program, environment, weights, n, d)[0] != 0 for n, d in zip(program.wrt, directions))


def short(weights):
    return {n: w if isinstance(w, float) else f"Tensor(np.array({w.tolist()}, dtype=np.float32))" if w.size <= 64 else "..." for n, w in weights.items()}


def expected(program, environment, weights):
    """Outputs with their bounds, and gradients with theirs (None where PyTorch lacks an op). None where noise leaves the range of an op."""
    plain = NumpyRun(program, environment).all()
    outputs = [plain[n] for n in program.outputs]
    try:
        noisy = [NumpyRun(program, environment, np.random.default_rng(k)).all() for k in range(0 if program.exact else RUNS)]
    except AssertionError:
        return None
    bounds = []
    for name, value in zip(program.outputs, outputs):
        bounds.append((spread if value.dtype.kind == "f" else undecided)(value, [n[name] for n in noisy], program.dtype(name)))
    part = program if torch_ready(program) else loss_part(program)
    if not torch_ready(part) or not part.outputs:
        return outputs, bounds, None, None
    scale = {n: weights[n] for n in part.differentiable() if n in weights}

    def gradients_of(noise):
        """PyTorch's values and gradients; inputs that no part of the loss reads have none."""
        values, gradients = run_torch(part, environment, scale, noise)
        known = dict(zip(part.wrt, gradients))
        return values, [known.get(n, np.zeros(environment.arrays[n].shape)) for n in program.wrt] if known else []

    try:
        theirs, gradients = gradients_of(None)
    except (RuntimeError, IndexError, NotImplementedError):  # such as a pad of nothing: it has no answer
        return outputs, bounds, None, None
    for name, other in zip(part.outputs, theirs):
        mine, bound = (of[program.outputs.index(name)] for of in (outputs, bounds))
        text = differs(np.asarray(other), mine, bound + 1e-9 * np.abs(mine) + 1e-12)
        if text:
            return Finding("oracle", name, f"PyTorch and numpy differ: {text}")
    if not gradients:
        return outputs, bounds, None, None
    runs = [gradients_of(np.random.default_rng(k))[1] for k in range(0 if exact_gradients(program) else RUNS)]
    # Equal largest elements share a gradient: thirds, in programs of whole numbers.
    slack = [spread(g, [r[i] for r in runs], program.dtype(program.wrt[i])) + 1e-6 * (np.abs(g) + 1 + np.abs(g).max(initial=0)) * program.exact for i, g in enumerate(gradients)]
    if runs or any(s.row.ties for s in program.steps):  # and each is rounded to its input's dtype
        kinds = [program.dtype(n) for n in program.wrt]
        # (parts of an element of the gradient may cancel that are as large as others are)
        sizes = [np.abs(g) + np.abs(g).max(initial=0) for g in gradients]
        # (or that are as large as the weights, such as 1 - tanh(x)**2 of them)
        steepest = max([np.abs(w).max(initial=0) for w in weights.values()], default=0)
        slack = [b + 4 * (dtypes.unit(d) * (size + steepest) + dtypes.tiny(d)) for b, size, d in zip(slack, sizes, kinds)]
        # (or to that of a value on the way, in all runs to the same number)
        slack = [b + 2 * coarsest(part, n) * np.abs(g) for b, g, n in zip(slack, gradients, program.wrt)]
        # (and a sum of equal terms is rounded to the same side at each step)
        terms = [longest_sum(part, environment, n) for n in program.wrt]
        slack = [b + n / 2 * dtypes.unit(dtypes.accumulator(d)) * size for b, n, size, d in zip(slack, terms, sizes, kinds)]
    return outputs, bounds, gradients, slack


def made_of(program, name):
    """The names of an input and of all that is made of it."""
    reached = {name}
    for step in program.steps:
        reached |= {step.name} if reached.intersection(step.operands.values()) else set()
    return reached


def coarsest(program, name):
    """The unit of the dtype with the fewest digits that an input's gradient comes through."""
    known = {v.name: v.dtype for v in [*program.inputs, *program.steps]}
    return max([dtypes.unit(known[n]) for n in made_of(program, name) if dtypes.is_float(known.get(n, ""))], default=0)


def longest_sum(program, environment, name):
    """How many parts an element of an input's gradient may have: as many as there are elements of what is made of it for each of its own."""
    run = NumpyRun(program, environment).all()
    return max(run[n].size for n in made_of(program, name)) / max(environment.arrays[name].size, 1) if name in run else 1


def loss_part(program):
    """What the loss is made of, where inputs that gradients are wanted of reach it: PyTorch may have all of that."""
    reached = set(program.wrt)
    for step in program.steps:
        reached |= {step.name} if reached.intersection(step.operands.values()) else set()
    return program.copy(outputs=[n for n in program.differentiable() if n in reached]).pruned()


def is_beyond(program, environment, weights, name, got, dtype):
    """Whether elements of a gradient that are not finite would be no numbers of its dtype: by differences, a few of them."""
    for at in np.argwhere(~np.isfinite(got))[:3]:
        single = np.zeros(got.shape)
        single[tuple(at)] = 1
        try:
            slope = difference(program, environment, weights, name, single)[0]
        except AssertionError:
            continue
        if not abs(slope) > dtypes.FLOATS[dtype][2] / 4:
            return False
    return True


def may_leave_range(program, environment, weights, name):
    """Whether a part of an input's gradient may be no number of the dtype it is in: by differences the gradient of a value on the way
    is large, or it is not known how large the op's own parts are."""
    values, reached = NumpyRun(program, environment).all(), {name}
    for step in program.steps:
        if not reached.intersection(step.operands.values()):
            continue
        reached.add(step.name)
        narrow = [d for d in map(program.dtype, [step.name, *step.operands.values()]) if d in NARROW]
        if not narrow or not dtypes.is_float(step.dtype):
            continue
        value, most = values[step.name], min(dtypes.FLOATS[d][2] for d in narrow) / 16
        if value.size > PROBED or step.row.family not in PLAIN or np.abs(value).max(initial=0) > most:
            return True
        for at in np.ndindex(value.shape):
            single = np.zeros(value.shape)
            single[at] = 1
            try:
                if not abs(difference(program, environment, weights, step.name, single)[0]) < most:
                    return True
            except AssertionError:
                return True
    return False


def compare(program, environment, weights, want, outputs, grads):
    values, bounds, gradients, slack = want
    for name, value, bound, (dtype, got) in zip(program.outputs, values, bounds, outputs):
        if dtype != program.dtype(name):
            return Finding("dtype", name, f"{dtype} instead of {program.dtype(name)}")
        text = differs(got, value, bound)
        if text:
            return Finding("value", name, text, want=value, got=got)
    for i, (name, grad) in enumerate(zip(program.wrt, grads)):
        if grad is None:
            if gradients is not None and np.abs(gradients[i]).max(initial=0) > np.max(slack[i], initial=0):
                return Finding("gradient", name, "is None", want=gradients[i])
            continue
        dtype, got = grad
        if dtype != program.dtype(name):
            return Finding("gradient", name, f"{dtype} instead of {program.dtype(name)}")
        if gradients is None:
            if np.isfinite(got).all() or is_beyond(program, environment, weights, name, got, dtype):
                continue
            if not may_leave_range(program, environment, weights, name):
                return Finding("gradient", name, "is not finite", got=got)
            continue
        beyond = np.abs(gradients[i]) > dtypes.FLOATS[dtype][2] / 2  # no number of the dtype, or nearly
        if dtype in dtypes.SMALL_FLOATS:  # or its parts are none, where all digits are lost
            beyond |= slack[i] > 4 * np.abs(gradients[i])
        text = differs(np.where(beyond, gradients[i], got) if got.shape == beyond.shape else got, gradients[i], slack[i])
        if text:
            return Finding("gradient", name, text, want=gradients[i], got=got)
    return None


def jumps(program):
    """Whether the loss has steps: somewhere in it a float becomes whole, or a truth."""
    needed = set(program.differentiable())
    for step in reversed(program.steps):
        if step.name in needed:
            needed.update(step.operands.values())
            if step.row.steps and any(dtypes.is_float(program.dtype(n)) for n in step.operands.values()):
                return step.row.name != "cast" or not dtypes.is_float(step.dtype)
    return False


def by_differences(program, environment, weights, gradients, grads):
    """Gradients along a few directions against slopes of the numpy evaluator's loss."""
    if not grads or not all(s.row.smooth for s in program.steps):
        return None
    if program.exact and any(s.row.ties for s in program.steps) or jumps(program):
        return None
    rng = np.random.default_rng(program.seed)
    worst = max([dtypes.unit(v.dtype) for v in [*program.inputs, *program.steps] if dtypes.is_float(v.dtype)], default=0)
    steepest = max([np.abs(w).max(initial=0) for w in weights.values()], default=0)  # parts of a gradient may cancel
    for i, (name, grad) in enumerate(zip(program.wrt, grads)):
        if grad is None or grad[1].size == 0:
            continue
        got = grad[1].astype(np.float64)
        for direction in directions(program, rng, got, gradients is None):
            scale = np.abs(got * direction).sum() + np.abs(got).mean()
            slope, unsure = smooth_slope(program, environment, weights, name, direction, scale)
            if slope is None:
                continue
            if gradients is not None:
                theirs = float((gradients[i] * direction).sum())
                wrong = abs(theirs - slope) > 1e-3 * (np.abs(gradients[i] * direction).sum() + abs(slope)) + 1e-6 + 2 * unsure
                finding = Finding("oracle", name, f"PyTorch's gradient gives the slope {theirs}, differences {slope}")
            else:
                mine = float((got * direction).sum())
                lost = 4 * worst * steepest * np.sqrt(got.size)
                excess = abs(mine - slope) - ((2e-2 + 400 * worst) * (scale + abs(slope)) + 1e-4 + lost + 2 * unsure)
                wrong = excess > 0 and excess > slope_bound(program, environment, weights, name, direction, slope)
                finding = Finding("gradient", name, f"slope {mine} instead of {slope} by differences", want=slope, got=got)
            if wrong:
                others = [rng.uniform(-1, 1, got.shape) for _ in range(3)]
                if any(smooth_slope(program, environment, weights, name, d, scale)[0] is None for d in others):
                    break  # its sides cancelled by chance
                if has_inner_corner(program, environment, name, others[0]):
                    break  # those of two ops cancelled, as in the running minimum of a running maximum of equals
                return finding
    return None


def directions(program, rng, got, alone):
    """Along which slopes are taken; more where nothing else tells."""
    along = [rng.uniform(-1, 1, got.shape)]
    if alone and any(s.row.ties for s in program.steps):  # equal elements show as a corner in all directions together only
        along += [rng.uniform(-1, 1, got.shape) for _ in range(3)]
    elif alone:  # single elements too
        for _ in range(min(6, got.size)):
            single = np.zeros(got.size)
            single[rng.integers(got.size)] = 1
            along.append(single.reshape(got.shape))
    return along


def smooth_slope(program, environment, weights, name, direction, scale):
    """The slope of the loss along a direction and how far it may be off; None at a corner, where it is curved too much to tell, and next
    to a place where it is not defined."""
    try:
        slope, kink = difference(program, environment, weights, name, direction)
    except AssertionError:
        return None, 0.0
    corner = kink > 0.01 * (abs(slope) + 1e-3 * scale) + 1e-6 or not np.isfinite(slope)
    return None if corner else slope, kink


def has_inner_corner(program, environment, name, direction, h=1e-4):
    """Whether an op that chooses among elements stands at equal ones: gradients go to one of them then, or to all."""

    def values(t):
        arrays = {**environment.arrays, name: environment.arrays[name] + t * direction}
        return NumpyRun(program, type(environment)(arrays, environment.sizes), smooth=True).all()

    try:
        left, middle, right = values(-h), values(0.0), values(h)
    except AssertionError:
        return True
    for step in program.steps:
        if step.row.ties and dtypes.is_float(step.dtype):
            a, b, c = left[step.name], middle[step.name], right[step.name]
            moved = np.maximum(np.abs(c - b), np.abs(a - b))
            if (np.abs(c - 2 * b + a) > 0.05 * moved + 1e-3 * h).any():
                return True
    return False


def slope_bound(program, environment, weights, name, direction, slope):
    """How far a slope may be off where each step is rounded: large parts of it may cancel, as in a norm of equal elements."""
    try:
        noisy = [difference(program, environment, weights, name, direction, noise=k)[0] for k in range(RUNS)]
    except AssertionError:
        return np.inf
    return SLACK * max(abs(other - slope) for other in noisy)
