"""Elementwise methods against PyTorch, forward and backward."""

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from oracle import assert_same, check

from lathe import Tensor, dtypes

# name, PyTorch's function, domain, whether it has a gradient
UNARY = [
    ("neg", torch.neg, (-2, 2), True),
    ("logical_not", torch.logical_not, (-2, 2), False),
    ("reciprocal", torch.reciprocal, (0.3, 2), True),
    ("sqrt", torch.sqrt, (0.1, 3), True),
    ("rsqrt", torch.rsqrt, (0.1, 3), True),
    ("square", torch.square, (-2, 2), True),
    ("exp2", torch.exp2, (-4, 4), True),
    ("exp", torch.exp, (-4, 4), True),
    ("expm1", torch.expm1, (-4, 4), True),
    ("log1p", torch.log1p, (-0.9, 4), True),
    ("log2", torch.log2, (0.1, 4), True),
    ("log", torch.log, (0.1, 4), True),
    ("log10", torch.log10, (0.1, 4), True),
    ("sin", torch.sin, (-8, 8), True),
    ("cos", torch.cos, (-8, 8), True),
    ("tan", torch.tan, (-1.2, 1.2), True),
    ("asin", torch.asin, (-0.95, 0.95), True),
    ("acos", torch.acos, (-0.95, 0.95), True),
    ("atan", torch.atan, (-5, 5), True),
    ("sinh", torch.sinh, (-3, 3), True),
    ("cosh", torch.cosh, (-3, 3), True),
    ("tanh", torch.tanh, (-3, 3), True),
    ("asinh", torch.asinh, (-3, 3), True),
    ("acosh", torch.acosh, (1.1, 5), True),
    ("atanh", torch.atanh, (-0.9, 0.9), True),
    ("erf", torch.erf, (-3, 3), True),
    ("erfc", torch.erfc, (-3, 3), True),
    ("isnan", torch.isnan, (-2, 2), False),
    ("isinf", torch.isinf, (-2, 2), False),
    ("isfinite", torch.isfinite, (-2, 2), False),
    ("trunc", torch.trunc, (-4, 4), False),
    ("floor", torch.floor, (-4, 4), False),
    ("ceil", torch.ceil, (-4, 4), False),
    ("round", torch.round, (-4, 4), False),
    ("sign", torch.sign, (-2, 2), False),
    ("abs", torch.abs, (-2, 2), True),
    ("relu", torch.relu, (-2, 2), True),
    ("relu6", F.relu6, (-8, 8), True),
    ("sigmoid", torch.sigmoid, (-5, 5), True),
    ("hardsigmoid", F.hardsigmoid, (-5, 5), True),
    ("hardswish", F.hardswish, (-5, 5), True),
    ("selu", F.selu, (-3, 3), True),
    ("quick_gelu", lambda x: x * torch.sigmoid(x * 1.702), (-3, 3), True),
    ("silu", F.silu, (-3, 3), True),
    ("swish", F.silu, (-3, 3), True),
    ("mish", F.mish, (-3, 3), True),
    ("logsigmoid", F.logsigmoid, (-5, 5), True),
    ("softsign", F.softsign, (-3, 3), True),
    ("leaky_relu", F.leaky_relu, (-3, 3), True),
    ("elu", F.elu, (-3, 3), True),
    ("celu", F.celu, (-3, 3), True),
    ("hardtanh", F.hardtanh, (-3, 3), True),
    ("softplus", F.softplus, (-5, 5), True),
]


@pytest.mark.parametrize("name,theirs,domain,grad", UNARY, ids=[row[0] for row in UNARY])
def test_a_unary_method_equals_pytorchs(name, theirs, domain, grad):
    for shape in [(), (7,), (3, 1, 5), (2, 0)]:
        check([shape], theirs, getattr(Tensor, name), grad=grad, low=domain[0], high=domain[1])


def test_every_row_of_the_unary_table_is_compared():
    with open(__file__.replace("tests/python/test_elementwise.py", "include/lathe/unary.def"), encoding="utf-8") as file:
        names = re.findall(r"^LATHE_UNARY\((\w+),", file.read(), re.M)
    assert set(names) - {row[0] for row in UNARY} == {"bitwise_not"}


BINARY = [
    ("add", torch.add, (-2, 2), True),
    ("sub", torch.sub, (-2, 2), True),
    ("mul", torch.mul, (-2, 2), True),
    ("div", torch.div, (0.5, 2), True),
    ("fdiv", torch.div, (0.5, 2), True),
    ("floor_divide", torch.floor_divide, (0.5, 9), False),
    ("mod", torch.remainder, (0.5, 9), False),
    ("fmod", torch.fmod, (0.5, 9), False),
    ("maximum", torch.maximum, (-2, 2), True),
    ("minimum", torch.minimum, (-2, 2), True),
    ("copysign", torch.copysign, (-2, 2), True),
    ("logaddexp", torch.logaddexp, (-2, 2), True),
    ("pow", torch.pow, (0.3, 2), True),
    ("eq", torch.eq, (-2, 2), False),
    ("ne", torch.ne, (-2, 2), False),
    ("lt", torch.lt, (-2, 2), False),
    ("le", torch.le, (-2, 2), False),
    ("gt", torch.gt, (-2, 2), False),
    ("ge", torch.ge, (-2, 2), False),
]


@pytest.mark.parametrize("name,theirs,domain,grad", BINARY, ids=[row[0] for row in BINARY])
def test_a_binary_method_equals_pytorchs_and_broadcasts(name, theirs, domain, grad):
    for shapes in [((), ()), ((5,), (5,)), ((3, 1), (1, 4)), ((2, 3, 4), (4,)), ((1,), (2, 0))]:
        check(shapes, theirs, getattr(Tensor, name), grad=grad, low=domain[0], high=domain[1])


OPERATORS = "x + y, x - y, x * y, x / y, x // y, x % y, x ** y, x < y, x <= y, x > y, x >= y, x == y, x != y"


@pytest.mark.parametrize("text", [t.strip() for t in OPERATORS.split(",")])
def test_an_operator_takes_tensors_and_numbers_on_either_side(text):
    a = np.random.uniform(0.5, 3, (3, 4)).astype(np.float32)
    b = np.random.uniform(0.5, 3, (4,)).astype(np.float32)
    code = compile(text, text, "eval")
    for x, y in [(a, b), (a, 2.5), (2.5, a), (a, 2), (3, b)]:
        mine = eval(code, {"x": Tensor(x) if isinstance(x, np.ndarray) else x, "y": Tensor(y) if isinstance(y, np.ndarray) else y})
        theirs = eval(code, {"x": torch.tensor(x) if isinstance(x, np.ndarray) else x, "y": torch.tensor(y) if isinstance(y, np.ndarray) else y})
        assert_same(mine, theirs)


INTEGER = "x + y, x - y, x * y, x // y, x % y, x & y, x | y, x ^ y, x << y, x >> y, ~x, -x, abs(x)"


@pytest.mark.parametrize("text", [t.strip() for t in INTEGER.split(",")])
def test_an_operator_on_integers_is_numpys(text):
    x = np.array([-9, -1, 0, 1, 7, 12], dtype=np.int32)
    y = np.array([2, 3, 1, 4, 2, 3], dtype=np.int32)
    out = eval(text, {"x": Tensor(x), "y": Tensor(y)})
    assert out.dtype is dtypes.int32
    np.testing.assert_array_equal(out.numpy(), eval(text, {"x": x, "y": y}))
    if "y" in text:
        np.testing.assert_array_equal(eval(text, {"x": Tensor(x), "y": 3}).numpy(), eval(text, {"x": x, "y": 3}))


@pytest.mark.parametrize("text", ["+=", "-=", "*=", "/=", "//=", "%=", "**="])
def test_an_in_place_operator_changes_every_alias(text):
    a = np.random.uniform(1, 3, (3, 4)).astype(np.float32)
    names = {"x": Tensor(a), "a": a.copy()}
    names["view"] = names["x"].reshape(12)
    exec(f"x {text} 2.0\na {text} 2.0", names)
    np.testing.assert_allclose(names["x"].numpy(), names["a"], rtol=1e-5)
    np.testing.assert_allclose(names["view"].numpy(), names["a"].reshape(12), rtol=1e-5)


@pytest.mark.parametrize("text", ["&=", "|=", "^=", "<<=", ">>="])
def test_an_in_place_operator_on_integers(text):
    names = {"x": Tensor([1, 5, 9]), "a": np.array([1, 5, 9])}
    exec(f"x {text} 3\na {text} 3", names)
    np.testing.assert_array_equal(names["x"].numpy(), names["a"])


def test_functions_with_options():
    check([(4, 5)], lambda x: x.clamp(-0.5, 0.7), lambda x: x.clamp(-0.5, 0.7))
    check([(4, 5)], lambda x: x.clamp(min=-0.5), lambda x: x.clip(min_=-0.5))
    check([(4, 5)], lambda x: x.clamp(max=0.5), lambda x: x.clamp(max_=0.5))
    check([(4, 5)], lambda x: F.leaky_relu(x, 0.3), lambda x: x.leaky_relu(0.3))
    check([(4, 5)], lambda x: F.elu(x, 0.3), lambda x: x.elu(alpha=0.3))
    check([(4, 5)], lambda x: F.gelu(x, approximate="tanh"), lambda x: x.gelu())
    check([(4, 5)], F.gelu, lambda x: x.gelu("none"))
    check([(4, 5)], lambda x: F.softplus(x, beta=2), lambda x: x.softplus(beta=2))
    check([(4, 5)], lambda x: F.hardtanh(x, -0.2, 0.4), lambda x: x.hardtanh(-0.2, 0.4))
    check([(4, 5), (4, 5)], lambda x, y: torch.lerp(x, y, 0.3), lambda x, y: x.lerp(y, 0.3))
    check([(4, 5), (5,)], lambda x, y: torch.where(x > 0, x, y), lambda x, y: (x > 0).where(x, y))
    check([(4, 5)], lambda x: x.masked_fill(x > 0, 3), lambda x: x.masked_fill(x > 0, 3))
    check([(4, 5), (5,)], lambda x, y: torch.div(x, y, rounding_mode="floor"), lambda x, y: x.div(y, rounding_mode="floor"), grad=False)
    check([(4, 5), (5,)], lambda x, y: torch.div(x, y, rounding_mode="trunc"), lambda x, y: x.div(y, rounding_mode="trunc"), grad=False)
    check([(3,)], lambda x: 2**x, lambda x: 2**x)
    check([(3,)], lambda x: 5 - x, lambda x: x.sub(5, reverse=True))


def test_infinities_and_nans_are_found():
    x = [float("inf"), float("-inf"), float("nan"), 1.0]
    for name in ("isnan", "isinf", "isfinite"):
        assert getattr(Tensor(x), name)().tolist() == getattr(torch, name)(torch.tensor(x)).tolist()
    assert Tensor(x).isinf(detect_negative=False).tolist() == [True, False, False, False]
    assert Tensor(x).isinf(detect_positive=False).tolist() == [False, True, False, False]
    assert Tensor(x).isclose(Tensor(x), equal_nan=True).tolist() == [True] * 4
    assert Tensor(x).isclose(Tensor(x)).tolist() == [True, True, False, True]
    assert Tensor([1.0]).allclose(Tensor([1.0]))


def test_a_bound_that_is_nan_clamps_to_nan():
    nan = float("nan")
    x, bound = np.array([1, 5, nan, 0], np.float32), np.array([nan, 1, nan, 2], np.float32)
    for low, high in ((bound, None), (None, bound), (bound, bound)):
        theirs = torch.tensor(x).clamp(*(None if b is None else torch.tensor(b) for b in (low, high)))
        np.testing.assert_array_equal(Tensor(x).clamp(*(None if b is None else Tensor(b) for b in (low, high))).numpy(), theirs.numpy())


def test_differences_of_small_integers_do_not_wrap():
    for dtype in (np.int8, np.uint8, np.int64):
        limits = np.iinfo(dtype)
        x = np.array([limits.min, limits.max, 3, 100, limits.min], dtype)
        y = np.array([limits.min, limits.min, 5, 0, limits.max], dtype)
        np.testing.assert_array_equal(Tensor(x).isclose(Tensor(y), atol=3).numpy(), [True, False, True, False, False])
        want = x.astype(np.float32) + 0.25 * (y.astype(np.float32) - x.astype(np.float32))
        np.testing.assert_allclose(Tensor(x).lerp(Tensor(y), 0.25).numpy(), want)
        np.testing.assert_allclose(Tensor(x).lerp(Tensor(y), Tensor([0.25])).numpy(), want)
        np.testing.assert_allclose(Tensor(x).softmin().numpy(), (-torch.tensor(x).float()).softmax(0).numpy(), rtol=1e-5)
    assert Tensor([True, False]).isclose(Tensor([True, True])).tolist() == [True, False]
    assert Tensor([2**24]).isclose(Tensor([2**24 + 1]), rtol=0, atol=0).item() is False


def test_what_does_not_fit_is_a_typed_error():
    with pytest.raises(ValueError, match=r"lathe: add: .*\(2,\).*\(3,\)"):
        Tensor([1.0, 2.0]) + Tensor([1.0, 2.0, 3.0])
    with pytest.raises(TypeError):
        Tensor([1.0]) & Tensor([2.0])
    with pytest.raises(TypeError):
        Tensor([1.0]) + "text"
    with pytest.raises(TypeError):
        bool(Tensor([1.0, 2.0]))


def test_remainders_of_infinities():
    inf, nan = float("inf"), float("nan")
    x, y = np.array([inf, -inf, inf, 1.0, -1.0, nan]), np.array([inf, inf, 2.0, inf, inf, inf])
    with np.errstate(invalid="ignore"):
        for dtype in (np.float32, np.float64):
            a, b = x.astype(dtype), y.astype(dtype)
            np.testing.assert_array_equal((Tensor(a) % Tensor(b)).numpy(), np.mod(a, b))
            np.testing.assert_array_equal(Tensor(a).fmod(Tensor(b)).numpy(), np.fmod(a, b))


def test_numpys_operators_take_lists_beside_tensors():
    assert np.add([1, 2, 3], Tensor([1, 2, 3])).tolist() == [2, 4, 6]
    assert np.multiply(Tensor([1, 2, 3]), (2, 2, 2)).tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    "name,ours,theirs",
    [
        ("maximum", lambda x: x.maximum(0.0).log(), lambda x: torch.maximum(x, torch.zeros(1)).log()),
        ("minimum", lambda x: (1 - x.minimum(1.0)).sqrt(), lambda x: (1 - torch.minimum(x, torch.ones(1))).sqrt()),
        ("relu", lambda x: x.relu().log(), lambda x: x.relu().log()),
        ("where", lambda x: (x > 0).where(x, 0.0).log(), lambda x: torch.where(x > 0, x, torch.zeros(1)).log()),
        ("cumprod", lambda x: (x.cumprod(0) + 0.0).pow(0.5), lambda x: (x.cumprod(0) + 0.0).pow(0.5)),
    ],
)
def test_an_infinite_gradient_stops_where_nothing_is_left_of_it(name, ours, theirs):
    values = [1.0, 3.0, 0.0, 2.0] if name == "cumprod" else [3.0, -1.0, 2.0, -2.0]
    x, t = Tensor(values).requires_grad_(), torch.tensor(values, requires_grad=True)
    expected = torch.autograd.grad(theirs(t).sum(), t)[0].numpy()
    np.testing.assert_allclose(ours(x).sum().gradient(x)[0].numpy(), expected, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("p", [1, 2, 3, float("inf")])
def test_normalize_has_a_gradient_at_a_row_of_zeros(p):
    values = np.array([[0.0, 0.0, 0.0], [1.0, -2.0, 2.0]])
    x, t = Tensor(values).requires_grad_(), torch.tensor(values, requires_grad=True)
    weights = np.array([[1.0, 2.0, 3.0], [1.0, -1.0, 2.0]])
    expected = torch.autograd.grad((F.normalize(t, p=p) * torch.tensor(weights)).sum(), t)[0].numpy()
    found = (x.normalize(p) * Tensor(weights)).sum().gradient(x)[0].numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-9)
