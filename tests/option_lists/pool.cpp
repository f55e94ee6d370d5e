#include "option_lists/pool.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "ir/walk.h"
#include "lathe/optim.h"
#include "models/benchmarks.h"
#include "models/bert.h"
#include "models/demo_net.h"
#include "models/llama.h"
#include "models/resnet.h"
#include "reference/bounded.h"
#include "replay/kernels_of.h"
#include "search/job.h"
#include "search/kernel_text.h"

namespace lathe::test {
namespace {

constexpr double kMostOps = 3e7;
constexpr std::size_t kMostBytes = std::size_t{8} << 20;

Tensor integers(const Shape& shape) { return Tensor::empty(shape, {.dtype = dtypes::int32}); }

std::vector<Tensor> changes(nn::optim::Optimizer& optimizer, const Tensor& loss) {
  loss.backward();
  std::vector<Tensor> out = optimizer.schedule_step();
  optimizer.zero_grad();
  out.insert(out.begin(), loss);
  return out;
}

template <class Net>
std::vector<Tensor> image_step(Net& net, std::int64_t batch, std::int64_t channels, std::int64_t side) {
  TrainingScope training;
  nn::optim::SGD optimizer(nn::get_parameters(net), 0.1, {.momentum = 0.9, .weight_decay = 1e-4});
  const Tensor scores = net(Tensor::empty({batch, channels, side, side}));
  return changes(optimizer, scores.sparse_categorical_crossentropy(integers({batch})));
}

std::vector<Tensor> bert_step() {
  TrainingScope training;
  models::Bert net({.vocabulary = 61, .context = 20, .layers = 1, .heads = 2, .dim = 24, .feed_forward = 40});
  nn::optim::AdamW optimizer(nn::get_parameters(net), 1e-4);
  return changes(optimizer, net.loss(integers({3, 19}), integers({3, 19}), integers({3, 19}), integers({3})));
}

std::vector<Tensor> llama_step() {
  NoGradScope no_grad;
  models::Llama net({.vocabulary = 67,
                     .dim = 32,
                     .feed_forward = 56,
                     .layers = 1,
                     .heads = 4,
                     .kv_heads = 2,
                     .context = 40});
  const Size position = Variable("position", 0, net.config.context - 1).bind(7);
  std::vector<Tensor> out = {net(integers({1, 1}), position).argmax(-1)};
  for (const Tensor& cache : net.caches()) out.push_back(cache);
  return out;
}

// Nets small enough to run often: odd sizes, so that tiles end inside of rows.
std::vector<ReplayGraph> small_nets() {
  return {
      {"demo_net",
       [] {
         models::DemoNet net(10, 28, 28);
         return image_step(net, 5, 1, 28);
       }},
      {"resnet18",
       [] {
         models::ResNet net(18, 10);
         return image_step(net, 2, 3, 32);
       }},
      {"gpt2",
       [] {
         return models::gpt2_train({.vocabulary = 97, .context = 24, .layers = 1, .heads = 2, .dim = 36}, 3,
                                   23);
       }},
      {"bert", bert_step},
      {"llama", llama_step},
  };
}

bool small_enough(Node kernel) {
  std::size_t bytes = 0;
  for (const search::JobBuffer& b : search::buffers_of(kernel)) bytes += b.bytes();
  if (bytes > kMostBytes) return false;
  const reference::Bindings bindings = search::bindings_of(kernel);
  const std::vector<double> costs = reference::position_costs(kernel, bindings);
  const std::vector<reference::StoreAxes> stores = reference::store_axes(kernel, bindings);
  double ops = 0;
  for (std::size_t i = 0; i < stores.size(); ++i) {
    double count = 1;
    for (std::int64_t e : stores[i].extents) count *= static_cast<double>(e);
    ops += count * costs[i];
  }
  return ops > 0 && ops <= kMostOps;
}

// Collects kernels that are not there yet.
class Pool {
 public:
  void add(const std::string& from, Node kernel) {
    if (known_.try_emplace(kernel).second && small_enough(kernel)) kernels.push_back({from, NodeRef(kernel)});
  }
  void add_graphs(const std::vector<ReplayGraph>& graphs, const std::string& suffix) {
    for (const ReplayGraph& graph : graphs) {
      int number = 0;
      for (const NodeRef& kernel : scheduled_kernels(graph.build(), "x86-64-v3"))
        add(fmt::format("{}{} {}", graph.name, suffix, number++), kernel);
    }
  }
  std::vector<PoolKernel> kernels;

 private:
  NodeMap<bool> known_;
};

}  // namespace

std::vector<PoolKernel> saved_kernels(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& file : std::filesystem::directory_iterator(folder)) paths.push_back(file.path().string());
  std::sort(paths.begin(), paths.end());
  Pool pool;
  for (const std::string& path : paths)
    pool.add(std::filesystem::path(path).stem().string(), search::read_kernel_file(path).kernel);
  return std::move(pool.kernels);
}

std::vector<PoolKernel> kernel_pool() {
  Pool pool;
  pool.add_graphs(op_graphs(dtypes::float32), "");
  pool.add_graphs(op_graphs(dtypes::int32), " of int32");
  const nn::UninitializedScope uninitialized;
  const DataType usual = dtypes::default_float();
  for (DataType dtype : {dtypes::float32, dtypes::bfloat16, dtypes::float16}) {
    dtypes::set_default_float(dtype);
    pool.add_graphs(small_nets(), " of " + std::string(dtype.name()));
  }
  dtypes::set_default_float(usual);
  return std::move(pool.kernels);
}

}  // namespace lathe::test
