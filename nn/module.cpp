#include "lathe/nn/module.h"

#include <atomic>
#include <memory>
#include <mutex>

#include <fmt/format.h>

#include <unordered_map>

#include "lathe/expected_gradient.h"
#include "lathe/nn/parameters.h"

namespace lathe::nn {
namespace {

thread_local bool leave_uninitialized = false;

// At most this many names stand in an error; the rest is counted.
constexpr std::size_t kNamesShown = 6;

std::string list_names(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kNamesShown; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamesShown) text += fmt::format(" and {} more", names.size() - kNamesShown);
  return text;
}

using Names = std::unordered_map<std::string_view, const Tensor*>;

Names by_name(const StateDict& dict) {
  Names names;
  for (const auto& [name, tensor] : dict) names.emplace(name, &tensor);
  return names;
}

std::vector<std::string> names_missing(const StateDict& wanted, const Names& given) {
  std::vector<std::string> missing;
  for (const auto& [name, tensor] : wanted)
    if (!given.contains(name)) missing.push_back(name);
  return missing;
}

void check_names(const StateDict& mine, const StateDict& values) {
  const std::vector<std::string> missing = names_missing(mine, by_name(values));
  const std::vector<std::string> unknown = names_missing(values, by_name(mine));
  if (missing.empty() && unknown.empty()) return;
  UserError error("load_state_dict",
                  fmt::format("the names differ: {} of the module's {} have no value, {} of "
                              "the {} given are unknown",
                              missing.size(), mine.size(), unknown.size(), values.size()));
  if (!missing.empty()) error.note("without a value: " + list_names(missing));
  if (!unknown.empty()) error.note("unknown: " + list_names(unknown));
  throw error.help("pass strict = false to load only the names both have");
}

}  // namespace

std::size_t Parts::enter(std::string_view name) {
  const std::size_t before = prefix_.size();
  prefix_.append(name).push_back('.');
  return before;
}

Parts& Parts::operator()(std::string_view name, Tensor& tensor) {
  if (tensor.defined()) found_.emplace_back(prefix_ + std::string(name), tensor);
  return *this;
}

Parts& Parts::operator()(std::string_view name, Module& module) {
  modules_.emplace_back(prefix_ + std::string(name), &module);
  const std::size_t before = enter(name);
  module.parts(*this);
  leave(before);
  return *this;
}

namespace {

// Puts other values in the place of tensors', which stay what they are to whoever holds them. Values are
// computed together, so that their kernels compile together, up to a size: whole models do not be in memory
// twice.
class Replacements {
 public:
  void add(const Tensor& tensor, const Tensor& value) {
    waiting_.emplace_back(tensor, value.contiguous());
    bytes_ += static_cast<std::size_t>(value.nbytes());
    if (bytes_ > kMost) replace();
  }
  void replace() {
    std::vector<Tensor> values;
    for (auto& [tensor, value] : waiting_) values.push_back(value);
    Tensor::realize_all(values);
    for (auto& [tensor, value] : waiting_) {
      const std::optional<bool> wish = tensor.grad_wish();
      tensor.replace(value);
      if (wish) tensor.requires_grad_(*wish);
    }
    waiting_.clear();
    bytes_ = 0;
  }

 private:
  static constexpr std::size_t kMost = std::size_t{64} << 20;
  std::vector<std::pair<Tensor, Tensor>> waiting_;
  std::size_t bytes_ = 0;
};

}  // namespace

StateDict Module::state_dict() { return get_state_dict(*this); }

StateDict Module::named_parameters() {
  StateDict trained;
  for (auto& entry : state_dict())
    if (entry.second.requires_grad()) trained.push_back(std::move(entry));
  return trained;
}

std::vector<Tensor> Module::parameters() {
  std::vector<Tensor> tensors;
  for (auto& [name, tensor] : named_parameters()) tensors.push_back(std::move(tensor));
  return tensors;
}

void Module::load_state_dict(const StateDict& values, bool strict) {
  nn::load_state_dict(*this, values, strict);
}

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
  Parts found;
  parts(found);
  std::vector<std::pair<std::string, Module*>> all{{"", this}};
  all.insert(all.end(), found.modules().begin(), found.modules().end());
  return all;
}

Module& Module::apply(const std::function<void(Module&)>& function) {
  const auto all = named_modules();
  for (auto at = all.rbegin(); at != all.rend(); ++at) function(*at->second);
  return *this;
}

Module& Module::train(bool on) {
  for (const auto& [name, module] : named_modules()) module->training_ = on;
  return *this;
}

Module& Module::to(std::string_view device) {
  NoGradScope no_grad;
  Replacements others;
  for (const auto& [name, tensor] : state_dict())
    if (const Tensor moved = tensor.detach().to(device); moved.device() != tensor.device())
      others.add(tensor, moved);
  others.replace();
  return *this;
}

Module& Module::to(DataType dtype) {
  NoGradScope no_grad;
  Replacements others;
  for (const auto& [name, tensor] : state_dict())
    if (tensor.is_floating_point() && tensor.dtype() != dtype)
      others.add(tensor, tensor.detach().cast(dtype));
  others.replace();
  return *this;
}

void Module::zero_grad() {
  for (auto& [name, tensor] : state_dict()) tensor.set_grad(std::nullopt);
}

StateDict get_state_dict(Module& module) {
  Parts parts;
  module.parts(parts);
  return parts.found();
}

std::vector<Tensor> get_parameters(Module& module) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : get_state_dict(module)) tensors.push_back(tensor);
  return tensors;
}

const Tensor* find(const StateDict& dict, std::string_view name) {
  for (const auto& [own, tensor] : dict)
    if (own == name) return &tensor;
  return nullptr;
}

void load_state_dict(Module& module, const StateDict& values, bool strict) {
  StateDict mine = get_state_dict(module);
  if (strict) check_names(mine, values);
  const Names given = by_name(values);
  for (const auto& [name, tensor] : mine)
    if (auto at = given.find(name); at != given.end() && at->second->shape() != tensor.shape())
      throw UserError("load_state_dict",
                      fmt::format("{} has shape {}, the value given {}", name, to_string(tensor.shape()),
                                  to_string(at->second->shape())))
          .help("the file belongs to a net of another size, or the tensor is stored transposed");
  NoGradScope no_grad;
  std::vector<Tensor> loaded;
  for (auto& [name, tensor] : mine)
    if (auto at = given.find(name); at != given.end())
      loaded.push_back(tensor.assign(at->second->detach().to(tensor.device()).cast(tensor.dtype())));
  Tensor::realize_all(loaded);
}

namespace {

std::atomic<bool> parameters_ask = true;

struct Remembered {
  std::mutex mutex;
  std::vector<std::weak_ptr<TensorImpl>> handles;
  std::size_t clean_at = 64;
};
Remembered& remembered() {
  static auto* list = new Remembered;  // never destroyed: layers may be made during exit
  return *list;
}

Tensor with_memory(const Tensor& initial) {
  NoGradScope no_grad;
  Tensor memory = Tensor::empty(initial.shape(), {.dtype = initial.dtype(), .device = initial.device()});
  // Through memory made here, not by keeping `initial`: equal expressions share one buffer, and two
  // parameters must not.
  if (!leave_uninitialized) memory.assign(initial);
  return memory;
}

}  // namespace

Tensor buffer(const Tensor& initial) { return with_memory(initial).requires_grad_(false); }

Tensor parameter(const Tensor& initial) {
  Tensor memory = with_memory(initial);
  if (parameters_ask) return memory.requires_grad_();
  remember_parameter(memory);
  return memory;
}

void set_parameters_ask(bool ask) { parameters_ask = ask; }

void remember_parameter(const Tensor& parameter) {
  expect_gradient(parameter);
  Remembered& list = remembered();
  std::lock_guard guard(list.mutex);
  if (list.handles.size() >= list.clean_at) {
    std::erase_if(list.handles, [](const auto& handle) { return handle.expired(); });
    list.clean_at = 2 * list.handles.size() + 64;
  }
  list.handles.push_back(parameter.impl());
}

std::vector<Tensor> remembered_parameters() {
  Remembered& list = remembered();
  std::lock_guard guard(list.mutex);
  std::vector<Tensor> out;
  for (const auto& handle : list.handles)
    if (auto impl = handle.lock()) out.emplace_back(std::move(impl));
  return out;
}

UninitializedScope::UninitializedScope() : before_(leave_uninitialized) { leave_uninitialized = true; }
UninitializedScope::~UninitializedScope() { leave_uninitialized = before_; }
bool UninitializedScope::active() { return leave_uninitialized; }

}  // namespace lathe::nn
