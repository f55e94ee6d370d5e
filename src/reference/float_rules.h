// One struct per float op: its value in double; `spread`, what errors a, b and c of the operands x, y and z
// make of the result v; `exact`, where a device is exact although the op rounds; and `low`, what v has lost
// to rounding where values are pairs (`low` of the operands beside them).
//
// Operands reach from the smallest double to the largest, so a spread divides before it multiplies: one that
// overflows on the way says nothing, one that underflows says that a right result is wrong.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/rounding.h"

namespace lathe::reference {

// A bound of infinity: nothing can be said.
inline constexpr double kOpen = __builtin_huge_val();

inline constexpr double kLn2 = 0.69314718055994530942;

inline bool is_open(double e) { return !(e < kOpen); }

struct Lane {
  double x, y, z;
};

// What the sum v of two doubles has lost.
inline double rest_of_sum(double x, double y, double v) {
  const double part = v - x;
  return (x - (v - part)) + (y - part);
}
// What a result in the widest float has beyond a double.
inline double finer(long double exact, double v) {
  return static_cast<double>(exact - static_cast<long double>(v));
}

// Puts as much of v + low into v as fits.
inline void normalize(double& v, double& low) {
  if (!std::isfinite(low)) low = 0;
  if (low == 0) return;  // keeps the sign of a zero
  const double whole = v + low;
  if (!std::isfinite(whole)) return;
  low -= whole - v;
  v = whole;
}

// Ops that round their exact result.
struct Rounded {
  static bool exact(double, double, double, double v, int precision) { return fits_precision(v, precision); }
};
struct AddRule : Rounded {
  static double value(double x, double y, double) { return x + y; }
  static double spread(double, double, double, double, double a, double b, double) { return a + b; }
  static double low(const Lane& at, const Lane& low, double v) {
    return rest_of_sum(at.x, at.y, v) + (low.x + low.y);
  }
};
struct SubRule : Rounded {
  static double value(double x, double y, double) { return x - y; }
  static double spread(double, double, double, double, double a, double b, double) { return a + b; }
  static double low(const Lane& at, const Lane& low, double v) {
    return rest_of_sum(at.x, -at.y, v) + (low.x - low.y);
  }
};
struct MulRule {
  // A product that is too small for any number is not exact.
  static bool exact(double x, double y, double, double v, int precision) {
    return (v != 0 || x == 0 || y == 0) && fits_precision(v, precision);
  }
  static double value(double x, double y, double) { return x * y; }
  static double spread(double x, double y, double, double, double a, double b, double) {
    return std::fabs(x) * b + std::fabs(y) * a + a * b;
  }
  static double low(const Lane& at, const Lane& low, double v) {
    return std::fma(at.x, at.y, -v) + (at.x * low.y + at.y * low.x);
  }
};
struct FmaRule : Rounded {
  static double value(double x, double y, double z) { return x * y + z; }
  static double spread(double x, double y, double, double, double a, double b, double c) {
    return std::fabs(x) * b + std::fabs(y) * a + a * b + c;
  }
  static double low(const Lane& at, const Lane& low, double v) {
    const double product = at.x * at.y;
    return std::fma(at.x, at.y, -product) + rest_of_sum(product, at.z, v) +
           (at.x * low.y + at.y * low.x + low.z);
  }
};
struct DivRule : Rounded {
  static double value(double x, double y, double) { return x / y; }
  static double spread(double, double y, double, double v, double a, double b, double) {
    if (a + b == 0) return 0;
    const double least = std::fabs(y) - b;
    return least > 0 ? a / least + std::fabs(v) * (b / least) : kOpen;
  }
  static double low(const Lane& at, const Lane& low, double v) {
    // In a range where what is left of x does not vanish.
    const double scale = std::fabs(at.y) < 0x1p-500 ? 0x1p500 : 1, y = at.y * scale;
    return (std::fma(-v, y, at.x * scale) + (low.x - v * low.y) * scale) / y;
  }
};
struct RecipRule : Rounded {
  static double value(double x, double, double) { return 1 / x; }
  static double spread(double x, double, double, double, double a, double, double) {
    if (a == 0) return 0;
    const double least = std::fabs(x) - a;
    return least > 0 ? a / std::fabs(x) / least : kOpen;
  }
  static double low(const Lane& at, const Lane& low, double v) {
    return (std::fma(-v, at.x, 1.0) - v * low.x) / at.x;
  }
};
struct SqrtRule : Rounded {
  static double value(double x, double, double) { return std::sqrt(x); }
  static double spread(double x, double, double, double v, double a, double, double) {
    if (a == 0) return 0;
    return x - a >= 0 ? a / (v + std::sqrt(x - a)) : kOpen;
  }
  static double low(const Lane& at, const Lane& low, double v) {
    if (v == 0) return 0;
    const double scale = at.x < 0x1p-800 ? 0x1p100 : 1, root = v * scale;  // as in a division
    return (std::fma(-root, root, at.x * scale * scale) + low.x * scale * scale) / (2 * root * scale);
  }
};
struct Exp2Rule {
  static double value(double x, double, double) { return std::exp2(x); }
  static double spread(double x, double, double, double v, double a, double, double) {
    if (a == 0) return 0;
    // The upper end is the further one. Beside it, a result that vanishes says nothing of how far it is.
    return v < std::numeric_limits<double>::min() ? std::exp2(x + a) : v * std::expm1(a * kLn2);
  }
  static bool exact(double x, double, double, double, int) { return x == std::rint(x); }
  static double low(const Lane& at, const Lane& low, double v) {
    return finer(exp2l(at.x), v) + v * kLn2 * low.x;
  }
};
struct Log2Rule {
  static double value(double x, double, double) { return std::log2(x); }
  static double spread(double x, double, double, double, double a, double, double) {
    if (a == 0) return 0;
    return a < x ? -std::log1p(-a / x) / kLn2 : kOpen;
  }
  static bool exact(double x, double, double, double v, int) {
    return v == std::rint(v) && std::exp2(v) == x;
  }
  static double low(const Lane& at, const Lane& low, double v) {
    return finer(log2l(at.x), v) + low.x / (at.x * kLn2);
  }
};
struct SinRule {
  static double value(double x, double, double) { return std::sin(x); }
  static double spread(double, double, double, double, double a, double, double) {
    return is_open(a) ? kOpen : std::min(a, 2.0);  // of an angle that may be infinite nothing is known
  }
  static bool exact(double x, double, double, double, int) { return x == 0; }
  static double low(const Lane& at, const Lane& low, double v) {
    return finer(sinl(at.x) * cosl(low.x) + cosl(at.x) * sinl(low.x), v);  // low may be many turns
  }
};
struct CosRule : SinRule {
  static double value(double x, double, double) { return std::cos(x); }
  static double low(const Lane& at, const Lane& low, double v) {
    return finer(cosl(at.x) * cosl(low.x) - sinl(at.x) * sinl(low.x), v);
  }
};
struct FloorRule : Rounded {
  static double value(double x, double, double) { return std::floor(x); }
  static double spread(double x, double, double, double v, double a, double, double) {
    return a == 0 ? 0 : std::max(std::floor(x + a) - v, v - std::floor(x - a));
  }
  static double low(const Lane&, const Lane&, double) { return 0; }
};
struct TruncRule : Rounded {
  static double value(double x, double, double) { return std::trunc(x); }
  static double spread(double x, double, double, double v, double a, double, double) {
    return a == 0 ? 0 : std::max(std::trunc(x + a) - v, v - std::trunc(x - a));
  }
  static double low(const Lane&, const Lane&, double) { return 0; }
};
struct NegRule : Rounded {
  static double value(double x, double, double) { return -x; }
  static double spread(double, double, double, double, double a, double, double) { return a; }
  static double low(const Lane&, const Lane& low, double) { return -low.x; }
};
struct RoundRule : Rounded {  // a conversion between floats
  static double value(double x, double, double) { return x; }
  static double spread(double, double, double, double, double a, double, double) { return a; }
  static double low(const Lane&, const Lane& low, double) { return low.x; }
};

}  // namespace lathe::reference
