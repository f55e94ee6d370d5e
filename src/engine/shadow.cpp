#include "engine/shadow.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "engine/memory_plan.h"
#include "ir/build.h"
#include "ir/launch.h"
#include "reference/reference.h"
#include "verify/compare.h"

namespace lathe::engine {
namespace {

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

void Shadow::compare() {
  // A result may be the small difference of large terms: as large as the inputs, or as the product of two.
  double scale = 0;
  for (const reference::Array& array : before_) scale = std::max(scale, verify::magnitude_of(array));
  scale = std::max({scale, scale * scale, 1.0});
  std::vector<reference::View> views;
  for (reference::Array& array : before_) views.push_back(array.view());
  reference::Bindings bindings;
  for (const auto& [variable, value] : bindings_) bindings.emplace_back(variable->text(), value);
  const reference::EvalReport report = reference::kernel_eval(step_.ast, views, bindings);
  if (report.incomplete) {
    log_warning_once("verify", fmt::format("kernel {} is too long for REF and was not compared", step_.name));
    return;
  }
  if (!report.faults.empty())
    throw InternalError("verify",
                        fmt::format("kernel {} is wrong as scheduled: {}", step_.name, report.faults[0]))
        .note("it came from " + step_.origin);

  const std::vector<SlotUse> uses = slot_uses(step_.ast, buffers_.size());
  for (std::size_t slot = 0; slot < buffers_.size(); ++slot) {
    if (!uses[slot].writes) continue;
    const reference::Array got = read_back(step_.buffers[slot], buffers_[slot]);
    verify::Tolerance tolerance = verify::tolerance_of(step_.ast, got.dtype());
    tolerance.scale = std::max(scale, verify::magnitude_of(before_[slot]));
    const verify::Comparison result =
        verify::compare(before_[slot], got, tolerance, report.sampled ? &report.written[slot] : nullptr);
    if (result.equal()) continue;
    const std::string options = to_string(made_.options);
    throw InternalError(
        "verify", fmt::format("kernel {} differs from REF in buffer {}: {}", step_.name, slot, result.text()))
        .note(fmt::format("options: {}; it came from {}", options.empty() ? "none" : options, step_.origin))
        .help("LATHE_NOOPT=1 shows whether an option is to blame; LATHE_DEBUG=4 shows the source");
  }
}

}  // namespace lathe::engine
