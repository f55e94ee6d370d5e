// What layers and nets have in common: a list of their tensors by name. A module names its parts once, in
// parts(); state dicts, optimizers and model files are all built from that list. Copying a module copies
// handles: the copy shares its parameters.
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

// Tensors by name in the order the modules name them; names of nested parts are joined by dots.
using StateDict = std::vector<std::pair<std::string, Tensor>>;

class Module {
 public:
  virtual ~Module() = default;
  // Names every tensor and module this one is made of, always in the same order.
  virtual void parts(Parts& parts) = 0;

  // The tensors that are trained: those that require a gradient.
  std::vector<Tensor> parameters();
  StateDict named_parameters();
  // All tensors, also what is kept and not trained; loading them as load_state_dict below.
  StateDict state_dict();
  void load_state_dict(const StateDict& values, bool strict = true);
  // The modules directly and indirectly inside by dotted name, this one first with an empty name.
  std::vector<std::pair<std::string, Module*>> named_modules();
  // Calls the function with every module inside and then with this one.
  Module& apply(const std::function<void(Module&)>& function);

  // Training mode, for this module and all inside. A module that was never told follows TrainingScope.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool training() const { return training_.value_or(Tensor::training()); }
  bool told() const { return training_.has_value(); }  // train() or eval() was called

  // Moves all tensors to a device, or all floats to a dtype, in place.
  Module& to(std::string_view device);
  Module& to(DataType dtype);
  void zero_grad();  // forgets the gradients

 protected:
  Module() = default;
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;

 private:
  std::optional<bool> training_;
};

// Training mode as the module was told, for what is computed inside; nothing where it never was.
class ModeScope {
 public:
  explicit ModeScope(const Module& module) {
    if (module.told()) scope_.emplace(module.training());
  }

 private:
  std::optional<TrainingScope> scope_;
};

// Collects what modules name: parts("weight", weight)("block", block)("layers", list_of_modules).
class Parts {
 public:
  // A tensor that is not defined (a bias that was left out) is passed over.
  Parts& operator()(std::string_view name, Tensor& tensor);
  Parts& operator()(std::string_view name, Module& module);
  // Each element under its position: "layers.0", "layers.1", ...
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
// The same without names: what an optimizer is given.
std::vector<Tensor> get_parameters(Module& module);
// Copies the values into the module's tensors. Throws UserError, before anything is changed, for a name that
// is missing or unknown (unless strict is false) and for a shape that differs.
void load_state_dict(Module& module, const StateDict& values, bool strict = true);
// The tensor of that name, or null.
const Tensor* find(const StateDict& dict, std::string_view name);

// A tensor with memory of its own that starts with these values; trainable ones require a gradient.
Tensor parameter(const Tensor& initial);
Tensor buffer(const Tensor& initial);

// Inside, parameter() and buffer() give memory nobody filled: for nets whose values come from a file, or that
// are only compiled.
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
