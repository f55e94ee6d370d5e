#include "schedule/prepare_graph.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/device_of.h"
#include "ir/shape.h"
#include "ir/walk.h"
#include "schedule/cost.h"
#include "schedule/fold_constants.h"
#include "schedule/spread_sums.h"
#include "schedule/unskewed_windows.h"

namespace lathe {
namespace {

using Sizes = SmallVector<Node, 8>;

// Whether a reduce adds whole rows: every axis behind the reduced ones is kept, and there is one.
bool adds_rows(Node reduce) {
  std::span<const std::int64_t> axes = reduce.ints().subspan(1);
  const std::int64_t last = *std::max_element(axes.begin(), axes.end());
  std::span<const Node> shape = reduce.arg(0).shape();
  std::int64_t row = 1;
  for (std::size_t a = static_cast<std::size_t>(last) + 1; a < shape.size(); ++a) row *= shape[a].int_attr();
  return row > 1 && row == numel_max(reduce) && !is_product_sum(reduce);
}

// Whether a mask may be about positions: it compares integers. One that compares floats (of relu's
// gradient) is not.
bool about_positions(Node mask) {
  if (is_movement(mask.op()) || mask.is(Op::Not)) return about_positions(mask.arg(0));
  if (mask.is(Op::And) || mask.is(Op::Or))
    return about_positions(mask.arg(0)) || about_positions(mask.arg(1));
  const bool compares = mask.is(Op::Less) || mask.is(Op::Eq) || mask.is(Op::Ne);
  return compares && !mask.arg(0).dtype().is_float();
}

// split-reduce: reduce(x over n) == reduce over parts of (reduce over n/parts), for associative ops.
Node split_reduce(Node node) {
  Node x = node.arg(0);
  // where(index == .., value, 0) summed reads one element (collapse-one-hot): nothing to split.
  if (x.is(Op::Where) && x.arg(2).is_const() && about_positions(x.arg(0))) return node;
  std::span<const std::int64_t> ints = node.ints();
  for (Node d : x.shape())
    if (!d.is_const()) return node;
  std::int64_t outputs = numel_max(node), inputs = numel_max(x);
  for (std::size_t i = 1; i < ints.size(); ++i) {
    auto axis = static_cast<std::size_t>(ints[i]);
    std::int64_t extent = x.shape()[axis].int_attr();
    std::int64_t parts = reduce_parts(outputs, inputs, extent);
    if (parts == 0 && adds_rows(node))
      parts = column_parts(outputs, static_cast<double>(inputs) * x.dtype().bytes(), extent);
    if (parts == 0) continue;
    // (.., n, ..) -> (.., parts, n/parts, ..): reduce all but `parts`, then `parts`.
    Sizes sizes, kept;
    SmallVector<std::int64_t, 8> first;
    for (std::size_t a = 0; a < x.rank(); ++a) {
      bool reduced = std::find(ints.begin() + 1, ints.end(), static_cast<std::int64_t>(a)) != ints.end();
      if (a == axis) {
        sizes.push_back(index_const(parts));
        sizes.push_back(index_const(extent / parts));
        first.push_back(static_cast<std::int64_t>(a) + 1);
        kept.push_back(index_const(parts));
        continue;
      }
      if (reduced) first.push_back(static_cast<std::int64_t>(a > axis ? a + 1 : a));
      sizes.push_back(x.shape()[a]);
      kept.push_back(reduced ? index_const(1) : x.shape()[a]);
    }
    Op op = reduce_op(node);
    Node partial = contiguous(reduce_axes(op, reshape(x, sizes), first));
    std::int64_t last[] = {static_cast<std::int64_t>(axis)};
    return reduce_axes(op, reshape(partial, kept), last);
  }
  return node;
}

bool disk(std::string_view device) { return device.starts_with("DISK"); }

// A copy moves the base, not the view: copy(expand(x)) == expand(copy(x)). A view that drops most of its base
// is made whole on its own device first, unless that device runs no kernels. A slice of a flat buffer is
// memory of its own.
Node copy_base(Node node) {
  Node view = node.arg(0), base = view;
  std::vector<Node> chain;
  while ((is_movement(base.op()) && !(base.is(Op::Shrink) && base.arg(0).is(Op::Buffer)))) {
    chain.push_back(base);
    base = base.arg(0);
  }
  if (chain.empty()) return node;
  if (numel_max(base) > numel_max(view) && !disk(device_of(base))) return node;
  Node out = copy_to(base, node.text());
  for (std::size_t i = chain.size(); i-- > 0;) {
    SmallVector<Node, 16> args(chain[i].args().begin(), chain[i].args().end());
    args[0] = out;
    out = chain[i].with_args(args);
  }
  return out;
}

// Bits read as one dtype and then as another are read as the last: what is between need not be stored.
Node join_bitcasts(Node node) {
  Node inner = node.arg(0);
  while (inner.is(Op::Reshape)) inner = inner.arg(0);
  if (!inner.is(Op::Bitcast) || inner.arg(0).rank() != 1 || !inner.arg(0).shape()[0].is_const()) return node;
  for (Node size : node.shape())
    if (!size.is_const()) return node;
  return reshape(bitcast(inner.arg(0), node.dtype()), node.shape());
}

// The rules by which one node, whose operands have been prepared, becomes another.
class Preparer {
 public:
  explicit Preparer(const Compile& compile)
      : compile_(compile), folder_(compile.rules), planted_(none(), compile.rules) {}

  Node run(Node node) {
    node = named("fold-constants", node, folder_.fold(node));
    node = prepared(node);
    return compile_.rules.planted == nullptr ? node : planted_.simplify(node);
  }

 private:
  static const RuleSet& none() {
    static const auto* rules = new RuleSet("prepare_graph", {});
    return *rules;
  }
  bool uses(std::string_view rule) const { return !compile_.rules.disables(rule); }
  Node named(std::string_view rule, Node before, Node after) const {
    RewriteTrace* trace = compile_.rules.trace;
    if (after != before && trace != nullptr) trace->applied("prepare_graph", rule, before, after);
    return after;
  }

  Node prepared(Node node) const {
    switch (node.op()) {
      case Op::Detach:
      case Op::GradFence:
      case Op::Custom: return node.arg(0);
      case Op::Reduce: return reduce(node);
      case Op::Bitcast: return named("join-bitcasts", node, join_bitcasts(node));
      case Op::Contiguous:
        // Stored already: a whole buffer, or another forced store. Options ask for a kernel all the same.
        if (attached_options(node).empty())
          return node.arg(0).is(Op::Contiguous) || node.arg(0).is(Op::Buffer) ? node.arg(0) : node;
        return node.arg(0).is(Op::Contiguous) ? contiguous(node.arg(0).arg(0), attached_options(node)) : node;
      case Op::Copy: {
        std::string from = device_of(node.arg(0));
        if (from == node.text()) return node.arg(0);
        return from.empty() ? node : named("copy-base", node, copy_base(node));
      }
      default: return node;
    }
  }

  Node reduce(Node node) const {
    if (uses(kUnskewRule))
      if (Node apart = named(kUnskewRule, node, unskew_by_residue(node)); apart != node) return apart;
    Node spread = uses(kSpreadSumRule) ? named(kSpreadSumRule, node, spread_sum(node)) : node;
    if (compile_.invariant) return spread;
    if (spread == node) return named("split-reduce", node, split_reduce(node));
    Node inner = spread.arg(0);  // below the reshape
    return reshape(named("split-reduce", inner, split_reduce(inner)), spread.shape());
  }

  const Compile& compile_;
  ConstantFolder folder_;
  Rewriter planted_;  // rules of tests
};

}  // namespace

PreparedGraph prepare_graph(std::span<const Node> targets, const Compile& compile) {
  PreparedGraph out;
  NodeMap<Node> done;
  NodeMap<std::int64_t> bound;
  Preparer preparer(compile);
  SmallVector<Node, 16> args;
  for (Node n : toposort(targets)) {
    if (n.is(Op::Bind)) {
      std::int64_t v = n.arg(1).const_int();
      auto [old, fresh] = bound.try_emplace(n.arg(0), v);
      if (!fresh && *old != v)
        throw UserError("realize", fmt::format("variable {} is bound to {} and to {} in one graph",
                                               n.arg(0).text(), *old, v))
            .help("realize the two values separately");
      if (fresh) out.bindings.emplace_back(n.arg(0), v);
      done.try_emplace(n, n.arg(0));
      continue;
    }
    args.clear();
    for (Node a : n.args()) args.push_back(*done.find(a));
    Node now = rebuild(n, std::span<const Node>(args.data(), args.size()));
    done.try_emplace(n, preparer.run(now));
  }
  for (Node t : targets) out.targets.push_back(*done.find(t));
  return out;
}

}  // namespace lathe
