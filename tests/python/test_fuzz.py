"""Random programs with fixed seeds, and that the fuzzer sees what is planted."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fuzz import compare
from fuzz.generate import ROWS, generate
from fuzz.program import test_text as text_of_test
from fuzz.shrink import shrink

PROGRAMS = 300


def test_random_programs_compute_what_they_say():
    command = [sys.executable, "-W", "ignore", "-m", "fuzz", "--programs", str(PROGRAMS), "--first", "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_programs_are_long_and_every_op_is_drawn():
    lengths, ops = [], Counter()
    for seed in range(5000, 5400):
        program = generate(seed)
        lengths.append(len(program.steps))
        ops.update(program.ops())
    assert np.median(lengths) >= 8
    assert len(ops) > 0.95 * len(ROWS), set(ROWS) - set(ops)


def test_a_program_is_the_same_for_its_seed():
    for seed in (3, 11, 42):
        one, two = generate(seed), generate(seed)
        assert one.ops() == two.ops() and one.outputs == two.outputs
        for a, b in zip(one.environments, two.environments):
            assert a.sizes == b.sizes and all(np.array_equal(a.arrays[n], b.arrays[n]) for n in a.arrays)


@pytest.mark.parametrize("op", ["permute", "sum", "conv2d"])
def test_a_planted_fault_is_found_and_made_small(op, monkeypatch):
    """Results of programs with the op are off in one element: a program of few steps is left."""
    honest = compare.run_lathe

    def planted(program, weights):
        results = honest(program, weights)
        if op not in program.ops():
            return results
        changed = []
        for outputs, gradients in results:
            spoiled = []
            for name, (dtype, array) in zip(program.outputs, outputs):
                array = np.array(array)
                if array.size and array.dtype != bool and any(s.name == name and s.row.name == op for s in program.steps):
                    array.reshape(-1)[-1] += 1
                spoiled.append((dtype, array))
            changed.append((spoiled, gradients))
        return changed

    monkeypatch.setattr(compare, "run_lathe", planted)
    for seed in range(1, 400):
        program = generate(seed)
        if op not in program.ops() or program.variables:
            continue
        finding = compare.check(program)
        if finding is None:  # the value is not an output
            continue
        small, finding = shrink(program, finding, seconds=20)
        assert small.ops() == [op]
        assert f"test_seed_{seed}" in text_of_test(small, finding)
        return
    pytest.fail("no program has it as an output")


def raising(text):
    def run(program, weights):
        raise RuntimeError(text)

    return run


def test_a_refusal_is_a_finding_where_an_input_reaches_the_loss(monkeypatch):
    """A lost gradient says what a loss of constants says."""
    monkeypatch.setattr(compare, "run_lathe", raising("the loss does not depend on any tensor that requires a gradient"))
    findings = Counter()
    for seed in range(1, 60):
        program = generate(seed)
        if not program.variables and not program.exact and program.wrt and program.differentiable():
            findings[compare.check(program) is not None] += 1
    assert findings[True] > 10, findings
    assert compare.check(generate(3).copy(wrt=[])) is None


def test_a_result_of_a_capture_that_depends_on_arguments_was_not_computed_before(monkeypatch):
    monkeypatch.setattr(compare, "run_lathe", raising("output 0 was computed before the call"))
    seeds = [s for s in range(1, 200) if generate(s).mode == "captured"]
    assert sum(compare.check(generate(s)) is not None for s in seeds[:12]) > 8


def test_positions_are_read_after_the_values_they_were_found_at():
    """And values before gradients in every mode."""
    pairs, reads = Counter(), set()
    for seed in range(5000, 5400):
        program = generate(seed)
        reads.add((program.mode, program.reads))
        at = {s.name: s for s in program.steps if s.name in program.outputs}
        for one, two in zip(program.outputs, program.outputs[1:]):
            if at[one].row.then == at[two].row.name and at[one].operands == at[two].operands:
                pairs[at[two].row.name] += 1
    assert set(pairs) == {row.then for row in ROWS.values() if row.then}, pairs
    orders = ("together", "values", "each")
    assert reads == {(m, r) for m in ("gradient", "backward", "captured") for r in orders} | {("gradient", "before"), ("backward", "before")}
