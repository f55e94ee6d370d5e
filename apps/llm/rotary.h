// The frequencies of rotary positions: a plain geometric row, stretched in one of the ways by which models
// are made to reach further than they were first trained for.
#pragma once

#include <string>
#include <vector>

#include "lathe/llm/checkpoint.h"

namespace lathe::llm {

struct RotaryScaling {
  std::string kind;                      // "", linear, llama3, yarn, longrope
  double factor = 1;                     // the reach, as a multiple of the first
  std::int64_t first = 0;                // positions the model was first trained for
  double low = 1, high = 4;              // llama3: waves per first reach that are stretched, or not
  double beta_fast = 32, beta_slow = 1;  // yarn: turns within the first reach, likewise
  double attention = 0;                  // yarn, longrope: the scale of cos and sin; 0: computed
  std::vector<double> short_factors, long_factors;  // longrope: what each frequency is divided by
};

// For `dims` turned features of a head. Throws UserError for a kind that is not known.
Rotary rotary_of(std::int64_t dims, double theta, std::int64_t context, const RotaryScaling& scaling);

}  // namespace lathe::llm
