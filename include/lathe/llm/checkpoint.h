// A model file of any usual kind as one value: what the network is, as data, and its weights under one set of
// names, those of GGUF ("blk.0.attn_q.weight"). Whoever runs a model reads this and never asks which kind of
// file it came from.
//
//   const llm::Checkpoint model = llm::load_checkpoint("SmolLM-135M");   // a folder, .gguf, .safetensors,
//   .bin const Tensor& table = model.weight("token_embd.weight");             // (vocabulary, dim)
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/llm/tokenizer.h"
#include "lathe/tensor.h"

namespace lathe::llm {

enum class Norm : std::uint8_t { RMS, Layer };  // x / rms(x) * weight; (x - mean) / std * weight + bias
enum class Activation : std::uint8_t { Silu, Gelu, GeluTanh, Relu };
enum class Positions : std::uint8_t { Rotary, Learned };  // Learned: position_embd.weight
enum class Residual : std::uint8_t {
  Sequential,  // x += attention(norm(x)); x += feed(norm(x))
  Parallel,    // x += attention(norm(x)) + feed(norm(x)), one norm
  NormAfter    // x = norm(x + attention(x)); x = norm(x + feed(x))
};
enum class QkNorm : std::uint8_t { None, PerHead, All };  // of queries and keys, before they are turned
enum class Pooling : std::uint8_t { None, Mean, First, Last };

// How a feature pair of a head is turned: by position * frequencies[pair], after scaling of whatever kind.
struct Rotary {
  std::vector<float> frequencies;  // one per pair; 2 * size features are turned, the others stay
  bool interleaved = false;        // pairs are (0, 1), (2, 3), ...; otherwise (0, n), (1, n + 1), ...
  double scale = 1;                // cos and sin are multiplied by this
};

// What a decoder or encoder is made of. What a weight tells is not said again: a bias is there where its
// tensor is ("blk.0.attn_q.bias"), an output layer of its own is "output.weight".
struct ModelConfig {
  std::string architecture;  // as GGUF spells it: llama (also Mistral, Mixtral, SmolLM), qwen2, gemma2, ...
  std::string name;          // the model's own, where the file has one
  std::int64_t vocabulary = 0, context = 0, dim = 0, feed_forward = 0, layers = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;

  Norm norm = Norm::RMS;
  double eps = 1e-5;
  Activation activation = Activation::Silu;
  bool gated = true;  // feed(x) = down(activation(gate(x)) * up(x)); otherwise down(activation(up(x)))
  Residual residual = Residual::Sequential;
  Positions positions = Positions::Rotary;
  Rotary rotary;
  QkNorm qk_norm = QkNorm::None;
  bool after_norms = false;  // attention and feed-forward results are normed once more before they are added
  bool causal = true;
  bool tied = true;  // logits are products with the token table

  double embedding_scale = 1;    // of token vectors
  double attention_scale = 0;    // of scores: 1 / sqrt(head_dim) mostly
  double attention_softcap = 0;  // scores become cap * tanh(score / cap); 0: they stay
  double logit_softcap = 0;      // logits likewise
  double logit_scale = 1;
  std::int64_t sliding_window = 0;  // a position sees this many, itself the last; 0: all before it
  std::int64_t sliding_period = 1;  // in every so many layers but the last of them

  std::int64_t experts = 0, experts_used = 0;  // of feed-forward nets; 0: one for all
  bool expert_weights_sum_to_one = false;      // those of the used ones, after a softmax over all
  std::int64_t token_types = 0;                // rows of token_types.weight
  Pooling pooling = Pooling::None;             // of an encoder's positions

  std::optional<TokenId> begin;  // the token a text begins with
  std::vector<TokenId> ends;     // tokens after which nothing follows

  bool slides(std::int64_t layer) const {
    return sliding_window > 0 && (sliding_period == 1 || layer % sliding_period != sliding_period - 1);
  }
};

struct LoadOptions {
  std::string device;               // the default device where empty
  std::filesystem::path tokenizer;  // where the tokenizer is; found beside or in the file where empty
  std::int64_t context = 0;         // no more positions than this are used; 0: as many as the model knows
};

struct Checkpoint {
  // A weight whose numbers are packed in blocks: (..., bytes of a row) uint8 on the device, and what GGUF
  // calls them ("Q4_K"). In `weights` it is the same as float32, decoded by the kernel that uses it.
  struct Packed {
    std::string type;
    Tensor blocks;
  };

  ModelConfig config;
  // Matrices are (out, in); of experts (expert, out, in). Fused products are apart: attn_q, attn_k, attn_v,
  // ffn_gate, ffn_up. Norm weights are what is multiplied with. Tensors of other names are as in the file.
  std::map<std::string, Tensor> weights;
  std::map<std::string, Packed> packed;
  std::optional<Tokenizer> tokenizer;
  std::string chat_template;  // empty where there is none
  std::string format;         // what the file was: "GGUF", "safetensors", "llama2.c"

  bool has(std::string_view name) const { return weights.find(std::string(name)) != weights.end(); }
  // Throws UserError where there is none of this name.
  const Tensor& weight(std::string_view name) const;
  // Brings all weights to the device. Packed ones stay packed there, and those of a file mapped on the CPU
  // stay its pages. Without it, each weight is fetched when it is first used.
  void realize();
  std::int64_t parameters() const;  // numbers in all weights
  std::int64_t bytes() const;       // as they are stored on the device
};

// Reads a GGUF file (all parts of it), a folder of Hugging Face's with config.json and safetensors, such a
// folder's model.safetensors, or a checkpoint of llama2.c. Throws UserError where the file is damaged, its
// weights do not fit its own description, or the architecture is not known.
Checkpoint load_checkpoint(const std::filesystem::path& path, const LoadOptions& options = {});

// GGUF's names of the architectures that are known.
std::vector<std::string> known_architectures();

}  // namespace lathe::llm
