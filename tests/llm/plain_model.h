// A decoder written out in loops over double, straight from a Checkpoint: what models are compared with. It
// knows everything a ModelConfig can say of a causal decoder and computes each position from scratch.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "lathe/llm/checkpoint.h"

namespace lathe::tests {

using llm::Activation;
using llm::Checkpoint;
using llm::ModelConfig;
using Row = std::vector<double>;

class PlainModel {
 public:
  explicit PlainModel(const Checkpoint& checkpoint) : c_(checkpoint.config) {
    for (const auto& [name, tensor] : checkpoint.weights) weights_[name] = tensor.tolist();
  }

  // The logits behind the last of the tokens.
  Row logits(const std::vector<llm::TokenId>& tokens) const {
    const Row last = normed(hidden(tokens).back(), "output_norm");
    Row out = product(last, c_.tied ? "token_embd" : "output");
    for (double& x : out) {
      x *= c_.logit_scale;
      if (c_.logit_softcap > 0) x = c_.logit_softcap * std::tanh(x / c_.logit_softcap);
    }
    return out;
  }

 private:
  const Row* find(const std::string& name) const {
    const auto found = weights_.find(name);
    return found == weights_.end() ? nullptr : &found->second;
  }
  Row product(const Row& x, const std::string& name, std::size_t expert = 0, std::size_t rows = 0) const {
    const Row& w = weights_.at(name + ".weight");
    if (rows == 0) rows = w.size() / x.size();
    const Row* bias = find(name + ".bias");
    Row out(rows);
    for (std::size_t r = 0; r < rows; ++r) {
      const double* row = w.data() + (expert * rows + r) * x.size();
      out[r] = std::inner_product(x.begin(), x.end(), row, bias == nullptr ? 0.0 : (*bias)[r]);
    }
    return out;
  }
  Row normed(const Row& x, const std::string& name, std::size_t begin = 0, std::size_t count = 0) const {
    const Row* weight = find(name + ".weight");
    if (weight == nullptr) return x;
    if (count == 0) count = x.size();
    const Row* bias = find(name + ".bias");
    double mean = 0, square = 0;
    for (std::size_t i = begin; i < begin + count; ++i) mean += x[i] / static_cast<double>(count);
    if (c_.norm == llm::Norm::RMS) mean = 0;
    for (std::size_t i = begin; i < begin + count; ++i)
      square += (x[i] - mean) * (x[i] - mean) / static_cast<double>(count);
    Row out = x;
    for (std::size_t i = 0; i < count; ++i)
      out[begin + i] = (x[begin + i] - mean) / std::sqrt(square + c_.eps) * (*weight)[i] +
                       (bias == nullptr ? 0 : (*bias)[i]);
    return out;
  }
  double activated(double x) const {
    switch (c_.activation) {
      case Activation::Silu: return x / (1 + std::exp(-x));
      case Activation::Gelu: return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
      case Activation::Relu: return std::max(x, 0.0);
      default: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    }
  }
  Row feed(const Row& x, const std::string& block) const {
    if (c_.experts == 0) return feed_one(x, block, "", 0);
    Row scores = product(x, block + "ffn_gate_inp");
    const double top = *std::max_element(scores.begin(), scores.end());
    for (double& s : scores) s = std::exp(s - top);
    const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
    std::vector<std::size_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
    order.resize(static_cast<std::size_t>(c_.experts_used));
    double used = 0;
    for (const std::size_t e : order) used += scores[e];
    Row out(x.size());
    for (const std::size_t e : order) {
      const Row one = feed_one(x, block, "_exps", e);
      for (std::size_t i = 0; i < out.size(); ++i)
        out[i] += one[i] * scores[e] / (c_.expert_weights_sum_to_one ? used : sum);
    }
    return out;
  }
  Row feed_one(const Row& x, const std::string& block, const std::string& ending, std::size_t expert) const {
    const auto wide = static_cast<std::size_t>(c_.feed_forward);
    Row up = product(x, block + "ffn_up" + ending, expert, wide);
    const Row gate = c_.gated ? product(x, block + "ffn_gate" + ending, expert, wide) : up;
    for (std::size_t i = 0; i < up.size(); ++i)
      up[i] = c_.gated ? activated(gate[i]) * up[i] : activated(up[i]);
    return product(up, block + "ffn_down" + ending, expert, x.size());
  }
  void turn(Row& x, std::int64_t heads, std::size_t position) const {
    const std::size_t pairs = c_.rotary.frequencies.size();
    for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h)
      for (std::size_t p = 0; p < pairs; ++p) {
        const std::size_t base = h * static_cast<std::size_t>(c_.head_dim);
        double& a = x[base + (c_.rotary.interleaved ? 2 * p : p)];
        double& b = x[base + (c_.rotary.interleaved ? 2 * p + 1 : p + pairs)];
        const double angle = static_cast<double>(position) * static_cast<double>(c_.rotary.frequencies[p]);
        const double cosine = std::cos(angle) * c_.rotary.scale, sine = std::sin(angle) * c_.rotary.scale;
        const double first = a * cosine - b * sine;
        b = b * cosine + a * sine;
        a = first;
      }
  }
  Row prepared(const Row& x, const std::string& block, const char* kind, std::int64_t heads,
               std::size_t position) const {
    Row out = product(x, block + "attn_" + kind);
    const std::string norm = block + "attn_" + kind + "_norm";
    if (c_.qk_norm == llm::QkNorm::All) out = normed(out, norm);
    if (c_.qk_norm == llm::QkNorm::PerHead)
      for (std::int64_t h = 0; h < heads; ++h)
        out = normed(out, norm, static_cast<std::size_t>(h * c_.head_dim),
                     static_cast<std::size_t>(c_.head_dim));
    turn(out, heads, position);
    return out;
  }
  std::vector<Row> attention(const std::vector<Row>& x, const std::string& block, std::int64_t layer) const {
    const auto d = static_cast<std::size_t>(c_.head_dim);
    std::vector<Row> q, k, v, out;
    for (std::size_t t = 0; t < x.size(); ++t) {
      q.push_back(prepared(x[t], block, "q", c_.heads, t));
      k.push_back(prepared(x[t], block, "k", c_.kv_heads, t));
      v.push_back(product(x[t], block + "attn_v"));
      Row mixed(static_cast<std::size_t>(c_.heads) * d);
      for (std::size_t h = 0; h < static_cast<std::size_t>(c_.heads); ++h) {
        const std::size_t shared = h / static_cast<std::size_t>(c_.heads / c_.kv_heads);
        const std::size_t window = c_.slides(layer) ? static_cast<std::size_t>(c_.sliding_window) : t + 1;
        const std::size_t first = t + 1 > window ? t + 1 - window : 0;
        Row score;
        for (std::size_t s = first; s <= t; ++s) {
          double dot = 0;
          for (std::size_t i = 0; i < d; ++i) dot += q[t][h * d + i] * k[s][shared * d + i];
          dot *= c_.attention_scale;
          if (c_.attention_softcap > 0) dot = c_.attention_softcap * std::tanh(dot / c_.attention_softcap);
          score.push_back(dot);
        }
        const double top = *std::max_element(score.begin(), score.end());
        double sum = 0;
        for (double& s : score) sum += s = std::exp(s - top);
        for (std::size_t s = first; s <= t; ++s)
          for (std::size_t i = 0; i < d; ++i)
            mixed[h * d + i] += score[s - first] / sum * v[s][shared * d + i];
      }
      out.push_back(product(mixed, block + "attn_output"));
    }
    return out;
  }
  static void add(Row& x, const Row& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
  std::vector<Row> hidden(const std::vector<llm::TokenId>& tokens) const {
    const auto dim = static_cast<std::size_t>(c_.dim);
    const Row& table = weights_.at("token_embd.weight");
    std::vector<Row> x;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const auto at = table.begin() + tokens[t] * c_.dim;
      Row row(at, at + c_.dim);
      for (double& value : row) value *= c_.embedding_scale;
      if (c_.positions == llm::Positions::Learned)
        for (std::size_t i = 0; i < dim; ++i) row[i] += weights_.at("position_embd.weight")[t * dim + i];
      x.push_back(row);
    }
    for (std::int64_t layer = 0; layer < c_.layers; ++layer) {
      const std::string block = "blk." + std::to_string(layer) + ".";
      std::vector<Row> seen;
      for (const Row& row : x) seen.push_back(normed(row, block + "attn_norm"));
      const std::vector<Row> mixed = attention(seen, block, layer);
      for (std::size_t t = 0; t < x.size(); ++t) {
        add(x[t], normed(mixed[t], block + "post_attention_norm"));
        const bool parallel = c_.residual == llm::Residual::Parallel;
        const Row fed = feed(parallel ? seen[t] : normed(x[t], block + "ffn_norm"), block);
        add(x[t], normed(fed, block + "post_ffw_norm"));
      }
    }
    return x;
  }

  ModelConfig c_;
  std::map<std::string, Row> weights_;
};

}  // namespace lathe::tests
