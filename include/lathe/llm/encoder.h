// Text embeddings, one vector per text, from an encoder with bidirectional attention (BERT and its variants)
// or from a causal language model.
//
//   llm::Encoder encoder(llm::load_checkpoint("all-MiniLM-L6-v2"));
//   auto vectors = encoder.embed(std::vector<std::string>{"How old are you?", "What is your age?"});
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lathe/llm/checkpoint.h"

namespace lathe::llm {

struct EncoderOptions {
  std::int64_t context = 0;  // most tokens of a text; 0: what the model was trained for, at most 4096
  bool invariant = true;     // a text's vector does not depend on the batch it is in, bit for bit
};

class Encoder {
 public:
  explicit Encoder(Checkpoint checkpoint, EncoderOptions options = {});
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;

  // Hidden states (batch, time, dim) after the last norm. tokens: (batch, time) integers; mask: (batch, time)
  // bool, true where there is a token.
  Tensor features(const Tensor& tokens, const Tensor& mask) const;
  // One vector per text, with the model's pooling (the mean over positions if it names none). Thread-safe.
  // Texts are padded to a few lengths, so that few shapes are compiled. Throws UserError for a text longer
  // than the context.
  std::vector<std::vector<float>> embed(std::span<const std::vector<TokenId>> texts,
                                        bool unit_length = true) const;
  std::vector<std::vector<float>> embed(const std::vector<std::string>& texts, bool unit_length = true) const;
  // Runs one text of each padded length up to 512 tokens, so that the first requests do not wait for
  // compiles.
  void warm_up() const;

  const ModelConfig& config() const;
  std::int64_t context() const;
  const Checkpoint& checkpoint() const;
  // The tokenizer that embed() uses. Throws UserError if the model came without one.
  const Tokenizer& tokenizer() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Divides the vector by its length; a zero vector is unchanged.
void to_unit_length(std::span<float> vector);

}  // namespace lathe::llm
