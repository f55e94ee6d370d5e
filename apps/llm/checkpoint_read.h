// What the readers of checkpoints share: weights on their way from a file's names and forms to those of a
// Checkpoint.
#pragma once

#include <map>
#include <string>

#include "lathe/llm/checkpoint.h"
#include "lathe/state.h"

namespace lathe::llm {

// A weight on its device. Of a packed type, `stored` is the bytes of its rows.
struct StoredWeight {
  std::string type;  // empty: plain numbers
  Tensor stored;

  Shape shape() const;
  StoredWeight rows(std::int64_t begin, std::int64_t end) const;  // of the first axis
};
using StoredWeights = std::map<std::string, StoredWeight>;

// What a file was read as, before it is checked and put together.
struct Draft {
  Checkpoint checkpoint;  // without weights
  StoredWeights weights;
};

Draft read_gguf(const std::filesystem::path& file, const LoadOptions& options);
Draft read_folder(const std::filesystem::path& folder, const LoadOptions& options);
Draft read_llama2c(const std::filesystem::path& file, const LoadOptions& options);

// How a file is opened for a device: on the CPU its pages are the tensors.
state::Bytes opened(const std::filesystem::path& file, const std::string& device);

// Sizes that a file says, before anything is made of their size. Throws UserError.
void check_config(const ModelConfig& config);
// The weights against the config: every block is there and every known weight has its shape.
void check_weights(const StoredWeights& weights, const ModelConfig& config);
// attn_qkv as attn_q, attn_k and attn_v; ffn_up with the gate in it as ffn_gate and ffn_up.
void split_fused(StoredWeights& weights, const ModelConfig& config);

// The name in a Checkpoint of a weight in a Hugging Face file, and what has to be done to it. `name` is empty
// for what is no weight (masks and tables that some files hold).
struct MappedName {
  std::string name;
  std::int64_t expert = -1;  // its place among stacked experts
  bool transposed = false;   // the file has (in, out)
};
MappedName mapped_name(std::string_view name, std::string_view architecture);

}  // namespace lathe::llm
