"""Functions near zero, far out and at the edges, against numpy in long double: the bounds of docs/numerics.md, in units of
the last place. A bound on the gradient is given where it is one in such units too."""

import math

import numpy as np
import pytest

from lathe import Tensor, Variable, dtypes

INF, NAN = np.inf, np.nan
L = np.longdouble


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def mish_ratio(x):  # tanh(softplus(x))
    e = np.exp(np.minimum(x, 100))
    return np.where(x > 100, L(1), e * (e + 2) / (e * (e + 2) + 2))


def expm1_below(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


# name: value, bound, derivative or None, bound of that
FUNCTIONS = {
    "exp": (np.exp, 1.5, np.exp, 1.5),
    "expm1": (np.expm1, 3, np.exp, 1.5),
    "log": (np.log, 2.5, lambda x: 1 / x, 2),
    "log1p": (np.log1p, 2.5, lambda x: 1 / (1 + x), 2),
    "log10": (np.log10, 2.5, None, 0),
    "tan": (np.tan, 2.5, None, 0),
    "asin": (np.arcsin, 3, lambda x: 1 / np.sqrt((1 - x) * (1 + x)), 2.5),
    "acos": (np.arccos, 3, lambda x: -1 / np.sqrt((1 - x) * (1 + x)), 2.5),
    "atan": (np.arctan, 3, None, 0),
    "sinh": (np.sinh, 2.5, np.cosh, 2.5),
    "cosh": (np.cosh, 2.5, np.sinh, 2.5),
    "tanh": (np.tanh, 4, None, 0),
    "asinh": (np.arcsinh, 3, lambda x: 1 / np.hypot(x, L(1)), 3),
    "acosh": (np.arccosh, 3, lambda x: 1 / np.sqrt(x - 1) / np.sqrt(x + 1), 3),
    "atanh": (np.arctanh, 3, lambda x: 1 / ((1 - x) * (1 + x)), 3),
    "logsigmoid": (lambda x: -softplus(-x), 4, None, 0),
    "mish": (lambda x: x * mish_ratio(x), 5, None, 0),
    "softsign": (lambda x: x / (1 + abs(x)), 2, lambda x: 1 / (1 + abs(x)) ** 2, 5),
    "elu": (expm1_below, 3, lambda x: np.where(x > 0, L(1), np.exp(np.minimum(x, 0))), 2),
    "celu": (expm1_below, 3, lambda x: np.where(x > 0, L(1), np.exp(np.minimum(x, 0))), 2),
    "sqrt": (np.sqrt, 0.5, lambda x: 0.5 / np.sqrt(x), 2),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2, None, 0),
}
# What is exact to an absolute error only, in units of 1, as docs/numerics.md says, gradients included.
ABSOLUTE = {
    "sigmoid": (sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
    "tanh": (np.tanh, lambda x: (2 / (np.exp(abs(x)) + np.exp(-abs(x)))) ** 2),
    "logsigmoid": (lambda x: -softplus(-x), lambda x: sigmoid(-x)),
    "atan": (np.arctan, lambda x: 1 / (1 + x * x)),
}


def wide_sweep(dtype):
    """Both signs of all magnitudes of the dtype, densely around 1, and the neighbours of 1."""
    limits = np.finfo(dtype)
    low, high = np.log2(float(limits.tiny)) - 5, np.log2(float(limits.max))
    rng = np.random.default_rng(1)
    sizes = [2.0 ** rng.uniform(low, high, 500), 2.0 ** rng.uniform(-30, 8, 1500), rng.uniform(0, 30, 500)]
    sizes.append(1 + rng.choice([-1, 1], 200) * 2.0 ** rng.uniform(-limits.nmant, 0, 200))
    sizes = np.concatenate(sizes).astype(dtype)
    return np.concatenate([sizes, -sizes])


def worst_units(got, exact, dtype):
    """The largest error in units of the last place, with its position. NaN where NaN is not expected counts as infinite."""
    limits = np.finfo(dtype)
    beyond = np.abs(exact) > L(limits.max) * (1 - L(2) ** -15)  # may round to infinity
    exponent = np.frexp(np.where(exact == 0, L(limits.tiny), np.abs(exact)))[1] - 1
    unit = L(2) ** (np.maximum(exponent, limits.minexp) - limits.nmant)
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(L) - exact) / unit
    error = np.where(np.isnan(exact), np.where(np.isnan(got), 0, INF), np.where(np.isnan(error), INF, error))
    error = np.where(beyond & (np.sign(got) == np.sign(exact)) & (np.abs(got) > limits.max / 2), 0, error)
    at = int(np.argmax(error))
    return error[at], at


def value_and_gradient(name, x):
    t = Tensor(x, requires_grad=True)
    out = getattr(t, name)()
    out.sum().backward()
    return out.detach().numpy(), t.grad.numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_keeps_its_digits_near_zero_and_far_out(name, dtype):
    function, bound, derivative, gradient_bound = FUNCTIONS[name]
    x = wide_sweep(dtype)
    if name == "mish":  # x times what is a subnormal below
        x = x[x > np.log(np.finfo(dtype).tiny)]
    got, gradient = value_and_gradient(name, x)
    with np.errstate(all="ignore"):
        exact = function(x.astype(L))
    error, at = worst_units(got, exact, dtype)
    assert error <= bound, (x[at], got[at], exact[at])
    if derivative is None:
        return
    with np.errstate(all="ignore"):
        slope = derivative(x.astype(L))
    inside = ~np.isnan(exact) & ~np.isnan(slope)
    error, at = worst_units(gradient[inside], slope[inside], dtype)
    assert error <= gradient_bound, (x[inside][at], gradient[inside][at], slope[inside][at])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ABSOLUTE)
def test_a_gradient_has_a_small_absolute_error(name, dtype):
    function, derivative = ABSOLUTE[name]
    x = wide_sweep(dtype)
    got, gradient = value_and_gradient(name, x)
    with np.errstate(all="ignore"):
        exact, slope = function(x.astype(L)), derivative(x.astype(L))
    unit = np.finfo(dtype).eps
    small = np.abs(exact) < 4
    assert np.max(np.abs(got.astype(L) - exact)[small]) < 4 * unit
    assert np.max(np.abs(gradient.astype(L) - slope)) < 4 * unit


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_the_lower_tail_of_gelu_is_no_difference_of_ones(approximate):
    x = np.array([-9, -7, -5, -4, -3, -2, -1], np.float64)
    cube = x + 0.044715 * x**3
    exact = x * sigmoid(2 * 0.79788456080286536 * cube)
    if approximate == "none":  # 0.5 * erfc(-x / sqrt(2)) * x
        tails = [1.1285884059538408e-19, 1.279812543885835e-12, 2.866515718791939e-07, 3.167124183311992e-05]
        exact = x * np.array(tails + [0.0013498980316300945, 0.022750131948179212, 0.15865525393145707])
    np.testing.assert_allclose(Tensor(x).gelu(approximate).numpy(), exact, rtol=1e-12)
    np.testing.assert_allclose(Tensor(x.astype(np.float32)).gelu(approximate).numpy(), exact, rtol=2e-2)
    far = Tensor(np.array([1e25, 3e38, -3e38], np.float32), requires_grad=True)
    assert far.gelu(approximate).tolist() == [*far.tolist()[:2], 0]
    far.gelu(approximate).sum().backward()
    assert far.grad.tolist() == [1, 1, 0]


def test_erf_of_doubles_has_the_digits_of_doubles():
    x = np.concatenate([np.linspace(-7, 7, 801), [1e-300, 1e-9, INF, -INF]])
    exact = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(Tensor(x).erf().numpy(), exact, rtol=1e-15)
    np.testing.assert_allclose(Tensor(x).erfc().numpy(), [math.erfc(v) for v in x], rtol=2e-14)


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16])
def test_sixteen_bit_functions_are_rounded_once(dtype):
    codes = Tensor(np.arange(1 << 16, dtype=np.uint16)).bitcast(dtype)
    x = codes.cast(dtypes.float64).numpy()
    for name in ["exp", "expm1", "log1p", "sinh", "asinh", "atanh", "atan", "acos", "logsigmoid", "elu", "tanh"]:
        function = (FUNCTIONS.get(name) or ABSOLUTE[name])[0]
        with np.errstate(all="ignore"):
            exact = function(x)
        got = getattr(codes, name)().cast(dtypes.float64).numpy()
        best = Tensor(exact).cast(dtype).cast(dtypes.float64).numpy()
        finite = np.isfinite(best) & np.isfinite(got)
        assert np.array_equal(np.isnan(got), np.isnan(exact)), name
        assert np.array_equal(np.isinf(got), np.isinf(best)), name
        # One rounding more than the best: neighbours at most, and seldom.
        off = got[finite] != best[finite]
        assert np.mean(off) < 0.01, name
        np.testing.assert_allclose(got[finite], best[finite], rtol=2 ** (-9 if dtype == dtypes.float16 else -6), atol=1e-40)


def test_signs_of_zero_are_kept():
    for name in ["expm1", "log1p", "sinh", "asinh", "atanh", "tanh", "atan", "asin", "erf", "softsign", "elu", "round"]:
        got = getattr(Tensor([0.0, -0.0]), name)().numpy()
        assert not np.signbit(got[0]) and np.signbit(got[1]) and not got.any(), name
    assert np.signbit(Tensor([-0.3, -0.5]).round().numpy()).all()


EDGES = [-INF, -3.0, -2.5, -2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 1e30, INF, NAN]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_pow_follows_the_rules_of_c_at_its_edges(dtype):
    x, y = (v.ravel().astype(dtype) for v in np.meshgrid(np.array(EDGES), np.array(EDGES), indexing="ij"))
    with np.errstate(all="ignore"):
        exact = np.power(x, y)
    got = (Tensor(x) ** Tensor(y)).numpy()
    np.testing.assert_allclose(got, exact, rtol=1e-12 if dtype == np.float64 else np.finfo(dtype).eps)
    known = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(exact[known]))


@pytest.mark.parametrize("dtype, bound", [(np.float32, 1), (np.float64, 800)])
def test_pow_keeps_its_digits(dtype, bound):
    rng = np.random.default_rng(2)
    limits = np.finfo(dtype)
    x = (2.0 ** rng.uniform(-100, 100, 2000)).astype(dtype)
    y = (rng.uniform(np.log2(float(limits.tiny)), np.log2(float(limits.max)), 2000) / np.log2(x)).astype(dtype)
    error, at = worst_units((Tensor(x) ** Tensor(y)).numpy(), np.power(x.astype(L), y.astype(L)), dtype)
    assert error <= bound, (x[at], y[at])
    for n in [2, 3, 5, 8, 10, 17, -1, -2, -7, -20]:
        x = rng.uniform(0.5, 1.7, 500).astype(dtype)
        error, at = worst_units((Tensor(x) ** n).numpy(), np.power(x.astype(L), L(n)), dtype)
        assert error <= abs(n) + 1, (n, x[at])


def test_gradients_of_pow_at_zero_and_one():
    x = Tensor([0.0, 0.0, 0.0, 1.0, 2.0, INF], requires_grad=True)
    y = Tensor([0.0, 1.0, 2.0, 3.0, 0.0, 1.0], requires_grad=True)
    (x**y).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 1, 0, 3, 0, 1])
    np.testing.assert_allclose(y.grad.numpy()[:5], [0, 0, 0, 0, np.log(2)], rtol=1e-6)


def test_integers_to_the_power_of_integers_are_exact_and_wrap():
    assert (Tensor([7]) ** Tensor([10])).item() == 282475249
    assert (Tensor([3]) ** 100).item() == pow(3, 100, 2**32) - 2**32
    assert (Tensor([7, 1, -1, -1, 0, 2]) ** Tensor([-1, -5, -1, -2, 0, -3])).tolist() == [0, 1, -1, 1, 1, 0]
    rng = np.random.default_rng(3)
    for dtype in [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64]:
        x, y = rng.integers(0, 100, 50).astype(dtype), rng.integers(0, 100, 50).astype(dtype)
        np.testing.assert_array_equal((Tensor(x) ** Tensor(y)).numpy(), np.power(x, y))


def test_the_check_knows_the_error_of_a_reciprocal_of_a_huge_number():
    x = -np.linspace(200, 700, 100)
    np.testing.assert_allclose(Tensor(x).silu().numpy(), x / (1 + np.exp(-x)), rtol=1e-12)


def test_remainders_of_floats_are_exact():
    rng = np.random.default_rng(4)
    for dtype in [np.float32, np.float64, np.float16]:
        x = (rng.uniform(-1, 1, 4000) * 2.0 ** rng.integers(-3, 14, 4000)).astype(dtype)
        y = (rng.uniform(-1, 1, 4000) * 2.0 ** rng.integers(-3, 3, 4000)).astype(dtype)
        y[y == 0] = 1
        np.testing.assert_array_equal(Tensor(x).fmod(Tensor(y)).numpy(), np.fmod(x, y))
        np.testing.assert_array_equal((Tensor(x) % Tensor(y)).numpy(), np.mod(x, y))
        np.testing.assert_array_equal((Tensor(x) // Tensor(y)).numpy(), np.floor_divide(x, y))
    tenth = np.float32(0.1)
    assert (Tensor([1.0]) // 0.1).item() == 9 and (Tensor([1.0]) % 0.1).item() == np.mod(np.float32(1), tenth)
    edges = [5, -5, INF, -INF, np.nan, 0.0, -0.0, 2, -3, 2.5]
    x, y = (np.array(v, np.float32) for v in zip(*[(a, b) for a in edges for b in edges]))
    with np.errstate(all="ignore"):
        wants = [(Tensor(x).fmod(Tensor(y)), np.fmod(x, y)), (Tensor(x) % Tensor(y), np.mod(x, y)), (Tensor(x) // Tensor(y), np.floor_divide(x, y))]
    for got, want in wants:
        np.testing.assert_array_equal(got.numpy(), want)
        some = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got.numpy())[some], np.signbit(want)[some])
    a, b = Tensor([7.5, -7.5], requires_grad=True), Tensor([2.0, 2.0], requires_grad=True)
    (a % b).sum().backward()
    assert a.grad.tolist() == [1, 1] and b.grad.tolist() == [-3, 4]


def test_logaddexp_keeps_the_smaller_part():
    x, y = np.array([0, -30, 1e-9, INF, -INF, -INF, 5]), np.array([-30, -60, -40, INF, -INF, 1, 5.0])
    np.testing.assert_allclose(Tensor(x).logaddexp(Tensor(y)).numpy(), np.logaddexp(x, y), rtol=1e-15)
    a = Tensor([1.0, -INF, 800.0], requires_grad=True)
    a.logaddexp(Tensor([1.0, 2.0, 0.0])).sum().backward()
    assert a.grad.tolist() == [0.5, 0, 1]


def test_sign_and_friends_at_their_edges():
    got = Tensor([NAN, 2.0, -INF, 0.0, -0.0]).sign().numpy()
    np.testing.assert_array_equal(got, [NAN, 1, -1, 0, 0])  # NaN stays NaN, as in numpy
    got = Tensor([[1.0, 0.0, 3.0], [0, 0, 0]]).normalize(p=0).numpy()
    np.testing.assert_array_equal(got, [[0.5, 0, 1.5], [0, 0, 0]])  # the number of elements that are not 0


def test_circular_padding_repeats_what_is_left_of_the_axis():
    torch = pytest.importorskip("torch")
    x = np.arange(20, dtype=np.float32).reshape(1, 1, 4, 5)
    for padding in [(-1, 2, 0, 0), (2, -1, 0, 0), (-1, -2, 0, 0), (1, 2, -1, 3), (0, 0, 2, -2)]:
        theirs = torch.nn.functional.pad(torch.tensor(x), padding, mode="circular").numpy()
        np.testing.assert_array_equal(Tensor(x).pad(padding, mode="circular").numpy(), theirs)


def test_ends_are_met_exactly():
    assert Tensor([1e8, 1.0]).lerp(Tensor([1.0, 1e8]), 1.0).tolist() == [1.0, 1e8]
    assert Tensor([1e8, 1.0]).lerp(Tensor([1.0, 1e8]), Tensor([1.0, 0.0])).tolist() == [1.0, 1.0]
    for start, stop, steps in [(5, -3, 1001), (0, 1, 7), (0.1, 0.3, 3), (2, 7, 1), (-1, 1, 2)]:
        line = Tensor.linspace(start, stop, steps).numpy()
        np.testing.assert_allclose(line, np.linspace(start, stop, steps), rtol=3e-7, atol=3e-7)
        assert line[0] == np.float32(start) and (steps == 1 or line[-1] == np.float32(stop))


def test_the_deviation_of_equal_numbers_has_a_gradient_of_zero():
    x = Tensor([3.0, 3.0, 3.0], requires_grad=True)
    (x.std() + x.std_mean()[0]).backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_integers_beyond_32_bits_are_kept():
    assert Tensor([2**35, 1]).tolist() == [2**35, 1] and Tensor([2**35]).dtype == dtypes.int64
    assert Tensor(-(2**35)).item() == -(2**35) and Tensor.full((2,), 2**40).tolist() == [2**40] * 2
    assert Tensor([2**63]).tolist() == [2**63] and Tensor([2**31 - 1]).dtype == dtypes.int32
    assert Tensor.arange(2**31, 2**31 + 3).tolist() == [2**31, 2**31 + 1, 2**31 + 2]
    assert Tensor.arange(2**31).dtype == dtypes.int64 and Tensor.arange(2**31 - 1).dtype == dtypes.int32
    assert Tensor.arange(-(2**31) - 1, 0, 2**30).tolist() == [-(2**31) - 1, -(2**30) - 1, -1]
    n = Variable("n", 0, 2**40).bind(2**35)
    assert Tensor(n).item() == 2**35 and (Tensor([1]) * n).tolist() == [2**35]
    assert (Tensor([1.0]) * n).tolist() == [2.0**35]


def test_a_number_that_a_dtype_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="34359738368 does not fit int32"):
        Tensor([1]) + 2**35
    with pytest.raises(ValueError, match="1000 does not fit uint8"):
        Tensor([1], dtype=dtypes.uint8).maximum(1000)
    small = Tensor([1, 232], dtype=dtypes.uint8)  # comparing is asking, and has an answer
    assert (small == 1000).tolist() == [False, False] and (small != 1000).all().item() and (small < 1000).all().item()
    assert (Tensor([255, 156], dtype=dtypes.uint8) == -1).tolist() == [False, False] and (small > -1).all().item()
    assert (Tensor([-1, 3], dtype=dtypes.int8) == 255).tolist() == [False, False]
    assert not (small > 2**40).any().item() and (small >= -(2**40)).all().item() and not (small == 2**63).any().item()
    assert (Tensor([1], dtype=dtypes.uint8) & 0xFF).item() == 1 and (Tensor([1], dtype=dtypes.int32) | 0x80000000).item() < 0


def test_integers_padded_with_a_fraction_become_floats():
    padded = Tensor([1, 2]).pad(((1, 1),), value=2.3)
    np.testing.assert_array_equal(padded.numpy(), np.array([2.3, 1, 2, 2.3], np.float32))
    whole = Tensor([1, 2]).pad(((1, 0),), value=3.0)
    assert whole.dtype == dtypes.int32 and whole.tolist() == [3, 1, 2]


def test_isclose_takes_a_number():
    x = Tensor([1.0, 1.0 + 1e-7, 2.0, NAN])
    assert x.isclose(1.0).tolist() == [True, True, False, False]
    assert Tensor([3, 3]).allclose(3) and not Tensor([3, 4]).allclose(3)
    assert x.isclose(NAN, equal_nan=True).tolist() == [False, False, False, True]


def test_the_diagonal_of_a_triangle_may_be_symbolic():
    n = Variable("n", 0, 4)
    for k in [0, 2, 3]:
        assert Tensor.ones(4, 4).triu(n.bind(k)).tolist() == np.triu(np.ones((4, 4)), k).tolist()
        assert Tensor.ones(4, 4).tril(n.bind(k)).tolist() == np.tril(np.ones((4, 4)), k).tolist()
