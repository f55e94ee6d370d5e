#include "engine/schedule_text.h"

#include <algorithm>

#include "base/error.h"
#include "ir/build.h"
#include "ir/text.h"
#include "ir/walk.h"

namespace lathe::engine {
namespace {

constexpr char kSeparator = '|';  // between name, device, options and origin, none of which holds it

// Every buffer that is no slot, by first use, under an id of its own.
NodeMap<Node> renumbered(const Schedule& schedule, std::span<const Node> slots) {
  NodeMap<Node> map;
  for (const Node& slot : slots) map[slot] = slot;
  std::int64_t next = -static_cast<std::int64_t>(slots.size()) - 1;
  for (const Step& step : schedule.steps)
    for (const NodeRef& buffer : step.buffers)
      if (!map.contains(buffer))
        map[buffer] = buffer_with_id(next--, buffer->dtype(), buffer_size(buffer), buffer_device(buffer));
  return map;
}

Step step_of(Node kernel) {
  Step step;
  const std::string& text = kernel.text();
  std::string* fields[] = {&step.name, &step.device, &step.options, &step.origin};
  std::size_t begin_of = 0;
  for (std::string* field : fields) {
    const std::size_t end = std::min(text.find(kSeparator, begin_of), text.size());
    *field = text.substr(std::min(begin_of, text.size()), end - std::min(begin_of, end));
    begin_of = end + 1;
  }
  step.from_offset = kernel.ints()[0];
  std::size_t begin = 0;
  if (kernel.arg(0).is(Op::Sink)) {
    step.ast = kernel.arg(0);
    begin = 1;
  }
  for (std::size_t i = begin; i < kernel.arg_count(); ++i) step.buffers.emplace_back(kernel.arg(i));
  return step;
}

}  // namespace

std::string print_schedule(const Schedule& schedule, std::span<const Node> slots) {
  const NodeMap<Node> buffers = renumbered(schedule, slots);
  std::vector<Node> kernels, results;
  for (const Step& step : schedule.steps) {
    std::vector<Node> args;
    if (!step.is_copy()) args.push_back(step.ast);
    for (const NodeRef& buffer : step.buffers) args.push_back(*buffers.find(buffer));
    const AttrData data{
        step.name + kSeparator + step.device + kSeparator + step.options + kSeparator + step.origin,
        {step.from_offset}};
    kernels.push_back(intern(Op::Kernel, dtypes::Void, args, Attr::of(data)));
  }
  for (const NodeRef& result : schedule.results) results.push_back(substitute(result, buffers));
  const Node both[] = {intern(Op::Sink, dtypes::Void, kernels), intern(Op::Sink, dtypes::Void, results)};
  return print_graph(intern(Op::Sink, dtypes::Void, both));
}

std::optional<Schedule> parse_schedule(std::string_view text) {
  Node root;
  try {
    root = parse_graph(text);
  } catch (const UserError&) {
    return std::nullopt;
  }
  if (!root.is(Op::Sink) || root.arg_count() != 2 || !root.arg(0).is(Op::Sink) || !root.arg(1).is(Op::Sink))
    return std::nullopt;
  Schedule schedule;
  for (const Node& kernel : root.arg(0).args()) {
    if (!kernel.is(Op::Kernel) || kernel.ints().empty()) return std::nullopt;
    schedule.steps.push_back(step_of(kernel));
  }
  for (const Node& result : root.arg(1).args()) schedule.results.emplace_back(result);
  return schedule;
}

}  // namespace lathe::engine
