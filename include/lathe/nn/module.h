// The base class of layers and nets. A module names its tensors and submodules once, in parts(); state dicts,
// optimizers and model files are built from that list. Copying a module copies handles: the copy shares its
// parameters.
//
//   struct Net : nn::Module {
//     nn::Linear fc1{784, 128}, fc2{128, 10};
//     nn::Dropout drop{0.1};
//     void parts(nn::Parts& p) override { p("fc1", fc1)("fc2", fc2)("drop", drop); }
//     Tensor operator()(const Tensor& x) { return fc2(drop(fc1(x).relu())); }
//   };
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/tensor.h"

namespace lathe::nn {

class Parts;

// Tensors by name, in the order in which the modules name them; nested names are joined by dots.
using StateDict = std::vector<std::pair<std::string, Tensor>>;

class Module {
 public:
  virtual ~Module() = default;
  // Names every tensor and submodule, always in the same order.
  virtual void parts(Parts& parts) = 0;

  // The tensors that are trained: those that require a gradient.
  std::vector<Tensor> parameters();
  StateDict named_parameters();
  // All tensors, trained or not. load_state_dict works as the function below.
  StateDict state_dict();
  void load_state_dict(const StateDict& values, bool strict = true);
  // This module, with an empty name, and all submodules by dotted name.
  std::vector<std::pair<std::string, Module*>> named_modules();
  // Calls the function with every submodule and then with this module.
  Module& apply(const std::function<void(Module&)>& function);

  // Sets training mode for this module and its submodules. A module without a mode follows TrainingScope.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool training() const { return training_.value_or(Tensor::training()); }
  bool told() const { return training_.has_value(); }  // whether train() or eval() was called

  // Moves all tensors to a device, or all floats to a dtype, in place.
  Module& to(std::string_view device);
  Module& to(DataType dtype);
  void zero_grad();  // drops the gradients

 protected:
  Module() = default;
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;

 private:
  std::optional<bool> training_;
};

// Applies the module's training mode, if it has one, to operations inside the scope.
class ModeScope {
 public:
  explicit ModeScope(const Module& module) {
    if (module.told()) scope_.emplace(module.training());
  }

 private:
  std::optional<TrainingScope> scope_;
};

// Collects the parts that modules name: parts("weight", weight)("block", block)("layers", list_of_modules).
class Parts {
 public:
  // An undefined tensor (a layer without bias) is skipped.
  Parts& operator()(std::string_view name, Tensor& tensor);
  Parts& operator()(std::string_view name, Module& module);
  // Names each element by its position: "layers.0", "layers.1", ...
  template <class T>
  Parts& operator()(std::string_view name, std::vector<T>& list) {
    const std::size_t before = enter(name);
    for (std::size_t i = 0; i < list.size(); ++i) (*this)(std::to_string(i), list[i]);
    leave(before);
    return *this;
  }
  const StateDict& found() const { return found_; }
  const std::vector<std::pair<std::string, Module*>>& modules() const { return modules_; }

 private:
  std::size_t enter(std::string_view name);
  void leave(std::size_t before) { prefix_.resize(before); }

  std::string prefix_;
  StateDict found_;
  std::vector<std::pair<std::string, Module*>> modules_;
};

// Every tensor of the module by name. The handles share memory with the module.
StateDict get_state_dict(Module& module);
// The same without names, for an optimizer.
std::vector<Tensor> get_parameters(Module& module);
// Copies the values into the module's tensors. Throws UserError, before changing anything, for a different
// shape and, if strict, for a missing or unknown name.
void load_state_dict(Module& module, const StateDict& values, bool strict = true);
// The tensor of that name, or null.
const Tensor* find(const StateDict& dict, std::string_view name);

// A new tensor in memory of its own with these initial values. A parameter requires a gradient, a buffer does
// not.
Tensor parameter(const Tensor& initial);
Tensor buffer(const Tensor& initial);

// Inside the scope, parameter() and buffer() leave their memory uninitialized: for nets whose values are
// loaded from a file, or that are only compiled.
class UninitializedScope {
 public:
  UninitializedScope();
  ~UninitializedScope();
  UninitializedScope(const UninitializedScope&) = delete;
  UninitializedScope& operator=(const UninitializedScope&) = delete;
  static bool active();

 private:
  bool before_;
};

}  // namespace lathe::nn
