#include "tensor/functions.h"

#include <cmath>
#include <numbers>
#include <span>

#include "tensor/impl.h"
#include "tensor/own_gradient.h"

namespace lathe::functions {
namespace {

constexpr double kLn2 = std::numbers::ln2, kLog2E = std::numbers::log2e, kPi = std::numbers::pi;

// What depends on the format. The polynomials are of scripts/fit_polynomials.py, lowest power first.
struct Format {
  double least_exp;   // below it e^x is 0
  double round_exp;   // added and taken away again, it rounds to few bits behind the point
  double ln2[2];      // log(2) with a head whose product with such a number is exact
  double tiny;        // below it x^2 is nothing beside 1
  double big;         // above it 1 is nothing beside x^2
  double whole_mish;  // above it mish(x) is x
  std::span<const double> atan, coth, sinh;
};

// atan(r) = r + r*z*p(z), r*coth(r) = 1 + z*p(z), sinh(r) = r + r*z*p(z), with z = r*r, for |r| up to
// tan(pi/8), 0.63 and 1.
constexpr double kAtanFloat[] = {-0x1.55554ap-2, 0x1.9991e0p-3, -0x1.23b964p-3, 0x1.b21fb8p-4,
                                 -0x1.f2ca0ap-5};
constexpr double kAtanDouble[] = {-0x1.555555555553cp-2, 0x1.999999999564ep-3,  -0x1.24924922a069bp-3,
                                  0x1.c71c70e108503p-4,  -0x1.745cf84bb35f3p-4, 0x1.3b110f0204160p-4,
                                  -0x1.10eb44b09c640p-4, 0x1.df08ac81d31f6p-5,  -0x1.9cb4ab8d51251p-5,
                                  0x1.37889de89ed37p-5,  -0x1.24c03bf39f375p-6};
constexpr double kCothFloat[] = {0x1.555554p-2, -0x1.6c1402p-6, 0x1.14a760p-9, -0x1.94b292p-13};
constexpr double kCothDouble[] = {0x1.5555555555543p-2,   -0x1.6c16c16c10eacp-6, 0x1.1566abbafc051p-9,
                                  -0x1.bbd774eab28c1p-13, 0x1.66a7f2b38dcecp-16, -0x1.225d69659e2dbp-19,
                                  0x1.d1483ae731a56p-23,  -0x1.3f644fbf50d94p-26};
constexpr double kSinhFloat[] = {0x1.555556p-3, 0x1.1110e0p-7, 0x1.a022b6p-13, 0x1.756df8p-19};
constexpr double kSinhDouble[] = {0x1.5555555555556p-3,  0x1.111111111101ep-7,  0x1.a01a01a037269p-13,
                                  0x1.71de3a3b06befp-19, 0x1.ae646ff5097cep-26, 0x1.6116f4a1267efp-33,
                                  0x1.b5c897041e375p-41};

constexpr Format kFloat = {
    -104, 0x1.8p19, {0x1.62ep-1, 0x1.0bfbe8p-15}, 0x1p-13, 0x1p14, 20, kAtanFloat, kCothFloat, kSinhFloat};
constexpr Format kDouble = {-746,        0x1.8p42,    {0x1.62e43p-1, -0x1.05c610ca86c39p-29},
                            0x1p-27,     0x1p28,      40,
                            kAtanDouble, kCothDouble, kSinhDouble};

const Format& format_of(const Tensor& x) { return x.dtype() == dtypes::float64 ? kDouble : kFloat; }

// c[0] + z*(c[1] + z*(...)).
Tensor polynomial(const Tensor& z, std::span<const double> c) {
  Tensor sum = z * c.back() + c[c.size() - 2];
  for (std::size_t i = c.size() - 2; i-- > 0;) sum = sum * z + c[i];
  return sum;
}

// r*coth(r) for |r| up to 0.63.
Tensor times_coth(const Tensor& r) {
  const Tensor z = r * r;
  return z * polynomial(z, format_of(r).coth) + 1.0;
}

// The sign of x on a function of |x| that is x near 0.
Tensor odd(const Tensor& x, const Tensor& of_size) {
  return (x.abs() < format_of(x).tiny).where(x, (x < 0).where(of_size.neg(), of_size));
}

// log(1 + e) for 0 <= e <= 1: what 1 + e loses in rounding is made good by the derivative.
Tensor log_of_one_and(const Tensor& e) {
  const Tensor u = e + 1.0;
  return u.log() + (e - (u - 1.0)) / u;
}

}  // namespace

Tensor square_is_all(const Tensor& x) { return x.detach().abs() > format_of(x).big; }
Tensor mish_is_whole(const Tensor& x) { return x.detach() > format_of(x).whole_mish; }

// x*log2(e) is rounded, which costs as many units as the result has bits before its point. So it is split:
// with p the rounded product and s its upper bits,
//   x - p*log(2) = (x - s*head - s*tail) - (p - s)*log(2),
// where x - s*head is exact, and e^x = 2^p * (1 + that).
Tensor exponential(const Tensor& input, double power) {
  const Tensor x = input.detach();
  const Format& f = format_of(x);
  const Tensor product = x * kLog2E, p = power == 0 ? product : product + power;
  const Tensor s = (p + f.round_exp) - f.round_exp, whole = power == 0 ? s : s - power;
  const Tensor rest = ((x - whole * f.ln2[0]) - whole * f.ln2[1]) - (p - s) * kLn2;
  const Tensor near = p.exp2(), finite = (x > f.least_exp) & (near < INFINITY);
  const Tensor out = finite.where(near + near * rest, near);
  return with_own_gradient("lathe.exp", out, {input});
}

Tensor weight(const Tensor& x) {
  return (x.cast(sum_accumulator(x.dtype())) * kLog2E).exp2().cast(x.dtype());
}

// e^x - 1 = x / (r*coth(r) - r) with r = x/2.
Tensor expm1(const Tensor& x) {
  const Tensor r = x * 0.5;
  return with_own_gradient("lathe.expm1",
                           (x.abs() < 1.0).where(x / (times_coth(r) - r), exponential(x) - 1.0), {x});
}

Tensor log1p(const Tensor& x) {
  const Tensor u = x + 1.0, inside = (u > 0) & (u < INFINITY);
  const Tensor out = u.log() + inside.where((x - (u - 1.0)) / u, 0);
  return with_own_gradient("lathe.log1p", (u == 1).where(x, out), {x});
}

Tensor sinh(const Tensor& x) {
  const Tensor size = x.abs(), half = exponential(size, -1), large = half - 0.25 / half, z = x * x;
  const Tensor small = x * (z * polynomial(z, format_of(x).sinh)) + x;
  return with_own_gradient("lathe.sinh", (size < 1.0).where(small, (x < 0).where(large.neg(), large)), {x});
}

Tensor cosh(const Tensor& x) {
  const Tensor half = exponential(x.abs(), -1);
  return with_own_gradient("lathe.cosh", half + 0.25 / half, {x});
}

Tensor tanh(const Tensor& x) {
  const Tensor large = 1.0 - 2.0 / ((x * (2 * kLog2E)).exp2() + 1.0);
  return with_own_gradient("lathe.tanh", (x.detach().abs() < 0.625).where(x / times_coth(x), large), {x});
}

// log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1))), and log(2a) far out.
Tensor asinh(const Tensor& x) {
  const Tensor a = x.abs(), z = a * a;
  const Tensor near = log1p(a + z / ((z + 1.0).sqrt() + 1.0));
  return with_own_gradient("lathe.asinh", odd(x, square_is_all(x).where(a.log() + kLn2, near)), {x});
}

Tensor acosh(const Tensor& x) {
  const Tensor t = x - 1.0, near = log1p(t + (t * (t + 2.0)).sqrt());
  const Tensor out = square_is_all(x).where(x.log() + kLn2, near);
  return with_own_gradient("lathe.acosh", (x < 1).where(std::nan(""), out), {x});
}

Tensor atanh(const Tensor& x) {
  const Tensor a = x.abs();
  return with_own_gradient("lathe.atanh", odd(x, log1p((a + a) / (1.0 - a)) * 0.5), {x});
}

Tensor asin(const Tensor& x) {
  return with_own_gradient("lathe.asin", atan(x / ((1.0 - x) * (x + 1.0)).sqrt()), {x});
}

Tensor acos(const Tensor& x) {
  return with_own_gradient("lathe.acos", atan(((1.0 - x) / (x + 1.0)).sqrt()) * 2.0, {x});
}

// atan(a) = pi/4 + atan((a - 1) / (a + 1)) = pi/2 + atan(-1 / a), whichever leaves the least.
Tensor atan(const Tensor& x) {
  const double kThird = std::numbers::sqrt2 - 1;  // tan(pi/8)
  const Tensor a = x.abs(), low = a < kThird, high = a > 1 / kThird;
  const Tensor r = high.where(-1.0, low.where(a, a - 1.0)) / high.where(a, low.where(a.ones_like(), a + 1.0));
  const Tensor z = r * r, rest = r * (z * polynomial(z, format_of(x).atan)) + r;
  const Tensor base = high.where(kPi / 2, low.where(a.zeros_like(), kPi / 4));
  return with_own_gradient("lathe.atan", odd(x, base + rest), {x});
}

namespace {

// erf(r) = r*p(r*r) for |r| below 3/4, erfc(a) = e^(-a*a)*p((a - 3)/(a + 3)) above, in float64.
constexpr double kErfDouble[] = {0x1.20dd750429b6dp+0,   -0x1.812746b0379a1p-2,  0x1.ce2f21a03f49bp-4,
                                 -0x1.b82ce311476f9p-6,  0x1.565bccd04072ep-8,   -0x1.c02da600e9249p-11,
                                 0x1.f9a137cc965fap-14,  -0x1.f4a7606014054p-17, 0x1.b792490f5325cp-20,
                                 -0x1.4c17882bc078bp-23, 0x1.4eb8a25059616p-27};
constexpr double kErfcDouble[] = {
    0x1.6e9827d229d2dp-3,   -0x1.4e102b9cf8513p-2, 0x1.f6ff204105979p-3,  -0x1.336ffbef08b4cp-3,
    0x1.258b13b0177c4p-4,   -0x1.8fa58eb5d9136p-6, 0x1.17c838eede675p-8,  0x1.73101e76b4396p-11,
    -0x1.39084c8523462p-11, 0x1.7ba1064c39da8p-15, 0x1.0cac416a55b4ap-14, -0x1.af8753ef0d129p-17,
    -0x1.0bb612ff90f62p-17, 0x1.1c9827ffb191bp-19, 0x1.507bdc1b7a25cp-20, -0x1.3d463b189ed83p-22,
    -0x1.fc3e50ed7dd5dp-23, 0x1.150a90d721be2p-25, 0x1.a23cf79b8c29ep-25, -0x1.17dc2467ad144p-28,
    -0x1.24b6533352fc0p-27, 0x1.08bb97af1c187p-29};

struct ErrorParts {
  Tensor near_zero;   // erf(x), good where |x| < 3/4
  Tensor complement;  // erfc(|x|), good elsewhere
};

ErrorParts error_parts(const Tensor& x) {
  const Tensor a = x.abs(), z = x * x;
  if (x.dtype() == dtypes::float64)
    return {x * polynomial(z, kErfDouble),
            exponential(z.neg()) * polynomial(1.0 - 6.0 / (a + 3.0), kErfcDouble)};
  // 2^-q, where q is a polynomial for -log2(1 - erf) that grows without bound, so that infinity gives 0.
  const Tensor minus_q =
      a * (-1.6282723908139531 +
           a * (-0.9163738374448815 +
                a * (-0.15328980601567946 +
                     a * (0.03439176886243434 +
                          a * (-0.005352703555832137 +
                               a * (0.0005009859354747395 + a * -2.0777795230890078e-05))))));
  const Tensor small =
      x * (1.1283790862994607 +
           z * (-0.37611930324191095 +
                z * (0.11273739714499738 + z * (-0.026360345024882742 + z * 0.004158899089614638))));
  return {small, minus_q.exp2()};
}

}  // namespace

Tensor erf(const Tensor& x) {
  const auto [near_zero, complement] = error_parts(x.detach());
  const Tensor size = 1.0 - complement;
  return with_own_gradient("lathe.erf", (x.abs() < 0.75).where(near_zero, (x < 0).where(size.neg(), size)),
                           {x});
}

Tensor erfc(const Tensor& x) {
  const auto [near_zero, complement] = error_parts(x.detach());
  return with_own_gradient(
      "lathe.erfc", (x.abs() < 0.75).where(1.0 - near_zero, (x < 0).where(2.0 - complement, complement)),
      {x});
}

Tensor softplus(const Tensor& x) {
  const Tensor out = x.maximum(0) + log_of_one_and(exponential(x.abs().neg()));
  return with_own_gradient("lathe.softplus", out, {x});
}

// tanh(log(1 + e)) = n / (n + 2) with n = e*(e + 2), e = e^x.
Tensor mish(const Tensor& x) {
  const Tensor whole = mish_is_whole(x), inside = whole.where(0, x);
  const Tensor e = exponential(inside), n = e * (e + 2.0);
  return with_own_gradient("lathe.mish", whole.where(x, inside * (n / (n + 2.0))), {x});
}

// x/2 * (1 + tanh(u)) = x * sigmoid(2u): nothing cancels.
Tensor gelu_tanh(const Tensor& x) {
  const Tensor u = x * (x * x * 0.044715 + 1.0) * (2 * 0.79788456080286536);
  return with_own_gradient("lathe.gelu_tanh", x * u.sigmoid(), {x});
}

Tensor softsign(const Tensor& x) { return with_own_gradient("lathe.softsign", x / (x.abs() + 1.0), {x}); }

}  // namespace lathe::functions
