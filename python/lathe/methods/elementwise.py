"""Element by element."""

import math

from lathe import _core
from lathe._core import Tensor, least_upper_dtype


def _float(x):
    return x if x.is_floating_point() else x.cast("float32")


def _beside(value, x):
    """A tensor or number as a tensor next to x."""
    return value if isinstance(value, Tensor) else x.const_like(value) if not isinstance(value, (list, tuple)) else Tensor(value, device=x.device)


def addcmul(self, tensor1, tensor2, *, value=1):
    """self + value tensor1 tensor2.

    >>> Tensor([1.0]).addcmul(Tensor([2.0]), Tensor([3.0]), value=0.5).tolist()
    [4.0]
    """
    return self + tensor1 * tensor2 * value


def addcdiv(self, tensor1, tensor2, *, value=1):
    """self + value tensor1 / tensor2.

    >>> Tensor([1.0]).addcdiv(Tensor([6.0]), Tensor([3.0])).tolist()
    [3.0]
    """
    return self + tensor1 / tensor2 * value


def _atan2(y, x):
    both_infinite = y.isinf() & x.isinf()
    ratio = both_infinite.where(y.sign() * x.sign(), y / (x == 0).where(1, x))
    right = (x == 0).where(y.sign() * (math.pi / 2), ratio.atan())
    half = signbit(y).where(-math.pi, y.const_like(math.pi))
    turned = right + signbit(x).where(half, 0)
    at_axis = (x == 0) & (y != 0)
    out = at_axis.where(y.sign() * (math.pi / 2), turned)
    zero = (x == 0) & (y == 0)
    return zero.where(signbit(x).where(half, y), out)


def _atan2_gradient(inputs, out, grad):
    y, x = inputs
    most = y.abs().maximum(x.abs())
    scale = ((most == 0) | most.isinf()).where(1, most)  # squares of the rest neither overflow nor vanish
    down, across = y / scale, x / scale
    turn = grad / ((most == 0).where(1, down.square() + across.square()) * scale)
    return [across * turn, -down * turn]


def atan2(self, other):
    """The angle of the point (other, self).

    >>> round(Tensor([1.0]).atan2(Tensor([1.0])).item(), 4)
    0.7854
    """
    from lathe.functions import broadcast_tensors

    y, x = broadcast_tensors(_float(self), _float(_beside(other, self)))
    wide = least_upper_dtype(y.dtype, x.dtype)
    return _own("atan2", _atan2, _atan2_gradient, y.cast(wide), x.cast(wide))


def clamp_min(self, min):
    """At least that.

    >>> Tensor([1.0, 5.0]).clamp_min(3).tolist()
    [3.0, 5.0]
    """
    return self.clamp(min, None)


def clamp_max(self, max):
    """At most that.

    >>> Tensor([1.0, 5.0]).clamp_max(3).tolist()
    [1.0, 3.0]
    """
    return self.clamp(None, max)


def deg2rad(self):
    """Degrees as radians.

    >>> Tensor([180.0]).deg2rad().item() > 3.14
    True
    """
    return _float(self) * (math.pi / 180)


def rad2deg(self):
    """Radians as degrees.

    >>> round(Tensor([3.14159265]).rad2deg().item())
    180
    """
    return _float(self) * (180 / math.pi)


def _erfinv(y):
    w = -((1 - y) * (1 + y)).log()
    near, far = w - 2.5, w.sqrt() - 3
    a = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941)
    b = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682)
    p, q = y.const_like(a[0]), y.const_like(b[0])
    for i in range(1, 9):
        p, q = p * near + a[i], q * far + b[i]
    x = (w < 5).where(p, q) * y
    if y.dtype.itemsize == 8:
        for _ in range(2):  # Newton: the fit has a float's digits
            x = x - (x.erf() - y) * (math.sqrt(math.pi) / 2) * x.square().exp()
    out = (y.abs() == 1).where(y * math.inf, x)
    return (y.abs() > 1).where(math.nan, out)


def erfinv(self):
    """The x whose erf this is.

    >>> round(Tensor([0.5]).erfinv().item(), 4)
    0.4769
    """
    return _own("erfinv", _erfinv, lambda inputs, out, grad: [grad * out.square().exp() * (math.sqrt(math.pi) / 2)], _float(self))


_ops = {}


def _own(name, forward, gradient, *inputs):
    """An op with a gradient of its own, registered when it is first used."""
    if name not in _ops:
        _ops[name] = f"methods.{name}"
        _core.register_op(_ops[name], forward, gradient)
    return _core.custom(_ops[name], list(inputs))


def float_power(self, exponent):
    """self ** exponent in float64.

    >>> Tensor([2]).float_power(3).dtype
    dtypes.float64
    """
    return self.cast("float64").pow(exponent.cast("float64") if isinstance(exponent, Tensor) else exponent)


def fmax(self, other):
    """The larger; where one is NaN, the other.

    >>> Tensor([1.0, float("nan")]).fmax(Tensor([2.0, 3.0])).tolist()
    [2.0, 3.0]
    """
    other = _beside(other, self)
    return (self != self).where(other, ((other != other) | (self >= other)).where(self, other))


def fmin(self, other):
    """The smaller; where one is NaN, the other.

    >>> Tensor([1.0, float("nan")]).fmin(Tensor([2.0, 3.0])).tolist()
    [1.0, 3.0]
    """
    other = _beside(other, self)
    return (self != self).where(other, ((other != other) | (self <= other)).where(self, other))


def frac(self):
    """The fractional part, with the sign.

    >>> Tensor([1.5, -2.25]).frac().tolist()
    [0.5, -0.25]
    """
    return self - self.trunc()


def gcd(self, other):
    """The greatest common divisor of integers.

    >>> Tensor([12, 5]).gcd(Tensor([18, 10])).tolist()
    [6, 5]
    """
    from lathe.errors import TypeError as Wrong

    if self.is_floating_point():
        raise Wrong("lathe: gcd: needs integers, not " + str(self.dtype))
    a, b = self.abs(), _beside(other, self).abs()
    a, b = a.maximum(b), a.minimum(b)
    for _ in range(math.ceil(self.dtype.bitsize * 1.45)):  # Fibonacci numbers take the most steps
        zero = b == 0
        a, b = zero.where(a, b).contiguous(), zero.where(b, a.mod(zero.where(1, b))).contiguous()
    return a


def lcm(self, other):
    """The least common multiple of integers.

    >>> Tensor([4, 6]).lcm(Tensor([6, 6])).tolist()
    [12, 6]
    """
    other = _beside(other, self)
    common = gcd(self, other)
    return (common == 0).where(0, (self.div((common == 0).where(1, common), rounding_mode="trunc") * other).abs())


def heaviside(self, values):
    """0 below 0, 1 above, and at 0 the given values.

    >>> Tensor([-1.0, 0.0, 2.0]).heaviside(Tensor([0.5])).tolist()
    [0.0, 0.5, 1.0]
    """
    out = (self > 0).where(self.const_like(1), self.const_like(0))
    out = (self == 0).where(values, out)
    return (self != self).where(0, out) if self.is_floating_point() else out  # PyTorch's choice


def hypot(self, other):
    """sqrt(x^2 + y^2), without overflow between.

    >>> Tensor([3.0]).hypot(Tensor([4.0])).tolist()
    [5.0]
    """
    a, b = self.abs(), _beside(other, self).abs()
    most, least = a.maximum(b), a.minimum(b)
    ratio = least / (most == 0).where(1, most)
    out = most * (1 + ratio.square()).sqrt()
    return (a.isinf() | b.isinf()).where(math.inf, out)


def _i0_double(x):
    """The series around 0 up to 20, the one in 1/x beyond: terms of one sign, so that nothing cancels."""
    quarter, wide = (x / 2).square(), (x < 20).where(20, x)
    inverse = 1 / (8 * wide)
    near = far = x.const_like(1.0)
    for k in range(44, 0, -1):
        near = near * quarter / (k * k) + 1
    for k in range(30, 0, -1):
        far = far * inverse * ((2 * k - 1) ** 2 / k) + 1
    return (x < 20).where(near, far * x.exp() / (2 * math.pi * wide).sqrt())


def i0(self):
    """The modified Bessel function of order 0.

    >>> Tensor([0.0]).i0().item()
    1.0
    """
    x = _float(self).abs()
    if x.dtype.itemsize == 8:
        return _i0_double(x)
    t = (x / 3.75).square()
    small = x.const_like(0.0045813)
    for a in (0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0):
        small = small * t + a
    wide = (x < 3.75).where(3.75, x)
    s = 3.75 / wide
    large = x.const_like(0.00392377)
    for a in (-0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319, 0.01328592, 0.39894228):
        large = large * s + a
    return (x < 3.75).where(small, large * x.exp() / wide.sqrt())


def isneginf(self):
    """Whether it is -inf.

    >>> Tensor([float("-inf"), 1.0]).isneginf().tolist()
    [True, False]
    """
    return self == -math.inf if self.is_floating_point() else self != self


def isposinf(self):
    """Whether it is inf.

    >>> Tensor([float("inf"), 1.0]).isposinf().tolist()
    [True, False]
    """
    return self == math.inf if self.is_floating_point() else self != self


def isreal(self):
    """Whether it is a real number: always.

    >>> Tensor([1.0]).isreal().tolist()
    [True]
    """
    return self.const_like(1).cast("bool") | (self == self)


def ldexp(self, other):
    """self times 2 to the other.

    >>> Tensor([1.5]).ldexp(Tensor([3])).tolist()
    [12.0]
    """
    other = _beside(other, self)
    half = other.div(2, rounding_mode="trunc")  # in two steps, so that the power itself does not overflow
    rest = (half == half - 1).where(0, other - half)  # what is infinite has none
    x = _float(self)
    return x * _float(half).exp2() * _float(rest).exp2()


def _series(z, powers):
    out = z.const_like(0.0)
    for a in reversed(powers):
        out = out * z + a
    return out


def _lgamma(x):
    wide = x.cast("float64")
    reflect = wide < 0.5
    z = reflect.where(1 - wide, wide)
    shift = z.const_like(0.0)
    w = z
    for _ in range(7):  # log of the product up to where the asymptotic series is exact
        shift = shift + w.log()
        w = w + 1
    inverse = 1 / w
    series = inverse * _series(inverse.square(), (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156))
    large = (w - 0.5) * w.log() - w + 0.5 * math.log(2 * math.pi) + series - shift
    whole = wide == wide.floor()
    angle = (wide - wide.round()) * math.pi  # from the nearest whole number, whose neighbours have no other digits left
    mirrored = math.log(math.pi) - (whole.where(1, angle.sin().abs())).log() - large
    out = (whole & (wide <= 0)).where(math.inf, reflect.where(mirrored, large))
    out = wide.isinf().where(math.inf, out)
    return (wide != wide).where(math.nan, out).cast(x.dtype)


def lgamma(self):
    """The logarithm of the size of the gamma function.

    >>> round(Tensor([5.0]).lgamma().item(), 4)
    3.1781
    """
    return _own("lgamma", _lgamma, lambda inputs, out, grad: [grad * digamma(inputs[0])], _float(self))


def digamma(self):
    """The derivative of lgamma.

    >>> round(Tensor([1.0]).digamma().item(), 4)
    -0.5772
    """
    x = _float(self)
    wide = x.cast("float64")
    reflect = wide < 0.5
    z = reflect.where(1 - wide, wide)
    shift = z.const_like(0.0)
    for _ in range(7):
        shift = shift + 1 / z
        z = z + 1
    inverse = (1 / z).square()
    series = inverse * _series(inverse, (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12))
    out = z.log() - 0.5 / z - series - shift
    whole = wide == wide.floor()
    angle = (wide - wide.round()) * math.pi  # from the nearest whole number, whose neighbours have no other digits left
    cotangent = angle.cos() / (whole.where(1, angle.sin()))
    out = reflect.where(out - math.pi * cotangent, out)
    out = (whole & (wide < 0)).where(math.nan, (wide == 0).where(-math.inf, out))
    return out.cast(x.dtype)


def mvlgamma(self, p):
    """The logarithm of the multivariate gamma function.

    >>> round(Tensor([3.0]).mvlgamma(2).item(), 4)
    1.5502
    """
    out = _float(self).const_like(p * (p - 1) / 4 * math.log(math.pi))
    for j in range(p):
        out = out + lgamma(_float(self) - j / 2)
    return out


def logaddexp2(self, other):
    """log2(2^x + 2^y).

    >>> Tensor([1.0]).logaddexp2(Tensor([1.0])).tolist()
    [2.0]
    """
    other = _beside(other, self)
    most = self.maximum(other)
    far = most.isinf()  # there nothing else counts, also for the gradient
    near = [far.where(0, x - most) for x in (self, other)]
    return most + far.where(0, (near[0].exp2() + near[1].exp2()).log2())


def logical_and(self, other):
    """Whether both are not 0.

    >>> Tensor([1, 0]).logical_and(Tensor([2, 3])).tolist()
    [True, False]
    """
    return (self != 0) & (_beside(other, self) != 0)


def logical_or(self, other):
    """Whether one of them is not 0.

    >>> Tensor([1, 0]).logical_or(Tensor([0, 0])).tolist()
    [True, False]
    """
    return (self != 0) | (_beside(other, self) != 0)


def logical_xor(self, other):
    """Whether exactly one of them is not 0.

    >>> Tensor([1, 0]).logical_xor(Tensor([1, 3])).tolist()
    [False, True]
    """
    return (self != 0) ^ (_beside(other, self) != 0)


def logit(self, eps=None):
    """log(x / (1 - x)); with eps x is kept from 0 and 1.

    >>> Tensor([0.5]).logit().tolist()
    [0.0]
    """
    x = _float(self)
    x = x if eps is None else x.clamp(eps, 1 - eps)
    return x.log() - (-x).log1p()


def nan_to_num(self, nan=0.0, posinf=None, neginf=None):
    """NaN and infinities replaced: by 0 and by the largest numbers.

    >>> Tensor([float("nan"), float("inf")]).nan_to_num(posinf=9.0).tolist()
    [0.0, 9.0]
    """
    if not self.is_floating_point():
        return self
    most = _core.finfo(self.dtype)[2]
    out = (self == math.inf).where(most if posinf is None else posinf, self)
    out = (self == -math.inf).where(-most if neginf is None else neginf, out)
    return (self != self).where(0.0 if nan is None else nan, out)


def positive(self):
    """The tensor itself.

    >>> Tensor([-1]).positive().tolist()
    [-1]
    """
    return self


def prelu(self, weight):
    """x where it is positive, weight * x elsewhere.

    >>> Tensor([-4.0, 2.0]).prelu(Tensor([0.25])).tolist()
    [-1.0, 2.0]
    """
    from lathe.nn.functional import prelu

    return prelu(self, weight)


def hardshrink(self, lambd=0.5):
    """x where |x| > lambd, 0 elsewhere.

    >>> Tensor([0.2, 1.0]).hardshrink().tolist()
    [0.0, 1.0]
    """
    return (self.abs() <= lambd).where(0, self)


def sgn(self):
    """The sign.

    >>> Tensor([-2.0, 0.0]).sgn().tolist()
    [-1.0, 0.0]
    """
    return self.sign()


def signbit(self):
    """Whether the sign is minus, of -0.0 too.

    >>> Tensor([-1.0, 0.0, -0.0]).signbit().tolist()
    [True, False, True]
    """
    if not self.is_floating_point():
        return self < 0
    bits = {2: "int16", 4: "int32", 8: "int64", 1: "int8"}[self.dtype.itemsize]
    return self.detach().contiguous().bitcast(bits) < 0


def sinc(self):
    """sin(pi x) / (pi x), 1 at 0.

    >>> Tensor([0.0, 1.0]).sinc().abs().round().tolist()
    [1.0, 0.0]
    """
    x = _float(self) * math.pi
    return (x == 0).where(1, x.sin() / (x == 0).where(1, x))


def xlogy(self, other):
    """x log(y), 0 where x is 0.

    >>> Tensor([0.0, 2.0]).xlogy(Tensor([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """
    x, y = _float(self), _beside(other, self)
    y = _float(y)
    zero = (x == 0) & ((y <= 0) | (y == math.inf))  # elsewhere the product itself is 0 there, and its slope is log(y)
    return zero.where(0, x * zero.where(1, y).log())


def frexp(self):
    """Mantissa (0.5 to 1) and exponent of 2.

    >>> [t.tolist() for t in Tensor([6.0]).frexp()]
    [[0.75], [3]]
    """
    x = _float(self)
    plain = (x == 0) | x.isinf() | (x != x)
    size = plain.where(1, x.abs())
    exponent = size.log2().floor() + 1
    mantissa = size / exponent.exp2()
    high, low = mantissa >= 1, mantissa < 0.5
    exponent = exponent + high.where(1, 0) - low.where(1, 0)
    mantissa = high.where(mantissa / 2, low.where(mantissa * 2, mantissa))
    return plain.where(x, mantissa * x.sign()), plain.where(0, exponent).cast("int32")


def nextafter(self, other):
    """The next number a float can hold, towards the other.

    >>> Tensor([1.0]).nextafter(Tensor([2.0])).item() > 1
    True
    """
    other = _beside(other, self)
    bits = {2: "int16", 4: "int32", 8: "int64"}[self.dtype.itemsize]
    raw = self.contiguous().bitcast(bits)
    up = ((other > self) & (self > 0)) | ((other < self) & (self < 0))
    moved = (raw + up.where(1, -1).cast(bits)).contiguous().bitcast(self.dtype)
    tiny = self.const_like(1).cast(bits).mul(0).add(1).contiguous().bitcast(self.dtype)
    moved = (self == 0).where((other > 0).where(tiny, -tiny), moved)
    out = (self == other).where(other, moved)
    return ((self != self) | (other != other)).where(math.nan, out)


def bernoulli(self, p=None):
    """1 with the probability of the element (or p), 0 otherwise.

    >>> Tensor([0.0, 1.0]).bernoulli().tolist()
    [0.0, 1.0]
    """
    chance = self if p is None else p
    return (Tensor.rand(*self.shape, device=self.device) < chance).cast(self.dtype)


def angle(self):
    """0, or pi for negative numbers.

    >>> Tensor([1.0, -1.0]).angle().numpy().round(2).tolist()
    [0.0, 3.140000104904175]
    """
    x = _float(self)
    return (x != x).where(x, (x < 0).where(math.pi, 0.0).cast(x.dtype))


def polygamma(self, n=None):
    """The n-th derivative of digamma (n up to 1): `x.polygamma(1)`.

    >>> round(Tensor([1.0]).polygamma(1).item(), 4)
    1.6449
    """
    from lathe.errors import UserError

    if n == 0:
        return digamma(self)
    if n != 1:
        raise UserError(f"lathe: polygamma: n is 0 or 1, not {n}")
    x = _float(self)
    wide = x.cast("float64")
    reflect = wide < 0.5
    z = reflect.where(1 - wide, wide)
    total = z.const_like(0.0)
    for _ in range(8):
        total = total + (1 / z).square()
        z = z + 1
    inverse = 1 / z
    series = _series(inverse.square(), (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66)) * inverse * inverse.square()
    total = total + inverse + 0.5 * inverse.square() + series
    sine = ((wide - wide.round()) * math.pi).sin()
    whole = wide == wide.floor()
    mirrored = math.pi**2 / whole.where(1, sine).square() - total
    out = (whole & (wide <= 0)).where(math.inf, reflect.where(mirrored, total))
    return out.cast(x.dtype)
