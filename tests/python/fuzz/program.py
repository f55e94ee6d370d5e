"""A program as data: inputs, steps and outputs, and its text in each language."""

import dataclasses
import re
from dataclasses import dataclass, field

import numpy as np


class Text(str):
    """A parameter that stands in the text as it is."""

    __repr__ = str.__str__


@dataclass(frozen=True)
class Input:
    """An array the program is given: its dtype; the values are the environments'."""

    name: str
    dtype: str
    constant: object = None  # of a tensor that is made of one number and stored

    def lathe(self, shape):
        if self.constant is None:
            return f"Tensor({self.name}, dtype=dtypes.{self.dtype})"
        return f"Tensor.full({shape}, {self.constant}, dtype=dtypes.{self.dtype}).contiguous()"


@dataclass(frozen=True)
class Step:
    """One op: its row, the names it reads and its parameters."""

    name: str
    row: object
    operands: dict
    params: dict
    dtype: str

    def text(self, language):
        """The statement in one of the row's languages, or None."""
        template = getattr(self.row, language)
        if template is None:
            return None
        words = {**self.operands, **{k: repr(v) for k, v in self.params.items()}, "out": self.name}
        body = re.sub(r"\{(\w+)\}", lambda m: words[m[1]], template)
        return body if "{out}" in template else f"{self.name} = {body}"


@dataclass(frozen=True)
class Variable:
    name: str
    low: int
    high: int


@dataclass
class Environment:
    """What a program is run with: the arrays of its inputs and the values of its variables."""

    arrays: dict
    sizes: dict = field(default_factory=dict)


# When results are computed: all in one, values and then gradients, each on its own, or values before there is a loss.
# What was computed is data for what is read later, which must come out as if nothing had been.
READS = ("together", "values", "each", "before")


@dataclass
class Program:
    seed: int = 0
    exact: bool = False  # all values are whole numbers that their dtypes hold
    mode: str = "gradient"  # gradient, backward, captured
    reads: str = "together"  # a name of READS
    inputs: list = field(default_factory=list)
    variables: list = field(default_factory=list)
    steps: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    wrt: list = field(default_factory=list)  # inputs gradients are taken with respect to
    environments: list = field(default_factory=list)

    def dtype(self, name):
        return next(v.dtype for v in [*self.inputs, *self.steps] if v.name == name)

    def copy(self, **changes):
        return dataclasses.replace(self, **changes)

    def pruned(self):
        """Without steps, inputs and variables that no output needs."""
        needed, steps = set(self.outputs), []
        for step in reversed(self.steps):
            if step.name in needed:
                steps.insert(0, step)
                needed.update(step.operands.values())
        inputs = [i for i in self.inputs if i.name in needed]
        names = [i.name for i in inputs]
        text = " ".join(s.text("lathe") for s in steps)
        variables = [v for v in self.variables if re.search(rf"\b{v.name}\b", text)]
        environments = [
            Environment({n: e.arrays[n] for n in names}, {v.name: e.sizes[v.name] for v in variables}) for e in self.environments
        ]
        return self.copy(
            steps=steps, inputs=inputs, variables=variables, environments=environments, wrt=[n for n in self.wrt if n in needed]
        )

    def differentiable(self):
        """Outputs that gradients can come from."""
        return [n for n in self.outputs if self.dtype(n) in ("float16", "bfloat16", "float32", "float64", "fp8e4m3", "fp8e5m2")]

    def marked(self):
        """Whether inputs say before that they want a gradient: a realized tensor keeps its expression only then."""
        return self.mode == "backward" or self.reads == "before" or any(s.row.name == "realize" for s in self.steps)

    def ops(self):
        return [s.row.name for s in self.steps]


def stripes(shape):
    """Small integers in a pattern that has a name."""
    return (np.arange(int(np.prod(shape, dtype=np.int64))) % 7 - 3).reshape(shape)


def array_text(array):
    """An array as Python text, or None for a long one without a pattern."""
    dtype = f"np.{array.dtype.name.replace('bool', 'bool_')}"
    if array.size > 1 and (array == array.flat[0]).all():
        return f"np.full({array.shape}, {array.flat[0]!s}, {dtype})"
    if array.size > 1 and np.array_equal(array, stripes(array.shape)):
        return f"(np.arange({array.size}) % 7 - 3).reshape({array.shape}).astype({dtype})"
    return f"np.array({array.tolist()!r}, {dtype}).reshape({array.shape})" if array.size <= 512 else None


def summary(array):
    return np.array2string(np.asarray(array), threshold=12, edgeitems=2).replace("\n", "")


def source(program):
    """The function of inputs and variables that Lathe runs, as Python text."""
    arguments = [i.name for i in program.inputs] + [v.name for v in program.variables]
    lines = [f"def program({', '.join([*arguments, 'weights'])}):"]
    lines += [f"    {s.text('lathe')}" for s in program.steps]
    outputs = ", ".join(program.outputs) + ("," if program.outputs else "")
    floats = program.differentiable()
    if program.reads == "before":
        lines += [f"    {n}.realize()" for n in program.outputs]
    if program.wrt and floats:
        terms = " + ".join(f"({n}.float() * weights[{n!r}]).sum()" for n in floats)
        lines.append(f"    loss = {terms}")
        wrt = ", ".join(program.wrt)
        if program.mode == "backward":
            lines.append("    loss.backward()")
            lines.append(f"    return [{outputs}], [t.grad for t in ({wrt},)]")
        else:
            lines.append(f"    return [{outputs}], list(loss.gradient({wrt}))")
    else:
        lines.append(f"    return [{outputs}], []")
    return "\n".join(lines) + "\n"


def reading_text(program):
    """Statements that compute outputs and gradients in the program's order."""
    every = "[*outputs, *[g for g in gradients if g is not None]]"
    if program.reads == "together":
        return [f"Tensor.realize(*{every})"]
    if program.reads == "values":
        return ["Tensor.realize(*outputs)"]
    return [f"for t in {every}:", "    t.realize()"]


def inputs_text(program, environment, finding):
    """Statements that make the inputs as tensors."""
    lines = []
    for i in program.inputs:
        array = environment.arrays[i.name]
        if i.constant is not None:
            text = i.lathe(array.shape)
        else:
            values = array_text(array)
            if values is None:
                values = f"generate({program.seed}).environments[{finding.environment}].arrays[{i.name!r}]"
            text = f"Tensor({values}, dtype=dtypes.{i.dtype})"
        marked = ".requires_grad_()" if program.marked() and i.name in program.wrt else ""
        lines.append(f"    {i.name} = {text}{marked}")
    return lines


def test_text(program, finding):
    """A test that fails as the finding did."""
    environment = program.environments[finding.environment]
    lines = [f"# FUZZ_SEED={program.seed}: {finding.kind} of {finding.name}: {finding.text}"]
    lines += ["held = {}", ""] if any("held" in s.text("lathe") for s in program.steps) else []
    lines += source(program).splitlines()
    lines += ["", f"def test_seed_{program.seed}():"]
    lines += inputs_text(program, environment, finding)
    for v in program.variables:
        lines.append(f"    {v.name} = Variable({v.name!r}, {v.low}, {v.high}).bind({environment.sizes[v.name]})")
    weights = ", ".join(f"{n!r}: {w}" for n, w in finding.weights.items())
    lines.append(f"    weights = {{{weights}}}")
    call = ", ".join([i.name for i in program.inputs] + [v.name for v in program.variables] + ["weights"])
    lines.append(f"    outputs, gradients = program({call})")
    lines += [f"    {line}" for line in reading_text(program)]
    if finding.want is not None:
        index = program.outputs.index(finding.name) if finding.kind != "gradient" else program.wrt.index(finding.name)
        group = "gradients" if finding.kind == "gradient" else "outputs"
        want = np.asarray(finding.want)
        lines.append(f"    # got {summary(finding.got)}")
        lines.append(f"    want = {array_text(want) or summary(want)}")
        lines.append(f"    np.testing.assert_allclose({group}[{index}].numpy(), want, rtol=1e-4, atol=1e-5)")
    return "\n".join(lines) + "\n"
