// That kernels depend on the graph alone: not on the run, not on the order in which a graph was built (R1);
// and what `make replay BASE=commit` compares with another commit (R69).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <random>

#include "base/atomic_file.h"
#include "engine/engine.h"
#include "replay/kernels_of.h"

namespace lathe::test {
namespace {

// With REPLAY_OUT=folder, writes the kernels of every graph for every target there, a file each.
TEST(Replay, WritesTheKernelsOfEveryGraphForEveryTarget) {
  const char* folder = std::getenv("REPLAY_OUT");
  std::size_t kernels = 0;
  for (const ReplayGraph& graph : replay_graphs()) {
    // Everything only for a comparison; otherwise that it works at all.
    if (folder == nullptr && graph.name != "resnet50_forward" && graph.name != "op_softmax") continue;
    std::vector<Tensor> wanted = graph.build();
    for (const char* target : kReplayTargets) {
      std::string text;
      try {
        text = kernels_of(wanted, target);
      } catch (const std::exception& e) {
        text = std::string("refused: ") + e.what();
        EXPECT_NE(folder, nullptr) << graph.name << " " << target << " " << text;
      }
      kernels += static_cast<std::size_t>(std::count(text.begin(), text.end(), '='));
      if (folder != nullptr)
        write_file_atomic(std::string(folder) + "/" + target + "/" + graph.name, text, Sync::No);
    }
  }
  EXPECT_GT(kernels, 0u);
}

// A small net; `order` says in which order its weights and its branches come into being.
std::vector<Tensor> small_net(const std::vector<std::size_t>& order) {
  std::vector<Tensor> weights(order.size());
  for (std::size_t i : order) weights[i] = Tensor::empty({16, 16 + static_cast<std::int64_t>(i)});
  Tensor x = Tensor::empty({8, 16});
  std::vector<Tensor> branches(order.size());
  for (std::size_t i : order) {
    Tensor y = x.matmul(weights[i]);
    branches[i] = (y.softmax() * y.relu()).sum({1}) + (1.0 + static_cast<double>(i)) * y.max({1});
  }
  Tensor all = branches[0];
  for (std::size_t i = 1; i < branches.size(); ++i) all = all * branches[i];
  return {all, all.layernorm()};
}

TEST(Replay, KernelsAreTheSameBytesInAHundredRunsAndInAnyOrderOfConstruction) {
  std::vector<std::size_t> order(5);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::string first = kernels_of(small_net(order), "x86-64-v3");
  std::mt19937 random(1);
  std::vector<Tensor> noise;  // nodes that live in between
  for (int run = 0; run < 100; ++run) {
    if (run % 10 == 0) engine::drop_caches();
    std::shuffle(order.begin(), order.end(), random);
    noise.push_back(Tensor::empty({run + 1}) * run);
    ASSERT_EQ(kernels_of(small_net(order), "x86-64-v3"), first) << "in run " << run;
  }
}

}  // namespace
}  // namespace lathe::test
