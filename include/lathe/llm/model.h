// A language model ready to run: a checkpoint's network with a paged key-value cache, so that sequences of
// different lengths share memory and steps. Steps are padded to a few shapes, each captured once, so that no
// sequence length or batch size needs another compile.
//
//   llm::Model model(llm::load_checkpoint("stories260K.bin"));
//   llm::Pages pages(model.options());
//
// Programs use lathe/llm/engine.h and generate.h, which manage the pages and do the sampling.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/jit.h"
#include "lathe/llm/checkpoint.h"

namespace lathe::llm {

using PageId = std::int32_t;

struct ModelOptions {
  std::int64_t context = 0;  // positions per sequence; 0: what the model was trained for, at most 4096
  std::int64_t page_tokens = 16;
  std::int64_t pages = 0;      // in total; 0: enough for `sequences` of full context, at most 1 GiB
  std::int64_t sequences = 8;  // most sequences in one step
  std::int64_t chunk = 128;    // most prompt tokens in one step
  bool invariant = true;       // tokens do not depend on the batch: kernels are made with LATHE_INVARIANT=1
  // Products with packed weights round activations to bytes, as other programs that read GGUF do: faster, and
  // as exact as 7 bits of the largest of each 32 numbers. For Q4_0, Q8_0 and Q4_K; products with other
  // weights stay float32.
  bool byte_activations = false;
  std::string device = "";  // empty: the default device
};

// A sequence in a step: its next tokens, the number of tokens before them, and the pages for all of them.
struct StepSequence {
  std::span<const TokenId> tokens;
  std::int64_t position = 0;
  std::span<const PageId> pages;
};

class Model {
 public:
  explicit Model(Checkpoint checkpoint, ModelOptions options = {});

  // Appends the tokens to each sequence's pages and returns the logits after the last token of each. Takes
  // one sequence with up to `chunk` tokens, or up to `sequences` of them with one token each.
  std::vector<std::vector<float>> step(std::span<const StepSequence> sequences);
  // Runs every step shape until it is captured, so that no request waits for a compile.
  void warm_up();

  const ModelConfig& config() const { return checkpoint_.config; }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const ModelOptions& options() const { return options_; }  // with defaults filled in
  std::int64_t pages_of(std::int64_t tokens) const;         // pages that this many tokens take
  std::int64_t page_bytes() const;                          // keys and values of all layers
  std::size_t shapes_seen() const { return steps_.size(); }

 private:
  struct Shape {
    std::int64_t sequences, tokens;
    auto operator<=>(const Shape&) const = default;
  };
  Shape shape_for(std::span<const StepSequence> sequences) const;
  void check(std::span<const StepSequence> sequences) const;
  std::vector<Tensor> inputs_of(const Shape& shape, std::span<const StepSequence> sequences) const;
  Jit captured(const Shape& shape) const;

  Checkpoint checkpoint_;
  ModelOptions options_;
  std::vector<Tensor> keys_, values_;  // per layer: (pages * page_tokens, kv_heads * head_dim)
  std::map<Shape, Jit> steps_;
};

}  // namespace lathe::llm
