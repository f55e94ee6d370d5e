// What layers and nets have in common: a list of their tensors by name. A module names its parts once, in
// parts(); state dicts, optimizers and model files are all built from that list. Copying a module copies
// handles: the copy shares its parameters.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/tensor.h"

namespace lathe::nn {

class Parts;

class Module {
 public:
  virtual ~Module() = default;
  // Names every tensor and module this one is made of, always in the same order.
  virtual void parts(Parts& parts) = 0;

 protected:
  Module() = default;
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
};

// Tensors by name in the order the modules name them; names of nested parts are joined by dots.
using StateDict = std::vector<std::pair<std::string, Tensor>>;

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

 private:
  std::size_t enter(std::string_view name);
  void leave(std::size_t before) { prefix_.resize(before); }

  std::string prefix_;
  StateDict found_;
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
