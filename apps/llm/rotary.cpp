#include "apps/llm/rotary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lathe/error.h"

namespace lathe::llm {

namespace {

constexpr double kTurn = 2 * std::numbers::pi;

// Slow pairs are stretched whole, fast ones not at all, those between in part.
double llama3_frequency(double frequency, const RotaryScaling& s) {
  const double waves = static_cast<double>(s.first) * frequency / kTurn;
  if (waves < s.low) return frequency / s.factor;
  if (waves > s.high) return frequency;
  const double kept = (waves - s.low) / (s.high - s.low);
  return (1 - kept) * frequency / s.factor + kept * frequency;
}

// The pair (as a real number) that makes so many turns within the first reach.
double pair_of_turns(double turns, std::int64_t dims, double theta, const RotaryScaling& s) {
  return static_cast<double>(dims) * std::log(static_cast<double>(s.first) / (turns * kTurn)) /
         (2 * std::log(theta));
}

double yarn_frequency(double frequency, std::int64_t pair, std::int64_t dims, double theta,
                      const RotaryScaling& s) {
  const double low = std::max(std::floor(pair_of_turns(s.beta_fast, dims, theta, s)), 0.0);
  double high =
      std::min(std::ceil(pair_of_turns(s.beta_slow, dims, theta, s)), static_cast<double>(dims) - 1);
  if (high == low) high += 0.001;
  const double stretched = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  return stretched * frequency / s.factor + (1 - stretched) * frequency;
}

double attention_scale(const RotaryScaling& s) {
  if (s.attention > 0) return s.attention;
  if (s.kind == "yarn") return s.factor <= 1 ? 1 : 0.1 * std::log(s.factor) + 1;
  if (s.kind == "longrope" && s.factor > 1)
    return std::sqrt(1 + std::log(s.factor) / std::log(static_cast<double>(s.first)));
  return 1;
}

}  // namespace

Rotary rotary_of(std::int64_t dims, double theta, std::int64_t context, const RotaryScaling& s) {
  const bool known =
      s.kind.empty() || s.kind == "linear" || s.kind == "llama3" || s.kind == "yarn" || s.kind == "longrope";
  if (!known)
    throw NotSupported("load_checkpoint", fmt::format("rotary scaling of the kind \"{}\" is not supported",
                                                      s.kind.substr(0, 80)));
  if (!(theta > 0) || !std::isfinite(theta) || !(s.factor > 0) || dims < 0 || dims % 2 != 0)
    throw UserError("load_checkpoint", fmt::format("{} features cannot be turned at base {} with factor {}",
                                                   dims, theta, s.factor));
  if ((s.kind == "llama3" || s.kind == "yarn" || s.kind == "longrope") && s.first <= 0)
    throw UserError(
        "load_checkpoint",
        fmt::format("rotary scaling of the kind {} does not say which context it began with", s.kind));
  const auto pairs = static_cast<std::size_t>(dims / 2);
  const std::vector<double>& factors = context > s.first ? s.long_factors : s.short_factors;
  if (s.kind == "longrope" && factors.size() != pairs)
    throw UserError("load_checkpoint",
                    fmt::format("there are {} rotary factors for {} pairs", factors.size(), pairs));
  Rotary out;
  out.scale = attention_scale(s);
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    const double plain = std::pow(theta, -2.0 * static_cast<double>(pair) / static_cast<double>(dims));
    double frequency = plain;
    if (s.kind == "linear") frequency = plain / s.factor;
    if (s.kind == "llama3") frequency = llama3_frequency(plain, s);
    if (s.kind == "yarn") frequency = yarn_frequency(plain, static_cast<std::int64_t>(pair), dims, theta, s);
    if (s.kind == "longrope") frequency = plain / factors[pair];
    out.frequencies.push_back(static_cast<float>(frequency));
  }
  return out;
}

}  // namespace lathe::llm
