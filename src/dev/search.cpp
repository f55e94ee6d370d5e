#include "lathe/dev/search.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "codegen/codegen.h"
#include "dev/cold_schedule.h"
#include "engine/compile_context.h"
#include "engine/roof.h"
#include "ir/text.h"
#include "lathe/device.h"
#include "search/kernel_text.h"
#include "search/search.h"
#include "search/store.h"
#include "search/worker.h"

namespace lathe::dev {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kLeastSeconds = 1, kMostSeconds = 60;  // for one kernel

OpenDevice& compiling_device(const std::string& name) {
  OpenDevice& device = open_device(name);
  if (device.compiler == nullptr || device.backend->name == "NULL" || device.backend->name == "REF")
    throw UserError("tune", device.text + " has nothing to tune").help("choose CPU or CUDA");
  return device;
}

TunedKernel row_of(const search::Result& result, const std::string& name) {
  TunedKernel row;
  row.name = name;
  row.default_options = to_string(result.default_options);
  row.options = to_string(result.options);
  row.default_us = result.default_ns * 1e-3;
  row.best_us = result.best_ns * 1e-3;
  row.seconds = result.seconds;
  row.why = result.why;
  row.tried = result.tried;
  row.refused = result.refused;
  row.crashed = result.crashed;
  row.hung = result.hung;
  row.wrong = result.wrong;
  row.repros = result.repros;
  for (const search::CurvePoint& point : result.curve)
    row.curve.emplace_back(point.seconds, point.best_ns * 1e-3);
  return row;
}

TunedKernel row_of(const search::Tuned& known, const std::string& name) {
  TunedKernel row;
  row.name = name;
  row.options = to_string(known.options);
  row.default_us = known.default_ns * 1e-3;
  row.best_us = known.best_ns * 1e-3;
  row.known = true;
  return row;
}

// Searches within these seconds, unless the store has it, and keeps what was found.
TunedKernel tune_one(Node kernel, const std::string& name, OpenDevice& device, const TuneLimits& limits,
                     double seconds, const search::Watch& watch) {
  const std::string key = search::store_key(kernel, device);
  const std::optional<search::Tuned> known = search::find_tuned(key);
  if (known && !limits.again) return row_of(*known, name);
  search::Limits search_limits;
  search_limits.seconds = seconds;
  search_limits.beam = limits.beam;
  search::Request request{kernel, name, &device, {}};
  if (known) {
    request.starts.push_back(known->options);
    search_limits.seed =
        static_cast<std::uint64_t>(known->seconds * 1e3) + 2;  // another order than last time
  }
  const search::Result result = search::search_kernel(request, search_limits, watch);
  if (result.searched)
    search::keep_tuned(key, {result.options, result.keeps_default(), result.default_ns, result.best_ns,
                             result.seconds + (known ? known->seconds : 0)});
  return row_of(result, name);
}

struct Unique {
  NodeRef kernel;
  std::string name;
  std::uint64_t uses = 0;
  double weight = 0;  // seconds it would take at the roof, times its uses
};

std::vector<Unique> unique_kernels(const Schedule& schedule, OpenDevice& device) {
  const engine::Roof& roof = engine::roof_of(device);
  std::vector<Unique> all;
  for (const Step& step : schedule.steps) {
    if (step.is_copy() || step.device != device.text) continue;
    auto found = std::find_if(all.begin(), all.end(), [&](const Unique& u) { return u.kernel == step.ast; });
    if (found == all.end()) {
      const Program counted =
          lower_kernel(step.ast, {}, engine::compile_for(device.compiler->target()), step.name);
      const double weight = std::max(counted.flops / std::max(roof.flops, 1e9),
                                     counted.bytes / std::max(roof.bytes_rate(counted.bytes), 1e9));
      found = all.insert(all.end(), {step.ast, step.name, 0, weight});
    }
    ++found->uses;
  }
  for (Unique& u : all) u.weight *= static_cast<double>(u.uses);
  std::stable_sort(all.begin(), all.end(),
                   [](const Unique& a, const Unique& b) { return a.weight > b.weight; });
  return all;
}

}  // namespace

int run_search_worker() { return search::worker_main(); }

std::string tuned_folder() { return search::store_folder(); }

std::vector<TunedKernel> tune_tensors(const std::vector<Tensor>& tensors, const TuneLimits& limits,
                                      const TuneWatch& watch) {
  OpenDevice& device = compiling_device(default_device());
  std::vector<Unique> kernels;
  {
    const Scope scope;
    std::vector<Node> stand_ins;
    kernels = unique_kernels(schedule_cold(nodes_of(tensors), device, stand_ins), device);
  }
  double weights = 0;
  for (const Unique& u : kernels) weights += u.weight;
  const auto begin = Clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  std::vector<TunedKernel> rows;
  for (const Unique& u : kernels) {
    // What is left is shared by what the kernels left could gain.
    const double left = limits.seconds - seconds();
    const double share = weights > 0 ? left * u.weight / weights : left;
    weights -= u.weight;
    if (left <= 0) break;
    rows.push_back(tune_one(
        u.kernel, u.name, device, limits, std::min(std::clamp(share, kLeastSeconds, kMostSeconds), left),
        [&](double, const search::Result& now) { watch(seconds(), u.name, now.best_ns * 1e-3); }));
    rows.back().uses = u.uses;
  }
  return rows;
}

TunedKernel tune_kernel_file(const std::string& path, const std::string& device, const TuneLimits& limits,
                             const TuneWatch& watch) {
  const search::KernelText file = search::read_kernel_file(path);
  return tune_one(
      file.kernel, file.name, compiling_device(device), limits, limits.seconds,
      [&](double seconds, const search::Result& now) { watch(seconds, file.name, now.best_ns * 1e-3); });
}

InspectedKernel inspect_kernel_file(const std::string& path, const std::string& device,
                                    const std::string& options) {
  const Scope scope;
  const search::KernelText file = search::read_kernel_file(path);
  const OpenDevice& opened = open_device(device);
  if (opened.compiler == nullptr) throw UserError("inspect", opened.text + " compiles nothing");
  const Compile compile = engine::compile_for(opened.compiler->target());
  std::vector<Opt> chosen = options == "file"      ? file.options
                            : options == "default" ? choose_options(file.kernel, compile)
                                                   : parse_opts(options);
  const Program program = lower_kernel(file.kernel, chosen, compile, file.name);
  InspectedKernel out;
  out.name = file.name;
  out.graph = print_graph(file.kernel);
  out.options = to_string(chosen);
  out.options_from = options == "file" ? file.options_from : options == "default" ? "heuristic" : "given";
  out.program = print_program(program);
  out.source = opened.compiler->compile(program).source;
  out.saved_source = file.source;
  out.flops = program.flops;
  out.bytes = program.bytes;
  out.instructions = program.code.size();
  return out;
}

}  // namespace lathe::dev
