#include "engine/debug.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <tuple>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/terminal.h"
#include "base/text.h"
#include "engine/engine.h"
#include "ir/text.h"

namespace lathe::engine {
namespace {

struct Profile {
  std::mutex mutex;
  bool on = false;
  std::vector<KernelProfile> kernels;  // by first run
};

Profile& profile_state() {
  static auto* all = new Profile;  // runs may end during exit
  return *all;
}

std::string clipped(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 1) + "~";
}

std::string rate(double per_ns, std::string_view unit) { return fmt::format("{:>8.1f} {}", per_ns, unit); }

std::string file_name(const MadeKernel& made, const std::string& graph, const std::string& options) {
  return fmt::format("{}_{:016x}.txt", made.launch.name, hash_string(graph + options));
}

void save_kernel(const MadeKernel& made) {
  const std::string& folder = flag_text(Flag::Save);
  if (folder.empty()) return;
  const std::string graph = print_graph(made.ast), options = to_string(made.options);
  const std::string text = fmt::format("# {}\n# options ({}): {}\n{}\n# source\n{}\n", made.launch.name,
                                       made.options_from, options, graph, made.binary.source);
  // A long search makes kernels without end.
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  static std::atomic<std::size_t> saved{0};
  if (saved.fetch_add(text.size()) > kMostBytes) {
    log_warning_once("save", "1 GiB of kernels was saved: no more are, by this process");
    return;
  }
  write_file_atomic(folder + "/" + file_name(made, graph, options), text, Sync::No);
}

}  // namespace

std::string saved_kernel_file(const std::string& folder, const MadeKernel& made) {
  return folder + "/" + file_name(made, print_graph(made.ast), to_string(made.options));
}

// name, device, time, rates, share of the roof, options, where it came from: columns that line up from line
// to line.
std::string kernel_line(const KernelRun& run, bool colours) {
  const bool memory_bound = run.roof > 0 && run.bytes > 0 && run.flops < 4 * run.bytes;
  const Colour shade = run.roof >= 0.5 ? Colour::Green : run.roof >= 0.15 ? Colour::Yellow : Colour::Red;
  std::string line = coloured(Colour::Cyan, fmt::format("{:<28}", clipped(run.name, 28)), colours);
  line += fmt::format(" {:<6} {:>10} {} {}", clipped(run.device, 6), human_seconds(run.ns * 1e-9),
                      rate(run.ns > 0 ? run.flops / run.ns : 0, "GFLOP/s"),
                      rate(run.ns > 0 ? run.bytes / run.ns : 0, "GB/s"));
  line += ' ';
  if (run.roof > 0)
    line += coloured(
        shade, fmt::format("{:>3.0f}% of {}", std::min(999.0, run.roof * 100), memory_bound ? "mem" : "alu"),
        colours);
  else
    line += fmt::format("{:>11}", "");
  line += fmt::format("  {:<36}", clipped(run.options.empty() ? "-" : run.options, 36));
  if (!run.place.empty()) line += "  " + run.place;
  return line + "  " + coloured(Colour::Dim, run.origin, colours);
}

bool timing_wanted() {
  if (flag_number(Flag::Debug) >= 2) return true;
  std::lock_guard guard(profile_state().mutex);
  return profile_state().on;
}

namespace {

// What a program's kernels took in all, said when it ends.
struct Totals {
  std::mutex mutex;
  std::size_t runs = 0, made = 0;
  double ns = 0, made_ns = 0;
};

Totals& totals() {
  static auto* all = [] {
    auto* made = new Totals;  // never destroyed: kernels may end during exit
    std::atexit([] {
      Totals& t = totals();
      std::lock_guard guard(t.mutex);
      log_note("total", fmt::format("{} kernels ran in {}; {} were compiled in {}", t.runs,
                                    human_seconds(t.ns * 1e-9), t.made, human_seconds(t.made_ns * 1e-9)));
    });
    return made;
  }();
  return *all;
}

}  // namespace

void note_compiled(std::span<const std::string> names, double ns) {
  if (flag_number(Flag::Debug) < 2 || names.empty()) return;
  constexpr std::size_t kNamed = 3;
  std::string text =
      fmt::format("{} in {}: {}", names.size() == 1 ? "1 kernel" : fmt::format("{} kernels", names.size()),
                  human_seconds(ns * 1e-9), fmt::join(names.first(std::min(names.size(), kNamed)), " "));
  if (names.size() > kNamed) text += " ...";
  log_note("compile", text);
  Totals& t = totals();
  std::lock_guard guard(t.mutex);
  t.made += names.size(), t.made_ns += ns;
}

void note_run(const KernelRun& run) {
  if (flag_number(Flag::Debug) >= 2) {
    log_line(kernel_line(run, stderr_is_terminal()));
    Totals& t = totals();
    std::lock_guard guard(t.mutex);
    ++t.runs, t.ns += run.ns;
  }
  Profile& profile = profile_state();
  std::lock_guard guard(profile.mutex);
  if (!profile.on) return;
  auto known = std::find_if(profile.kernels.begin(), profile.kernels.end(), [&](const KernelProfile& k) {
    return k.name == run.name && k.device == run.device && k.options == run.options && k.origin == run.origin;
  });
  if (known == profile.kernels.end())
    known = profile.kernels.insert(known, {run.name, run.device, run.options, run.origin, 0, 0, 0, 0, 0});
  ++known->runs;
  known->ns += run.ns;
  known->flops += run.flops;
  known->bytes += run.bytes;
  known->roof = std::max(known->roof, run.roof);
}

void set_profiling(bool on) {
  Profile& profile = profile_state();
  std::lock_guard guard(profile.mutex);
  if (on && !profile.on) profile.kernels.clear();
  profile.on = on;
}

std::vector<KernelProfile> profile() {
  Profile& state = profile_state();
  std::lock_guard guard(state.mutex);
  std::vector<KernelProfile> sorted = state.kernels;
  std::sort(sorted.begin(), sorted.end(), [](const KernelProfile& a, const KernelProfile& b) {
    return std::tie(b.ns, a.name, a.device, a.options, a.origin) <
           std::tie(a.ns, b.name, b.device, b.options, b.origin);
  });
  return sorted;
}

void show_kernel(const MadeKernel& made, const Program& program) {
  save_kernel(made);
  const std::int64_t level = flag_number(Flag::Debug);
  if (level < 3) return;
  const std::string options = to_string(made.options);
  std::string text = fmt::format("{}: {} ({})\n", made.launch.name, options.empty() ? "no options" : options,
                                 made.options_from);
  if (level >= 5) text += print_graph(made.ast);
  if (level >= 6) text += print_program(program);
  if (level >= 4) text += made.binary.source;
  log_line(text);
}

void show_schedule(const Schedule& schedule, const MemoryPlan& plan, bool cached) {
  const std::int64_t level = flag_number(Flag::Debug);
  if (level < 1) return;
  const auto copies =
      std::count_if(schedule.steps.begin(), schedule.steps.end(), [](const Step& s) { return s.is_copy(); });
  std::size_t arenas = 0;
  for (const Arena& arena : plan.arenas) arenas += arena.bytes;
  std::string text =
      fmt::format("{} kernels, {} copies, {} for {} intermediates ({} without sharing){}",
                  schedule.steps.size() - static_cast<std::size_t>(copies), copies, human_bytes(arenas),
                  plan.buffers.size(), human_bytes(plan.unshared_bytes()), cached ? ", known" : "");
  log_note("schedule", text);
  if (level >= 5 && !cached && !plan.buffers.empty()) log_line(to_string(plan));
}

}  // namespace lathe::engine
