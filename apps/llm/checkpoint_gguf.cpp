// A Checkpoint from a GGUF file: its keys begin with the architecture's name.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/llm/architectures.h"
#include "apps/llm/checkpoint_read.h"
#include "apps/llm/rotary.h"
#include "lathe/error.h"

namespace lathe::llm {

namespace {

class Keys {
 public:
  Keys(const Object& metadata, std::string prefix) : metadata_(metadata), prefix_(std::move(prefix)) {}

  const Object* find(std::string_view key) const {
    return metadata_.find(fmt::format("{}.{}", prefix_, key));
  }
  // A list with one number per layer is that number where all are the same.
  std::int64_t integer(std::string_view key, std::int64_t fallback) const {
    const Object* found = find(key);
    if (found == nullptr) return fallback;
    if (!found->is(Object::Kind::List)) return found->integer();
    const Object::Items& items = found->items();
    if (items.empty()) return fallback;
    for (const Object& item : items)
      if (item.integer() != items[0].integer())
        throw NotSupported(
            "load_checkpoint",
            fmt::format("{}.{} differs from layer to layer, which is not supported", prefix_, key));
    return items[0].integer();
  }
  double number(std::string_view key, double fallback) const {
    const Object* found = find(key);
    return found == nullptr ? fallback : found->number();
  }
  bool flag(std::string_view key, bool fallback) const {
    const Object* found = find(key);
    return found == nullptr ? fallback : found->boolean();
  }
  std::string text(std::string_view key, std::string fallback) const {
    const Object* found = find(key);
    return found == nullptr ? std::move(fallback) : found->string();
  }

 private:
  const Object& metadata_;
  std::string prefix_;
};

// A small tensor's numbers, taken out of the weights.
std::vector<double> taken(StoredWeights& weights, const std::string& name, std::int64_t most) {
  const auto found = weights.find(name);
  if (found == weights.end()) return {};
  const Tensor tensor = found->second.stored;
  if (!found->second.type.empty() || tensor.numel().value() > most)
    throw UserError("load_checkpoint",
                    fmt::format("tensor \"{}\" is {}, and {} numbers are needed", name, tensor.str(), most));
  weights.erase(found);
  return tensor.tolist();
}

void read_sizes(const Keys& keys, const StoredWeights& weights, ModelConfig& c) {
  const auto table = weights.find("token_embd.weight");
  if (table == weights.end() || table->second.stored.ndim() != 2)
    throw UserError("load_checkpoint", "the file has no table of tokens, \"token_embd.weight\"");
  c.vocabulary = table->second.stored.size(0).value();
  c.context = keys.integer("context_length", 0);
  c.dim = keys.integer("embedding_length", 0);
  c.layers = keys.integer("block_count", 0);
  c.heads = keys.integer("attention.head_count", 0);
  c.kv_heads = keys.integer("attention.head_count_kv", 0);
  c.head_dim = keys.integer("attention.key_length", 0);
  c.experts = keys.integer("expert_count", 0);
  c.experts_used = keys.integer("expert_used_count", 0);
  c.feed_forward = keys.integer("feed_forward_length", 0);
  if (c.experts > 0) c.feed_forward = keys.integer("expert_feed_forward_length", c.feed_forward);
  if (const auto types = weights.find("token_types.weight"); types != weights.end())
    c.token_types = types->second.stored.ndim() == 2 ? types->second.stored.size(0).value() : 0;
}

Pooling pooling_of(std::int64_t code) {
  switch (code) {
    case 1: return Pooling::Mean;
    case 2: return Pooling::First;
    case 3: return Pooling::Last;
    default: return Pooling::None;
  }
}

void read_ways(const Keys& keys, ModelConfig& c) {
  c.eps = keys.number(
      c.norm == Norm::RMS ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", c.eps);
  c.causal = keys.flag("attention.causal", c.causal);
  c.attention_scale = keys.number("attention.scale", 0);
  c.attention_softcap = keys.number("attn_logit_softcapping", c.attention_softcap);
  c.logit_softcap = keys.number("final_logit_softcapping", c.logit_softcap);
  c.logit_scale = keys.number("logit_scale", c.logit_scale);
  c.sliding_window = keys.integer("attention.sliding_window", c.sliding_window);
  c.expert_weights_sum_to_one = keys.flag("expert_weights_norm", c.expert_weights_sum_to_one);
  c.pooling = pooling_of(keys.integer("pooling_type", 0));
  // The largest of the family divides scores by what a head would be if heads shared the dim; no key says so.
  constexpr std::int64_t kLayersOfGemma2With27B = 46;
  if (c.architecture == "gemma2" && c.layers == kLayersOfGemma2With27B && c.attention_scale == 0 &&
      c.heads > 0)
    c.attention_scale = 1 / std::sqrt(static_cast<double>(c.dim) / static_cast<double>(c.heads));
}

Rotary read_rotary(const Keys& keys, StoredWeights& weights, const ModelConfig& c, bool interleaved) {
  const std::int64_t dims = keys.integer("rope.dimension_count", c.head_dim);
  if (dims > c.head_dim)
    throw UserError("load_checkpoint",
                    fmt::format("{} features of a head are turned, which has {}", dims, c.head_dim));
  RotaryScaling scaling;
  scaling.kind = keys.text("rope.scaling.type", "");
  if (scaling.kind == "none") scaling.kind.clear();
  scaling.factor = keys.number("rope.scaling.factor", keys.number("rope.scale_linear", 1));
  if (scaling.kind.empty() && scaling.factor != 1) scaling.kind = "linear";
  scaling.first = keys.integer("rope.scaling.original_context_length", c.context);
  scaling.attention = keys.number("rope.scaling.attn_factor", 0);
  scaling.short_factors = taken(weights, "rope_factors_short.weight", dims / 2);
  scaling.long_factors = taken(weights, "rope_factors_long.weight", dims / 2);
  if (!scaling.short_factors.empty()) scaling.kind = "longrope";
  const std::vector<double> factors = taken(weights, "rope_freqs.weight", dims / 2);  // Llama 3
  Rotary out = rotary_of(dims, keys.number("rope.freq_base", 10000), c.context, scaling);
  for (std::size_t i = 0; i < std::min(factors.size(), out.frequencies.size()); ++i)
    out.frequencies[i] = static_cast<float>(static_cast<double>(out.frequencies[i]) / factors[i]);
  out.interleaved = interleaved;
  return out;
}

// The format's own description of a tokenizer, or a whole tokenizer.json.
void read_tokenizer(const Object& metadata, const LoadOptions& options, Checkpoint& out) {
  const Keys keys(metadata, "tokenizer.ggml");
  if (const Object* begin = keys.find("bos_token_id"))
    out.config.begin = static_cast<TokenId>(begin->integer());
  if (const Object* end = keys.find("eos_token_id")) out.config.ends = {static_cast<TokenId>(end->integer())};
  if (!options.tokenizer.empty()) return;
  if (keys.find("model") != nullptr || metadata.find("tokenizer.huggingface.json") != nullptr)
    out.tokenizer = Tokenizer::from_gguf(metadata);
}

}  // namespace

Draft read_gguf(const std::filesystem::path& file, const LoadOptions& options) {
  const state::Gguf gguf = state::gguf_load(opened(file, options.device));
  Draft out;
  Checkpoint& checkpoint = out.checkpoint;
  checkpoint.format = "GGUF";
  for (const auto& [name, stored] : gguf.stored)
    out.weights[name] = {state::gguf_is_packed(stored.type) ? stored.type : "",
                         stored.stored.to(options.device)};
  ModelConfig& c = checkpoint.config;
  c.architecture = gguf.metadata["general.architecture"].string();
  if (const Object* name = gguf.metadata.find("general.name")) c.name = name->string();
  const Architecture& architecture = architecture_named(c.architecture);
  architecture.defaults(c);
  const Keys keys(gguf.metadata, c.architecture);
  read_sizes(keys, out.weights, c);
  read_ways(keys, c);
  c.tied = !out.weights.contains("output.weight");
  if (options.context > 0) c.context = std::min(c.context, options.context);
  finish_config(c);
  check_config(c);
  if (c.positions == Positions::Rotary)
    c.rotary = read_rotary(keys, out.weights, c, architecture.interleaved_in_gguf);
  read_tokenizer(gguf.metadata, options, checkpoint);
  if (const Object* chat = gguf.metadata.find("tokenizer.chat_template"))
    checkpoint.chat_template = chat->string();
  return out;
}

}  // namespace lathe::llm
