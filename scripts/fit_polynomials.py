#!/usr/bin/env python3
"""Fits the polynomials of src/codegen/decompose/decompose_math.cpp and src/tensor/functions.cpp and prints their tables.

For each row: the function g(v) that the polynomial stands for, the interval of v, the weight that turns an error of g
into a relative error of the final result, and the number of coefficients. The best polynomial in the weighted maximum
norm is found by the exchange algorithm in 60-digit arithmetic. Its coefficients are rounded to the format one at a
time, lowest power first, and the rest is fitted again, so that rounding one is made good by the others.

Needs mpmath. Usage: python3 scripts/fit_polynomials.py [row ...]
"""
import struct
import sys

from mpmath import atan, atanh, cos, coth, erf, erfc, exp, expm1, log, lu_solve, matrix, mp, mpf, pi, sin, sinh, sqrt

mp.dps = 60
LN2, HALF = log(2), mpf(1) / 2


def exp2_tail(v):  # 2^v = 1 + v*log(2) + v*v*g(v)
    return LN2 * LN2 / 2 if abs(v) < mpf("1e-20") else (expm1(v * LN2) / v - LN2) / v


def exp2_rest(v):  # 2^v = 1 + v*g(v)
    return LN2 if abs(v) < mpf("1e-20") else expm1(v * LN2) / v


def log_tail(z):  # 2*atanh(s) = 2*s + s*z*g(z) with z = s*s
    if z == 0:
        return mpf(2) / 3
    s = sqrt(z)
    return (2 * atanh(s) / s - 2) / z


def sin_tail(z):  # sin(r) = r + r*z*g(z) with z = r*r
    if z == 0:
        return -mpf(1) / 6
    r = sqrt(z)
    return (sin(r) / r - 1) / z


def cos_tail(z):  # cos(r) = 1 - z/2 + z*z*g(z) with z = r*r
    if z == 0:
        return mpf(1) / 24
    return (cos(sqrt(z)) - 1 + z / 2) / (z * z)


def atan_tail(z):  # atan(r) = r + r*z*g(z) with z = r*r
    if z == 0:
        return -mpf(1) / 3
    r = sqrt(z)
    return (atan(r) / r - 1) / z


def coth_tail(z):  # r*coth(r) = 1 + z*g(z) with z = r*r
    if z == 0:
        return mpf(1) / 3
    r = sqrt(z)
    return (r * coth(r) - 1) / z


def sinh_tail(z):  # sinh(r) = r + r*z*g(z) with z = r*r
    if z == 0:
        return mpf(1) / 6
    r = sqrt(z)
    return (sinh(r) / r - 1) / z


def erf_rest(z):  # erf(r) = r*g(z) with z = r*r
    return 2 / sqrt(pi) if z == 0 else erf(sqrt(z)) / sqrt(z)


def erfc_rest(t):  # erfc(a) = exp(-a*a)*g(t) with t = (a - 3)/(a + 3)
    a = 3 * (1 + t) / (1 - t)
    return exp(a * a) * erfc(a)


def exp2_weight(v):
    """The term is v*v*g(v) beside 2^v."""
    return v * v / mpf(2) ** v


def exp2_rest_weight(v):
    """The term is v*g(v) beside 2^v."""
    return v / mpf(2) ** v


def log_weight(z):
    """The term is s*z*g(z) beside log(m), and |log(m)| >= 2*s."""
    return z / 2


S2 = (sqrt(mpf(2)) - 1) ** 2 / (sqrt(mpf(2)) + 1) ** 2  # s*s at m = sqrt(2)
R2 = (pi / 4) ** 2
T2 = (sqrt(mpf(2)) - 1) ** 2  # tan(pi/8) squared
ROWS = {
    # name          g          from          to           weight                                  coefficients
    "exp2": (exp2_tail, -HALF, HALF, exp2_weight, {32: 5, 64: 10}),
    "exp2, fused": (exp2_rest, -HALF, HALF, exp2_rest_weight, {32: 6}),
    "log2": (log_tail, mpf(0), S2 * mpf("1.001"), log_weight, {32: 3, 64: 7}),
    "sin": (sin_tail, mpf(0), R2 * mpf("1.001"), lambda z: z * sqrt(z) / sin(sqrt(z)) if z else mpf(0), {32: 4, 64: 7}),
    "cos": (cos_tail, mpf(0), R2 * mpf("1.001"), lambda z: z * z / cos(sqrt(z)), {32: 3, 64: 6}),
    "atan": (atan_tail, mpf(0), T2 * mpf("1.001"), lambda z: z * sqrt(z) / atan(sqrt(z)) if z else mpf(0), {32: 5, 64: 11}),
    "coth": (coth_tail, mpf(0), mpf("0.4"), lambda z: z, {32: 4, 64: 8}),
    "sinh": (sinh_tail, mpf(0), mpf("1.001"), lambda z: z * sqrt(z) / sinh(sqrt(z)) if z else mpf(0), {32: 4, 64: 7}),
    "erf": (erf_rest, mpf(0), mpf("0.5625"), lambda z: 1 / erf_rest(z), {64: 11}),
}


def to_format(v, bits):
    """v rounded to float32 or float64 (60 digits to double to float: the double rounding costs half an ulp at most)."""
    d = float(v)
    return mpf(d) if bits == 64 else mpf(struct.unpack("f", struct.pack("f", d))[0])


def value(coefficients, v):
    total = mpf(0)
    for c in reversed(coefficients):
        total = total * v + c
    return total


def exchange(g, lo, hi, weight, fixed, free):
    """The `free` coefficients above the `fixed` ones that make the largest weighted error least."""
    n = free + 1
    k = len(fixed)
    grid = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * i / 2000) for i in range(2001)]
    points = [grid[int((i + HALF) * 2001 / n)] for i in range(n)]
    best = None
    for _ in range(30):
        a, b = matrix(n, n), matrix(n, 1)
        for i, v in enumerate(points):
            w = weight(v)
            for j in range(free):
                a[i, j] = w * v ** (k + j)
            a[i, free] = (-1) ** i
            b[i] = w * (g(v) - value(fixed, v))
        solved = lu_solve(a, b)
        found = [solved[j] for j in range(free)]
        errors = [weight(v) * (g(v) - value(fixed + found, v)) for v in grid]
        worst = max(abs(e) for e in errors)
        if best is None or worst < best[0]:
            best = (worst, found)
        # The extremes of the error, one for each run of equal sign, largest runs kept.
        extremes = []
        for v, e in zip(grid, errors):
            if extremes and (extremes[-1][1] > 0) == (e > 0):
                if abs(e) > abs(extremes[-1][1]):
                    extremes[-1] = (v, e)
            else:
                extremes.append((v, e))
        while len(extremes) > n:
            extremes.pop(0 if abs(extremes[0][1]) < abs(extremes[-1][1]) else -1)
        if len(extremes) < n:
            break
        moved = [v for v, _ in extremes]
        if moved == points or worst < abs(solved[free]) * mpf("1.0001"):
            break
        points = moved
    return best


def fit(name, bits):
    g, lo, hi, weight, counts = ROWS[name]
    count = counts[bits]
    fixed = []
    while len(fixed) < count:
        _, found = exchange(g, lo, hi, weight, fixed, count - len(fixed))
        fixed.append(to_format(found[0], bits))
    grid = [lo + (hi - lo) * i / 4000 for i in range(4001)]
    worst = max(abs(weight(v) * (g(v) - value(fixed, v))) for v in grid)
    print(f"{name} float{bits}: largest relative error 2^{float(log(worst) / LN2):.1f}")
    for c in fixed:
        print(f"    {float(c).hex()},")


def interpolate(name, g, lo, hi, count):
    """The polynomial through g at Chebyshev's points: nearly the best one, where there are many coefficients."""
    places = [(lo + hi) / 2 + (hi - lo) / 2 * cos(pi * (i + HALF) / count) for i in range(count)]
    a, b = matrix(count, count), matrix(count, 1)
    for i, v in enumerate(places):
        for j in range(count):
            a[i, j] = v**j
        b[i] = g(v)
    found = [to_format(c, 64) for c in lu_solve(a, b)]
    worst = max(abs(value(found, v) / g(v) - 1) for v in (lo + (hi - lo) * i / 400 for i in range(401)))
    print(f"{name} float64: largest relative error 2^{float(log(worst) / LN2):.1f}")
    for c in found:
        print(f"    {float(c).hex()},")


def split(name, v, bits, head):
    """v as two numbers of the format, the first with `head` significant bits so that short products are exact."""
    e = int(mp.floor(log(abs(v)) / LN2)) + 1
    scale = mpf(2) ** (head - e)
    hi = mp.nint(v * scale) / scale
    print(f"{name} float{bits}: {float(hi).hex()}, {float(to_format(v - hi, bits)).hex()}")


def two_over_pi(words):
    bits = int(mp.floor(2 / pi * mpf(2) ** (32 * words)))
    text = [f"0x{bits >> (32 * (words - 1 - i)) & 0xFFFFFFFF:08x}" for i in range(words)]
    print("2/pi:")
    for i in range(0, words, 8):
        print("    " + ", ".join(text[i : i + 8]) + ",")


def main():
    names = [name for name in sys.argv[1:] if name != "erfc"] or ([] if sys.argv[1:] else list(ROWS))
    for name in names:
        for bits in ROWS[name][4]:
            fit(name, bits)
    if not sys.argv[1:] or "erfc" in sys.argv[1:]:  # from 0.75 to 27, beyond which the float64 is 0
        interpolate("erfc", erfc_rest, -mpf(3) / 5, mpf(4) / 5, 22)
    mp.dps = 400
    two_over_pi(40)
    mp.dps = 60
    for bits, head in ((32, 12), (64, 26)):
        split("log2(e)", 1 / log(mpf(2)), bits, head)
        split("log(2)", log(mpf(2)), bits, head)
        split("pi/2", pi / 2, bits, 24 if bits == 32 else 53)
        split("pi/2, short head", pi / 2, bits, head)


if __name__ == "__main__":
    main()
