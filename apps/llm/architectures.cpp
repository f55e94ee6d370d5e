#include "apps/llm/architectures.h"

#include <fmt/format.h>

#include <cmath>

#include "lathe/error.h"

namespace lathe::llm {

namespace {

void plain(ModelConfig&) {}

void gemma(ModelConfig& c) {
  c.activation = Activation::GeluTanh;
  c.eps = 1e-6;
}
void gemma2(ModelConfig& c) {
  gemma(c);
  c.after_norms = true;
  c.sliding_window = 4096;
  c.sliding_period = 2;
  c.attention_softcap = 50;
  c.logit_softcap = 30;
}
void layer_normed(ModelConfig& c) {
  c.norm = Norm::Layer;
  c.gated = false;
  c.activation = Activation::GeluTanh;
}
void phi2(ModelConfig& c) {
  layer_normed(c);
  c.residual = Residual::Parallel;
  c.tied = false;
}
void gpt2(ModelConfig& c) {
  layer_normed(c);
  c.positions = Positions::Learned;
}
void bert(ModelConfig& c) {
  layer_normed(c);
  c.activation = Activation::Gelu;
  c.positions = Positions::Learned;
  c.residual = Residual::NormAfter;
  c.causal = false;
  c.eps = 1e-12;
}

// clang-format off
constexpr Architecture kArchitectures[] = {
    // name        families                       interleaved  adds one  defaults
    {"llama",      " llama mistral mixtral ",     true,        false,    plain},
    {"qwen2",      " qwen2 ",                     false,       false,    [](ModelConfig& c) { c.eps = 1e-6; }},
    {"qwen3",      " qwen3 ",                     false,       false,    [](ModelConfig& c) { c.eps = 1e-6; c.qk_norm = QkNorm::PerHead; }},
    {"qwen3moe",   " qwen3_moe ",                 false,       false,    [](ModelConfig& c) { c.eps = 1e-6; c.qk_norm = QkNorm::PerHead; c.expert_weights_sum_to_one = true; }},
    {"gemma",      " gemma ",                     false,       true,     gemma},
    {"gemma2",     " gemma2 ",                    false,       true,     gemma2},
    {"phi2",       " phi ",                       false,       false,    phi2},
    {"phi3",       " phi3 ",                      false,       false,    plain},
    {"olmoe",      " olmoe ",                     false,       false,    [](ModelConfig& c) { c.qk_norm = QkNorm::All; }},
    {"gpt2",       " gpt2 ",                      false,       false,    gpt2},
    {"bert",       " bert ",                      false,       false,    bert},
};
// clang-format on

[[noreturn]] void refuse_unknown(std::string_view what) {
  throw NotSupported("load_checkpoint", fmt::format("the architecture {} is not known", what))
      .help(fmt::format("known are {}", fmt::join(known_architectures(), ", ")));
}

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const Architecture& row : kArchitectures) names.emplace_back(row.name);
  return names;
}

const Architecture& architecture_named(std::string_view name) {
  for (const Architecture& row : kArchitectures)
    if (row.name == name) return row;
  refuse_unknown(fmt::format("\"{}\"", name.substr(0, 80)));
}

const Architecture& architecture_of_family(std::string_view family) {
  for (const Architecture& row : kArchitectures)
    if (row.families.find(fmt::format(" {} ", family)) != std::string_view::npos) return row;
  refuse_unknown(fmt::format("\"{}\" (model_type)", family.substr(0, 80)));
}

void finish_config(ModelConfig& c) {
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.head_dim == 0 && c.heads > 0) {
    if (c.dim % c.heads != 0)
      throw UserError("load_checkpoint", fmt::format("{} heads do not share {} features", c.heads, c.dim));
    c.head_dim = c.dim / c.heads;
  }
  if (c.context == 0) c.context = 2048;
  if (c.attention_scale == 0 && c.head_dim > 0)
    c.attention_scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
  if (c.architecture == "gemma" || c.architecture == "gemma2")
    c.embedding_scale = std::sqrt(static_cast<double>(c.dim));
  if (c.experts > 0 && c.architecture == "llama") c.expert_weights_sum_to_one = true;  // Mixtral
}

}  // namespace lathe::llm
