#include "codegen/decompose/decompose_math.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/planted.h"
#include "codegen/decompose/decompose_parts.h"
#include "codegen/decompose/decompose_trig.h"
#include "ir/machine_ops.h"

namespace lathe {
namespace {

using namespace decompose_parts;

// 2^f = 1 + f*log(2) + f*f*q(f) for |f| <= 1/2; relative error 2^-28.2 and 2^-55.5.
constexpr double kExp2Float[] = {0x1.ebfbdcp-3, 0x1.c6af84p-5, 0x1.3b2daep-7, 0x1.5f06d6p-10, 0x1.41aab0p-13};
constexpr double kExp2Double[] = {0x1.ebfbdff82c5a1p-3,  0x1.c6b08d7049f5dp-5,  0x1.3b2ab6fba0568p-7,
                                  0x1.5d87fe78c6853p-10, 0x1.4309130f219f0p-13, 0x1.ffcbfc8321e5ap-17,
                                  0x1.62bfc4682c3edp-20, 0x1.b5236e00b64afp-24, 0x1.e62411799ccffp-28,
                                  0x1.edc49af0434dbp-32};
// 2^f = 1 + f*q(f), where multiply-adds are fused: the last one rounds little more than the result itself.
// Relative error 2^-27.0.
constexpr double kExp2Fused[] = {0x1.62e430p-1, 0x1.ebfbe0p-3,  0x1.c6afdcp-5,
                                 0x1.3b2daep-7, 0x1.5eda32p-10, 0x1.4045c0p-13};
// log(2) with a short head, so that its product with a short number is exact.
constexpr double kLn2Float[] = {0x1.62ep-1, 0x1.0bfbe8p-15};
constexpr double kLn2Double[] = {0x1.62e43p-1, -0x1.05c610ca86c39p-29};

// 2*atanh(s) = 2*s + s*z*p(z) with z = s*s, for (m - 1)/(m + 1) = s and 1/sqrt(2) <= m <= sqrt(2);
// relative error 2^-30.2 and 2^-59.5.
constexpr double kLogFloat[] = {0x1.55557ap-1, 0x1.995eccp-2, 0x1.31e23ep-2};
constexpr double kLogDouble[] = {0x1.5555555555593p-1, 0x1.999999997f9f8p-2, 0x1.249249422a476p-2,
                                 0x1.c71c51d7ccdfep-3, 0x1.746649b01fcbfp-3, 0x1.39a0957a2d144p-3,
                                 0x1.2f11802c343a0p-3};

// log2(e), likewise.
constexpr double kLog2eFloat[] = {0x1.716p+0, -0x1.7135a8p-13};
constexpr double kLog2eDouble[] = {0x1.7154768p+0, -0x1.6a3e80f444178p-27};

// 2^f for |f| <= 1/2. 1 + f*log(2) is rounded; what the rounding lost is added to the rest of the series.
Node exp2_of_fraction(const Real& r, Node f) {
  const bool narrow = r.mantissa == 23;
  auto ln2 = narrow ? std::span<const double>(kLn2Float) : std::span<const double>(kLn2Double);
  Node series = r.polynomial(f, narrow ? std::span<const double>(kExp2Float) : kExp2Double);
  Node rest = r.multiply_add(series, f, r.number(f, ln2[1]));
  Node head = r.number(f, ln2[0]), one = r.number(f, 1), linear, lost;
  if (r.fma) {
    linear = apply(Op::Fma, f, head, one);
    lost = apply(Op::Fma, f, head, sub(one, linear));
  } else {
    Node upper = r.short_head(f), exact = upper * head;
    linear = one + exact;
    lost = (sub(one, linear) + exact) + sub(f, upper) * head;
  }
  return linear + r.multiply_add(f, rest, lost);
}

Node exp2_of_rest(const Real& r, Node f) {
  if (planted(Fault::ExpPolynomial)) f = f * r.number(f, 1 - 0x1p-12);
  return r.fma && r.mantissa == 23 ? apply(Op::Fma, r.polynomial(f, kExp2Fused), f, r.number(f, 1))
                                   : exp2_of_fraction(r, f);
}

// x = n + f with n whole, in one step each where the machine has them. No limits are needed: beyond them
// scaling gives 0 or infinity, also of the NaN that the fraction of an infinity makes.
Node scaled_exp2_of(const Real& r, Node x) { return scale(exp2_of_rest(r, fraction(x)), x); }

// x = n + f with n whole; the result is 2^f scaled by two powers of two, because 2^n alone may be no normal
// number while the result is one, and so that a subnormal result is rounded once.
Node exp2_of(const Real& r, Node x) {
  bool narrow = r.mantissa == 23;
  // Beyond these the result is 0 or infinity. Comparisons with NaN are false, so NaN goes through.
  double low = narrow ? -151 : -1076, high = narrow ? 129 : 1025;
  Node in_range = where(less(x, r.number(x, low)), r.number(x, low), x);
  in_range = where(less(r.number(x, high), in_range), r.number(x, high), in_range);
  // Adding 1.5 * 2^mantissa leaves the nearest integer in the low bits.
  double shifter = std::ldexp(1.5, r.mantissa);
  Node shifted = in_range + r.number(x, shifter);
  Node f = sub(in_range, sub(shifted, r.number(x, shifter)));
  Node power = exp2_of_rest(r, f);
  // Twice the bias is added before halving, so that nothing is negative.
  std::uint64_t zero = narrow ? std::bit_cast<std::uint32_t>(static_cast<float>(shifter))
                              : std::bit_cast<std::uint64_t>(shifter);
  Node exponent = sub(r.to_bits(shifted), r.integer(x, zero - 2 * static_cast<std::uint64_t>(r.bias)));
  Node first = shift_right(exponent, r.integer(x, 1));
  Node second = sub(exponent, first);
  Node width = r.integer(x, static_cast<std::uint64_t>(r.mantissa));
  return power * r.from_bits(shift_left(first, width)) * r.from_bits(shift_left(second, width));
}

// x = m * 2^e with m within [1/sqrt(2), sqrt(2)), f = m - 1 (exact), s = f/(2 + f):
//   log(m) = 2*atanh(s) = f - s*(f - z*p(z)),    log2(x) = e + log2(e)*log(m).
// Only the product of f with the head of log2(e) needs care: the rest is at most a fifth of the result.
Node log2_of(const Real& r, Node x) {
  bool narrow = r.mantissa == 23;
  int lift = narrow ? 24 : 54;  // subnormals are scaled by 2^lift
  Node subnormal = less(x, r.number(x, std::ldexp(1.0, 1 - r.bias)));
  Node scaled = where(subnormal, x * r.number(x, std::ldexp(1.0, lift)), x);
  std::uint64_t root_half = narrow ? 0x3f3504f3 : 0x3fe6a09e667f3bcd;  // bits of sqrt(1/2)
  Node moved = r.to_bits(scaled) + r.integer(x, r.encoding(r.bias) - root_half);
  Node biased = shift_right(moved, r.integer(x, static_cast<std::uint64_t>(r.mantissa)));
  Node m = r.from_bits(bit_and(moved, r.integer(x, r.encoding(1) - 1)) + r.integer(x, root_half));
  Node e = cast(cast(biased, dtypes::Int32), r.type) +
           where(subnormal, r.number(x, -(r.bias + lift)), r.number(x, -r.bias));

  Node f = sub(m, r.number(x, 1));
  Node s = f / (f + r.number(x, 2));
  Node z = s * s;
  Node tail = z * r.polynomial(z, narrow ? std::span<const double>(kLogFloat) : kLogDouble);
  Node t = s * sub(f, tail);
  auto log2e = narrow ? std::span<const double>(kLog2eFloat) : std::span<const double>(kLog2eDouble);
  Node small = sub(f * r.number(x, log2e[1]), t * r.number(x, log2e[0] + log2e[1]));
  Node head = r.number(x, log2e[0]);
  Node log_m;
  if (r.fma) {
    log_m = apply(Op::Fma, f, head, small);
  } else {
    Node upper = r.short_head(f), lower = sub(f, upper);
    log_m = upper * head + (lower * head + small);
  }
  if (planted(Fault::LogPolynomial)) e = e + r.number(x, 1);
  Node result = e + log_m;

  result = where(less(x, r.infinity(x)), result, x);  // infinity and NaN
  result = where(less(x, r.number(x, 0)), r.nan(x), result);
  return where(equal(x, r.number(x, 0)), r.number(x, -std::numeric_limits<double>::infinity()), result);
}

}  // namespace

Node decompose_math(Op op, Node x, bool fma, bool scales) {
  Real r(x.dtype(), fma);
  switch (op) {
    case Op::Exp2: return scales && r.mantissa == 23 ? scaled_exp2_of(r, x) : exp2_of(r, x);
    case Op::Log2: return log2_of(r, x);
    case Op::Sin:
    case Op::Cos: return decompose_trig(op, x, fma);
    default: throw InternalError("decompose", std::string(info(op).name) + " has no polynomial");
  }
}

}  // namespace lathe
