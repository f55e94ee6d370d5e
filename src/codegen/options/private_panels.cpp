#include "codegen/options/private_panels.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/small_vector.h"
#include "codegen/kernel/lanes.h"
#include "ir/build.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

struct Panel {
  Nodes outer, inner;  // ranges in registers that it is private to; the inner ones are contiguous
  Node memory;         // the larger one
};

// Whether what is stored is read side by side along the range, so that lanes will be.
bool runs_along(Node value, Node range) {
  std::int64_t stride = 0;
  for (Node n : toposort(value))
    if (n.is(Op::Load) && is_affine(n.arg(1), range, stride) && stride == 1) return true;
  return false;
}

// The position among all copies, and how many there are.
Node row_major(std::span<const Node> ranges, std::int64_t& size) {
  Node index = index_const(0);
  size = 1;
  for (Node r : ranges) {
    index = index * r.arg(0) + r;
    size *= r.arg(0).const_int();
  }
  return index;
}

}  // namespace

OrRefusal<Node> private_panels(Node kernel, const Target& target) {
  std::vector<Node> order = toposort(kernel);
  NodeMap<Panel> panels;
  for (Node n : order) {
    if (!n.is(Op::Store) || !base_memory(n.arg(0)).is(Op::Define)) continue;
    for (Node r : ranges_of(n)) {
      if (range_kind(r) != RangeKind::Upcast || depends_on(n.arg(1), r)) continue;
      Panel& panel = panels[base_memory(n.arg(0))];
      if (contains(panel.outer, r) || contains(panel.inner, r)) continue;
      (runs_along(n.arg(2), r) ? panel.inner : panel.outer).push_back(r);
    }
  }
  if (panels.empty()) return kernel;
  std::int64_t bytes = 0;
  for (auto& [define_node, panel] : panels) {
    std::int64_t outer = 1, inner = 1;
    row_major(panel.outer, outer), row_major(panel.inner, inner);
    const std::int64_t size = outer * memory_size(define_node) * inner;
    bytes += size * define_node.dtype().bytes();
    panel.memory = define(define_node.dtype(), define_id(define_node), size, define_space(define_node),
                          shared_form(define_node));
  }
  if (bytes > target.shared_bytes)
    return Refusal{"UPCAST", fmt::format("panels of {} bytes exceed the {} bytes of target {}", bytes,
                                         target.shared_bytes, target.name)};
  NodeMap<Node> done;
  for (Node n : order) {
    if (const Panel* panel = panels.find(n)) {
      done.try_emplace(n, panel->memory);
      continue;
    }
    Nodes args;
    for (Node a : n.args()) args.push_back(*done.find(a));
    if (n.is(Op::Load) || n.is(Op::Store)) {
      Node base = base_memory(n.arg(0));
      if (const Panel* panel = panels.find(base)) {
        std::int64_t outer = 1, inner = 1;
        Node high = row_major(panel->outer, outer), low = row_major(panel->inner, inner);
        args[1] = (high * index_const(memory_size(base)) + args[1]) * index_const(inner) + low;
      }
    }
    done.try_emplace(n, n.arg_count() == 0 ? n : rebuild(n, args));
  }
  return *done.find(kernel);
}

}  // namespace lathe
