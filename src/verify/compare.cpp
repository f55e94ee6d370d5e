#include "verify/compare.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"

namespace lathe::verify {

namespace {

double root_mean_square(const reference::Array& array) {
  double squares = 0, count = 0;
  for (std::int64_t i = 0; i < array.size(); ++i)
    if (const double v = array.number(i); std::isfinite(v)) squares += v * v, count += 1;
  return count > 0 ? std::sqrt(squares / count) : 0;
}

}  // namespace

Comparison compare(const reference::Array& want, const reference::Array& got, double relative) {
  if (want.dtype() != got.dtype() || want.size() != got.size())
    throw InternalError("compare", fmt::format("{} elements of {} against {} of {}", want.size(),
                                               want.dtype().str(), got.size(), got.dtype().str()));
  Comparison out;
  bool is_float = want.dtype().is_float();
  const double scale = is_float ? root_mean_square(want) : 0;
  double furthest = -1;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    ++out.compared;
    double w = want.number(i), g = got.number(i), error = 0, bound = 0;
    if (!is_float) {
      if (want.at(i).i == got.at(i).i) continue;
      error = std::max(std::fabs(w - g), 1.0);
    } else {
      if (w == g || (std::isnan(w) && std::isnan(g))) continue;
      error = std::isfinite(w) && std::isfinite(g) ? std::fabs(w - g) : INFINITY;
      bound = relative * std::max(std::isfinite(w) ? std::fabs(w) : 0, scale);
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
