// The parts that decoders and encoders are made of, each a function of rows (one per token) and of the
// weights under one name. An architecture is a ModelConfig; nothing here asks which one it is.
#pragma once

#include <functional>
#include <string>

#include "lathe/llm/checkpoint.h"
#include "lathe/tensor.h"

namespace lathe::llm {

// Rows times the matrix `name`.weight, plus `name`.bias where there is one.
Tensor product(const Checkpoint& c, const Tensor& rows, const std::string& name);
// Over the last axis; rows as they are where the checkpoint has no such norm.
Tensor normed(const Checkpoint& c, const Tensor& rows, const std::string& name);
Tensor activated(Activation activation, const Tensor& x);
// cap * tanh(x / cap); x where the cap is 0.
Tensor capped(const Tensor& x, double cap);

// The feed-forward net of a block, or of the experts that each row chooses.
Tensor feed(const Checkpoint& c, const Tensor& rows, const std::string& block);

// By which angles the features of each position are turned: (rows, 1, pairs).
struct Angles {
  Tensor cos, sin;
};
Angles angles_at(const Rotary& rotary, const Tensor& positions);
// x: (rows, heads, head_dim)
Tensor turned(const Rotary& rotary, const Tensor& x, const Angles& angles);

// Queries or keys of a block, normed where the model does, before they are turned: (rows, heads, head_dim).
Tensor heads_of(const Checkpoint& c, const Tensor& rows, const std::string& name, std::int64_t heads);

// What a block makes of rows; `attend` is its attention, of rows that are normed where the model does that
// before.
Tensor through_block(const Checkpoint& c, const Tensor& rows, const std::string& block,
                     const std::function<Tensor(const Tensor& rows)>& attend);

// Vectors of the tokens at these positions.
Tensor embedded(const Checkpoint& c, const Tensor& tokens, const Tensor& positions);
Tensor logits_of(const Checkpoint& c, const Tensor& rows);

}  // namespace lathe::llm
