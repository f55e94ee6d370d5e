"""Computes programs: with numpy and PyTorch in float64, with and without rounding, and with Lathe.

Rounding is played by noise: each computed float gets a random relative error of its dtype's size, and sums get one in each
term. Several such runs show how far a right result may be off.
"""

import numpy as np

from fuzz import dtypes, numpy_words
from fuzz.program import source

NUMPY_WORDS = {**vars(np), **{k: v for k, v in vars(numpy_words).items() if not k.startswith("_")}, "np": np}
for taken in ("any", "all", "sum", "max", "min", "abs", "round", "int", "bool", "float"):
    NUMPY_WORDS.pop(taken, None)  # Python's own
CODE = {}


def compiled(text):
    if text not in CODE:
        if len(CODE) > 20000:
            CODE.clear()
        CODE[text] = compile(text, "<program>", "exec")
    return CODE[text]


class NumpyRun:
    """The values of a program under one environment; with a generator, rounding is played by noise, some times as loud. Results are
    numbers of their dtypes then, unless what is computed has to be smooth."""

    def __init__(self, program, environment, noise=None, loud=1.0, smooth=False, nudges=None):
        self.program, self.environment, self.noise, self.loud, self.smooth = program, environment, noise, loud, smooth
        self.nudges = nudges or {}  # what is added to an input or to the value of a step
        self.values = {}
        self.dtypes = {}
        self.unsigned = set()  # whose zeros may have either sign
        for i in program.inputs:
            self.add_input(i.name)

    def add_input(self, name):
        self.values[name] = self.environment.arrays[name] + self.nudges[name] if name in self.nudges else self.environment.arrays[name]
        self.dtypes[name] = next(i.dtype for i in self.program.inputs if i.name == name)

    def forget(self, name):
        self.values.pop(name, None)

    def noisy(self, values, dtype, relative, least=0):
        """A factor for each element: with a value's sign the error changes its own, so that slopes are off by as much as values."""
        size = np.copysign(np.maximum(np.abs(values), least) * relative * self.loud + 4 * dtypes.tiny(dtype), values)
        values = np.where(np.abs(values) <= 2 * dtypes.tiny(dtype), 0, values)  # underflow
        return np.where(values == 0, values, values + size * self.noise.uniform(-1, 1, np.shape(values)))

    def compute(self, step, language="numpy"):
        row = step.row
        names = dict(self.environment.sizes)
        for name in step.operands.values():
            value = self.values[name]
            if row.lift:
                value = self.lifted(value, self.dtypes[name], self.meeting(step))
            if self.noise is not None and not self.program.exact and row.sums and dtypes.is_float(self.dtypes[name]):
                value = self.noisy(value, dtypes.accumulator(self.dtypes[name]), row.term_error(self.dtypes[name]))
            assert not (row.signs and name in self.unsigned) or (value != 0).all()
            names[name] = value
        if dtypes.is_float(step.dtype):
            names["limits"] = dtypes.limits(step.dtype)
        names["kept"] = self.kept(step.dtype)
        with np.errstate(all="ignore"):
            exec(compiled(step.text(language)), NUMPY_WORDS, names)
        if language != "numpy":
            return names[step.name]
        value = np.asarray(names[step.name])
        value = value.astype(dtypes.storage(step.dtype))
        self.check_range(value, step.dtype)
        if self.noise is not None and not self.program.exact and row.rounds and dtypes.is_float(step.dtype):
            value = self.noisy(value, step.dtype, row.error(step.dtype) + self.drift(step, value), 1 if row.absolute else 0)
            if step.dtype in dtypes.SMALL_FLOATS and not self.smooth:
                value = dtypes.rounded(value, step.dtype)
        return value

    def drift(self, step, result):
        """A sum of equal terms is rounded to the same side at each step."""
        if not step.row.sums or result.size == 0:
            return 0
        terms = max(self.values[n].size for n in step.operands.values()) / result.size
        return terms / 16 * dtypes.unit(dtypes.accumulator(step.dtype))

    def check_range(self, values, dtype):
        """What a dtype has no number for has no one answer."""
        if dtypes.is_float(dtype) and not self.smooth:
            assert dtypes.fits(values, dtype) if self.program.exact else (np.abs(values) <= dtypes.FLOATS[dtype][2] / 2).all()

    def kept(self, dtype):
        """How a value inside an op is rounded."""

        def word(values, size=None, wide=False):
            self.check_range(values, dtype)
            if self.noise is None or self.program.exact:
                return values
            unit = dtypes.unit(dtypes.accumulator(dtype) if wide else dtype)
            size = (values if size is None else size) * 2 * unit * self.loud
            return values + size * self.noise.uniform(-1, 1, np.shape(values))

        return word

    def meeting(self, step):
        """The dtype an op brings its operands to."""
        if step.dtype != "bool":
            return step.dtype
        both = [self.dtypes[n] for n in step.operands.values()]
        return dtypes.common(both[0], both[-1])

    def lifted(self, value, source, target):
        if source == "bool" or source == target:
            return value
        if not dtypes.is_float(target):
            return value.astype(target)
        self.check_range(value, target)
        value = value.astype(np.float64)  # numpy may take uint64 and a number of int32 for whole numbers
        return value if self.noise is None else self.noisy(value, target, dtypes.unit(target))

    def keep(self, step, value):
        self.values[step.name] = value + self.nudges[step.name] if step.name in self.nudges else value
        self.dtypes[step.name] = step.dtype
        if not step.row.moves or self.unsigned.intersection(step.operands.values()):
            self.unsigned.add(step.name)

    def all(self):
        """Computes every step."""
        for step in self.program.steps:
            self.keep(step, self.compute(step))
        return self.values


def weights_of(program):
    """What outputs are weighted with in the loss: small integers, one for each element where sizes are fixed."""
    run = NumpyRun(program, program.environments[0])
    values = run.all()
    weights = {}
    for k, name in enumerate(program.differentiable()):
        if program.variables:
            weights[name] = float(k % 3 + 1)
        else:
            shape = values[name].shape
            count = int(np.prod(shape, dtype=np.int64))
            weights[name] = ((np.arange(count) * 7 + k) % 5 - 2 + (np.arange(count) % 5 == 0)).astype(np.float64).reshape(shape)
    return weights


def loss_of(program, values, weights):
    return sum(float((values[n] * w).sum()) for n, w in weights.items())


# ---- PyTorch


def torch_ready(program):
    """Whether PyTorch has all dtypes and ops of the program."""
    names = [*program.inputs, *program.steps]
    return all(v.dtype in dtypes.TORCH_KNOWS for v in names) and all(s.row.torch is not None for s in program.steps)


def run_torch(program, environment, weights, noise=None):
    """Values of the outputs and gradients; noise also in what flows back."""
    import torch

    from fuzz import torch_words

    words = {**{k: v for k, v in vars(torch_words).items() if not k.startswith("_")}, "torch": torch}
    names = dict(environment.sizes)
    kind = {v.name: v.dtype for v in [*program.inputs, *program.steps]}

    def factor(t, unit):
        return 1 + unit * torch.from_numpy(np.asarray(noise.uniform(-1, 1, tuple(t.shape))))

    def kept(t, size=None):
        return t if noise is None or program.exact else t * factor(t, 2 * dtypes.unit(step.dtype))

    words["kept"] = kept
    seen = set()

    def watch(t, dtype):
        """Noise in the gradient of everything between what is known and this value."""
        if noise is None or not t.requires_grad or (program.exact and dtype not in dtypes.SMALL_FLOATS):
            return
        unit = 4 * dtypes.unit(dtype)

        def hook(inputs, outputs):
            return tuple(None if g is None else g * factor(g, unit) for g in inputs)

        stack = [t.grad_fn]
        while stack:
            node = stack.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if node.name() != "torch::autograd::AccumulateGrad":
                node.register_hook(hook)
                stack += [n for n, _ in node.next_functions]

    for i in program.inputs:
        names[i.name] = torch.tensor(environment.arrays[i.name], dtype=torch_words.dtype_of(i.dtype))
        if i.name in program.wrt:
            names[i.name].requires_grad_()
    for step in program.steps:
        kept = {}
        for name in step.operands.values():
            value = names[name]
            if step.row.lift and step.dtype != "bool" and value.dtype != torch.bool:
                value = value.to(torch_words.dtype_of(step.dtype))
            if noise is not None and not program.exact and step.row.sums and dtypes.is_float(kind[name]):
                value = value * factor(value, step.row.term_error(kind[name]))
            kept[name] = names[name]
            names[name] = value
        exec(compiled(step.text("torch")), words, names)
        out = names[step.name]
        names.update(kept)
        if dtypes.is_float(step.dtype):
            out = out.to(torch.float64)
            if noise is not None and not program.exact and step.row.rounds:
                out = out * factor(out, step.row.error(step.dtype))
            watch(out, step.dtype)
        else:
            out = out.to(torch_words.dtype_of(step.dtype))
        names[step.name] = out
    outputs = [names[n].detach().numpy() for n in program.outputs]
    if not weights or not program.wrt:
        return outputs, []
    loss = sum((names[n] * torch.as_tensor(w)).sum() for n, w in weights.items())
    wrt = [names[n] for n in program.wrt]
    if not loss.requires_grad:
        return outputs, [np.zeros(tuple(t.shape)) for t in wrt]
    grads = torch.autograd.grad(loss, wrt, allow_unused=True)
    return outputs, [np.zeros(tuple(t.shape)) if g is None else g.numpy() for t, g in zip(wrt, grads)]


# ---- differences


def difference(program, environment, weights, name, direction, h=1e-4, noise=None):
    """The slope of the loss along a direction of one input, or of the value of one step, and how far it is from those to both sides
    and nearby. With the seed of a noise, that of a program whose steps are each off by constant factors."""

    def loss(t):
        errors = None if noise is None else np.random.default_rng(noise)
        return loss_of(program, NumpyRun(program, environment, errors, smooth=True, nudges={name: t * direction}).all(), weights)

    middle, left, right = loss(0.0), loss(-h), loss(h)
    slope, near = (right - left) / (2 * h), (loss(h / 4) - loss(-h / 4)) / (h / 2)
    return slope, max(abs(right - 2 * middle + left) / h, abs(slope - near))


# ---- Lathe


def as_numpy(tensor):
    from lathe import dtypes as lathe_dtypes

    if tensor.dtype.name in dtypes.SMALL_FLOATS:
        tensor = tensor.cast(lathe_dtypes.float64)
    return tensor.numpy()


def function_of(program, weights):
    """The program as a Python function of tensors and variables, and the weights as tensors."""
    import lathe
    from lathe import Tensor

    words = {"Tensor": Tensor, "dtypes": lathe.dtypes, "np": np, "held": {}, "no_grad": lathe.no_grad}
    exec(compiled(source(program)), words)
    scale = {n: w if isinstance(w, float) else Tensor(w.astype(np.float32)) for n, w in weights.items()}
    for w in scale.values():
        if isinstance(w, Tensor):
            w.realize()
    return words["program"], scale


def tensors_of(program, environment):
    """The arguments of the program: its inputs as tensors, its variables with their values."""
    import lathe
    from lathe import Tensor

    tensors = []
    for i in program.inputs:
        array, dtype = np.asarray(environment.arrays[i.name]), getattr(lathe.dtypes, i.dtype)
        if i.constant is not None:
            t = Tensor.full(array.shape, i.constant, dtype=dtype).contiguous()
        else:
            t = Tensor(array.astype(np.float32) if i.dtype in dtypes.FLOATS and i.dtype != "float64" else array, dtype=dtype)
        if program.marked() and i.name in program.wrt:
            t.requires_grad_()
        tensors.append(t)
    return tensors, [lathe.Variable(v.name, v.low, v.high).bind(environment.sizes[v.name]) for v in program.variables]


def realize(tensors):
    tensors = [t for t in tensors if t is not None]
    if tensors:
        tensors[0].realize(*tensors[1:])


def realize_in_order(program, outputs, gradients):
    """Computes the results in the order the program says."""
    every = [*outputs, *gradients]
    groups = {"together": [every], "values": [outputs, gradients]}.get(program.reads, [[t] for t in every])
    for group in groups:
        realize(group)


def kernels_of(program, weights):
    """What Lathe would run."""
    function, scale = function_of(program, weights)
    tensors, sizes = tensors_of(program, program.environments[0])
    outputs, gradients = function(*tensors, *sizes, scale)
    every = [t for t in [*outputs, *gradients] if t is not None]
    return every[0].schedule(*every[1:]) if every else []


def run_lathe(program, weights):
    """For each environment the outputs and gradients, as (dtype, array) pairs."""
    from lathe import TinyJit

    function, scale = function_of(program, weights)

    def read(pair):
        outputs, gradients = pair
        if program.mode != "captured":
            realize_in_order(program, outputs, gradients)
        return [(t.dtype.name, as_numpy(t)) for t in outputs], [None if g is None else (g.dtype.name, as_numpy(g)) for g in gradients]

    def call(environment, function):
        tensors, sizes = tensors_of(program, environment)
        if program.mode == "captured":
            realize(tensors)
        return function(*tensors, *sizes)

    def plain(*arguments):
        outputs, gradients = function(*arguments, scale)
        if program.mode == "captured":
            realize_in_order(program, outputs, gradients)
        return outputs, gradients

    if program.mode != "captured":
        return [read(call(e, plain)) for e in program.environments]
    captured, count = TinyJit(plain), len(program.environments)
    results = [None] * count
    for k in range(max(4, 2 * count)):  # the second call records, later ones replay
        results[k % count] = read(call(program.environments[k % count], captured))
    return results
