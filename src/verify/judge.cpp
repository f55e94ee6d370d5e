#include "verify/judge.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reference/rounding.h"

namespace lathe::verify {
namespace {

using reference::Cell;
using reference::Sample;

constexpr double kVacuous = 0.25;  // of the scale
// REF's own arithmetic, and bounds that are themselves sums of rounded doubles.
constexpr double kSlack = 1 + 1e-6;

double number(DType dtype, Cell c) {
  if (dtype.is_float()) return c.f;
  return dtype.scalar == Scalar::UInt64 ? static_cast<double>(static_cast<std::uint64_t>(c.i))
                                        : static_cast<double>(c.i);
}

// 0 for equal values, two NaN included; infinite where one of them is not finite.
double distance(DType dtype, Cell x, Cell y) {
  if (!dtype.is_float())
    return x.i == y.i ? 0 : std::max(std::fabs(number(dtype, x) - number(dtype, y)), 1.0);
  if (x.f == y.f || (std::isnan(x.f) && std::isnan(y.f))) return 0;
  const double d = std::fabs(x.f - y.f);
  return std::isnan(d) ? HUGE_VAL : d;
}

// What a sample must be: where nothing is written, what was there before.
Sample expected(std::span<const Sample> samples, std::span<const Cell> before, std::size_t i) {
  Sample s = samples[i];
  if (s.written || s.open || before.empty()) return s;
  s.value = before[i];
  s.likely = s.worst = 0;
  return s;
}

}  // namespace

Verdict judge(const Sample& sample, DType stored, Cell device, double scale) {
  if (sample.open) return Verdict::Unjudged;
  const double off = distance(stored, device, sample.value);
  if (!(off <= sample.worst * kSlack)) return Verdict::Failed;
  // A right value within a bound that says nothing is no evidence.
  const double size = std::max(std::fabs(number(stored, sample.value)), scale);
  if (sample.likely > kVacuous * size && std::isfinite(size)) return Verdict::Unjudged;
  return off <= sample.likely * kSlack ? Verdict::Passed : Verdict::Unsure;
}

bool is_rounding(const Sample& sample, DType stored, Cell device, Cell in_float64, Cell in_its_dtypes) {
  const double off = distance(stored, device, sample.value);
  if (2 * distance(stored, in_its_dtypes, sample.value) < off) return false;
  if (!stored.is_float()) return distance(stored, in_float64, sample.value) <= sample.likely;
  if (stored.bits() == 64) return true;  // its own dtypes are float64
  const reference::Rounding& rounding = reference::rounding_of(stored);
  // In float64 the same roundings are 2^-29 of those in float32 at most; some of the bounds are on tiny
  // values.
  constexpr double kInFloat64 = 1.0 / (1 << 20);
  const double bound = rounding.unit * std::fabs(sample.value.f) + rounding.tiny + sample.worst * kInFloat64;
  return distance(stored, in_float64, sample.value) <= bound * kSlack;
}

double scale_of(std::span<const Sample> samples, std::int64_t slot, DType stored) {
  double root = 0, count = 0;
  for (const Sample& s : samples) {
    const double v = number(stored, s.value);
    if (s.slot != slot || !s.written || !std::isfinite(v)) continue;
    root = std::hypot(root, v);  // squares may overflow
    count += 1;
  }
  return count > 0 ? root / std::sqrt(count) : 0;
}

Judgement judge(std::span<const Sample> samples, std::span<const DType> stored, std::span<const Cell> device,
                std::span<const Cell> before) {
  Judgement out;
  std::vector<std::pair<std::int64_t, double>> scales;
  auto scale = [&](const Sample& s, DType dtype) {
    for (auto [slot, value] : scales)
      if (slot == s.slot) return value;
    scales.emplace_back(s.slot, scale_of(samples, s.slot, dtype));
    return scales.back().second;
  };
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool unknown = !samples[i].written && !samples[i].open && before.empty();
    const Sample s = expected(samples, before, i);
    out.verdicts.push_back(unknown ? Verdict::Unjudged : judge(s, stored[i], device[i], scale(s, stored[i])));
  }
  out.recount(samples, stored, device, before);
  return out;
}

void Judgement::recount(std::span<const Sample> samples, std::span<const DType> stored,
                        std::span<const Cell> device, std::span<const Cell> before) {
  passed = failed = unsure = unjudged = 0;
  worst = slot = -1;
  error = 0;
  worst_text.clear();
  double furthest = -1;
  std::int64_t* counts[] = {&passed, &failed, &unsure, &unjudged};
  for (const Verdict verdict : verdicts) ++*counts[static_cast<std::size_t>(verdict)];
  const Verdict shown = failed > 0 ? Verdict::Failed : Verdict::Unsure;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (verdicts[i] != shown) continue;
    const Sample s = expected(samples, before, i);
    const double off = distance(stored[i], device[i], s.value), beyond = off / std::max(s.likely, 1e-300);
    if (beyond <= furthest) continue;
    furthest = beyond;
    worst = static_cast<std::ptrdiff_t>(i);
    error = off;
    slot = s.slot;
    worst_text =
        fmt::format("element {} is {}, not {}: off by {}, likely {}, at worst {}", s.element,
                    number(stored[i], device[i]), number(stored[i], s.value), off, s.likely, s.worst);
  }
}

std::string Judgement::text() const {
  const std::int64_t all = judged() + unjudged;
  if (failed + unsure == 0) return fmt::format("{} of {} elements passed", passed, all);
  return fmt::format("{}; {} of {} differ", worst_text, failed + unsure, all);
}

}  // namespace lathe::verify
