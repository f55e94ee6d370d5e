#include "lathe/dev/compile_bench.h"

#include <algorithm>

#include "base/thread_clock.h"
#include "codegen/codegen.h"
#include "dev/cold_schedule.h"
#include "engine/compile_context.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "engine/prepared_schedule.h"
#include "engine/prove.h"
#include "ir/walk.h"
#include "lathe/device.h"
#include "runtime/devices.h"
#include "schedule/schedule.h"

namespace lathe::dev {
namespace {

// Time by step of the kernels being lowered.
struct PassTimes {
  std::vector<std::pair<std::string, double>> passes;
  double last = 0;

  void add(std::string_view pass) {
    double now = thread_seconds();
    auto found = std::find_if(passes.begin(), passes.end(), [&](const auto& p) { return p.first == pass; });
    if (found == passes.end()) found = passes.insert(passes.end(), {std::string(pass), 0});
    found->second += (now - last) * 1e3;
    last = now;
  }
  double take(const std::string& pass) {
    auto found = std::find_if(passes.begin(), passes.end(), [&](const auto& p) { return p.first == pass; });
    if (found == passes.end()) return 0;
    double ms = found->second;
    passes.erase(found);
    return ms;
  }
};

// Takes the time of each step.
class StepTimer : public StepSink {
 public:
  void tensors(const StepInfo& step, std::vector<Node>& /*targets*/) override { times.add(step.name); }
  void kernel(const StepInfo& step, Node& /*kernel*/) override { times.add(step.name); }
  void program(const StepInfo& step, Program& /*program*/) override { times.add(step.name); }
  void checked(const StepInfo& /*step*/) override { times.add("verify"); }
  PassTimes times;
};

// Milliseconds since the last call.
class Lap {
 public:
  double ms() {
    double now = thread_seconds(), out = (now - last_) * 1e3;
    last_ = now;
    return out;
  }

 private:
  double last_ = thread_seconds();
};

void plan_memory_of(const Schedule& made, std::vector<Node> kept) {
  std::vector<Node> roots(made.results.begin(), made.results.end());
  for (Node n : toposort(roots))
    if (n.is(Op::Buffer)) kept.push_back(n);
  engine::plan_memory(made, kept);
}

}  // namespace

CompileReport bench_compile(const std::string& name, const std::function<std::vector<Tensor>()>& build,
                            const CompileOptions& options) {
  const OpenDevice& device = open_device(options.device);
  if (device.compiler == nullptr)
    throw UserError("bench", device.text + " compiles nothing").help("choose CPU, CUDA or NULL");
  engine::drop_caches();
  const Scope scope;
  CompileReport report;
  report.name = name;

  // Nothing is run, so the draws of a net built before would still stand in front of this one's.
  Tensor::manual_seed(0);
  Lap lap;
  const std::vector<Tensor> tensors = build();
  const std::vector<Node> targets = nodes_of(tensors);
  report.tensor_ms = lap.ms();
  report.nodes = toposort(targets).size();

  lap.ms();
  std::vector<Node> stand_ins;
  const Schedule made = schedule_cold(targets, device, stand_ins);
  plan_memory_of(made, std::move(stand_ins));
  report.schedule_ms = lap.ms();

  NodeMap<std::size_t> unique;
  for (const Step& step : made.steps)
    if (!step.is_copy()) {
      ++report.kernels;
      auto [place, is_new] = unique.try_emplace(step.ast, report.by_kernel.size());
      if (is_new) report.by_kernel.push_back({step.name, "", 0, 0, 0, 0});
      ++report.by_kernel[*place].uses;
    }
  report.unique_kernels = unique.size();

  StepTimer timer;
  PassTimes& times = timer.times;
  Compile compile = engine::compile_for(device.compiler->target());
  compile.sink = &timer;
  std::vector<Program> programs;
  engine::ProofCounts proofs;
  {
    for (const auto& [ast, place] : unique) {
      KernelReport& kernel = report.by_kernel[place];
      const double begin = times.last = thread_seconds();
      const std::vector<Opt> opts = choose_options(ast, compile);
      times.add("choose_options");
      const Node proved = engine::prove_accesses(ast, opts, kernel.name, compile, proofs);
      times.add("prove_accesses");
      programs.push_back(lower_kernel(proved, opts, compile, kernel.name));
      times.add("count");
      kernel.lower_ms = (thread_seconds() - begin) * 1e3;
      kernel.options = to_string(opts);
      kernel.instructions = programs.back().code.size();
      report.instructions += kernel.instructions;
    }
    report.linearize_ms = times.take("linearize");
    report.passes = times.passes;
    for (const auto& [pass, ms] : report.passes) report.codegen_ms += ms;
  }
  if (options.machine_code)
    for (std::size_t i = 0; i < programs.size(); ++i) {
      lap.ms();
      device.compiler->compile(programs[i]);
      report.by_kernel[i].compile_ms = lap.ms();
      report.compile_ms += report.by_kernel[i].compile_ms;
    }
  return report;
}

std::uint64_t prepare_to_run(const std::vector<Tensor>& tensors) {
  const Scope scope;
  std::vector<Node> stand_ins;
  Schedule made = schedule_cold(nodes_of(tensors), open_device(default_device()), stand_ins);
  return engine::prepare_schedule(std::move(made), stand_ins)->steps.size();
}

}  // namespace lathe::dev
