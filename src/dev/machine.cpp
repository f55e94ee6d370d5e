#include "lathe/dev/machine.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/multiply_adds.h"
#include "base/text.h"
#include "codegen/codegen.h"
#include "engine/build_id.h"
#include "engine/compile_context.h"
#include "engine/disk_cache.h"
#include "engine/engine.h"
#include "engine/kernel_check.h"
#include "engine/roof.h"
#include "ir/text.h"
#include "runtime/devices.h"
#include "runtime/registry.h"

namespace lathe::dev {
namespace {

std::string describe(const Target& target) {
  std::vector<std::string> words;
  auto add = [&](std::string text) { words.push_back(std::move(text)); };
  if (!target.cpu.empty()) add(target.cpu);
  if (target.vector_bytes > 0) add(fmt::format("{}-bit vectors", target.vector_bytes * 8));
  if (target.threads) add(fmt::format("{} threads", target.cores));
  if (target.groups) add(fmt::format("groups of {}", target.max_group));
  if (target.fma) add("fma");
  if (!target.units.empty()) add(fmt::format("{}", fmt::join(target.units, " ")));
  if (target.l2 > 0)
    add(fmt::format("L1 {} L2 {} L3 {}", human_bytes(static_cast<std::uint64_t>(target.l1)),
                    human_bytes(static_cast<std::uint64_t>(target.l2)),
                    human_bytes(static_cast<std::uint64_t>(target.l3))));
  // In the time that a vector takes from L1, L2, L3 and memory.
  const CoreRates& rates = target.rates;
  if (target.vectors && !target.reference)
    add(fmt::format("{:.2g} {:.2g} {:.2g} {:.2g} multiply-adds a load{}", rates.arithmetic / rates.l1,
                    rates.arithmetic / rates.l2, rates.arithmetic / rates.l3, rates.arithmetic / rates.memory,
                    target.rates_from.empty() ? "" : " (" + target.rates_from + ")"));
  if (target.shared_bytes > 0) add("shared " + human_bytes(static_cast<std::uint64_t>(target.shared_bytes)));
  return fmt::format("{}", fmt::join(words, ", "));
}

DeviceRow row_of(const Backend& backend) {
  DeviceRow row;
  row.name = backend.name;
  if (backend.unavailable) row.unavailable = backend.unavailable();
  try {
    if (backend.targets) row.targets = backend.targets();
    if (!backend.compiler) return row;
    // NULL compiles for a target that is named, not for this machine.
    const auto compiler = backend.compiler(row.targets.empty() ? "" : row.targets.front());
    if (compiler == nullptr) return row;
    row.target = compiler->target().name;
    row.compiler = compiler->version();
    row.features = describe(compiler->target());
  } catch (const Error& error) {
    if (row.unavailable.empty()) row.unavailable = error.message();
  }
  return row;
}

}  // namespace

std::vector<DeviceRow> devices() {
  std::vector<DeviceRow> rows;
  for (const Backend& backend : registry().all()) rows.push_back(row_of(backend));
  return rows;
}

std::vector<std::pair<std::string, std::string>> versions() {
  return {{"build", engine::build_id().substr(0, 12)},
#ifdef __clang__
          {"built by", fmt::format("clang {}.{}", __clang_major__, __clang_minor__)},
#else
          {"built by", fmt::format("gcc {}.{}", __GNUC__, __GNUC_MINOR__)},
#endif
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)}};
}

std::vector<std::pair<std::string, std::string>> heuristic_rules() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const HeuristicRule& rule : lathe::heuristic_rules()) out.emplace_back(rule.name, rule.reason);
  return out;
}

std::vector<std::string> rules_used(const std::string& kernel, const std::string& device) {
  const Scope scope;
  const OpenDevice& opened = open_device(device);
  if (opened.compiler == nullptr) return {};
  const Node graph = parse_graph(kernel);
  const Compile compile = engine::compile_for(opened.compiler->target());
  const std::string options = to_string(choose_options(graph, compile));
  std::vector<std::string> used;
  for (const HeuristicRule& rule : lathe::heuristic_rules()) {
    Compile without = compile;
    without.rules.disabled.emplace_back(rule.name);
    if (to_string(choose_options(graph, without)) != options) used.emplace_back(rule.name);
  }
  return used;
}

std::string cache_folder() {
  const engine::DiskCache* cache = engine::DiskCache::current();
  return cache == nullptr ? "" : cache->folder();
}

CacheInfo cache_info() {
  CacheInfo info;
  info.folder = cache_folder();
  if (info.folder.empty()) return info;
  std::error_code failed;
  for (const auto& file : std::filesystem::recursive_directory_iterator(info.folder, failed)) {
    std::error_code gone;
    if (!file.is_regular_file(gone) || file.path().parent_path() == info.folder)
      continue;  // locks are at the top
    const std::uint64_t bytes = file.file_size(gone);
    if (gone) continue;
    ++info.entries;
    info.bytes += bytes;
  }
  return info;
}

void clear_cache() {
  if (engine::DiskCache* cache = engine::DiskCache::current()) cache->shrink_to(0);
}

void set_profiling(bool on) { engine::set_profiling(on); }

std::vector<KernelCost> kernel_costs() {
  std::vector<KernelCost> rows;
  for (const engine::KernelProfile& p : engine::profile()) {
    const double seconds = p.ns * 1e-9;
    rows.push_back({p.name, p.device, p.options, p.origin, p.runs, seconds,
                    seconds > 0 ? p.flops / seconds * 1e-9 : 0, seconds > 0 ? p.bytes / seconds * 1e-9 : 0,
                    p.roof});
  }
  return rows;
}

DeviceRoof roof_of(const std::string& device) {
  const engine::Roof& roof = engine::roof_of(open_device(device));
  return {roof.flops, roof.bytes.empty() ? 0 : roof.bytes.back().rate};
}

double multiply_adds(int steps, float* sink) { return lathe::multiply_adds(steps, sink); }

CheckCounts check_counts() {
  const engine::CheckCounts counts = engine::check_counts();
  return {counts.compared, counts.unchecked, counts.replaced, counts.seconds};
}

}  // namespace lathe::dev
