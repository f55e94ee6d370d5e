"""Every method on floats from the smallest number to the largest, infinities, NaN and subnormals: the kernels are
right, so none may differ from REF (LATHE_CHECK=strict makes a difference an error)."""

import numpy as np
import pytest
from test_elementwise import UNARY

from lathe import Context, Tensor, dtypes

FLOATS = {"float64": (-323, 308), "float32": (-45, 38), "float16": (-7, 4), "bfloat16": (-40, 38)}
NAMES = [row[0] for row in UNARY if row[0] != "logical_not"] + ["gelu"]
# The exponents in between, where exponentials overflow and vanish.
ORDINARY = [-709.5, -370.0, -88.8, -40.5, -20.25, -7.5, -1.0, -0.3, 0.5, 1.0, 3.0, 9.5, 33.0, 88.5, 360.0, 709.0]


def numbers(dtype):
    low, high = FLOATS[dtype]
    scales = 10.0 ** np.linspace(low, high, 30)
    return np.concatenate([ORDINARY, 1.2345 * scales, -1.7654 * scales, [0.0, -0.0, np.inf, -np.inf, np.nan]])


def tensor(values, dtype):
    with np.errstate(over="ignore", under="ignore"):
        array = np.asarray(values, "float32" if dtype == "bfloat16" else dtype)
    return Tensor(array).cast(getattr(dtypes, dtype)).realize()


@pytest.fixture(autouse=True)
def every_kernel_is_new():
    with Context(CACHE="off"):
        yield


@pytest.mark.parametrize("dtype", FLOATS)
def test_methods_of_one_tensor_agree_with_ref_at_all_magnitudes(dtype):
    x = tensor(numbers(dtype), dtype)
    for name in NAMES:
        y = getattr(x, name)().realize()
        if y.dtype == x.dtype and name not in ("sign", "floor", "ceil", "trunc", "round"):
            getattr(x, name)().sum().gradient(x)[0].realize()


BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "mod": lambda x, y: x % y,
    "floordiv": lambda x, y: x // y,
    "pow": lambda x, y: x**y,
    "maximum": lambda x, y: x.maximum(y),
    "logaddexp": lambda x, y: x.logaddexp(y),
    "multiply-add": lambda x, y: x * y + y * 3,
    "hypotenuse": lambda x, y: (x * x + y * y).sqrt(),
    "quotient of products": lambda x, y: (x * y).reciprocal() * x / (y + 1),
    "sine of a product": lambda x, y: (x * y).sin() + (x / y).cos(),
    "exponential of a product": lambda x, y: (x * y).exp2() * (y - x).exp(),
}


@pytest.mark.parametrize("dtype", FLOATS)
def test_methods_of_two_tensors_agree_with_ref_at_all_magnitudes(dtype):
    values = numbers(dtype)
    rng = np.random.default_rng(1)
    for shape in (91,), (45, 2), (7, 13):
        x, y = (tensor(rng.choice(values, shape), dtype) for _ in range(2))
        for f in BINARY.values():
            f(x, y).realize()


REDUCES = "sum prod max min mean var std logsumexp softmax log_softmax cumsum cumprod cummax logcumsumexp argmax".split()


@pytest.mark.parametrize("dtype", FLOATS)
def test_reduces_agree_with_ref_at_all_magnitudes(dtype):
    """Their order is the kernel's own, and decides what overflows or vanishes on the way."""
    values = numbers(dtype)
    rng = np.random.default_rng(2)
    for width in (3, 8, 17, 33):
        for kind, choice in enumerate((values, values[np.isfinite(values)])):
            x = tensor(rng.choice(choice, (37 + kind, width)), dtype)
            for name in REDUCES:
                out = getattr(x, name)(1)
                Tensor.realize(*(out if isinstance(out, tuple) else (out,)))
            (x @ tensor(rng.choice(choice, (width, 20)), dtype)).realize()


def test_float64_activations_far_below_zero_are_no_false_alarm():
    x = Tensor(np.linspace(-700, 10, 61))
    for name in "sigmoid", "silu", "gelu", "quick_gelu", "mish", "tanh", "softplus":
        assert np.isfinite(getattr(x, name)().numpy()).all()
    assert np.isfinite(Tensor(np.linspace(-30, -10, 59)).gelu().numpy()).all()


def test_a_product_that_overflows_in_one_order_only_is_no_false_alarm():
    row = [1e30, 1e30, 1e-30, 1e-30, 1e-30, 1, 1, 1]
    x = Tensor([row] * 9, dtype=dtypes.float32)
    x.prod(1).realize()


def test_layernorm_of_half_squares_nothing_out_of_range():
    x = np.array([[-13.97, -221.1], [569.5, 3184.0]])
    got = Tensor(x, dtype=dtypes.float16).layernorm(0)
    assert got.dtype == dtypes.float16
    np.testing.assert_allclose(got.float().numpy(), [[-1.0, -1.0], [1.0, 1.0]], atol=1e-3)
    half = Tensor(x, dtype=dtypes.float16)
    np.testing.assert_allclose(half.std(0).float().numpy(), x.std(0, ddof=1), rtol=2e-3)
    np.testing.assert_allclose(half.normalize().float().numpy(), x / np.linalg.norm(x, axis=1, keepdims=True), rtol=2e-3)
    np.testing.assert_allclose(half.norm().item(), np.linalg.norm(x), rtol=2e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "fp8e5m2"])
def test_gradients_of_broadcast_operands_are_summed_in_32_bits(dtype):
    count = 3000 if dtype != "fp8e5m2" else 40
    one = Tensor(np.ones((1, 1, 3)), dtype=getattr(dtypes, dtype))
    for shape in [(count, 1, 3), (1, count, 3), (count // 20, 20, 3)]:
        other = Tensor(np.ones(shape), dtype=one.dtype)
        for result in [one.expand(shape), one + other, one * other, one.maximum(other * 0), one.repeat(shape[0], shape[1], 1), one - other * 0]:
            grad = result.float().sum().gradient(one)[0]
            want = Tensor([float(count)], dtype=one.dtype).float().item()
            assert grad.float().numpy().ravel().tolist() == [want] * 3
    x = Tensor(np.eye(1, count)[0], dtype=one.dtype)  # every running maximum is the first element
    assert x.cummax(0)[0].float().sum().gradient(x)[0].float().numpy().max() == Tensor([float(count)], dtype=one.dtype).float().item()
