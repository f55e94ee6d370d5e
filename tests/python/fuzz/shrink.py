"""Makes a finding small: fewer outputs, fewer steps, plain values, as long as it stays a finding of its kind."""

import time

import numpy as np

from fuzz import dtypes
from fuzz.compare import check
from fuzz.evaluate import NumpyRun
from fuzz.program import Environment, Input, stripes


def signature(finding):
    """What must stay the same: an error its type, a wrong result that it is one."""
    return finding.text.split(":")[0] if finding.kind == "error" else "wrong" if finding.kind in ("value", "gradient") else finding.kind


def smaller(program):
    """Programs a little smaller than this one, those that save most first."""
    if len(program.environments) > 1:
        for i in range(len(program.environments)):
            kept = program.environments[:i] + program.environments[i + 1 :]
            yield program.copy(environments=kept)
    if program.mode != "gradient":
        yield program.copy(mode="gradient")
    if program.reads != "each":
        yield program.copy(reads="each")
    for name in program.outputs:
        if len(program.outputs) > 1:
            yield program.copy(outputs=[name]).pruned()
            yield program.copy(outputs=[n for n in program.outputs if n != name]).pruned()
    if program.wrt:
        yield program.copy(wrt=[])
        for name in program.wrt:
            if len(program.wrt) > 1:
                yield program.copy(wrt=[name])
    for step in program.steps:
        if step.name in program.outputs:
            for name in step.operands.values():  # what it reads instead of it
                if name.startswith("v") and name not in program.outputs:
                    yield program.copy(outputs=[name if n == step.name else n for n in program.outputs]).pruned()
    for step in reversed(program.steps):
        if step.name not in program.outputs:
            yield cut(program, step)
    for step in program.steps:
        for name in step.operands.values():
            if program.dtype(name) == step.dtype and step.name not in program.outputs:
                yield replaced(program, step, name)
    ties = not program.exact and any(s.row.ties for s in program.steps)
    for i in program.inputs:
        if i.constant is None and dtypes.is_float(i.dtype) and not ties:
            yield simple(program, i, lambda shape: np.ones(shape))
            yield simple(program, i, lambda shape: stripes(shape).astype(np.float64))


def cut(program, step):
    """The step's value becomes an input."""
    name = "a" + str(100 + int(step.name[1:]))
    environments = []
    for e in program.environments:
        value = NumpyRun(program, e).all()[step.name]
        value = dtypes.rounded(value, step.dtype) if dtypes.is_float(step.dtype) else value
        environments.append(Environment({**e.arrays, name: np.array(value)}, e.sizes))
    if len({e.arrays[name].shape for e in environments}) > 1:
        return program
    steps = [renamed(s, step.name, name) for s in program.steps if s is not step]
    wrt = [*program.wrt, name] if program.wrt and dtypes.is_float(step.dtype) else program.wrt
    return program.copy(inputs=[*program.inputs, Input(name, step.dtype)], steps=steps, environments=environments, wrt=wrt).pruned()


def renamed(step, old, new):
    operands = {k: new if v == old else v for k, v in step.operands.items()}
    return type(step)(step.name, step.row, operands, step.params, step.dtype)


def replaced(program, step, name):
    """What reads the step's value reads its operand instead."""
    return program.copy(steps=[renamed(s, step.name, name) for s in program.steps if s is not step]).pruned()


def simple(program, given, values):
    """An input with values that are quickly written down."""
    environments = [Environment({**e.arrays, given.name: values(e.arrays[given.name].shape)}, e.sizes) for e in program.environments]
    return program.copy(environments=environments)


def measure(program):
    arrays = [a for e in program.environments for a in e.arrays.values()]
    plain = sum(2 if (a == 1).all() else int(np.array_equal(a, stripes(a.shape))) for a in arrays)
    sizes = sum(a.size for a in arrays)
    return len(program.steps), len(program.outputs), len(program.wrt), len(program.environments), program.mode != "gradient", program.reads != "each", sizes, -plain


def shrink(program, finding, seconds=60):
    """The smallest program found in the time, with its finding."""
    deadline = time.monotonic() + seconds
    wanted = signature(finding)
    changed = True
    while changed and time.monotonic() < deadline:
        changed = False
        for candidate in smaller(program):
            if time.monotonic() > deadline:
                break
            if not candidate.outputs or measure(candidate) >= measure(program):
                continue
            try:
                found = check(candidate)
            except Exception:  # noqa: BLE001: no program any more
                continue
            if found is not None and signature(found) == wanted:
                program, finding, changed = candidate, found, True
                break
    return program, finding
