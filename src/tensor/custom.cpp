#include "tensor/custom.h"

#include <map>
#include <mutex>

#include <fmt/format.h>

#include "tensor/impl.h"
#include "tensor/own_gradient.h"
#include "tensor/recompute.h"

namespace lathe {
namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string, CustomOp, std::less<>> ops;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

}  // namespace

const CustomOp* find_custom(std::string_view name) {
  std::lock_guard guard(table().mutex);
  auto at = table().ops.find(name);
  return at == table().ops.end() ? nullptr : &at->second;
}

void register_op(CustomOp op) {
  if (op.name.empty() || !op.forward)
    throw UserError("register_op", "an op needs a name and a forward function");
  std::lock_guard guard(table().mutex);
  std::string name = op.name;
  if (name == kCheckpoint || own_gradient(name) != nullptr ||
      !table().ops.try_emplace(name, std::move(op)).second)
    throw UserError("register_op", fmt::format("\"{}\" is registered already", name))
        .help("choose another name");
}

Tensor custom(std::string_view name, const std::vector<Tensor>& inputs) {
  Scope scope;
  const CustomOp* op = find_custom(name);
  if (op == nullptr)
    throw UserError("custom", fmt::format("no op is registered as \"{}\"", name))
        .help("call register_op first");
  if (inputs.empty()) throw UserError(name, "a custom op needs an input");
  const Tensor* placed = &inputs[0];  // by which the result's device goes
  for (const Tensor& t : inputs)
    if (common_device(name, *placed, t) == t.device()) placed = &t;
  Tensor expansion;
  {
    const NoGradScope no_grad;
    const UntrackedScope untracked;  // the op itself says whether its result is
    expansion = op->forward(inputs);
  }
  if (!expansion.defined()) throw UserError(name, "its forward function returned no tensor");
  std::vector<Node> args{node_of(expansion)};
  Origin origin;
  for (const Tensor& t : inputs) {
    args.push_back(node_of(t));
    origin = origin | origin_of(t);
  }
  AttrData attr{std::string(name), {}};
  return make_tensor(intern(Op::Custom, node_of(expansion).dtype(), args, Attr::of(attr)), placed->device(),
                     origin);
}

}  // namespace lathe
