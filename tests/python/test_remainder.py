"""Remainders and floor division of floats over the whole range: exact, as numpy's and PyTorch's."""

import numpy as np
import pytest
import torch
from lathe import Tensor

SEED = 20261118
DTYPES = ["float64", "float32", "float16", "bfloat16"]
# Smallest and largest exponents of each dtype's numbers.
EXPONENTS = {"float64": (-1074, 1023), "float32": (-149, 127), "float16": (-24, 15), "bfloat16": (-133, 127)}


def rounded(values, dtype):
    """The values as numbers of a dtype, in float64."""
    return torch.tensor(values, dtype=torch.float64).to(getattr(torch, dtype)).double().numpy()


def numbers(dtype, count, seed):
    """Numbers of all sizes and signs, the odd ones among them."""
    rng = np.random.default_rng(seed)
    low, high = EXPONENTS[dtype]
    exponents = rng.integers(low, high, count)
    values = np.ldexp(rng.uniform(1, 2, count), exponents) * rng.choice([-1, 1], count)
    info = torch.finfo(getattr(torch, dtype))
    tiny = float(np.ldexp(1.0, low))
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5.0, -3.0, info.max, -info.max, info.tiny, -info.tiny, tiny, -tiny, 0.1]
    return rounded(np.concatenate([values, odd]), dtype)


def pairs(dtype):
    x, y = numbers(dtype, 300, SEED), numbers(dtype, 300, SEED + 1)
    grid = np.meshgrid(x[-60:], y[-60:])
    near = numbers(dtype, 300, SEED + 2)  # with small quotients
    with np.errstate(over="ignore"):
        times = rounded(near * np.random.default_rng(SEED + 3).uniform(-50, 50, near.size), dtype)
    return (
        np.concatenate([x, grid[0].ravel(), times, x]),
        np.concatenate([y, grid[1].ravel(), near, rounded(np.full(x.size, 5.0), dtype)]),
    )


def same(found, expected, x, y, what):
    with np.errstate(all="ignore"):
        bad = ~((found == expected) & (np.signbit(found) == np.signbit(expected)) | np.isnan(found) & np.isnan(expected))
    at = np.flatnonzero(bad)[:5]
    assert at.size == 0, f"{what} (seed {SEED}): " + "; ".join(f"{x[i]!r}, {y[i]!r}: {found[i]!r} for {expected[i]!r}" for i in at)


def test_the_remainder_of_a_large_quotient_is_exact():
    assert (Tensor([2.0**64], dtype="float64") % 5.0).tolist() == [1.0]
    assert (Tensor([2.0**64]) % 5.0).tolist() == [1.0]
    assert (Tensor([2.0**100]) % Tensor([7.0])).tolist() == [2.0]
    assert Tensor([-(2.0**1000)], dtype="float64").fmod(7.0).tolist() == [-2.0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_remainders_are_those_of_numpy(dtype):
    x, y = pairs(dtype)
    a, b = Tensor(x).cast(dtype), Tensor(y).cast(dtype)
    with np.errstate(all="ignore"):
        rest = np.fmod(x, y)
        moved = np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, np.where(rest == 0, np.copysign(rest, y), rest))
    same(a.fmod(b).cast("float64").numpy(), rest, x, y, f"fmod of {dtype}")
    same((a % b).cast("float64").numpy(), rounded(moved, dtype), x, y, f"% of {dtype}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_remainders_by_a_number_are_those_by_a_tensor(dtype):
    x = numbers(dtype, 300, SEED + 4)
    a = Tensor(x).cast(dtype)
    for number in [5.0, -0.375, 2.0**-20, 1e4, 6.25, 0.0, float("inf"), float("nan")]:
        by = rounded([number], dtype)[0]
        with np.errstate(all="ignore"):
            same(a.fmod(float(by)).cast("float64").numpy(), np.fmod(x, by), x, np.full(x.size, by), f"fmod of {dtype}")


def quotients(x, y, dtype, rounding):
    """PyTorch's, which computes 16-bit ones in 16 bits: those by numpy, exactly. Nor does it know the sign of one beyond all numbers."""
    with np.errstate(all="ignore"):
        if dtype in ("float16", "bfloat16"):
            return rounded(np.floor_divide(x, y) if rounding == "floor" else np.trunc(x / y), dtype)
        a, b = (torch.tensor(v).to(getattr(torch, dtype)) for v in (x, y))
        found, plain = torch.div(a, b, rounding_mode=rounding).double().numpy(), (a / b).double().numpy()
        return np.where(np.isinf(plain) & np.isfinite(x), plain, found)


@pytest.mark.parametrize("rounding", ["floor", "trunc"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rounded_quotients_are_those_of_pytorch(dtype, rounding):
    x, y = pairs(dtype)
    found = Tensor(x).cast(dtype).div(Tensor(y).cast(dtype), rounding_mode=rounding).cast("float64").numpy()
    same(found, quotients(x, y, dtype, rounding), x, y, f"div({rounding}) of {dtype}")


@pytest.mark.parametrize("name,rounding", [("fmod", "trunc"), ("remainder", "floor")])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_remainders_are_the_quotients(name, rounding, dtype):
    x, y = pairs(dtype)
    a, b = Tensor(x).cast(dtype).requires_grad_(), Tensor(y).cast(dtype).requires_grad_()
    found = [g.cast("float64").numpy() for g in getattr(a, name)(b).gradient(a, b, gradient=Tensor.ones(x.size, dtype=dtype))]
    assert (found[0] == 1).all()
    same(found[1] + 0.0, 0.0 - quotients(x, y, dtype, rounding), x, y, f"gradient of {name} of {dtype}")


def test_rows_are_divided_by_nan_of_either_sign():
    x, y = np.random.default_rng(SEED + 5).uniform(-2, 2, (169, 101)), np.random.default_rng(SEED + 6).uniform(-2, 2, 101)
    y[::4], y[1::4] = np.nan, np.copysign(np.nan, -1)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(Tensor(x).fmod(Tensor(y)).numpy(), np.fmod(x, y))
