// The nets that `lathe bench compile` measures, as graphs: each function builds one and returns the tensors
// to realize. Weights and inputs are memory nobody filled, so building computes nothing.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "lathe/tensor.h"
#include "models/gpt2.h"

namespace lathe::models {

std::vector<Tensor> resnet50_forward();  // batch 64, 224x224
std::vector<Tensor> resnet50_train();    // the same with SGD
std::vector<Tensor> gpt2_124m_train();   // batch 4, 1024 tokens, AdamW
std::vector<Tensor> bert_base_train();   // batch 16, 128 tokens, AdamW
std::vector<Tensor> llama_1b_decode();   // one token at a symbolic position

// A training step of any GPT-2, for measuring how times grow with the number of layers.
std::vector<Tensor> gpt2_train(const GPT2Config& config, std::int64_t batch, std::int64_t time);

struct BenchmarkNet {
  std::string_view name;
  std::vector<Tensor> (*build)();
};
std::span<const BenchmarkNet> benchmark_nets();

}  // namespace lathe::models
