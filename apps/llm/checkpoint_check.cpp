// A file's description of a model, against reason and against its own weights.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "apps/llm/checkpoint_read.h"
#include "lathe/error.h"

namespace lathe::llm {

namespace {

UserError refuse(const std::string& why) { return UserError("load_checkpoint", why); }

struct SizeRow {
  std::string_view what;
  std::int64_t ModelConfig::* field;
  std::int64_t least, most;
};
constexpr std::int64_t kMost = std::int64_t{1} << 24;
constexpr SizeRow kSizes[] = {{"vocabulary", &ModelConfig::vocabulary, 1, kMost},
                              {"context", &ModelConfig::context, 1, kMost},
                              {"dim", &ModelConfig::dim, 1, kMost},
                              {"feed_forward", &ModelConfig::feed_forward, 1, kMost},
                              {"layers", &ModelConfig::layers, 1, 1 << 14},
                              {"heads", &ModelConfig::heads, 1, 1 << 14},
                              {"kv_heads", &ModelConfig::kv_heads, 1, 1 << 14},
                              {"head_dim", &ModelConfig::head_dim, 1, 1 << 14},
                              {"experts", &ModelConfig::experts, 0, 1 << 14},
                              {"experts_used", &ModelConfig::experts_used, 0, 1 << 14},
                              {"sliding_window", &ModelConfig::sliding_window, 0, std::int64_t{1} << 40},
                              {"sliding_period", &ModelConfig::sliding_period, 1, 1 << 14},
                              {"token_types", &ModelConfig::token_types, 0, kMost}};

// What a weight's sizes are, as letters: Vocabulary, Dim, Queries, Keys (of all heads), Feed-forward,
// Experts, Head, Context, Types.
struct ShapeRow {
  std::string_view name, sizes;
};
constexpr ShapeRow kShapes[] = {
    {"token_embd.weight", "VD"},   {"output.weight", "VD"},        {"output.bias", "V"},
    {"output_norm.weight", "D"},   {"output_norm.bias", "D"},      {"token_embd_norm.weight", "D"},
    {"token_embd_norm.bias", "D"}, {"position_embd.weight", "CD"}, {"token_types.weight", "TD"},
};
constexpr ShapeRow kBlockShapes[] = {
    {"attn_norm.weight", "D"},
    {"attn_norm.bias", "D"},
    {"attn_q.weight", "QD"},
    {"attn_q.bias", "Q"},
    {"attn_k.weight", "KD"},
    {"attn_k.bias", "K"},
    {"attn_v.weight", "KD"},
    {"attn_v.bias", "K"},
    {"attn_output.weight", "DQ"},
    {"attn_output.bias", "D"},
    {"attn_output_norm.weight", "D"},
    {"attn_output_norm.bias", "D"},
    {"post_attention_norm.weight", "D"},
    {"post_ffw_norm.weight", "D"},
    {"ffn_norm.weight", "D"},
    {"ffn_norm.bias", "D"},
    {"ffn_gate.weight", "FD"},
    {"ffn_up.weight", "FD"},
    {"ffn_up.bias", "F"},
    {"ffn_down.weight", "DF"},
    {"ffn_down.bias", "D"},
    {"layer_output_norm.weight", "D"},
    {"layer_output_norm.bias", "D"},
    {"ffn_gate_inp.weight", "ED"},
    {"ffn_gate_exps.weight", "EFD"},
    {"ffn_up_exps.weight", "EFD"},
    {"ffn_down_exps.weight", "EDF"},
};

std::int64_t extent(char letter, const ModelConfig& c) {
  switch (letter) {
    case 'V': return c.vocabulary;
    case 'D': return c.dim;
    case 'Q': return c.heads * c.head_dim;
    case 'K': return c.kv_heads * c.head_dim;
    case 'F': return c.feed_forward;
    case 'E': return c.experts;
    case 'C': return c.context;
    default: return c.token_types;
  }
}

// Tables of positions may be longer than what is used of them.
bool fits(const Size& found, char letter, std::int64_t wanted) {
  return letter == 'C' ? found.value() >= wanted : found == wanted;
}

void check_shape(const StoredWeights& weights, const std::string& name, std::string_view sizes,
                 const ModelConfig& c) {
  const auto found = weights.find(name);
  if (found == weights.end()) return;
  const Shape shape = found->second.shape();
  Shape wanted;
  for (const char letter : sizes) wanted.push_back(extent(letter, c));
  bool same = shape.size() == wanted.size();
  for (std::size_t i = 0; same && i < shape.size(); ++i) same = fits(shape[i], sizes[i], wanted[i].value());
  if (!same)
    throw refuse(fmt::format("tensor \"{}\" has shape {}, and by the file's own description it is {}", name,
                             to_string(shape), to_string(wanted)));
}

void need(const StoredWeights& weights, const std::string& name) {
  if (weights.find(name) == weights.end()) throw refuse(fmt::format("the file has no tensor \"{}\"", name));
}

void replace_by_rows(StoredWeights& weights, const std::string& name,
                     std::span<const std::pair<std::string, std::int64_t>> parts) {
  const auto found = weights.find(name);
  if (found == weights.end()) return;
  const StoredWeight fused = found->second;
  std::int64_t rows = 0;
  for (const auto& [part, count] : parts) rows += count;
  const Shape shape = fused.shape();
  if (shape.empty() || !(shape[0] == rows))
    throw refuse(
        fmt::format("tensor \"{}\" has shape {}, and {} rows are needed", name, to_string(shape), rows));
  weights.erase(found);
  std::int64_t at = 0;
  for (const auto& [part, count] : parts) {
    weights[part] = fused.rows(at, at + count);
    at += count;
  }
}

}  // namespace

void check_config(const ModelConfig& c) {
  for (const SizeRow& row : kSizes)
    if (c.*row.field < row.least || c.*row.field > row.most)
      throw refuse(fmt::format("the model's {} is {}, which is not {} to {}", row.what, c.*row.field,
                               row.least, row.most));
  if (c.heads % c.kv_heads != 0)
    throw refuse(fmt::format("{} heads cannot share {} key heads", c.heads, c.kv_heads));
  if (c.experts_used > c.experts || (c.experts > 0 && c.experts_used == 0))
    throw refuse(fmt::format("{} of {} experts are used", c.experts_used, c.experts));
  for (const double number : {c.attention_scale, c.attention_softcap, c.logit_softcap, c.logit_scale})
    if (!std::isfinite(number)) throw refuse(fmt::format("the model has a scale or cap of {}", number));
  if (!(c.eps >= 0) || !std::isfinite(c.eps)) throw refuse(fmt::format("the norms' epsilon is {}", c.eps));
}

void split_fused(StoredWeights& weights, const ModelConfig& c) {
  using Parts = std::vector<std::pair<std::string, std::int64_t>>;
  const std::int64_t queries = c.heads * c.head_dim, keys = c.kv_heads * c.head_dim;
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string block = fmt::format("blk.{}.", i);
    if (weights.lower_bound(block) == weights.end()) continue;
    for (const char* kind : {".weight", ".bias"})
      replace_by_rows(weights, block + "attn_qkv" + kind,
                      Parts{{block + "attn_q" + kind, queries},
                            {block + "attn_k" + kind, keys},
                            {block + "attn_v" + kind, keys}});
    const auto up = weights.find(block + "ffn_up.weight");
    const bool fused = c.gated && up != weights.end() && !weights.contains(block + "ffn_gate.weight");
    if (fused)
      replace_by_rows(
          weights, block + "ffn_up.weight",
          Parts{{block + "ffn_gate.weight", c.feed_forward}, {block + "ffn_up.weight", c.feed_forward}});
  }
}

void check_weights(const StoredWeights& weights, const ModelConfig& c) {
  need(weights, "token_embd.weight");
  if (!c.tied) need(weights, "output.weight");
  if (c.positions == Positions::Learned) need(weights, "position_embd.weight");
  for (const ShapeRow& row : kShapes) check_shape(weights, std::string(row.name), row.sizes, c);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string block = fmt::format("blk.{}.", i);
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
      need(weights, block + name + ".weight");
    need(weights, block + (c.experts > 0 ? "ffn_down_exps.weight" : "ffn_down.weight"));
    for (const ShapeRow& row : kBlockShapes)
      check_shape(weights, block + std::string(row.name), row.sizes, c);
  }
}

}  // namespace lathe::llm
