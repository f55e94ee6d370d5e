#include "engine/shadow.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include <fmt/format.h>

#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/debug.h"
#include "engine/inputs_file.h"
#include "engine/memory_plan.h"
#include "engine/read_back.h"
#include "ir/build.h"
#include "ir/launch.h"
#include "reference/reference.h"
#include "runtime/devices.h"
#include "verify/expected.h"

namespace lathe::engine {
namespace {

// REF judges as many positions as this buys, and watches for races and bad accesses while it runs so many.
constexpr double kComparedOps = 2e8, kWatchedOps = 2e7;

bool is_finite(const reference::Array& array) {
  if (!array.dtype().is_float()) return true;
  for (std::int64_t i = 0; i < array.size(); ++i)
    if (!std::isfinite(array.number(i))) return false;
  return true;
}

// A kernel may be right and still be where things go wrong: the first that makes what is no number of
// numbers.
void tell_of_first_nan(const Step& step, std::span<const reference::Array> before,
                       std::span<const reference::Array> after) {
  static std::atomic<bool> told{false};
  if (told.load(std::memory_order_relaxed)) return;
  if (std::ranges::all_of(after, is_finite)) return;
  const std::vector<SlotUse> uses = slot_uses(step.ast, before.size());
  for (std::size_t slot = 0; slot < before.size(); ++slot)
    if (uses[slot].reads && !is_finite(before[slot])) return;  // it was given some
  if (!told.exchange(true))
    log_warning_once("verify",
                     fmt::format("NaN or infinity comes first from kernel {}, whose inputs are finite; "
                                 "it came from {}",
                                 step.name, step.origin));
}

// With LATHE_SAVE the kernel is there as a file, and what it was given goes beside it.
void save_inputs(const MadeKernel& made, std::span<const reference::Array> before,
                 const reference::Bindings& bindings) {
  const std::string& folder = flag_text(Flag::Save);
  if (folder.empty()) return;
  write_inputs(inputs_beside(saved_kernel_file(folder, made)), {{before.begin(), before.end()}, bindings});
}

}  // namespace

Shadow::Shadow(const Step& step, const MadeKernel& made, std::span<const Place> buffers, Bindings bindings)
    : step_(step), made_(made), buffers_(buffers.begin(), buffers.end()), bindings_(bindings) {
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    before_.push_back(read_back(step.buffers[i], buffers_[i]));
}

void Shadow::look_for_faults(const reference::Bindings& bindings) const {
  std::vector<reference::Array> copies = before_;
  std::vector<reference::View> views;
  for (reference::Array& array : copies) views.push_back(array.view());
  const reference::EvalReport report =
      reference::kernel_eval(step_.ast, views, bindings, {.seed = 1, .max_ops = kWatchedOps});
  if (report.faults.empty()) return;
  throw InternalError("verify",
                      fmt::format("kernel {} is wrong as scheduled: {}", step_.name, report.faults[0]))
      .note("it came from " + step_.origin);
}

void Shadow::compare() {
  const Scope scope;
  reference::Bindings bindings;
  for (const auto& [variable, value] : bindings_) bindings.emplace_back(variable->text(), value);
  look_for_faults(bindings);
  const Target& target = open_device(step_.device).compiler->target();
  const verify::Expected expected(step_.ast, before_, bindings, kComparedOps, target.native);
  if (expected.report().incomplete) {
    log_warning_once("verify", fmt::format("kernel {} was not compared with REF: {}", step_.name,
                                           expected.report().reason));
    return;
  }
  std::vector<reference::Array> after(before_.size());
  const std::vector<SlotUse> uses = slot_uses(step_.ast, buffers_.size());
  for (std::size_t slot = 0; slot < buffers_.size(); ++slot)
    if (uses[slot].writes) after[slot] = read_back(step_.buffers[slot], buffers_[slot]);
  const verify::Judgement result = expected.judge(
      before_, after, [&] { return apply_options(step_.ast, made_.options, compile_for(target)); });
  tell_of_first_nan(step_, before_, after);
  if (result.failed == 0) {
    if (result.passed == 0 && result.unjudged > 0)
      log_warning_once("verify",
                       fmt::format("no error bound is known for the results of kernel {}", step_.name));
    return;
  }
  save_inputs(made_, before_, bindings);
  const std::string options = to_string(made_.options);
  throw InternalError("verify", fmt::format("kernel {} differs from REF in buffer {}: {}", step_.name,
                                            result.slot, result.text()))
      .note(fmt::format("options: {}; it came from {}", options.empty() ? "none" : options, step_.origin))
      .help("LATHE_NOOPT=1 shows whether an option causes it; LATHE_DEBUG=4 prints the source");
}

}  // namespace lathe::engine
