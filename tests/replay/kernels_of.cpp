#include "replay/kernels_of.h"

#include <algorithm>
#include <exception>

#include <fmt/format.h>

#include "backends/cpu/host.h"
#include "backends/cuda/dialect.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/graph_key.h"
#include "engine/lay_out_steps.h"
#include "ir/walk.h"
#include "models/benchmarks.h"
#include "ops/cases.h"
#include "render/c_text.h"
#include "render/llvm_text.h"
#include "schedule/schedule.h"
#include "tensor/impl.h"

namespace lathe::test {
namespace {

bool is_cuda(std::string_view target) { return target.starts_with("sm_"); }

Target target_of(std::string_view name) {
  return is_cuda(name) ? named_target(name) : backends::cpu_target(name);
}

std::string source_of(const Program& program, const Target& target) {
  return is_cuda(target.name) ? render::c_text(program, backends::cuda_c())
                              : render::llvm_text(program, target);
}

// Inputs that are memory nobody filled: kernels do not depend on values.
class Unfilled : public Maker {
 public:
  explicit Unfilled(DataType dtype) : dtype_(dtype) {}
  Tensor operator()(const Shape& shape, double, double) override {
    inputs.push_back(Tensor::empty(shape, options()));
    return inputs.back();
  }
  Tensor index(const Shape& shape, std::int64_t, std::int64_t) override {
    return Tensor::empty(shape, {dtypes::int32, options().device});
  }
  TensorOptions options() const override { return {dtype_, "CPU"}; }

  std::vector<Tensor> inputs;

 private:
  DataType dtype_;
};

std::vector<Tensor> wanted_of(const Case& c, DataType dtype) {
  Unfilled make(dtype);
  Shape shape = c.shapes == Case::Shapes::Own ? Shape{} : Shape{13, 17};
  std::vector<Tensor> out = {c.build(make, shape)};
  if (!c.differentiable || !dtype.is_float()) return out;
  for (Tensor& g : (out[0] * out[0]).sum().gradient(make.inputs)) out.push_back(std::move(g));
  return out;
}

}  // namespace

namespace {

Schedule schedule_of(const std::vector<Tensor>& wanted, const Target& target) {
  std::vector<Node> nodes;
  for (const Tensor& t : wanted) nodes.push_back(node_of(t.contiguous()));
  // As the engine schedules: what is realized is cut off, buffers are numbered.
  const engine::Stripped stripped = engine::strip_realized(nodes);
  const engine::Normalised normal = engine::normalise(stripped.targets, engine::key_of(stripped.targets));
  ScheduleOptions options;
  options.max_buffers = target.max_buffers;
  options.rows = rows_of(target);
  options.fast_threads = [&](const std::string&) { return target.has_fast_threads(); };
  return engine::lay_out_steps(schedule(normal.targets, options, engine::compile_for_schedule()),
                               [&](const std::string&) { return &target; });
}

}  // namespace

std::vector<NodeRef> scheduled_kernels(const std::vector<Tensor>& wanted, std::string_view target_name) {
  Scope scope;
  NodeMap<bool> known;
  std::vector<NodeRef> out;
  for (const Step& step : schedule_of(wanted, target_of(target_name)).steps)
    if (!step.is_copy() && known.try_emplace(step.ast).second) out.push_back(step.ast);
  return out;
}

std::string kernels_of(const std::vector<Tensor>& wanted, std::string_view target_name) {
  Scope scope;
  const Target target = target_of(target_name);
  const Compile compile = engine::compile_for(target);
  const Schedule made = schedule_of(wanted, target);
  NodeMap<std::size_t> uses;
  std::vector<const Step*> first;
  for (const Step& step : made.steps)
    if (!step.is_copy())
      if (++uses[step.ast] == 1) first.push_back(&step);
  std::string out;
  for (const Step* step : first) {
    const std::vector<Opt> opts = choose_options(step->ast, compile);
    out += fmt::format("==== {} x{} {}\n{}\n", step->name, uses[step->ast], to_string(opts),
                       source_of(lower_kernel(step->ast, opts, compile, step->name), target));
  }
  return out;
}

std::vector<ReplayGraph> replay_graphs() {
  std::vector<ReplayGraph> out;
  for (const models::BenchmarkNet& net : models::benchmark_nets())
    out.push_back({std::string(net.name), net.build});
  for (ReplayGraph& graph : op_graphs(dtypes::float32)) out.push_back(std::move(graph));
  return out;
}

std::vector<ReplayGraph> op_graphs(DataType dtype) {
  std::vector<ReplayGraph> out;
  for (const Case& c : cases())
    if (c.kinds.find(dtype.is_float() ? 'f' : 'i') != std::string::npos)
      out.push_back({"op_" + c.name, [&c, dtype] { return wanted_of(c, dtype); }});
  return out;
}

}  // namespace lathe::test
