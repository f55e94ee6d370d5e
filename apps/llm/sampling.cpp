#include "lathe/llm/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "lathe/error.h"

namespace lathe::llm {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

void need(bool holds, std::string_view name, double value, std::string_view range) {
  if (!holds) throw UserError("sampling", fmt::format("{} is {}, which is not {}", name, value, range));
}

struct Candidate {
  TokenId token;
  double value;  // a logit, later a probability
};
bool likelier(const Candidate& a, const Candidate& b) {
  return a.value > b.value || (a.value == b.value && a.token < b.token);
}
bool less_likely(const Candidate& a, const Candidate& b) { return likelier(b, a); }

void penalize(const SamplingOptions& o, std::span<const TokenId> tokens, std::size_t prompt,
              std::vector<double>& logits) {
  std::unordered_map<TokenId, std::int64_t> written;  // times; 0 for tokens of the prompt only
  for (std::size_t i = 0; i < tokens.size(); ++i) written[tokens[i]] += i >= prompt ? 1 : 0;
  for (const auto& [token, times] : written) {
    if (token < 0 || static_cast<std::size_t>(token) >= logits.size()) continue;
    double& logit = logits[static_cast<std::size_t>(token)];
    logit = logit > 0 ? logit / o.repetition_penalty : logit * o.repetition_penalty;
    if (times > 0) logit -= o.presence_penalty + o.frequency_penalty * static_cast<double>(times);
  }
}

double log_total(std::span<const float> logits) {
  double top = kNever;
  for (const float v : logits) {
    if (std::isnan(v)) throw InternalError("sampling", "the model gave a logit that is not a number");
    top = std::max(top, static_cast<double>(v));
  }
  double total = 0;
  for (const float v : logits) total += std::exp(static_cast<double>(v) - top);
  return top + std::log(total);
}

// The candidates that top-k, top-p and min-p leave, the likeliest first, as probabilities that need not add
// up to 1. Only as many are put in order as are looked at.
std::vector<Candidate> kept(const SamplingOptions& o, std::vector<Candidate> all) {
  std::make_heap(all.begin(), all.end(), less_likely);
  const double top = all.front().value;
  double total = 0;
  for (Candidate& c : all) total += c.value = std::exp((c.value - top) / o.temperature);
  // A heap of logits is one of probabilities, except for equals that rounding made.
  std::make_heap(all.begin(), all.end(), less_likely);
  const auto most = o.top_k > 0 ? std::min(static_cast<std::size_t>(o.top_k), all.size()) : all.size();
  if (most < all.size()) {  // top-p counts what top-k leaves
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(most), all.end(), likelier);
    all.resize(most);
    total = 0;
    for (const Candidate& c : all) total += c.value;
    std::make_heap(all.begin(), all.end(), less_likely);
  }
  std::vector<Candidate> out;
  double sum = 0;
  while (!all.empty() && (out.empty() || (sum < o.top_p * total && all.front().value >= o.min_p))) {
    std::pop_heap(all.begin(), all.end(), less_likely);
    sum += all.back().value;
    out.push_back(all.back());
    all.pop_back();
    if (o.top_p >= 1 && o.min_p <= 0) {  // nothing more is left out: no need for an order
      out.insert(out.end(), all.begin(), all.end());
      break;
    }
  }
  return out;
}

TokenId drawn(const std::vector<Candidate>& candidates, double where) {
  double total = 0;
  for (const Candidate& c : candidates) total += c.value;
  double left = where * total;
  for (const Candidate& c : candidates) {
    left -= c.value;
    if (left < 0) return c.token;
  }
  return candidates.front().token;  // rounding left a rest
}

std::vector<TokenChance> likeliest_of(std::span<const float> logits, double total, std::size_t count) {
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < logits.size(); ++i) all.push_back({static_cast<TokenId>(i), logits[i]});
  count = std::min(count, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(), likelier);
  std::vector<TokenChance> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back({all[i].token, all[i].value - total});
  return out;
}

}  // namespace

void check(const SamplingOptions& o) {
  need(o.temperature >= 0 && o.temperature <= 100, "temperature", o.temperature, "0 to 100");
  need(o.top_k >= 0, "top_k", static_cast<double>(o.top_k), "0 or more");
  need(o.top_p > 0 && o.top_p <= 1, "top_p", o.top_p, "above 0 and at most 1");
  need(o.min_p >= 0 && o.min_p <= 1, "min_p", o.min_p, "0 to 1");
  need(o.repetition_penalty > 0 && o.repetition_penalty <= 100, "repetition_penalty", o.repetition_penalty,
       "above 0 and at most 100");
  need(std::abs(o.presence_penalty) <= 100, "presence_penalty", o.presence_penalty, "-100 to 100");
  need(std::abs(o.frequency_penalty) <= 100, "frequency_penalty", o.frequency_penalty, "-100 to 100");
  for (const auto& [token, bias] : o.bias) need(std::isfinite(bias), "logit_bias", bias, "a number");
}

double random_at(std::uint64_t seed, std::uint64_t position) {
  // splitmix64 of the position's place in the seed's sequence.
  std::uint64_t x = seed * 0xd1342543de82ef95U + (position + 1) * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  x ^= x >> 31U;
  return static_cast<double>(x >> 11U) * 0x1.0p-53;
}

Sampler::Sampler(SamplingOptions options) : options_(std::move(options)) { check(options_); }

Choice Sampler::operator()(std::span<const float> logits, std::span<const TokenId> tokens, std::size_t prompt,
                           const TokenMask* allowed, std::size_t likeliest) const {
  const double total = log_total(logits);
  std::vector<double> changed(logits.begin(), logits.end());
  if (options_.repetition_penalty != 1 || options_.presence_penalty != 0 || options_.frequency_penalty != 0)
    penalize(options_, tokens, prompt, changed);
  for (const auto& [token, bias] : options_.bias)
    if (token >= 0 && static_cast<std::size_t>(token) < changed.size())
      changed[static_cast<std::size_t>(token)] += bias;

  std::vector<Candidate> candidates;
  candidates.reserve(changed.size());
  for (std::size_t i = 0; i < changed.size(); ++i)
    if ((allowed == nullptr || (i < allowed->size() && (*allowed)[i])) && changed[i] > kNever)
      candidates.push_back({static_cast<TokenId>(i), changed[i]});
  if (candidates.empty()) throw UserError("sampling", "no token is allowed to come next");

  Choice out;
  out.chosen.token =
      options_.temperature == 0
          ? std::min_element(candidates.begin(), candidates.end(), likelier)->token
          : drawn(kept(options_, std::move(candidates)), random_at(options_.seed, tokens.size()));
  out.chosen.logprob = static_cast<double>(logits[static_cast<std::size_t>(out.chosen.token)]) - total;
  if (likeliest > 0) out.likeliest = likeliest_of(logits, total, likeliest);
  return out;
}

}  // namespace lathe::llm
