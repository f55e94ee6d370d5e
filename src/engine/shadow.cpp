#include "engine/shadow.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/log.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/memory_plan.h"
#include "ir/build.h"
#include "ir/launch.h"
#include "reference/reference.h"
#include "runtime/devices.h"
#include "verify/expected.h"

namespace lathe::engine {
namespace {

// REF judges as many positions as this buys, and watches for races and bad accesses while it runs so many.
constexpr double kComparedOps = 2e8, kWatchedOps = 2e7;

reference::Array read_back(Node buffer, const Place& place) {
  reference::Array array(buffer.dtype(), buffer_size(buffer));
  if (place.span.bytes == 0) return array;
  const Place host{nullptr, {{0, place.span.bytes, array.data()}, 0, place.span.bytes}};
  executor().wait(executor().copy(host, place));
  return array;
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
  const verify::Expected expected(step_.ast, before_, bindings, kComparedOps);
  if (expected.report().incomplete) {
    log_warning_once("verify", fmt::format("kernel {} was not compared with REF: {}", step_.name,
                                           expected.report().reason));
    return;
  }
  std::vector<reference::Array> after(before_.size());
  const std::vector<SlotUse> uses = slot_uses(step_.ast, buffers_.size());
  for (std::size_t slot = 0; slot < buffers_.size(); ++slot)
    if (uses[slot].writes) after[slot] = read_back(step_.buffers[slot], buffers_[slot]);
  const Target& target = open_device(step_.device).compiler->target();
  const verify::Judgement result = expected.judge(
      before_, after, [&] { return apply_options(step_.ast, made_.options, compile_for(target)); });
  if (result.failed == 0) {
    if (result.passed == 0 && result.unjudged > 0)
      log_warning_once("verify",
                       fmt::format("nothing can be said about the results of kernel {}", step_.name));
    return;
  }
  const std::string options = to_string(made_.options);
  throw InternalError("verify", fmt::format("kernel {} differs from REF in buffer {}: {}", step_.name,
                                            result.slot, result.text()))
      .note(fmt::format("options: {}; it came from {}", options.empty() ? "none" : options, step_.origin))
      .help("LATHE_NOOPT=1 shows whether an option is to blame; LATHE_DEBUG=4 shows the source");
}

}  // namespace lathe::engine
