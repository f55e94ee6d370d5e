// A sentence encoder ready to run: the network of a checkpoint that looks both ways (BERT and what is made
// like it), and one vector for each text.
//
//   llm::Encoder encoder(llm::load_checkpoint("all-MiniLM-L6-v2"));
//   auto vectors = encoder.embed(std::vector<std::string>{"How old are you?", "What is your age?"});
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lathe/llm/checkpoint.h"

namespace lathe::llm {

class Encoder {
 public:
  // Throws UserError where the checkpoint is of a model that looks back only.
  explicit Encoder(Checkpoint checkpoint);

  // tokens: (batch, time) integers; mask: (batch, time) bool, true where there is a token. Gives (batch,
  // time, dim) behind the last norm.
  Tensor features(const Tensor& tokens, const Tensor& mask) const;
  // One vector per text, by the model's own pooling (the mean of all positions where it says none).
  // Texts are filled up to a few lengths, so that few shapes are ever compiled; longer ones than the model's
  // context are refused.
  std::vector<std::vector<float>> embed(std::span<const std::vector<TokenId>> texts,
                                        bool unit_length = true) const;
  std::vector<std::vector<float>> embed(const std::vector<std::string>& texts, bool unit_length = true) const;

  const ModelConfig& config() const { return checkpoint_.config; }
  const Checkpoint& checkpoint() const { return checkpoint_; }

 private:
  Tensor pooled(const Tensor& features, const Tensor& mask) const;

  Checkpoint checkpoint_;
  std::string device_;
};

}  // namespace lathe::llm
