// One vector for each text: by an encoder (BERT and what is made like it), which looks both ways, or by a
// model that writes text, whose positions look back.
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
  std::int64_t context = 0;  // tokens of a text; 0: what the model was made for, at most 4096
  bool invariant = true;     // the same vector, bit for bit, in whatever company a text comes
};

class Encoder {
 public:
  explicit Encoder(Checkpoint checkpoint, EncoderOptions options = {});
  ~Encoder();
  Encoder(Encoder&&) noexcept;
  Encoder& operator=(Encoder&&) noexcept;

  // tokens: (batch, time) integers; mask: (batch, time) bool, true where there is a token. Gives (batch,
  // time, dim) behind the last norm.
  Tensor features(const Tensor& tokens, const Tensor& mask) const;
  // One vector per text, by the model's own pooling (the mean of all positions where it says none), from any
  // thread. Texts are filled up to a few lengths, so that few shapes are ever compiled; longer ones than the
  // context are refused.
  std::vector<std::vector<float>> embed(std::span<const std::vector<TokenId>> texts,
                                        bool unit_length = true) const;
  std::vector<std::vector<float>> embed(const std::vector<std::string>& texts, bool unit_length = true) const;
  // Runs single texts of the lengths that are told apart, up to 512 tokens, so that the first requests wait
  // for no compiler.
  void warm_up() const;

  const ModelConfig& config() const;
  std::int64_t context() const;
  const Checkpoint& checkpoint() const;
  // What embed() takes a text for. Throws UserError where the model came without a tokenizer.
  const Tokenizer& tokenizer() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Divides by the vector's length; one of zeros stays.
void to_unit_length(std::span<float> vector);

}  // namespace lathe::llm
