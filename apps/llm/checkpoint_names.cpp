// Names of weights in Hugging Face's files and what a Checkpoint calls them.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

#include "apps/llm/checkpoint_read.h"

namespace lathe::llm {

namespace {

enum class Form : std::uint8_t { Same, Transposed };

struct NameRow {
  std::string_view from, to;            // without ".weight" and ".bias"; {} is a number
  std::string_view architectures = "";  // between spaces; empty: all
  Form form = Form::Same;
};
// The first row that fits counts.
// clang-format off
constexpr NameRow kNames[] = {
    {"embed_tokens",                                  "token_embd"},
    {"norm",                                          "output_norm"},
    {"final_layernorm",                               "output_norm"},
    {"lm_head",                                       "output"},
    {"layers.{}.input_layernorm",                     "blk.{}.attn_norm"},
    {"layers.{}.post_attention_layernorm",            "blk.{}.post_attention_norm", " gemma2 "},
    {"layers.{}.post_attention_layernorm",            "blk.{}.ffn_norm"},
    {"layers.{}.pre_feedforward_layernorm",           "blk.{}.ffn_norm"},
    {"layers.{}.post_feedforward_layernorm",          "blk.{}.post_ffw_norm"},
    {"layers.{}.self_attn.q_proj",                    "blk.{}.attn_q"},
    {"layers.{}.self_attn.k_proj",                    "blk.{}.attn_k"},
    {"layers.{}.self_attn.v_proj",                    "blk.{}.attn_v"},
    {"layers.{}.self_attn.qkv_proj",                  "blk.{}.attn_qkv"},
    {"layers.{}.self_attn.o_proj",                    "blk.{}.attn_output"},
    {"layers.{}.self_attn.dense",                     "blk.{}.attn_output"},
    {"layers.{}.self_attn.q_norm",                    "blk.{}.attn_q_norm"},
    {"layers.{}.self_attn.k_norm",                    "blk.{}.attn_k_norm"},
    {"layers.{}.mlp.gate_proj",                       "blk.{}.ffn_gate"},
    {"layers.{}.mlp.up_proj",                         "blk.{}.ffn_up"},
    {"layers.{}.mlp.gate_up_proj",                    "blk.{}.ffn_up"},
    {"layers.{}.mlp.down_proj",                       "blk.{}.ffn_down"},
    {"layers.{}.mlp.fc1",                             "blk.{}.ffn_up"},
    {"layers.{}.mlp.fc2",                             "blk.{}.ffn_down"},
    {"layers.{}.mlp.gate",                            "blk.{}.ffn_gate_inp"},
    {"layers.{}.mlp.experts.{}.gate_proj",            "blk.{}.ffn_gate_exps"},
    {"layers.{}.mlp.experts.{}.up_proj",              "blk.{}.ffn_up_exps"},
    {"layers.{}.mlp.experts.{}.down_proj",            "blk.{}.ffn_down_exps"},
    {"layers.{}.block_sparse_moe.gate",               "blk.{}.ffn_gate_inp"},
    {"layers.{}.block_sparse_moe.experts.{}.w1",      "blk.{}.ffn_gate_exps"},
    {"layers.{}.block_sparse_moe.experts.{}.w3",      "blk.{}.ffn_up_exps"},
    {"layers.{}.block_sparse_moe.experts.{}.w2",      "blk.{}.ffn_down_exps"},
    {"wte",                                           "token_embd"},
    {"wpe",                                           "position_embd"},
    {"ln_f",                                          "output_norm"},
    {"h.{}.ln_1",                                     "blk.{}.attn_norm"},
    {"h.{}.ln_2",                                     "blk.{}.ffn_norm"},
    {"h.{}.attn.c_attn",                              "blk.{}.attn_qkv",     "", Form::Transposed},
    {"h.{}.attn.c_proj",                              "blk.{}.attn_output",  "", Form::Transposed},
    {"h.{}.mlp.c_fc",                                 "blk.{}.ffn_up",       "", Form::Transposed},
    {"h.{}.mlp.c_proj",                               "blk.{}.ffn_down",     "", Form::Transposed},
    {"embeddings.word_embeddings",                    "token_embd"},
    {"embeddings.position_embeddings",                "position_embd"},
    {"embeddings.token_type_embeddings",              "token_types"},
    {"embeddings.LayerNorm",                          "token_embd_norm"},
    {"encoder.layer.{}.attention.self.query",         "blk.{}.attn_q"},
    {"encoder.layer.{}.attention.self.key",           "blk.{}.attn_k"},
    {"encoder.layer.{}.attention.self.value",         "blk.{}.attn_v"},
    {"encoder.layer.{}.attention.output.dense",       "blk.{}.attn_output"},
    {"encoder.layer.{}.attention.output.LayerNorm",   "blk.{}.attn_output_norm"},
    {"encoder.layer.{}.intermediate.dense",           "blk.{}.ffn_up"},
    {"encoder.layer.{}.output.dense",                 "blk.{}.ffn_down"},
    {"encoder.layer.{}.output.LayerNorm",             "blk.{}.layer_output_norm"},
};
// clang-format on

constexpr std::string_view kPrefixes[] = {"model.", "transformer.", "bert."};
// Tables and masks that some files hold: computed where they are needed.
constexpr std::string_view kNoWeights[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                                           "embeddings.position_ids"};

// The part before a dot, taken off; the rest where there is none.
std::string_view next_part(std::string_view& text) {
  const std::size_t dot = text.find('.');
  const std::string_view part = text.substr(0, dot);
  text.remove_prefix(dot == std::string_view::npos ? text.size() : dot + 1);
  return part;
}

std::optional<std::int64_t> number_of(std::string_view text) {
  constexpr std::size_t kMostDigits = 6;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && text.size() <= kMostDigits;
  return whole && value >= 0 ? std::optional(value) : std::nullopt;
}

// The numbers at the {} of a pattern, where the name fits it.
std::optional<std::vector<std::int64_t>> numbers_at(std::string_view pattern, std::string_view name) {
  std::vector<std::int64_t> numbers;
  while (!pattern.empty() && !name.empty()) {
    const std::string_view wanted = next_part(pattern), found = next_part(name);
    if (wanted != "{}") {
      if (wanted != found) return std::nullopt;
      continue;
    }
    const auto number = number_of(found);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return pattern.empty() && name.empty() ? std::optional(numbers) : std::nullopt;
}

}  // namespace

MappedName mapped_name(std::string_view name, std::string_view architecture) {
  for (const std::string_view ending : kNoWeights)
    if (name.ends_with(ending)) return {};
  const std::size_t dot = name.rfind('.');
  const std::string_view kind = dot == std::string_view::npos ? "" : name.substr(dot);
  if (kind != ".weight" && kind != ".bias") return {std::string(name)};
  std::string_view stem = name.substr(0, dot);
  for (const std::string_view prefix : kPrefixes)
    if (stem.starts_with(prefix)) {
      stem.remove_prefix(prefix.size());
      break;
    }
  for (const NameRow& row : kNames) {
    const bool concerned = row.architectures.empty() || row.architectures.find(fmt::format(
                                                            " {} ", architecture)) != std::string_view::npos;
    const auto numbers = concerned ? numbers_at(row.from, stem) : std::nullopt;
    if (!numbers) continue;
    std::string to(row.to);
    if (const std::size_t at = to.find("{}"); at != std::string::npos)
      to.replace(at, 2, std::to_string(numbers->front()));
    return {.name = to + std::string(kind),
            .expert = numbers->size() == 2 ? numbers->back() : -1,
            .transposed = row.form == Form::Transposed && kind == ".weight"};
  }
  return {std::string(name)};
}

}  // namespace lathe::llm
