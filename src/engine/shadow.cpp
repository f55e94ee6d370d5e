#include "engine/shadow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "engine/memory_plan.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "reference/reference.h"

namespace lathe::engine {
namespace {

std::vector<std::byte> read_back(const Place& place) {
  std::vector<std::byte> bytes(place.span.bytes);
  if (bytes.empty()) return bytes;
  const Place host{nullptr, {{0, bytes.size(), bytes.data()}, 0, bytes.size()}};
  executor().wait(executor().copy(host, place));
  return bytes;
}

// The distance from 1 to the next value.
double epsilon_of(DType dtype) {
  const DType scalar = dtype.element();
  double step = 1;
  while (round_to(scalar, 1 + step / 2) != 1) step /= 2;
  return step;
}

// Transcendental functions are approximated within a few units in the last place.
constexpr double kOperations = 16;

std::string value_text(DType dtype, reference::Cell value) {
  return dtype.is_float() ? fmt::format("{}", value.f) : fmt::format("{}", value.i);
}

}  // namespace

double rounding_bound(Node kernel, DType stored) {
  double coarsest = epsilon_of(stored), steps = 1;
  for (const Node& node : toposort(kernel)) {
    if (node.dtype().is_float() && (is_elementwise(node.op()) || node.is(Op::Reduce) || node.is(Op::Fold)))
      coarsest = std::max(coarsest, epsilon_of(node.dtype()));
    if (node.is(Op::Reduce) || node.is(Op::Fold))
      for (const Node& range : closed_ranges(node))
        steps = std::max(steps, steps * static_cast<double>(range.hi() + 1));
  }
  return coarsest * (kOperations + steps);
}

Shadow::Shadow(const Step& step, const MadeKernel& made, std::span<const Place> buffers, Bindings bindings)
    : step_(step), made_(made), buffers_(buffers.begin(), buffers.end()), bindings_(bindings) {
  for (const Place& place : buffers_) before_.push_back(read_back(place));
}

void Shadow::compare() {
  std::vector<reference::View> views;
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    views.push_back({step_.buffers[i]->dtype(), before_[i].data(), buffer_size(step_.buffers[i]), true});
  reference::Bindings bindings;
  for (const auto& [variable, value] : bindings_) bindings.emplace_back(variable->text(), value);
  const reference::EvalReport report = reference::kernel_eval(step_.ast, views, bindings);
  if (report.incomplete) {
    log_warning_once("verify", fmt::format("kernel {} is too long for REF and was not compared", step_.name));
    return;
  }
  const std::string options = to_string(made_.options);
  if (!report.faults.empty())
    throw InternalError("verify",
                        fmt::format("kernel {} is wrong as scheduled: {}", step_.name, report.faults[0]))
        .note("it came from " + step_.origin);

  const std::vector<SlotUse> uses = slot_uses(step_.ast, buffers_.size());
  for (std::size_t slot = 0; slot < buffers_.size(); ++slot) {
    if (!uses[slot].writes) continue;
    std::vector<std::byte> device = read_back(buffers_[slot]);
    const DType dtype = views[slot].dtype;
    const reference::Reader read = reference::reader_of(dtype);
    const auto width = static_cast<std::size_t>(dtype.bytes());
    const double bound = dtype.is_float() ? rounding_bound(step_.ast, dtype) : 0;
    double scale =
        0;  // cancellation leaves errors the size of the operands, which the largest result stands for
    if (dtype.is_float())
      for (std::int64_t i = 0; i < views[slot].size; ++i)
        if (const double v = std::abs(read(before_[slot].data() + static_cast<std::size_t>(i) * width).f);
            std::isfinite(v))
          scale = std::max(scale, v);
    for (std::int64_t i = 0; i < views[slot].size; ++i) {
      if (report.sampled && !report.written[slot][static_cast<std::size_t>(i)]) continue;
      const std::size_t at = static_cast<std::size_t>(i) * width;
      const reference::Cell want = read(before_[slot].data() + at), got = read(device.data() + at);
      const bool equal = !dtype.is_float() ? want.i == got.i
                         : std::isnan(want.f) || std::isnan(got.f)
                             ? std::isnan(want.f) && std::isnan(got.f)
                             : want.f == got.f || std::abs(want.f - got.f) <= bound * std::max(scale, 1e-30);
      if (equal) continue;
      throw InternalError("verify",
                          fmt::format("kernel {} gives {} at element {} of buffer {} where REF gives {}",
                                      step_.name, value_text(dtype, got), i, slot, value_text(dtype, want)))
          .note(fmt::format("options: {}; it came from {}", options.empty() ? "none" : options, step_.origin))
          .help("LATHE_NOOPT=1 shows whether an option is to blame; LATHE_DEBUG=4 shows the source");
    }
  }
}

}  // namespace lathe::engine
