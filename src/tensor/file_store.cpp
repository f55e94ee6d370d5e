#include "tensor/file_store.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/engine.h"
#include "tensor/realize.h"
#include "tensor/settle.h"

namespace lathe {
namespace {

constexpr const char* kHost = "CPU";

Tensor host_arange(std::int64_t count, std::int64_t step) {
  return Tensor::arange(count, {.dtype = dtypes::int64, .device = kHost}) * step;
}

// Where each element begins after a bitcast. Elements that become one must be in a row.
Tensor recast(const Tensor& begins, std::int64_t from, std::int64_t to, std::string_view op) {
  if (from == to) return begins;
  const std::int64_t ratio = std::max(from, to) / std::min(from, to);
  const Tensor steps = host_arange(ratio, std::min(from, to));
  Shape shape = begins.shape();
  if (from > to) {
    shape.back() = shape.back() * Size(ratio);
    return (begins.unsqueeze(-1) + steps).reshape(shape);
  }
  shape.back() = shape.back() / Size(ratio);
  Shape grouped = shape;
  grouped.emplace_back(ratio);
  const Tensor groups = begins.reshape(grouped), first = groups.min(-1);
  if ((groups != first.unsqueeze(-1) + steps).any().item() != 0)
    throw UserError(op, "the bytes of an element are not contiguous in the file");
  return first;
}

// The byte of the file at which each element of the view begins.
std::vector<std::int64_t> begins_of(const TensorImpl& impl, Node base, Node memory, std::string_view op) {
  std::int64_t width = memory.dtype().bytes();
  Nodes chain;  // from the memory to the base
  for (Node n = base; n != memory; n = n.arg(0)) chain.insert(chain.begin(), n);
  Tensor begins = host_arange(buffer_size(base_memory(memory)), width);
  for (Node n : chain) begins = make_tensor(moved(n, node_of(begins)), kHost);
  for (const ViewStep* step : steps_of(impl.view)) {
    if (step->model->is(Op::Detach) || step->model->is(Op::GradFence)) continue;
    if (step->model->is(Op::Bitcast)) {
      begins = recast(begins, width, step->model->dtype().bytes(), op);
      width = step->model->dtype().bytes();
    } else {
      begins = make_tensor(moved(step->model, node_of(begins)), kHost);
    }
  }
  return begins.data<std::int64_t>();
}

}  // namespace

bool is_in_file(const Tensor& tensor) { return tensor.device().starts_with("DISK:"); }

void store_into_file(const Tensor& target, const Tensor& value, std::string_view op) {
  const Scope scope;
  const TensorImpl& impl = *target.impl();
  if (impl.view && impl.view->overlaps)
    throw UserError(op, "the target is an expanded view, in which several elements share memory")
        .help("write to the tensor it was made from");
  const std::vector<std::byte> bytes = value.to(kHost).expand(target.shape()).bytes();
  realize_storages({impl.storage});
  Node base = impl.storage->value, memory = memory_of(base);
  check_internal(memory && !is_pending_store(base), op, "a file that was written has no memory");
  const std::vector<std::int64_t> begins = begins_of(impl, base, memory, op);
  const NodeRef buffer = base_memory(memory);
  settle_memory(std::span(&buffer, 1));
  const auto width = static_cast<std::size_t>(target.element_size());
  for (std::size_t i = 0; i < begins.size();) {  // as many elements at a time as stand in a row
    std::size_t end = i + 1;
    while (end < begins.size() && begins[end] == begins[end - 1] + static_cast<std::int64_t>(width)) ++end;
    engine::buffer_write(buffer, bytes.data() + i * width, (end - i) * width,
                         static_cast<std::size_t>(begins[i]));
    i = end;
  }
  rename_memory(std::span(&buffer, 1), false);
}

}  // namespace lathe
