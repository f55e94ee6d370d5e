// A model file of any supported format as one value: the architecture as data, and the weights under GGUF's
// names ("blk.0.attn_q.weight"). Code that runs a model uses this and does not depend on the file format.
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
enum class QkNorm : std::uint8_t { None, PerHead, All };  // of queries and keys, before rotary embedding
enum class Pooling : std::uint8_t { None, Mean, First, Last };

// Rotary position embedding: each feature pair of a head is rotated by position * frequencies[pair]. The
// frequencies include any context scaling.
struct Rotary {
  std::vector<float> frequencies;  // one per pair; 2 * size features are rotated, the others are unchanged
  bool interleaved = false;        // pairs are (0, 1), (2, 3), ...; otherwise (0, n), (1, n + 1), ...
  double scale = 1;                // cos and sin are multiplied by this
  double base = 10000;             // the base of the frequencies, for formats that store only that
};

// The architecture of a decoder or encoder. Facts that the weights imply are not repeated: a layer has a bias
// if its tensor exists ("blk.0.attn_q.bias"), and an untied output layer is "output.weight".
struct ModelConfig {
  std::string architecture;  // GGUF's name: llama (also Mistral, Mixtral, SmolLM), qwen2, gemma2, ...
  std::string name;          // the model's name, if the file has one
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
  bool after_norms = false;  // attention and feed-forward results are normalized again before they are added
  bool causal = true;
  bool tied = true;  // the output layer is the token table

  double embedding_scale = 1;    // factor of token vectors
  double attention_scale = 0;    // factor of scores, usually 1 / sqrt(head_dim)
  double attention_softcap = 0;  // scores become cap * tanh(score / cap); 0: unchanged
  double logit_softcap = 0;      // the same for logits
  double logit_scale = 1;
  std::int64_t sliding_window = 0;  // a position attends to this many, itself included; 0: to all before it
  std::int64_t sliding_period = 1;  // p > 1: of every p layers, all but the last have the sliding window

  std::int64_t experts = 0, experts_used = 0;  // feed-forward experts; 0: a single feed-forward net
  bool expert_weights_sum_to_one = false;  // renormalize the used experts' weights after the softmax over all
  std::int64_t token_types = 0;            // rows of token_types.weight
  Pooling pooling = Pooling::None;         // of an encoder's positions

  std::optional<TokenId> begin;  // token at the start of a text
  std::vector<TokenId> ends;     // tokens that end a text

  bool slides(std::int64_t layer) const {
    return sliding_window > 0 && (sliding_period == 1 || layer % sliding_period != sliding_period - 1);
  }
};

struct LoadOptions {
  std::string device = {};               // empty: the default device
  std::filesystem::path tokenizer = {};  // tokenizer file; empty: look in and next to the model file
  std::int64_t context = 0;  // the most positions that will be used; 0: as many as the model supports
};

struct Checkpoint {
  // A block-quantized weight: GGUF's type ("Q4_K") and the packed rows, uint8 (..., bytes per row), on the
  // device. `weights` has the same weight as float32, which the kernels that use it decode. `parts`: what
  // products in integers read instead of the blocks (state::gguf_byte_parts), or none.
  struct Packed {
    std::string type;
    Tensor blocks;
    std::vector<Tensor> parts = {};
  };

  ModelConfig config;
  // Matrices are (out, in), those of experts (expert, out, in). Fused weights are split: attn_q, attn_k,
  // attn_v, ffn_gate, ffn_up. Norm weights include any offset (x * weight). Tensors of other names are as in
  // the file.
  std::map<std::string, Tensor> weights;
  std::map<std::string, Packed> packed;
  // Products with packed weights round the other factor to bytes (state::gguf_byte_product), where the type
  // has such.
  bool byte_activations = false;
  std::optional<Tokenizer> tokenizer;
  std::string chat_template;             // empty if there is none
  std::string format;                    // format of the file: "GGUF", "safetensors", "llama2.c"
  std::filesystem::path tokenizer_file;  // the tokenizer's file; empty if it is inside the GGUF file

  bool has(std::string_view name) const { return weights.find(std::string(name)) != weights.end(); }
  // The weight of this name. Throws UserError if there is none.
  const Tensor& weight(std::string_view name) const;
  // Copies all weights to the device; quantized ones stay packed, and those of a file mapped into CPU memory
  // are not copied. Without this call each weight is copied when it is first used.
  void realize();
  std::int64_t parameters() const;  // number of elements of all weights
  std::int64_t bytes() const;       // their size as stored on the device
};

// Reads a GGUF file (all its parts), a Hugging Face folder with config.json and safetensors, the
// model.safetensors of such a folder, or a llama2.c checkpoint. Throws UserError if the file is damaged, its
// weights do not fit its description, or the architecture is unknown.
Checkpoint load_checkpoint(const std::filesystem::path& path, const LoadOptions& options = {});

// ---- writing GGUF

struct QuantizeOptions {
  std::string type = "Q8_0";     // type of matrices; also F32, F16 or BF16
  std::string output_type = {};  // type of token_embd and output; empty: `type`
};
struct Quantized {
  std::string name, type;  // as written
  std::int64_t numbers = 0, bytes = 0;
  double error = 0, size = 0;  // root mean squares of the quantization error and of the weight itself
  std::string note;            // why the type differs from the requested one; empty if it does not
};
// Writes the model at `from` (any format that load_checkpoint reads) as one GGUF file. Vectors stay float32;
// a matrix whose row length is not a multiple of the block size becomes F16.
std::vector<Quantized> quantize(const std::filesystem::path& from, const std::filesystem::path& to,
                                const QuantizeOptions& options = {});

// GGUF's names of the supported architectures.
std::vector<std::string> known_architectures();

}  // namespace lathe::llm
