// A language model ready to run: the network of a checkpoint over a key-value cache in pages, so that many
// sequences of different lengths share one memory and one step. Steps come in a few shapes, each captured
// once: no length and no number of sequences ever compiles again.
//
//   llm::Model model(llm::load_checkpoint("stories260K.bin"));
//   llm::Pages pages(model.options());
//
// lathe/llm/engine.h and generate.h are what programs use; they own the pages and do the sampling.
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
  std::int64_t context = 0;  // positions of one sequence; 0: what the model was made for, at most 4096
  std::int64_t page_tokens = 16;
  std::int64_t pages = 0;      // of all sequences; 0: enough for `sequences` of full context, at most 1 GiB
  std::int64_t sequences = 8;  // at most in one step
  std::int64_t chunk = 128;    // tokens of a prompt in one step, at most
  bool invariant = true;    // the same tokens alone and in any batch: kernels as LATHE_INVARIANT=1 makes them
  std::string device = "";  // the default device where empty
};

// A sequence in a step: its next tokens, how many came before, and the pages that hold or will hold them all.
struct StepSequence {
  std::span<const TokenId> tokens;
  std::int64_t position = 0;
  std::span<const PageId> pages;
};

class Model {
 public:
  explicit Model(Checkpoint checkpoint, ModelOptions options = {});

  // Adds the tokens to each sequence's pages; gives the logits behind the last of each. Either one sequence
  // with up to `chunk` tokens or up to `sequences` of them with one token each.
  std::vector<std::vector<float>> step(std::span<const StepSequence> sequences);
  // Runs every shape of step until it is captured, so that no request waits for a compiler.
  void warm_up();

  const ModelConfig& config() const { return checkpoint_.config; }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const ModelOptions& options() const { return options_; }  // with nothing left at 0
  std::int64_t pages_of(std::int64_t tokens) const;         // that so many tokens take
  std::int64_t page_bytes() const;                          // of keys and values of all layers
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
