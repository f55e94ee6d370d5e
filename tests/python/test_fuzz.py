"""Random programs with fixed seeds, and that the fuzzer sees what is planted."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fuzz import compare
from fuzz.evaluate import NumpyRun
from fuzz.generate import ROWS, generate
from fuzz.program import Environment, Input, Program, Step
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


def program_of(arrays, *steps, dtype="float32", **words):
    """Ops one after the other, each of the last result: its name, other operands, parameters and dtype."""
    program, last = Program(inputs=[Input(n, dtype) for n in arrays], environments=[Environment(arrays)], **words), next(iter(arrays))
    for k, (op, operands, params, *to) in enumerate(steps):
        program.steps.append(Step(f"v{k}", ROWS[op], {"x": last, **operands}, params, *to or [dtype]))
        last = f"v{k}"
    program.outputs = [last]
    return program


UNDEFINED = {
    "the sign of a zero": program_of(
        {"a0": np.array([[-3.0]]), "a1": np.array([[1.0, 0.0]])},
        ("matmul", {"y": "a1"}, {}),
        ("bitcast", {}, {"source": "float32", "target": "uint32"}, "uint32"),
        exact=True,
    ),
    "infinity times zero": program_of({"a0": np.array([1e20, 0.0, 1e20])}, ("prod", {}, {"axis": 0}), exact=True),
    "a running infinity times zero": program_of({"a0": np.array([300.0, 0.0, 300.0])}, ("cumprod", {}, {"axis": 0}), dtype="float16", exact=True),
    "a sum of what was rounded": program_of(
        {"a0": np.array([[3.0]]), "a1": np.array([[3.0]]), "a2": np.array([1.0])}, ("linear", {"y": "a1", "b": "a2"}, {}), dtype="fp8e5m2", exact=True
    ),
    "a square beyond its dtype": program_of({"a0": np.array([1040.0])}, ("rsqrt", {}, {}), dtype="float16"),
    "a product beyond its dtype": program_of({"a0": np.array([3.0]), "a1": np.array([192.0])}, ("mul", {"y": "a1"}, {}), dtype="fp8e4m3", exact=True),
    "the slope of a corner": program_of({"a0": np.array([0.0, 1.0])}, ("leaky_relu", {}, {})),
}


@pytest.mark.parametrize("what", UNDEFINED)
def test_programs_whose_answer_is_not_defined_are_not_drawn(what):
    with pytest.raises(AssertionError):
        NumpyRun(UNDEFINED[what], UNDEFINED[what].environments[0]).all()


def test_a_zero_that_was_only_moved_has_its_sign():
    flipped = program_of({"a0": np.array([0.0, 1.0])}, ("flip", {}, {"axes": (0,)}), ("bitcast", {}, {"source": "float32", "target": "uint32"}, "uint32"))
    assert NumpyRun(flipped, flipped.environments[0]).all()["v1"].tolist() == [0x3F800000, 0]


def test_partial_sums_are_rounded():
    """So that a running sum that comes back to zero does so roughly."""
    values = np.concatenate([np.full(100, 0.7), np.full(100, -0.7)])
    program = program_of({"a0": values}, ("cumsum", {}, {"axis": 0}))
    assert compare.expected(program, program.environments[0], {})[1][0][-1] > 3e-5


def test_the_slope_of_a_tanh_has_few_digits_far_out():
    program = program_of({"a0": np.array([4.9, 0.1])}, ("tanh", {}, {}), wrt=["a0"])
    slack = compare.expected(program, program.environments[0], {"v0": np.ones(2)})[3][0]
    assert slack[0] > 1e-7


def test_elements_that_share_a_mean_share_its_error():
    """They add up to nothing but it."""
    values = np.where(np.arange(37) < 36, -1.6872276067733765, -1.8832296133041382)
    program = program_of({"a0": values}, ("layernorm", {}, {"axis": 0}), ("sum", {}, {"axis": 0, "keep": False}), ("square", {}, {}))
    assert compare.expected(program, program.environments[0], {})[1][0] > 1e-8


def test_what_jumps_is_not_next_to_an_edge():
    """Comparisons and positions come out the same however what they read was rounded."""
    seen = Counter()
    for seed in range(5000, 5150):
        program = generate(seed)
        if program.exact or not any(s.row.steps for s in program.steps):
            continue
        plain = NumpyRun(program, program.environments[0]).all()
        noisy = [NumpyRun(program, program.environments[0], np.random.default_rng(500 + k)).all() for k in range(4)]
        for s in program.steps:
            if s.row.steps and s.row.family != "cast":
                seen[all(np.array_equal(plain[s.name], other[s.name]) for other in noisy)] += 1
    assert seen[True] > 40 and seen[False] == 0, seen


def test_a_corner_is_not_judged_by_differences():
    """Where equal elements are sorted; its sides may cancel along one direction."""
    weights = np.array([[0.0, 1.0, -2.0], [0.0, 2.0, 0.0], [1.0, -2.0, 0.0]])
    judged = Counter()
    for seed in range(300):
        program = program_of({"a0": np.full((3, 3), 0.25)}, ("sort", {}, {"axis": 0, "down": True}), seed=seed, wrt=["a0"])
        grads = [("float32", weights)]  # of one order of the equals
        found = compare.by_differences(program, program.environments[0], {"v0": weights}, [weights], grads)
        judged[found is not None] += 1
    assert judged[True] == 0, judged


def test_corners_of_two_ops_that_cancel_are_corners():
    """The running minimum of a running maximum is the first element, along whatever direction."""
    weights, grads = np.ones((5,)), [("float32", np.array([0.0, 0.0, 0.0, 0.0, 5.0]))]  # of one order of the equals
    program = program_of({"a0": np.full(5, 0.25)}, ("cummax", {}, {"axis": 0}), ("cummin", {}, {"axis": 0}), wrt=["a0"])
    assert compare.by_differences(program, program.environments[0], {"v1": weights}, [grads[0][1]], grads) is None


def test_parts_of_a_gradient_that_cancel_leave_their_rounding():
    rows = np.repeat(np.arange(32.0)[:, None] % 7 - 3, 3, 1)
    program = program_of({"a0": rows, "a1": np.ones((32, 1))}, ("mul", {"y": "a1"}, {}), ("layernorm", {}, {"axis": 1}), wrt=["a1"])
    weights = {"v1": (np.arange(96.0) % 5 - 2).reshape(32, 3)}
    rounding, wrong = np.full((32, 1), -6e-5), np.full((32, 1), 0.5)
    for got, found in ((rounding, False), (wrong, True)):
        assert (compare.by_differences(program, program.environments[0], weights, None, [("float32", got)]) is not None) == found


def test_pytorch_judges_a_loss_whatever_else_a_program_computes():
    program = program_of({"a0": np.arange(3.0)}, ("square", {}, {}), wrt=["a0"])
    program.inputs.append(Input("a1", "uint32"))
    program.environments[0].arrays["a1"] = np.arange(3, dtype=np.uint32)
    program.steps.append(Step("v1", ROWS["add"], {"x": "a1", "y": "a1"}, {}, "uint32"))
    program.outputs.append("v1")
    gradients = compare.expected(program, program.environments[0], {"v0": np.ones(3)})[2]
    assert gradients[0].tolist() == [0.0, 2.0, 4.0]


def test_a_long_sum_of_equal_terms_drifts():
    """One after the other in float32, and the gradient of what was expanded to as many."""
    terms = np.full((2590, 1), 1 / 70)
    total = np.float32(0)
    for t in terms[:, 0].astype(np.float32):
        total += t
    off = abs(float(total) - 37)
    assert off > 1e-4
    program = program_of({"a0": terms}, ("sum", {}, {"axis": 0, "keep": False}))
    assert off < compare.expected(program, program.environments[0], {})[1][0][0] < 0.01
    program = program_of({"a0": np.full((1, 1), 0.5)}, ("expand", {}, {"shape": (2590, 1)}), ("mul_number", {}, {"c": 1 / 70}), wrt=["a0"])
    assert off < compare.expected(program, program.environments[0], {"v1": np.ones((2590, 1))})[3][0] < 0.01


def test_a_gradient_of_half_that_is_not_finite_is_a_finding_where_no_part_of_it_is_large():
    """Also where PyTorch lacks an op, and differences alone tell."""
    judged = {}
    for size in (1.0, 40000.0):
        program = program_of({"a0": np.array([1.0, 2.0])}, ("mul_number", {}, {"c": 1 / size}), ("mul_number", {}, {"c": size}), dtype="float16", wrt=["a0"])
        want = ([np.array([1.0, 2.0])], [np.zeros(2)], None, None)
        outputs, grads = [("float16", np.array([1.0, 2.0]))], [("float16", np.array([1.0, np.nan]))]
        judged[size] = compare.compare(program, program.environments[0], {"v1": np.ones(2)}, want, outputs, grads) is not None
    assert judged == {1.0: True, 40000.0: False}
