// Sequential: a module that applies layers in order.
#pragma once

#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "lathe/nn/module.h"

namespace lathe::nn {

// Sequential(Linear(2, 3), [](const Tensor& x) { return x.relu(); }, Linear(3, 1)): the layers are modules or
// functions. The tensors of a module are named by its position: "0.weight", "2.weight".
class Sequential : public Module {
 public:
  template <class... Layers>
  explicit Sequential(Layers... layers) {
    (add(std::move(layers)), ...);
  }

  template <class Layer>
  Sequential& add(Layer layer) {
    auto held = std::make_shared<Layer>(std::move(layer));  // shared: copies of a net share its layers
    Module* module = nullptr;
    if constexpr (std::is_base_of_v<Module, Layer>) module = held.get();
    layers_.push_back({module, [held](const Tensor& x) -> Tensor { return (*held)(x); }});
    return *this;
  }

  Tensor operator()(const Tensor& x) const {
    Tensor y = x;
    for (const Entry& layer : layers_) y = layer.call(y);
    return y;
  }
  void parts(Parts& p) override {
    for (std::size_t i = 0; i < layers_.size(); ++i)
      if (layers_[i].module != nullptr) p(std::to_string(i), *layers_[i].module);
  }
  std::size_t size() const { return layers_.size(); }

 private:
  struct Entry {
    Module* module;  // inside `call`; null for a plain function
    std::function<Tensor(const Tensor&)> call;
  };
  std::vector<Entry> layers_;
};

}  // namespace lathe::nn
