#include "models/benchmarks.h"

#include <utility>

#include "lathe/optim.h"
#include "models/bert.h"
#include "models/llama.h"
#include "models/resnet.h"

namespace lathe::models {
namespace {

constexpr std::int64_t kImages = 64, kSide = 224;

Tensor integers(const Shape& shape) { return Tensor::empty(shape, {.dtype = dtypes::int32}); }
Tensor images() { return Tensor::empty({kImages, 3, kSide, kSide}); }

// What a training step computes: the loss and everything the optimizer changes.
std::vector<Tensor> changes(nn::optim::Optimizer& optimizer, const Tensor& loss) {
  loss.backward();
  std::vector<Tensor> out = optimizer.schedule_step();
  optimizer.zero_grad();  // so that no gradient has to be kept
  out.insert(out.begin(), loss);
  return out;
}

constexpr BenchmarkNet kNets[] = {
    {"resnet50_forward", resnet50_forward}, {"resnet50_train", resnet50_train},
    {"gpt2_124m_train", gpt2_124m_train},   {"bert_base_train", bert_base_train},
    {"llama_1b_decode", llama_1b_decode},
};

}  // namespace

std::span<const BenchmarkNet> benchmark_nets() { return kNets; }

std::vector<Tensor> resnet50_forward() {
  nn::UninitializedScope uninitialized;
  NoGradScope no_grad;
  ResNet net(50);
  return {net(images())};
}

std::vector<Tensor> resnet50_train() {
  nn::UninitializedScope uninitialized;
  TrainingScope training;
  ResNet net(50);
  nn::optim::SGD optimizer(nn::get_parameters(net), 0.1, {.momentum = 0.9, .weight_decay = 1e-4});
  return changes(optimizer, net(images()).sparse_categorical_crossentropy(integers({kImages})));
}

std::vector<Tensor> gpt2_train(const GPT2Config& config, std::int64_t batch, std::int64_t time) {
  nn::UninitializedScope uninitialized;
  TrainingScope training;
  GPT2 net(config);
  nn::optim::AdamW optimizer(nn::get_parameters(net), 6e-4, {.beta2 = 0.95, .weight_decay = 0.1});
  return changes(optimizer, net.loss(integers({batch, time}), integers({batch, time})));
}

std::vector<Tensor> gpt2_124m_train() { return gpt2_train({}, 4, 1024); }

std::vector<Tensor> bert_base_train() {
  constexpr std::int64_t kBatch = 16, kTime = 128;
  nn::UninitializedScope uninitialized;
  TrainingScope training;
  Bert net;
  nn::optim::AdamW optimizer(nn::get_parameters(net), 1e-4);
  return changes(optimizer, net.loss(integers({kBatch, kTime}), integers({kBatch, kTime}),
                                     integers({kBatch, kTime}), integers({kBatch})));
}

std::vector<Tensor> llama_1b_decode() {
  nn::UninitializedScope uninitialized;
  NoGradScope no_grad;
  Llama net;
  // Bound to somewhere in the middle: the graph is the same for every value.
  const Size position = Variable("position", 0, net.config.context - 1).bind(net.config.context / 2);
  std::vector<Tensor> out = {net(integers({1, 1}), position).argmax(-1)};
  for (const Tensor& cache : net.caches()) out.push_back(cache);
  return out;
}

}  // namespace lathe::models
