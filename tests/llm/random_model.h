// Small models with random weights, one for each thing that architectures do differently.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "lathe/llm/checkpoint.h"

namespace lathe::tests {

struct RandomModel {
  std::string what;
  llm::Checkpoint checkpoint;
};

inline llm::ModelConfig small_config() {
  llm::ModelConfig c;
  c.architecture = "llama";
  c.vocabulary = 61;
  c.context = 64;
  c.dim = 24;
  c.feed_forward = 40;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 6;
  c.attention_scale = 1 / std::sqrt(6.0);
  c.rotary.frequencies = {1.0F, 0.1F, 0.01F};
  c.rotary.interleaved = true;
  return c;
}

inline RandomModel made_model(std::string what, const llm::ModelConfig& c, bool biases,
                              std::uint32_t seed = 5) {
  RandomModel m{std::move(what), {}};
  m.checkpoint.config = c;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const auto add = [&](const std::string& name, const Shape& shape, float scale, float mean = 0) {
    std::int64_t count = 1;
    for (const Size& n : shape) count *= n.value();
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& v : values) v = mean + scale * normal(random);
    m.checkpoint.weights.emplace(name, Tensor(values, shape).realize());
  };
  const auto matrix = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", {out, in}, 1.5F / std::sqrt(static_cast<float>(in)));
    if (biases) add(name + ".bias", {out}, 0.2F);
  };
  const auto norm = [&](const std::string& name, std::int64_t size) {
    add(name + ".weight", {size}, 0.2F, 1);
    if (c.norm == llm::Norm::Layer) add(name + ".bias", {size}, 0.1F);
  };
  const std::int64_t queries = c.heads * c.head_dim, keys = c.kv_heads * c.head_dim;
  add("token_embd.weight", {c.vocabulary, c.dim}, 1);
  if (c.positions == llm::Positions::Learned) add("position_embd.weight", {c.context, c.dim}, 0.3F);
  norm("output_norm", c.dim);
  if (!c.tied) add("output.weight", {c.vocabulary, c.dim}, 0.3F);
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    norm(block + "attn_norm", c.dim);
    if (c.residual == llm::Residual::Sequential) norm(block + "ffn_norm", c.dim);
    matrix(block + "attn_q", queries, c.dim);
    matrix(block + "attn_k", keys, c.dim);
    matrix(block + "attn_v", keys, c.dim);
    matrix(block + "attn_output", c.dim, queries);
    if (c.qk_norm != llm::QkNorm::None) {
      const bool all = c.qk_norm == llm::QkNorm::All;
      norm(block + "attn_q_norm", all ? queries : c.head_dim);
      norm(block + "attn_k_norm", all ? keys : c.head_dim);
    }
    if (c.after_norms) {
      norm(block + "post_attention_norm", c.dim);
      norm(block + "post_ffw_norm", c.dim);
    }
    if (c.experts > 0) {
      add(block + "ffn_gate_inp.weight", {c.experts, c.dim}, 1);
      add(block + "ffn_up_exps.weight", {c.experts, c.feed_forward, c.dim}, 0.3F);
      if (c.gated) add(block + "ffn_gate_exps.weight", {c.experts, c.feed_forward, c.dim}, 0.3F);
      add(block + "ffn_down_exps.weight", {c.experts, c.dim, c.feed_forward}, 0.3F);
    } else {
      matrix(block + "ffn_up", c.feed_forward, c.dim);
      if (c.gated) matrix(block + "ffn_gate", c.feed_forward, c.dim);
      matrix(block + "ffn_down", c.dim, c.feed_forward);
    }
  }
  return m;
}

inline std::vector<RandomModel> random_models() {
  std::vector<RandomModel> all;
  llm::ModelConfig c = small_config();
  all.push_back(made_model("llama-like", c, false));
  c.tied = false;
  c.rotary.interleaved = false;
  all.push_back(made_model("qwen2-like", c, true));
  c.qk_norm = llm::QkNorm::PerHead;
  all.push_back(made_model("qwen3-like", c, false));
  c.experts = 5;
  c.experts_used = 2;
  c.expert_weights_sum_to_one = true;
  all.push_back(made_model("qwen3moe-like", c, false));
  c.expert_weights_sum_to_one = false;
  c.qk_norm = llm::QkNorm::All;
  all.push_back(made_model("olmoe-like", c, false));
  c = small_config();
  c.rotary.interleaved = false;
  c.activation = llm::Activation::GeluTanh;
  c.embedding_scale = std::sqrt(24.0);
  c.after_norms = true;
  c.attention_softcap = 3;
  c.logit_softcap = 5;
  c.sliding_window = 5;
  c.sliding_period = 2;
  all.push_back(made_model("gemma2-like", c, false));
  c = small_config();
  c.rotary.interleaved = false;
  c.rotary.frequencies = {1.0F, 0.05F};
  c.rotary.scale = 1.1;
  c.norm = llm::Norm::Layer;
  c.gated = false;
  c.activation = llm::Activation::GeluTanh;
  c.residual = llm::Residual::Parallel;
  c.tied = false;
  c.kv_heads = 4;
  all.push_back(made_model("phi2-like", c, true));
  c = small_config();
  c.rotary.frequencies = {};
  c.positions = llm::Positions::Learned;
  c.norm = llm::Norm::Layer;
  c.gated = false;
  c.activation = llm::Activation::Gelu;
  c.kv_heads = 4;
  all.push_back(made_model("gpt2-like", c, true));
  c = small_config();
  c.kv_heads = 1;
  c.sliding_window = 4;
  c.logit_scale = 0.5;
  c.activation = llm::Activation::Relu;
  all.push_back(made_model("mistral-like", c, false));
  return all;
}

inline RandomModel random_model(const std::string& what) {
  for (RandomModel& m : random_models())
    if (m.what == what) return std::move(m);
  throw UserError("random_model", "there is no " + what);
}

}  // namespace lathe::tests
