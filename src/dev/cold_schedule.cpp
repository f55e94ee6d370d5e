#include "dev/cold_schedule.h"

#include "engine/compile_context.h"
#include "engine/fold_steps.h"
#include "engine/graph_key.h"
#include "engine/lay_out_steps.h"
#include "tensor/impl.h"

namespace lathe::dev {

Schedule schedule_cold(std::span<const Node> targets, const OpenDevice& device,
                       std::vector<Node>& stand_ins) {
  const engine::Stripped stripped = engine::strip_realized(targets);
  const engine::GraphKey key = engine::key_of(stripped.targets);
  engine::Normalised normal = engine::normalise(stripped.targets, key);
  ScheduleOptions options;
  options.default_device = device.text;
  options.max_buffers = device.compiler->target().max_buffers;
  options.rows = rows_of(device.compiler->target());
  options.fast_threads = [&](const std::string&) { return device.compiler->target().has_fast_threads(); };
  options.unit_folds = has_unit_folds(device.compiler->target());
  stand_ins = std::move(normal.stand_ins);
  const auto target_of = [&](const std::string&) { return &device.compiler->target(); };
  return engine::lay_out_steps(engine::schedule_folds(normal.targets, options, target_of), target_of);
}

std::vector<Node> nodes_of(const std::vector<Tensor>& tensors) {
  std::vector<Node> nodes;
  for (const Tensor& t : tensors) nodes.push_back(node_of(t));
  return nodes;
}

}  // namespace lathe::dev
