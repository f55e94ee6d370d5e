// The nets of `lathe bench cuda`, as users write them: training steps of GPT-2 and ResNet-50 with products in
// bfloat16 and parameters in float32, ResNet-50 forward and a token of a language model in bfloat16. All are
// captured and replayed.
#include <memory>

#include "lathe/jit.h"
#include "lathe/lathe.h"
#include "lathe/optim.h"
#include "models/gpt2.h"
#include "models/llama.h"
#include "models/resnet.h"
#include "tools/lathe/bench_cpu.h"

namespace lathe::tool {
namespace {

constexpr std::int64_t kClasses = 1000;

// Where there is a folder, what a net begins with is written there for the peers.
void hand_over(nn::Module& net, nn::StateDict inputs, const std::string& folder) {
  if (folder.empty()) return;
  nn::StateDict state = nn::get_state_dict(net);
  for (auto& [name, tensor] : inputs) state.emplace_back(name, tensor);
  write_state(state, folder);
}

// A model beside its optimizer, and the loss of a batch.
template <class Model, class Optimizer>
struct Trainer {
  Model model;
  Optimizer optimizer;

  template <class Loss>
  std::vector<Tensor> step(Loss loss_of) {
    const TrainingScope training;
    optimizer.zero_grad();
    Tensor loss;
    {
      const AutocastScope narrow(dtypes::bfloat16);
      loss = loss_of(model);
    }
    loss.backward();
    std::vector<Tensor> changed = optimizer.schedule_step();
    changed.insert(changed.begin(), loss);
    Tensor::realize_all(changed);
    optimizer.zero_grad();
    return {loss.detach()};
  }
};

// How much the loss fell in each of the steps that are compared: a wrong gradient shows there, and hardly in
// the loss itself. A cold net takes one step.
Net training_net(Jit captured, std::vector<Tensor> inputs, bool cold) {
  auto shared = std::make_shared<Jit>(std::move(captured));  // shared: functions are copied
  Net net;
  const double first = (*shared)(inputs)[0].item();
  for (int i = 1; !cold && i < kStepsCompared; ++i) net.values.push_back(first - (*shared)(inputs)[0].item());
  net.start = [shared, inputs] { (*shared)(inputs); };
  return net;
}

bool is_cold(const CpuRow& row) { return row.variant == kColdNet; }

}  // namespace

// sizes: texts, tokens of each, vocabulary (a multiple of 64, so that its rows can be copied in bulk).
Net gpt2_train(const CpuRow& row, const std::string& folder) {
  models::GPT2 model({.vocabulary = row.sizes[2]});
  for (nn::Embedding* table : {&model.tokens_table, &model.positions_table})
    table->weight.assign(table->weight.detach() * 0.02);
  using Gpt2Trainer = Trainer<models::GPT2, nn::optim::AdamW>;
  nn::optim::AdamW optimizer(nn::get_parameters(model), 6e-4, {.beta2 = 0.95, .weight_decay = 0.1});
  auto trainer = std::make_shared<Gpt2Trainer>(Gpt2Trainer{std::move(model), std::move(optimizer)});
  const std::vector<Tensor> inputs(
      {Tensor::randint({row.sizes[0], row.sizes[1]}, 0, 50257, {.dtype = dtypes::int32}),
       Tensor::randint({row.sizes[0], row.sizes[1]}, 0, 50257, {.dtype = dtypes::int32})});
  Tensor::realize_all(inputs);
  hand_over(trainer->model, {{"tokens", inputs[0]}, {"targets", inputs[1]}}, folder);
  return training_net(jit([trainer](const std::vector<Tensor>& in) {
                        return trainer->step([&](const models::GPT2& m) { return m.loss(in[0], in[1]); });
                      }),
                      inputs, is_cold(row));
}

// sizes: images, their side.
Net resnet_train(const CpuRow& row, const std::string& folder) {
  models::ResNet model(50, kClasses);
  using ResNetTrainer = Trainer<models::ResNet, nn::optim::SGD>;
  nn::optim::SGD optimizer(nn::get_parameters(model), 0.01, {.momentum = 0.9, .weight_decay = 1e-4});
  auto trainer = std::make_shared<ResNetTrainer>(ResNetTrainer{std::move(model), std::move(optimizer)});
  const std::vector<Tensor> inputs({Tensor::randn({row.sizes[0], 3, row.sizes[1], row.sizes[1]}),
                                    Tensor::randint({row.sizes[0]}, 0, kClasses, {.dtype = dtypes::int32})});
  Tensor::realize_all(inputs);
  hand_over(trainer->model, {{"images", inputs[0]}, {"labels", inputs[1]}}, folder);
  return training_net(jit([trainer](const std::vector<Tensor>& in) {
                        return trainer->step([&](models::ResNet& m) {
                          return m(in[0]).sparse_categorical_crossentropy(in[1]);
                        });
                      }),
                      inputs, is_cold(row));
}

// sizes: images, their side.
Net resnet_forward(const CpuRow& row, const std::string& folder) {
  auto net = std::make_shared<models::ResNet>(50, kClasses);
  const Tensor images =
      Tensor::randn({row.sizes[0], 3, row.sizes[1], row.sizes[1]}).cast(dtypes::bfloat16).realize();
  net->to(dtypes::bfloat16);
  hand_over(*net, {{"images", images}}, folder);
  return forward_net(jit([net](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                       const NoGradScope no_grad;
                       return {(*net)(in[0]).realize()};
                     }),
                     {images});
}

// sizes: positions of the cache. Each token is chosen from the scores of the one before it; when the cache is
// full the text begins again.
Net llama_decode(const CpuRow& row, const std::string& folder) {
  const std::int64_t context = row.sizes[0];
  auto net = std::make_shared<models::Llama>(models::LlamaConfig{.context = context});
  net->tokens_table.weight.assign(net->tokens_table.weight.detach() * 0.02);
  net->to(dtypes::bfloat16);
  hand_over(*net, {}, folder);
  auto step = std::make_shared<Jit>(
      jit([net](const std::vector<Tensor>& in, const std::vector<Size>& at) -> std::vector<Tensor> {
        const NoGradScope no_grad;
        const Tensor scores = (*net)(in[0], at[0]);
        std::vector<Tensor> out = {scores.argmax(-1, true).cast(dtypes::int32), scores};
        std::vector<Tensor> all = out;
        for (const Tensor& cache : net->caches()) all.push_back(cache);
        Tensor::realize_all(all);
        return out;
      }));
  const Variable position("position", 0, context - 1);
  auto token = std::make_shared<Tensor>(Tensor::full({1, 1}, 5, {.dtype = dtypes::int32}).contiguous());
  auto at = std::make_shared<std::int64_t>(0);
  auto next = [step, position, token, at, context] {
    std::vector<Tensor> out = (*step)({*token}, {position.bind(*at)});
    *token = out[0];
    *at = (*at + 1) % context;
    return out[1];
  };
  Net made;
  for (int i = 0; i < (is_cold(row) ? 1 : kStepsCompared); ++i) {
    // The same tokens for every contender, whatever the scores.
    const std::vector<double> scores = next().data<double>();
    made.values.assign(scores.end() - kValuesCompared, scores.end());
    *token = Tensor::full({1, 1}, 6 + i, {.dtype = dtypes::int32}).contiguous().realize();
  }
  made.start = next;
  return made;
}

}  // namespace lathe::tool
