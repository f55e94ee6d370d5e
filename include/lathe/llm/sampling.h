// From logits to a token. A Sampler is a function of its options, the logits and the tokens so far: its
// random numbers follow from the seed and the position alone, so a sequence is the same in any company.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lathe/llm/tokenizer.h"

namespace lathe::llm {

struct SamplingOptions {
  double temperature = 0;         // 0: always the likeliest token
  std::int64_t top_k = 0;         // only so many likeliest ones; 0: all
  double top_p = 1;               // only the likeliest ones that together reach this probability
  double min_p = 0;               // only those at least this part as likely as the likeliest
  double repetition_penalty = 1;  // divides positive logits of tokens that occurred, multiplies negative ones
  double presence_penalty = 0;    // taken from logits of tokens that were written
  double frequency_penalty = 0;   // the same for each time
  std::map<TokenId, double> bias = {};  // added to logits
  std::uint64_t seed = 0;
};
// Throws UserError naming the option that is out of its range.
void check(const SamplingOptions& options);

// Which tokens may come next: a bit per token.
using TokenMask = std::vector<bool>;

struct TokenChance {
  TokenId token = 0;
  double logprob = 0;  // by the logits as the model gave them
};
struct Choice {
  TokenChance chosen;
  std::vector<TokenChance> likeliest;  // as many as were asked for, the likeliest first
};

class Sampler {
 public:
  explicit Sampler(SamplingOptions options);

  // `tokens` is the whole sequence, of which the first `prompt` were given. Among equals the least id wins.
  // Throws UserError where a mask allows nothing, and InternalError where logits are NaN.
  Choice operator()(std::span<const float> logits, std::span<const TokenId> tokens, std::size_t prompt,
                    const TokenMask* allowed = nullptr, std::size_t likeliest = 0) const;

 private:
  SamplingOptions options_;
};

// The number in [0, 1) that a seed gives for a position.
double random_at(std::uint64_t seed, std::uint64_t position);

}  // namespace lathe::llm
