#include "verify/compare.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe::verify {

double magnitude_of(const reference::Array& array) {
  double most = 0;
  if (!array.dtype().is_float()) return most;
  for (std::int64_t i = 0; i < array.size(); ++i)
    if (const double value = std::abs(array.number(i)); std::isfinite(value)) most = std::max(most, value);
  return most;
}

double epsilon_of(DType dtype) {
  double step = 1;
  while (round_to(dtype.element(), 1 + step / 2) != 1) step /= 2;
  return step;
}

Tolerance tolerance_of(Node kernel, DType stored) {
  Tolerance t;
  t.epsilon = stored.is_float() ? epsilon_of(stored) : 0;
  NodeMap<double> roundings;  // on the longest way to each node
  double most = 0;
  for (Node n : toposort(kernel)) {
    double count = 0;
    for (Node a : n.args()) count = std::max(count, roundings[a]);
    bool computes = is_elementwise(n.op()) || n.is(Op::Reduce) || n.is(Op::Fold);
    if (computes && n.dtype().is_float()) {
      t.epsilon = std::max(t.epsilon, epsilon_of(n.dtype()));
      count += 1;
    }
    for (Node r : closed_ranges(n))
      if (!n.is(Op::End)) count += static_cast<double>(std::max<std::int64_t>(r.arg(0).hi(), 1));
    roundings[n] = count;
    most = std::max(most, count);
  }
  t.roundings += most;
  return t;
}

namespace {

double largest_finite(const reference::Array& a) {
  double most = 0;
  for (std::int64_t i = 0; i < a.size(); ++i)
    if (double v = std::fabs(a.number(i)); std::isfinite(v)) most = std::max(most, v);
  return most;
}

}  // namespace

Comparison compare(const reference::Array& want, const reference::Array& got, const Tolerance& tolerance,
                   const std::vector<bool>* only) {
  if (want.dtype() != got.dtype() || want.size() != got.size())
    throw InternalError("compare", fmt::format("{} elements of {} against {} of {}", want.size(),
                                               want.dtype().str(), got.size(), got.dtype().str()));
  Comparison out;
  bool is_float = want.dtype().is_float();
  double scale = tolerance.scale > 0 ? tolerance.scale : is_float ? largest_finite(want) : 0;
  double epsilon = is_float ? std::max(tolerance.epsilon, epsilon_of(want.dtype())) : 0;
  double bound = epsilon * tolerance.roundings * scale;
  double furthest = -1;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    if (only != nullptr && !(*only)[static_cast<std::size_t>(i)]) continue;
    ++out.compared;
    double w = want.number(i), g = got.number(i), error = 0;
    if (!is_float) {
      if (want.at(i).i == got.at(i).i) continue;
      error = std::max(std::fabs(w - g), 1.0);
    } else {
      if (w == g || (std::isnan(w) && std::isnan(g))) continue;
      error = std::isfinite(w) && std::isfinite(g) ? std::fabs(w - g) : INFINITY;
      if (error <= bound) continue;
    }
    ++out.different;
    if (error <= furthest) continue;
    furthest = error;
    out.worst = i;
    out.want = w, out.got = g, out.error = error, out.bound = bound;
  }
  return out;
}

std::string Comparison::text() const {
  if (equal()) return fmt::format("{} elements are equal", compared);
  return fmt::format("element {} is {}, not {}: off by {}, bound {}; {} of {} differ", worst, got, want,
                     error, bound, different, compared);
}

}  // namespace lathe::verify
