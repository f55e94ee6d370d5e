// Chooses tokens from logits. A Sampler is a pure function of its options, the logits and the tokens so far;
// its random numbers depend only on the seed and the position, so a sequence does not depend on the batch.
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
  std::int64_t top_k = 0;         // keep only this many of the likeliest tokens; 0: all
  double top_p = 1;               // keep the likeliest tokens whose total probability reaches this
  double min_p = 0;               // keep tokens with at least this fraction of the highest probability
  double repetition_penalty = 1;  // divides positive logits of tokens that occurred, multiplies negative ones
  double presence_penalty = 0;    // subtracted from the logits of generated tokens, once
  double frequency_penalty = 0;   // subtracted from the logits of generated tokens, once per occurrence
  std::map<TokenId, double> bias = {};  // added to logits
  std::uint64_t seed = 0;
};
// Throws UserError that names an option out of its range.
void check(const SamplingOptions& options);

// Which tokens may come next: a bit per token.
using TokenMask = std::vector<bool>;

struct TokenChance {
  TokenId token = 0;
  double logprob = 0;  // from the model's unmodified logits
};
struct Choice {
  TokenChance chosen;
  std::vector<TokenChance> likeliest;  // as many as requested, the likeliest first
};

class Sampler {
 public:
  explicit Sampler(SamplingOptions options);

  // Chooses the next token. `tokens` is the whole sequence; its first `prompt` tokens are the prompt. Ties go
  // to the least id. Throws UserError if the mask allows no token, and InternalError if logits are NaN.
  Choice operator()(std::span<const float> logits, std::span<const TokenId> tokens, std::size_t prompt,
                    const TokenMask* allowed = nullptr, std::size_t likeliest = 0) const;

 private:
  SamplingOptions options_;
};

// The random number in [0, 1) of a seed at a position.
double random_at(std::uint64_t seed, std::uint64_t position);

}  // namespace lathe::llm
