// The nets of `lathe bench cpu`: the demo's training step, GPT-2 and BERT forward, captured and replayed; and
// what they share with those of `lathe bench cuda`.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "lathe/error.h"
#include "lathe/jit.h"
#include "lathe/optim.h"
#include "models/bert.h"
#include "models/demo_net.h"
#include "models/gpt2.h"
#include "tools/lathe/bench_cpu.h"

namespace lathe::tool {
namespace {

constexpr std::uint64_t kSeed = 20;
}  // namespace

void write_state(const nn::StateDict& state, const std::string& folder) {
  std::ofstream file(folder + "/state", std::ios::binary);
  Json names = Json::array();
  for (const auto& [name, tensor] : state) {
    const std::vector<std::byte> bytes = tensor.bytes();
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    std::vector<std::int64_t> shape;
    for (const Size& size : tensor.shape()) shape.push_back(size.bound_value());
    names.push_back({{"name", name}, {"shape", shape}, {"dtype", tensor.dtype().name()}});
  }
  std::ofstream(folder + "/state.json") << names.dump();
  if (!file.flush()) throw UserError("bench cpu", "cannot write " + folder + "/state");
}

Net forward_net(Jit captured, const std::vector<Tensor>& inputs) {
  auto shared = std::make_shared<Jit>(std::move(captured));  // shared: functions are copied
  Net net;
  for (int i = 0; i < kStepsCompared; ++i) {
    const std::vector<double> all = (*shared)(inputs)[0].data<double>();
    net.values.assign(all.end() - kValuesCompared, all.end());
  }
  net.start = [shared, inputs] { (*shared)(inputs); };
  return net;
}

namespace {

Net gpt2(const CpuRow& row, const std::string& folder) {
  auto net = std::make_shared<models::GPT2>();
  Tensor tokens =
      Tensor::randint({row.sizes[0], row.sizes[1]}, 0, net->config.vocabulary, {.dtype = dtypes::int32});
  nn::StateDict state = nn::get_state_dict(*net);
  state.emplace_back("tokens", tokens.realize());
  write_state(state, folder);
  return forward_net(jit([net](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                       const NoGradScope no_grad;
                       return {(*net)(in[0]).realize()};
                     }),
                     {tokens});
}

Net bert(const CpuRow& row, const std::string& folder) {
  auto net = std::make_shared<models::Bert>();
  Tensor tokens =
      Tensor::randint({row.sizes[0], row.sizes[1]}, 0, net->config.vocabulary, {.dtype = dtypes::int32});
  Tensor segments = Tensor::zeros({row.sizes[0], row.sizes[1]}, {.dtype = dtypes::int32}).contiguous();
  nn::StateDict state = nn::get_state_dict(*net);
  state.emplace_back("tokens", tokens.realize());
  write_state(state, folder);
  return forward_net(jit([net](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                       const NoGradScope no_grad;
                       return {net->encode(in[0], in[1]).realize()};
                     }),
                     {tokens, segments.realize()});
}

struct DemoTrainer {
  models::DemoNet net;
  nn::optim::Adam optimizer{nn::get_parameters(net), 0.001};

  std::vector<Tensor> step(const std::vector<Tensor>& in) {
    const TrainingScope training;
    optimizer.zero_grad();
    Tensor loss = net(in[0]).sparse_categorical_crossentropy(in[1]);
    loss.backward();
    std::vector<Tensor> changed = optimizer.schedule_step();
    changed.insert(changed.begin(), loss);
    Tensor::realize_all(changed);
    optimizer.zero_grad();
    return {loss.detach()};
  }
};

Net demo(const CpuRow& row, const std::string& folder) {
  auto trainer = std::make_shared<DemoTrainer>();
  Tensor images = Tensor::uniform({row.sizes[0], 1, 28, 28}, 0, 255);
  Tensor labels = Tensor::randint({row.sizes[0]}, 0, 10, {.dtype = dtypes::int32});
  nn::StateDict state = nn::get_state_dict(trainer->net);
  state.emplace_back("images", images.realize());
  state.emplace_back("labels", labels.realize());
  write_state(state, folder);
  auto captured =
      std::make_shared<Jit>(jit([trainer](const std::vector<Tensor>& in) { return trainer->step(in); }));
  const std::vector<Tensor> inputs{images, labels};
  Net net;
  for (int i = 0; i < kStepsCompared; ++i) net.values = {(*captured)(inputs)[0].item()};
  net.start = [captured, inputs] { (*captured)(inputs); };
  return net;
}

struct NetKind {
  const char* name;
  Net (*make)(const CpuRow& row, const std::string& folder);
};
constexpr NetKind kNets[] = {{"demo", demo},
                             {"gpt2", gpt2},
                             {"bert", bert},
                             {"gpt2_train", gpt2_train},
                             {"resnet_train", resnet_train},
                             {"resnet_forward", resnet_forward},
                             {"llama_decode", llama_decode}};

}  // namespace

Net make_net(const CpuRow& row, const std::string& folder) {
  Tensor::manual_seed(kSeed);
  const auto* kind = std::ranges::find_if(kNets, [&](const NetKind& k) { return row.kind == k.name; });
  if (kind == std::end(kNets)) throw UserError("bench", "no such net: " + row.kind);
  return kind->make(row, folder);
}

}  // namespace lathe::tool
