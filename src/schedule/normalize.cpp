#include "schedule/normalize.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {

NormalKernel normalize_kernel(Node sink) {
  NormalKernel out;
  NodeMap<Node> to;
  auto number = [&](Node buffer) {
    if (to.contains(buffer)) return;
    to[buffer] = param(buffer.dtype(), static_cast<std::int64_t>(out.buffers.size()), buffer_size(buffer));
    out.buffers.push_back(buffer);
  };
  for (Node effect : sink.args()) number((effect.is(Op::End) ? effect.arg(0) : effect).arg(0));
  std::vector<Node> order = toposort(sink);
  // Parallel ranges first, then loops, then reduce ranges, each in the order the walk over the tensor graph
  // made them.
  std::vector<Node> ranges;
  for (Node n : order)
    if (n.is(Op::Range)) ranges.push_back(n);
  auto place = [](Node r) {
    RangeKind k = range_kind(r);
    return std::pair(k == RangeKind::Reduce ? 2 : k == RangeKind::Loop ? 1 : 0, range_id(r));
  };
  std::sort(ranges.begin(), ranges.end(), [&](Node a, Node b) { return place(a) < place(b); });
  std::int64_t panels = 0;
  for (Node n : order) {
    if (n.is(Op::Buffer)) number(n);
    if (n.is(Op::Define))
      to[n] = define(n.dtype(), panels++, memory_size(n), define_space(n), shared_form(n));
  }
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    Node r = ranges[i];  // an extent may name ranges that are before it, and buffers
    to[r] = range(substitute(r.arg(0), to), static_cast<std::int64_t>(i), range_kind(r));
  }
  out.ast = substitute(sink, to);
  return out;
}

std::string kernel_name(Node ast) {
  std::string out, reduced;
  for (Node r : all_ranges(ast)) {
    std::string size = r.arg(0).is_const() ? fmt::format("_{}", r.arg(0).int_attr()) : "_n";
    (range_kind(r) == RangeKind::Reduce ? reduced : out) += size;
  }
  return (reduced.empty() ? "e" : "r") + out + (reduced.empty() ? "" : "_x" + reduced.substr(1));
}

}  // namespace lathe
