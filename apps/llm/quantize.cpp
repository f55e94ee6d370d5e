// A model of any kind as one GGUF file, its matrices packed.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

#include "apps/llm/architectures.h"
#include "apps/llm/checkpoint_read.h"
#include "lathe/error.h"

namespace lathe::llm {

namespace {

namespace fs = std::filesystem;
constexpr std::string_view kOp = "quantize";

// general.file_type of a file whose matrices are mostly of this type.
struct FileTypeRow {
  std::string_view type;
  std::int64_t code;
};
constexpr FileTypeRow kFileTypes[] = {
    {"F32", 0},     {"F16", 1},     {"Q4_0", 2},  {"Q4_1", 3},   {"Q8_0", 7},   {"Q5_0", 8},
    {"Q5_1", 9},    {"Q2_K", 10},   {"Q3_K", 12}, {"Q4_K", 15},  {"Q5_K", 17},  {"Q6_K", 18},
    {"IQ4_NL", 25}, {"IQ4_XS", 30}, {"BF16", 32}, {"TQ1_0", 36}, {"TQ2_0", 37}, {"MXFP4", 38}};

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

std::string checked_type(const std::string& given) {
  const std::string type = upper(given);
  for (const FileTypeRow& row : kFileTypes)
    if (row.type == type) return type;
  std::vector<std::string_view> names;
  for (const FileTypeRow& row : kFileTypes) names.push_back(row.type);
  throw UserError(kOp, fmt::format("matrices cannot be written as {}", given.substr(0, 80)))
      .help(fmt::format("the types are {}", fmt::join(names, ", ")));
}

// A model as a list of plain or packed tensors and keys.
struct Source {
  Object::Entries keys;
  std::vector<state::GgufTensor> tensors;  // of the types they have
};

void set_key(Object::Entries& keys, const std::string& key, Object value) {
  for (auto& [name, old] : keys)
    if (name.string() == key) {
      old = std::move(value);
      return;
    }
  keys.emplace_back(key, std::move(value));
}

Source from_gguf(const fs::path& file) {
  const state::Gguf gguf = state::gguf_load(state::MappedFile{file});
  Source out;
  out.keys = gguf.metadata.entries();
  for (const auto& [name, values] : gguf.tensors) {
    const state::Gguf::Stored& stored = gguf.stored.at(name);
    out.tensors.push_back({name, stored.type, stored.stored, state::gguf_is_packed(stored.type)});
  }
  return out;
}

// ---- a Checkpoint's config as the format's keys

void add_config(Object::Entries& keys, const ModelConfig& c) {
  const std::string& a = c.architecture;
  const auto add = [&](const char* key, Object value) { keys.emplace_back(a + "." + key, std::move(value)); };
  keys.emplace_back("general.architecture", a);
  if (!c.name.empty()) keys.emplace_back("general.name", c.name);
  add("vocab_size", c.vocabulary);
  add("context_length", c.context);
  add("embedding_length", c.dim);
  add("block_count", c.layers);
  add("feed_forward_length", c.feed_forward);
  add("attention.head_count", c.heads);
  add("attention.head_count_kv", c.kv_heads);
  add("attention.key_length", c.head_dim);
  add("attention.value_length", c.head_dim);
  add(c.norm == Norm::RMS ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", c.eps);
  add("attention.causal", c.causal);
  if (c.attention_scale * c.attention_scale * static_cast<double>(c.head_dim) != 1)
    add("attention.scale", c.attention_scale);
  if (c.positions == Positions::Rotary) {
    add("rope.dimension_count", static_cast<std::int64_t>(2 * c.rotary.frequencies.size()));
    add("rope.freq_base", c.rotary.base);
  }
  if (c.sliding_window > 0) add("attention.sliding_window", c.sliding_window);
  if (c.attention_softcap > 0) add("attn_logit_softcapping", c.attention_softcap);
  if (c.logit_softcap > 0) add("final_logit_softcapping", c.logit_softcap);
  if (c.logit_scale != 1) add("logit_scale", c.logit_scale);
  if (c.experts > 0) {
    add("expert_count", c.experts);
    add("expert_used_count", c.experts_used);
    add("expert_feed_forward_length", c.feed_forward);
    add("expert_weights_norm", c.expert_weights_sum_to_one);
  }
  if (c.pooling != Pooling::None) add("pooling_type", static_cast<int>(c.pooling));
}

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// llama2.c's pieces and scores are what the format calls the model "llama".
void add_llama2c_tokens(Object::Entries& keys, const Tokenizer& tokenizer, const fs::path& file) {
  const std::string raw = read_text(file);
  Object::Items pieces, scores, kinds;
  enum Kind : int { kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6 };
  std::size_t at = 4;
  for (TokenId id = 0; id < tokenizer.size(); ++id) {
    float score = 0;
    std::uint32_t length = 0;
    std::memcpy(&score, raw.data() + at, sizeof score);
    std::memcpy(&length, raw.data() + at + 4, sizeof length);
    at += 8 + length;
    std::string piece;  // spaces are visible there
    for (const char c : tokenizer.piece(id)) piece += c == ' ' ? "\xe2\x96\x81" : std::string(1, c);
    const bool byte = piece.size() == 6 && piece.starts_with("<0x");
    pieces.emplace_back(piece);
    scores.emplace_back(static_cast<double>(score));
    kinds.emplace_back(id == 0 ? kUnknown : id < 3 ? kControl : byte ? kByte : kNormal);
  }
  keys.emplace_back("tokenizer.ggml.model", "llama");
  keys.emplace_back("tokenizer.ggml.tokens", std::move(pieces));
  keys.emplace_back("tokenizer.ggml.scores", std::move(scores));
  keys.emplace_back("tokenizer.ggml.token_type", std::move(kinds));
  keys.emplace_back("tokenizer.ggml.unknown_token_id", 0);
}

void add_tokenizer(Object::Entries& keys, const Checkpoint& model) {
  if (model.config.begin)
    keys.emplace_back("tokenizer.ggml.bos_token_id", static_cast<int>(*model.config.begin));
  if (!model.config.ends.empty())
    keys.emplace_back("tokenizer.ggml.eos_token_id", static_cast<int>(model.config.ends.front()));
  if (!model.chat_template.empty()) keys.emplace_back("tokenizer.chat_template", model.chat_template);
  if (!model.tokenizer) return;
  const fs::path& file = model.tokenizer_file;
  const fs::path whole = fs::is_directory(file) ? file / "tokenizer.json" : file;
  if (file.extension() == ".bin")
    add_llama2c_tokens(keys, *model.tokenizer, file);
  else if (whole.extension() == ".json" && fs::exists(whole))
    keys.emplace_back("tokenizer.huggingface.json", read_text(whole));
}

// ---- its weights in the order and with the names of the format

// Rows of heads from two halves to neighbouring pairs.
Tensor interleaved(const Tensor& x, std::int64_t heads) {
  const Shape shape = x.shape();
  const std::int64_t half = shape[0].value() / heads / 2;
  Shape apart{heads, 2, half};
  apart.insert(apart.end(), shape.begin() + 1, shape.end());
  return x.reshape(apart).transpose(1, 2).reshape(shape);
}

Tensor written_form(const Checkpoint& model, const std::string& name, const Architecture& architecture) {
  const ModelConfig& c = model.config;
  const Tensor& x = model.weights.at(name);
  if (!architecture.interleaved_in_gguf || c.rotary.interleaved) return x;
  const bool query = name.find(".attn_q.") != std::string::npos,
             key = name.find(".attn_k.") != std::string::npos;
  return query || key ? interleaved(x, query ? c.heads : c.kv_heads) : x;
}

// Several weights of a block as one, where the format has them so.
void fuse(std::map<std::string, Tensor>& weights, const std::string& block, const std::string& into,
          const std::vector<std::string>& parts) {
  for (const std::string kind : {".weight", ".bias"}) {
    std::vector<Tensor> list;
    for (const std::string& part : parts)
      if (const auto found = weights.find(block + part + kind); found != weights.end())
        list.push_back(found->second);
    if (list.size() != parts.size()) continue;
    for (const std::string& part : parts) weights.erase(block + part + kind);
    weights[block + into + kind] = Tensor::cat(list, 0);
  }
}

// Frequencies that are no plain row from the base: what each is divided by, and the scale of turning.
void add_rotary_factors(Source& out, const ModelConfig& c) {
  std::vector<float> factors;
  bool plain = true;
  const std::size_t pairs = c.rotary.frequencies.size();
  for (std::size_t i = 0; i < pairs; ++i) {
    const double usual = std::pow(c.rotary.base, -static_cast<double>(i) / static_cast<double>(pairs));
    factors.push_back(static_cast<float>(usual / static_cast<double>(c.rotary.frequencies[i])));
    plain = plain && std::fabs(factors.back() - 1) < 1e-6F;
  }
  if (c.rotary.scale != 1)
    throw NotSupported(
        kOp, "a model whose rotary positions are scaled (yarn, longrope) cannot be written as GGUF");
  if (!plain) out.tensors.push_back({"rope_freqs.weight", "F32", Tensor(factors)});
}

Source from_checkpoint(const fs::path& path) {
  const Checkpoint model = load_checkpoint(path, {.device = "CPU"});
  const Architecture& architecture = architecture_named(model.config.architecture);
  Source out;
  add_config(out.keys, model.config);
  add_tokenizer(out.keys, model);
  add_rotary_factors(out, model.config);
  std::map<std::string, Tensor> weights;
  for (const auto& [name, tensor] : model.weights) weights[name] = written_form(model, name, architecture);
  for (std::int64_t i = 0; architecture.fused_in_gguf && i < model.config.layers; ++i) {
    const std::string block = fmt::format("blk.{}.", i);
    fuse(weights, block, "attn_qkv", {"attn_q", "attn_k", "attn_v"});
    if (model.config.gated) fuse(weights, block, "ffn_up", {"ffn_gate", "ffn_up"});
  }
  for (const auto& [name, tensor] : weights)
    out.tensors.push_back({name,
                           tensor.dtype() == dtypes::bfloat16  ? "BF16"
                           : tensor.dtype() == dtypes::float16 ? "F16"
                                                               : "F32",
                           tensor});
  return out;
}

// ---- which type each tensor gets

bool is_packed_matrix(const state::GgufTensor& t) {
  const bool table = t.name.starts_with("position_embd") || t.name.starts_with("token_types");
  const bool router = t.name.find("ffn_gate_inp") != std::string::npos;
  return t.values.ndim() >= 2 && t.name.ends_with(".weight") && !table && !router &&
         t.name.find("norm") == std::string::npos;
}

struct Choice {
  state::GgufTensor tensor;
  std::string note;
};

Choice choose(const state::GgufTensor& t, const std::string& type, const std::string& output_type) {
  const Tensor numbers = t.packed ? state::gguf_unpack(t.type, t.values) : t.values;
  if (!numbers.dtype().is_float()) return {t, ""};
  if (!is_packed_matrix(t)) return {{t.name, "F32", numbers}, ""};
  const bool ends = t.name == "token_embd.weight" || t.name == "output.weight";
  const std::string& wanted = ends && !output_type.empty() ? output_type : type;
  if (t.packed && t.type == wanted) return {t, ""};
  const std::int64_t columns = numbers.size(-1).value();
  const std::int64_t block = state::gguf_block_size(wanted);
  if (columns % block == 0) return {{t.name, wanted, numbers}, ""};
  return {{t.name, "F16", numbers},
          fmt::format("rows of {} are not a multiple of the block size {}", columns, block)};
}

bool is_gguf(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  char magic[4] = {};
  return !fs::is_directory(path) && in.read(magic, sizeof magic) &&
         std::string_view(magic, sizeof magic) == "GGUF";
}

}  // namespace

std::vector<Quantized> quantize(const fs::path& from, const fs::path& to, const QuantizeOptions& options) {
  const std::string type = checked_type(options.type);
  const std::string output_type = options.output_type.empty() ? "" : checked_type(options.output_type);
  Source source = is_gguf(from) ? from_gguf(from) : from_checkpoint(from);
  const auto* row = std::find_if(std::begin(kFileTypes), std::end(kFileTypes),
                                 [&](const FileTypeRow& r) { return r.type == type; });
  set_key(source.keys, "general.file_type", row->code);
  set_key(source.keys, "general.quantization_version", 2);
  std::vector<state::GgufTensor> tensors;
  std::vector<Quantized> out;
  for (const state::GgufTensor& tensor : source.tensors) {
    Choice choice = choose(tensor, type, output_type);
    const std::int64_t numbers = tensor.packed
                                     ? state::gguf_unpack(tensor.type, tensor.values).numel().value()
                                     : tensor.values.numel().value();
    out.push_back({choice.tensor.name, choice.tensor.type, numbers, 0, 0, 0, choice.note});
    tensors.push_back(std::move(choice.tensor));
  }
  const std::vector<state::GgufError> errors = state::gguf_save(source.keys, tensors, to);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].bytes = errors[i].bytes;
    out[i].error = errors[i].error;
    out[i].size = errors[i].size;
  }
  return out;
}

}  // namespace lathe::llm
