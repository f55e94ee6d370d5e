#include "reference/lane_products.h"

#include <algorithm>
#include <cmath>

#include "ir/value.h"

namespace lathe::reference {
namespace {

// The planes are themselves products of rounded doubles.
constexpr double kMargin = 1 + 1e-6;

// Running value and relative errors only: what a subnormal product loses, product_end adds.
template <bool Pairs>
void multiply(const LaneStep& s) {
  const double chained = *s.chained;
  for (int i = 0; i < s.n; ++i) {
    const double x = s.x.v[i].f, e = s.y.v[i].f;
    const double a[2] = {s.x.l[i], s.x.w[i]}, b[2] = {s.y.l[i], s.y.w[i]};
    double v = x * e, low = 0;
    if constexpr (Pairs) {
      low = MulRule::low({x, e, 0}, {s.x.low[i], s.y.low[i], 0}, v);
      normalize(v, low);
      s.d.low[i] = low;
    }
    double l = MulRule::spread(x, e, 0, v, a[0], b[0], 0), w = MulRule::spread(x, e, 0, v, a[1], b[1], 0);
    const bool first = s.sum.terms[i]++ == 0;
    if (first) s.sum.most[i] = s.sum.least[i] = 1;
    // In other orders other steps are the exact ones, unless all are.
    s.sum.uneven[i] += b[1] + std::fabs(low) != 0 || !MulRule::exact(x, e, 0, v, s.rounding->precision);
    if (!first) {
      const double size = std::fabs(v);
      l += s.own * (size + l) * chained;
      w += s.own * (size + w);
    }
    s.d.v[i].f = v;
    s.d.l[i] = l;
    s.d.w[i] = w;

    const bool exact = b[1] == 0;
    if (exact && e == 0) {
      s.sum.zeros[i] += 1;
    } else if (exact && std::isinf(e)) {
      s.sum.infinite[i] += 1;
    } else {  // NaN stays in `least`
      const double most = std::fabs(e) + b[1], least = std::max(std::fabs(e) - b[1], 0.0);
      if (!(most <= 1)) s.sum.most[i] *= most;
      s.sum.least[i] *= std::isnan(e) ? e : std::min(least, 1.0);
    }
  }
}

}  // namespace

LaneFn product_step(bool pairs) { return pairs ? multiply<true> : multiply<false>; }

void product_end(const LaneStep& s) {
  const Rounding& r = *s.rounding;
  const double normal = r.tiny * std::ldexp(1.0, r.precision);
  for (int i = 0; i < s.n; ++i) {
    double &v = s.d.v[i].f, &l = s.d.l[i], &w = s.d.w[i];
    const double most = s.sum.most[i], least = s.sum.least[i], n = s.sum.terms[i];
    const bool zero = s.sum.zeros[i] > 0, infinite = s.sum.infinite[i] > 0;
    const bool may_overflow = !(most * kMargin < r.limit), may_vanish = !(least > 4 * r.tiny);
    const auto is = [&](double value) {
      v = value;
      l = w = 0;
    };
    const auto open = [&] { l = w = kOpen; };
    if (n == 0) continue;
    if (std::isnan(least) || (zero && infinite)) {
      is(std::nan(""));
    } else if (zero) {
      may_overflow ? open() : is(v);
    } else if (infinite) {
      may_vanish ? open() : is(v);
    } else if (!may_overflow) {
      if (s.sum.uneven[i] == 0) l = w = 0;
      // A subnormal product on the way is off by `tiny`, and grows with what it is multiplied by.
      const double lost = least < normal * kMargin ? 2 * n * r.tiny * most : 0;
      l += lost;
      w += lost;
      if (!(std::fabs(v) + w < r.limit)) open();
    } else if (!may_vanish && (std::isinf(v) ? least == 1 : std::fabs(v) - w > r.limit * kMargin)) {
      is(round_to(s.from->node.dtype().element(), v));
    } else {
      open();
    }
    s.sum.terms[i] = s.sum.uneven[i] = s.sum.zeros[i] = s.sum.infinite[i] = 0;
  }
}

}  // namespace lathe::reference
