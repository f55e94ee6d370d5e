// How many kernels the pieces that transformers are made of become on a CPU, and how much memory lies between
// them. Counts are recorded and may only fall.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codegen/kernel/count.h"
#include "engine/compile_context.h"
#include "engine/graph_key.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "models/gpt2.h"
#include "models/llama.h"
#include "rewrite/rewriter.h"
#include "schedule/schedule.h"
#include "tensor/impl.h"

namespace lathe::models {
namespace {

// As the engine schedules: what is realized is cut off, buffers are numbered.
Schedule schedule_of(const std::vector<Tensor>& wanted) {
  std::vector<Node> nodes;
  for (const Tensor& t : wanted) nodes.push_back(node_of(t.contiguous()));
  const engine::Stripped stripped = engine::strip_realized(nodes);
  const engine::Normalised normal = engine::normalise(stripped.targets, engine::key_of(stripped.targets));
  return schedule(normal.targets);
}
std::size_t kernels(const std::vector<Tensor>& wanted) { return schedule_of(wanted).steps.size(); }

// Memory that nobody filled: schedules do not depend on values.
Tensor given(const Shape& shape) { return Tensor::empty(shape); }

// A module whose parameters have values, so that none is drawn in the kernels that are counted.
template <class Module>
Module& known(Module& module) {
  for (Tensor& t : nn::get_parameters(module)) t.realize();
  return module;
}
LlamaConfig small_llama() {
  LlamaConfig config;
  config.dim = 512, config.feed_forward = 2048, config.heads = 8, config.kv_heads = 2, config.context = 1024;
  return config;
}
Rope known_rope(const LlamaConfig& config) {
  Rope rope(config);
  rope.cos.realize();
  rope.sin.realize();
  return rope;
}

std::vector<Tensor> with_gradients(const Tensor& y, const std::vector<Tensor>& of) {
  std::vector<Tensor> out{y};
  for (Tensor& g : (y * given(y.shape())).sum().gradient(of)) out.push_back(std::move(g));
  return out;
}

// The largest value between kernels against the largest input, both in bytes.
double largest_intermediate(const std::vector<Tensor>& wanted) {
  const Schedule made = schedule_of(wanted);
  NodeMap<char> written;
  double inside = 0, input = 0;
  std::vector<Node> results(made.results.begin(), made.results.end());
  NodeMap<char> kept;
  for (Node n : toposort(results)) kept[n] = 1;
  for (const Step& step : made.steps)
    for (Node n : toposort(step.ast))
      if (n.is(Op::Store) && base_memory(n.arg(0)).is(Op::Param))
        written[step.buffers[static_cast<std::size_t>(param_slot(base_memory(n.arg(0))))]] = 1;
  for (const Step& step : made.steps)
    for (Node b : step.buffers) {
      const double bytes = static_cast<double>(buffer_size(b)) * b.dtype().bytes();
      if (!written.contains(b))
        input = std::max(input, bytes);
      else if (!kept.contains(b))
        inside = std::max(inside, bytes);
    }
  return inside / input;
}

TEST(Schedules, RowsAreOneKernel) {
  Scope scope;
  Tensor x = given({512, 1000});
  EXPECT_EQ(kernels({x.softmax(-1)}), 1u);
  EXPECT_EQ(kernels({x.log_softmax(-1)}), 1u);
  EXPECT_EQ(kernels({x.layernorm({-1})}), 1u);
  nn::LayerNorm layer(1000);
  nn::RMSNorm rms(1000);
  EXPECT_EQ(kernels({known(layer)(x)}), 1u);
  EXPECT_EQ(kernels({known(rms)(x)}), 1u);
  EXPECT_EQ(kernels({x.logsumexp({-1})}), 1u);
  EXPECT_EQ(kernels({x / x.sum({-1}, true)}), 1u);
}

TEST(Schedules, RecordedCountsOfPieces) {
  Scope scope;
  Tensor x = given({512, 1000}), q = given({2, 12, 256, 64}), k = given({2, 12, 256, 64}),
         v = given({2, 12, 256, 64}), few = given({2, 4, 256, 64}), mask = given({256, 256});
  EXPECT_LE(kernels(with_gradients(x.softmax(-1), {x})), 3u);
  EXPECT_LE(kernels(with_gradients(x.log_softmax(-1), {x})), 3u);
  nn::LayerNorm norm(1000);
  known(norm);
  EXPECT_LE(kernels(with_gradients(norm(x), {x, norm.weight, norm.bias})), 4u);
  EXPECT_EQ(kernels({q.scaled_dot_product_attention(k, v)}), 1u);
  EXPECT_EQ(kernels({q.scaled_dot_product_attention(k, v, {.causal = true})}), 1u);
  EXPECT_EQ(kernels({q.scaled_dot_product_attention(k, v, {.mask = &mask})}), 1u);
  EXPECT_EQ(kernels({q.scaled_dot_product_attention(few, few, {.causal = true, .gqa = true})}), 1u);
  EXPECT_LE(kernels(with_gradients(q.scaled_dot_product_attention(k, v), {q, k, v})), 10u);
}

TEST(Schedules, RecordedCountsOfBlocks) {
  Scope scope;
  GPT2Config gpt2;
  GPT2Block block(gpt2);
  Tensor x = given({4, 1024, 768});
  EXPECT_LE(kernels({known(block)(x)}), 7u);
  LlamaConfig llama = small_llama();
  LlamaBlock other(llama);
  EXPECT_LE(kernels({known(other)(given({1, 128, 512}), known_rope(llama), 0)}), 16u);
}

TEST(Schedules, NothingInABlockIsLargerThanFourTimesTheLargestInput) {
  Scope scope;
  GPT2Config gpt2;
  GPT2Block block(gpt2);
  EXPECT_LE(largest_intermediate({known(block)(given({4, 1024, 768}))}), 4.0);
  LlamaConfig llama = small_llama();
  LlamaBlock other(llama);
  EXPECT_LE(largest_intermediate({known(other)(given({1, 1024, 512}), known_rope(llama), 0)}), 4.0);
}

TEST(Schedules, RandomNumbersAreDrawnOnce) {
  Scope scope;
  TrainingScope training;
  Tensor x = given({512, 1000});
  auto draws = [](const std::vector<Tensor>& wanted) {
    double n = 0;
    for (const Step& step : schedule_of(wanted).steps)
      for (Node node : toposort(step.ast))
        if (node.is(Op::Xor)) {
          double times = 1;
          for (Node r : ranges_of(node)) times *= static_cast<double>(r.arg(0).hi());
          n += times;
        }
    return n;
  };
  Tensor y = x.dropout(0.5);
  EXPECT_LE(draws({y.layernorm({-1})}), 1.01 * draws({x.dropout(0.5)}));
  EXPECT_LE(draws({y.softmax(-1), y.sum({0})}), 1.01 * draws({x.dropout(0.5)}));
}

TEST(Schedules, AttentionInOneKernelGivesWhatThePassesGive) {
  Scope scope;
  for (auto [rows, keys, width] : {std::array<std::int64_t, 3>{33, 300, 20}, {8, 17, 64}, {64, 256, 32}}) {
    Tensor q = Tensor::randn({1, 4, rows, width}).realize(), k = Tensor::randn({1, 2, keys, width}).realize(),
           v = Tensor::randn({1, 2, keys, width}).realize();
    auto values = [&] {
      return q.scaled_dot_product_attention(k, v, {.causal = true, .gqa = true}).contiguous().data<float>();
    };
    const std::vector<float> fused = values();
    std::vector<float> passes;
    {
      const engine::ExperimentScope without({.disabled = {"running-maximum"}});
      passes = values();
    }
    ASSERT_EQ(fused.size(), passes.size());
    for (std::size_t i = 0; i < fused.size(); ++i)
      ASSERT_NEAR(fused[i], passes[i], 2e-6 * std::max(1.0F, std::abs(passes[i]))) << i;
  }
}

}  // namespace
}  // namespace lathe::models
