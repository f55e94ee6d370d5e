// Reverse-mode differentiation of tensor graphs. The derivative of each scalar op is its columns in ops.def;
// the other ops are the table below. A gradient is an ordinary graph, so it can be differentiated again.
// Iterative: a chain of a million nodes must not overflow the stack.
#include <algorithm>
#include <numbers>
#include <optional>

#include <fmt/format.h>

#include "ir/pending.h"
#include "lathe/expected_gradient.h"
#include "tensor/custom.h"
#include "tensor/differentiated.h"
#include "tensor/given_up.h"
#include "tensor/gradient_hooks.h"
#include "tensor/impl.h"
#include "tensor/own_gradient.h"
#include "tensor/realize.h"
#include "tensor/recompute.h"
#include "tensor/reduce_gradient.h"
#include "tensor/rows.h"
#include "tensor/scans.h"
#include "tensor/softmax_gradient.h"
#include "tensor/versions.h"

namespace lathe {
namespace {

// ---- the vocabulary of the d/dx columns, over nodes

constexpr double kLn2 = std::numbers::ln2;

Node zero(Node g) { return zero_of(g.dtype()); }
Node real(Node g, double v) { return number(g.dtype(), v); }
Node sin(Node x) { return apply(Op::Sin, x); }
Node cos(Node x) { return apply(Op::Cos, x); }
// A factor: 1 where x > y, 1/2 where they are equal, else 0. What it leaves nothing of may be infinite.
struct Tie {
  Node x, y;
};
Tie tie(Node x, Node y) { return {x, y}; }
Node operator*(Node g, const Tie& share) {
  return where(equal(share.x, share.y), g * real(g, 0.5), where(less(share.y, share.x), g, zero(g)));
}

// The gradient for one operand. `x y z` are the operands, `out` the node itself.
using ScalarRule = Node (*)(Node g, Node x, Node y, Node z, Node out);

struct ScalarRules {
  ScalarRule by[3];
};

// An empty column `()` has no derivative: the macro tells by counting what the parentheses hold.
#define LATHE_EMPTY_PROBE(...) __VA_OPT__(1)
#define LATHE_RULE_I(probe, body) LATHE_RULE_II(probe, body)
#define LATHE_RULE_II(probe, body) LATHE_RULE_##probe body
#define LATHE_RULE_ (nullptr) LATHE_DROP
#define LATHE_DROP(...)
#define LATHE_RULE_1(...)                                                                                 \
  ([]([[maybe_unused]] Node g, [[maybe_unused]] Node x, [[maybe_unused]] Node y, [[maybe_unused]] Node z, \
      [[maybe_unused]] Node out) -> Node { return __VA_ARGS__; })
#define LATHE_RULE(body) LATHE_RULE_I(LATHE_EMPTY_PROBE body, body)

const ScalarRules kScalarRules[] = {
#define LATHE_OP(name, args, result, domain, traits, unit, value, text, error, dx, dy, dz) \
  {{LATHE_RULE(dx), LATHE_RULE(dy), LATHE_RULE(dz)}},
#include "ir/ops.def"
#undef LATHE_OP
};

// ---- the other ops

Node sum_to(Node g, std::span<const Node> sizes) {
  const bool same_rank = g.rank() == sizes.size();
  Axes axes;
  for (std::size_t i = 0; i < g.rank(); ++i)
    if (!same_rank || g.shape()[i] != sizes[i]) axes.push_back(static_cast<std::int64_t>(i));
  if (same_rank && axes.empty()) return g;
  const DType wide = ir_dtype(sum_accumulator(data_type(g.dtype())));
  Node sum = cast(reduce_axes(Op::Add, cast(g, wide), axes), g.dtype());
  return same_rank ? sum : reshape_to(sum, sizes);
}

Node whole(Node x, std::span<const Node> sizes) { return expand_to(x, sizes); }

Node expand_gradient(Node g, Node out) { return sum_to(g, out.arg(0).shape()); }
Node reshape_gradient(Node g, Node out) { return reshape_to(g, out.arg(0).shape()); }
Node permute_gradient(Node g, Node out) {
  Axes inverse(out.ints().size(), 0);
  for (std::size_t i = 0; i < inverse.size(); ++i)
    inverse[static_cast<std::size_t>(out.ints()[i])] = static_cast<std::int64_t>(i);
  return permute_to(g, inverse);
}
Node pad_gradient(Node g, Node out) {
  Node x = out.arg(0);
  Nodes begin, end;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    begin.push_back(out.arg(1 + i));
    end.push_back(out.arg(1 + i) + x.shape()[i]);
  }
  return shrink_to_bounds(g, begin, end);
}
Node shrink_gradient(Node g, Node out) {
  Node x = out.arg(0);
  Nodes low, high;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    low.push_back(out.arg(1 + i));
    high.push_back(x.shape()[i] - out.arg(1 + x.rank() + i));
  }
  return pad(g, low, high);
}
Node flip_gradient(Node g, Node out) { return flip(g, out.ints()); }
Node skew_gradient(Node g, Node out) {
  auto a = out.ints();
  return unskew(g, a[0], a[1], a[2], a[3], out.arg(0).shape()[static_cast<std::size_t>(a[0])]);
}
Node unskew_gradient(Node g, Node out) {
  auto a = out.ints();
  return skew(g, a[0], a[1], a[2], a[3], out.arg(0).shape()[static_cast<std::size_t>(a[0])]);
}
Node cast_gradient(Node g, Node out) {
  DType from = out.arg(0).dtype();
  return from.is_float() && out.dtype().is_float() ? cast(g, from) : Node();
}
Node same_gradient(Node g, Node) { return g; }
Node fence_gradient(Node g, Node) { return contiguous(g); }
Node copy_gradient(Node g, Node out) {
  std::string home = device_of(out.arg(0));
  return home.empty() || home == out.text() ? g : copy_to(g, home);
}

Node reduce_gradient(Node g, Node out) {
  Node x = out.arg(0);
  auto axes = out.ints().subspan(1);
  return grouped_gradient(reduce_op(out), g, x, out,
                          {[axes](Op op, Node values) { return reduce_axes(op, values, axes); },
                           [x](Node per_group) { return whole(per_group, x.shape()); }});
}

using MoveRule = Node (*)(Node g, Node out);
struct Row {
  Op op;
  MoveRule gradient;
};
// Ops with one operand that can have a gradient. What is not here has none.
constexpr Row kRows[] = {
    {Op::Reshape, reshape_gradient}, {Op::Expand, expand_gradient},   {Op::Permute, permute_gradient},
    {Op::Pad, pad_gradient},         {Op::Shrink, shrink_gradient},   {Op::Flip, flip_gradient},
    {Op::Skew, skew_gradient},       {Op::Unskew, unskew_gradient},   {Op::Reduce, reduce_gradient},
    {Op::Cast, cast_gradient},       {Op::Contiguous, same_gradient}, {Op::GradFence, fence_gradient},
    {Op::Copy, copy_gradient},       {Op::Take, take_gradient},       {Op::Scatter, scatter_gradient},
    {Op::Scan, scan_gradient},
};

MoveRule rule_of(Op op) {
  for (const Row& row : kRows)
    if (row.op == op) return row.gradient;
  return nullptr;
}

class Backward {
 public:
  // Where the targets are the ends, what lies behind them gets nothing. Neither do earlier versions of memory
  // from those after `writes`.
  Backward(std::span<const Node> targets, std::string device, bool targets_are_ends = false,
           std::span<const Node> writes = {})
      : device_(std::move(device)) {
    for (Node t : targets) {
      needed_[t] = 1;
      if (targets_are_ends) ends_[t] = 1;
    }
    for (Node w : writes) parted_[w] = 1;
  }

  void run(Node root, Node seed) {
    std::vector<Node> order = toposort(root);
    for (Node n : order) mark(n);
    if (!needed(root)) return;
    for (Node n : order)
      if (is_hook(n) && needed(n)) check_nothing_before(n, order);
    grads_[root] = seed;
    softmax_sums_.emplace(order);
    for (std::size_t i = order.size(); i-- > 0;) {
      Node n = order[i];
      const Node* g = grads_.find(n);
      if (g != nullptr && n.arg_count() > 0 && !ends_.contains(n)) spread(n, *g);
    }
  }
  Node gradient(Node target) const {
    const Node* g = grads_.find(target);
    return g == nullptr ? Node() : *g;
  }

 private:
  bool needed(Node n) const { return needed_.contains(n); }

  // A node is on the way to a target when an operand is; shapes, conditions and integers are not.
  void mark(Node n) {
    if (needed(n) || n.is(Op::Detach) || n.is(Op::Bitcast)) return;
    if (!n.dtype().is_float() && !n.is(Op::Store)) return;
    for (Node a : n.args())
      if (needed(a)) {
        needed_[n] = 1;
        return;
      }
  }

  static bool is_hook(Node n) { return n.is(Op::Custom) && n.text() == kGradientHook; }

  // What is computed from a tensor, and was before its hooks were there, passes its gradient by them.
  void check_nothing_before(Node hook, std::span<const Node> order) const {
    const Node value = hook.arg(1);
    for (Node n : order)
      if (n != hook && needed(n) && std::ranges::find(n.args(), value) != n.args().end())
        throw UserError("register_hook",
                        "the tensor was used before the hook was registered, or another is equal to it")
            .help("register the hook before the tensor is used, or on a clone() of it");
  }

  void add(Node to, Node g) {
    if (!g || !needed(to)) return;
    if (g.shape_node() != to.shape_node()) g = g.rank() == 0 ? whole(g, to.shape()) : sum_to(g, to.shape());
    auto [held, fresh] = grads_.try_emplace(to, g);
    if (!fresh) *held = *held + g;
  }

  void spread(Node n, Node g) {
    softmax_sums_->sum_has_gradient(n, g);
    if (const auto scores = softmax_sums_->scores_gradient(n, g)) return add(scores->node, scores->gradient);
    g = softmax_sums_->rounded(n, g);
    if (is_scalar_op(n.op())) {
      const ScalarRules& rules = kScalarRules[static_cast<std::size_t>(n.op())];
      Node x = n.arg(0), y = n.arg_count() > 1 ? n.arg(1) : Node(), z = n.arg_count() > 2 ? n.arg(2) : Node();
      for (std::size_t i = 0; i < n.arg_count(); ++i)
        if (rules.by[i] != nullptr && needed(n.arg(i))) add(n.arg(i), rules.by[i](g, x, y, z, n));
    } else if (n.is(Op::After)) {
      spread_store(n, g);
    } else if (n.is(Op::Custom)) {
      spread_custom(n, g);
    } else if (MoveRule rule = rule_of(n.op()); rule != nullptr && needed(n.arg(0))) {
      add(n.arg(0), rule(g, n));
    }
  }

  // The value stored gets the view of g; the version before gets g with that view zeroed. Later effects hide
  // earlier ones.
  void spread_store(Node n, Node g) {
    Node memory = n.arg(0);
    for (std::size_t i = n.arg_count(); i-- > 1;) {
      if (!n.arg(i).is(Op::Store))
        return;  // a version's name (tensor/versions.h): data, not the version before
      Node store = n.arg(i), view = store.arg(0), value = store.arg(1);
      std::vector<Node> chain;
      for (Node v = view; v != memory; v = v.arg(0)) chain.push_back(v);
      Node seen = g;
      for (std::size_t c = chain.size(); c-- > 0;) {
        Nodes args(chain[c].args().begin(), chain[c].args().end());
        args[0] = seen;
        seen = chain[c].with_args(args);
      }
      add(value, seen);
      Node covered = whole(bool_const(true), view.shape());
      bool all = true;
      for (Node step : chain) {
        all &= step.is(Op::Reshape) || step.is(Op::Permute) || step.is(Op::Flip);
        covered = rule_of(step.op())(covered, step);
      }
      if (all) return;
      g = where(covered, zero(g), g);
    }
    if (!parted_.contains(n)) add(memory, g);
  }

  // What is inside a checkpoint is computed again, now that its gradient is known, and differentiated there.
  void spread_checkpoint(Node n, Node g) {
    const std::span<const Node> inputs = n.args().subspan(1);
    const Recomputed again = recompute(n.arg(0), inputs, g, device_);
    std::vector<Node> ends, from;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (needed(inputs[i]) && again.copies[i] != inputs[i]) {
        ends.push_back(again.copies[i]);
        from.push_back(inputs[i]);
      }
    for (Node b : again.border)
      if (needed(b)) {
        ends.push_back(b);
        from.push_back(b);
      }
    Backward inside(ends, device_, true);
    inside.run(again.value, g);
    for (std::size_t i = 0; i < ends.size(); ++i) add(from[i], inside.gradient(ends[i]));
    keep_.insert(keep_.end(), inside.keep_.begin(), inside.keep_.end());
  }

  void spread_custom(Node n, Node g) {
    if (n.text() == kCheckpoint) return spread_checkpoint(n, g);
    if (is_hook(n)) {
      keep_.push_back(hooked_gradient(n, make_tensor(g, device_)));
      return add(n.arg(1), node_of(keep_.back()));
    }
    const GradientRule own = own_gradient(n.text());
    const CustomOp* op = own != nullptr ? nullptr : find_custom(n.text());
    if (own == nullptr && (op == nullptr || !op->gradient)) return add(n.arg(0), g);
    std::vector<Tensor> inputs;
    for (Node a : n.args().subspan(1)) inputs.push_back(make_tensor(a, device_));
    const Tensor out = make_tensor(n, device_), incoming = make_tensor(g, device_);
    std::vector<Tensor> grads =
        own != nullptr ? own(inputs, out, incoming) : op->gradient(inputs, out, incoming);
    if (grads.size() != inputs.size())
      throw UserError(n.text(), fmt::format("its gradient function gave {} gradients for {} inputs",
                                            grads.size(), inputs.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!grads[i].defined() || !needed(n.arg(1 + i))) continue;
      Node input = n.arg(1 + i), gi = node_of(grads[i]);
      if (own == nullptr && gi.shape_node() != input.shape_node())
        throw UserError(n.text(), fmt::format("the gradient of input {} has shape {}, the input {}", i,
                                              shape_text(gi.shape()), shape_text(input.shape())));
      keep_.push_back(grads[i]);
      add(input, cast(gi, input.dtype()));
    }
  }

  std::string device_;
  NodeMap<char> needed_, ends_, parted_;
  NodeMap<Node> grads_;
  std::optional<SoftmaxSums> softmax_sums_;
  std::vector<Tensor> keep_;  // what user code made stays alive while the pass runs
};

[[noreturn]] void refuse_twins(const Tensor& target) {
  throw UserError("gradient",
                  fmt::format("another tensor was made by the same expression as {}, and equal expressions "
                              "are one: the graph does not tell which of them it read",
                              describe(target)))
      .help("clone() one of them, or call requires_grad_() on it, before it is used");
}

[[noreturn]] void refuse_given_up(const Tensor& root, const Tensor& target) {
  throw UserError("gradient", fmt::format("{} was computed from {} by way of a tensor that was realized, and "
                                          "without requires_grad_() a realized tensor is plain data",
                                          describe(root), describe(target)))
      .help("call requires_grad_() on the target before it is used, or realize after taking the gradient");
}

[[noreturn]] void refuse_versions(const Tensor& target) {
  throw UserError("gradient",
                  fmt::format("{} was written to between its uses: the graph reads several versions of it",
                              describe(target)))
      .help("take the gradient before writing to the tensor, or clone() it");
}

// A version of memory that these read and that was overwritten since, or null: values a gradient needs are
// read when it is computed, and the memory must still hold them.
Node overwritten_read(std::span<const Node> grads) {
  std::vector<Node> given;
  for (Node g : grads)
    if (g) given.push_back(g);
  for (Node n : still_to_compute(given))
    if (is_memory(n) && is_overwritten(n)) return n;
  return Node();
}

void check_still_there(std::span<const Node> grads, const Tensor& root) {
  if (const Node gone = overwritten_read(grads))
    throw UserError(
        "gradient",
        fmt::format("the gradient of {} reads a {} of {} elements that was written to since it was used",
                    describe(root), gone.dtype().name(), numel_max(gone)))
        .help("take the gradient before writing to the tensor, or clone() it before the write");
}

Node seed_for(const Tensor& t, const Tensor* seed) {
  Node root = node_of(t);
  if (!t.dtype().is_float())
    throw UserError("gradient", fmt::format("{} has no gradients", describe(t)))
        .help("start from a float tensor");
  if (seed == nullptr) {
    if (!size_product(root.shape()).is_const_int(1))
      throw UserError("gradient",
                      fmt::format("the tensor has shape {}, not one element", shape_text(root.shape())))
          .help("reduce it (sum, mean), or give the gradient to start with");
    return whole(number(root.dtype(), 1), root.shape());
  }
  check_same_device("gradient", t, *seed);
  if (root.rank() == 0 && size_product(node_of(*seed).shape()).is_const_int(1))
    return reshape_to(cast(node_of(*seed), root.dtype()), root.shape());
  return broadcast_to(cast(node_of(*seed), root.dtype()), root.shape(), "gradient");
}

}  // namespace

std::vector<Node> gradients(Node root, Node seed, std::span<const Node> targets, const std::string& device,
                            std::span<const Node> writes) {
  Backward pass(targets, device, false, writes);
  pass.run(root, seed);
  std::vector<Node> out;
  for (Node t : targets) out.push_back(pass.gradient(t));
  return out;
}

namespace {

void check_target(const Tensor& t) {
  const Node n = node_of(t);
  if (!t.is_floating_point())
    throw TypeError("gradient", fmt::format("target {} has no gradient: only floats have", describe(t)))
        .help("cast it to a float dtype before it is used");
  if (viewed(n).is_const())
    throw UserError("gradient",
                    fmt::format("target {} is a constant, and equal constants are one", describe(t)))
        .help("call requires_grad_() on it before it is used");
  if (!memory_of(n) && has_twin(*t.impl()->storage)) refuse_twins(t);
}

// Gradients of tensors with several names each; null where there is none.
std::vector<Node> summed_gradients(Node root, Node seed, const std::vector<TargetNames>& targets,
                                   const std::string& device) {
  std::vector<Node> flat, writes;
  for (const TargetNames& names : targets) {
    flat.insert(flat.end(), names.nodes.begin(), names.nodes.end());
    writes.insert(writes.end(), names.writes.begin(), names.writes.end());
  }
  const std::vector<Node> parts = gradients(root, seed, flat, device, writes);
  std::vector<Node> out;
  std::size_t at = 0;
  for (const TargetNames& names : targets) {
    Node sum;
    for (std::size_t i = 0; i < names.nodes.size(); ++i, ++at)
      if (parts[at]) sum = sum ? sum + parts[at] : parts[at];
    out.push_back(sum);
  }
  return out;
}

}  // namespace

static void refuse_data(std::string_view who, const Tensor& loss, Node root) {
  const Node data = memory_of(root);
  if (!data || !(data.is(Op::Buffer) || realized(data))) return;
  throw UserError(who, fmt::format("{} is data, with no expression to differentiate", describe(loss)))
      .help(
          "a computed value keeps its expression if requires_grad_() was called on what it is "
          "computed from");
}

std::vector<Tensor> Tensor::gradient(const std::vector<Tensor>& targets, const Tensor* seed) const {
  Scope scope;
  Node root = node_of(*this), start = seed_for(*this, seed);
  const Differentiated graph(root);
  std::vector<TargetNames> names;
  for (const Tensor& t : targets) {
    check_target(t);
    names.push_back(graph.names_of(t));
    if (names.back().nodes.empty()) refuse_versions(t);
  }
  const bool takes_part =
      std::ranges::any_of(names, [&](const TargetNames& n) { return graph.contains(n.nodes[0]); });
  if (!takes_part && !targets.empty()) refuse_data("gradient", *this, root);
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (!graph.contains(names[i].nodes[0]) && graph.has_given_up(targets[i]))
      refuse_given_up(*this, targets[i]);
  std::vector<Node> grads = summed_gradients(root, start, names, device());
  if (graph.reads_overwritten()) check_still_there(grads, *this);
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < targets.size(); ++i)
    out.push_back(
        grads[i] ? hooked_gradient(targets[i], make_tensor(grads[i], targets[i].device(), origin_of(*this)))
                 : targets[i].zeros_like());
  return out;
}

namespace {

// Asking every live tensor whether it takes part reads none of them: a capture must not depend on those that
// do not, which may be gone at its next call. What takes part was read when the graph was built.
struct Unwatched {
  OutsideReads* before = watch_reads(nullptr);
  Unwatched() = default;
  ~Unwatched() { watch_reads(before); }
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;
};

}  // namespace

void expect_gradient(const Tensor& parameter) { parameter.impl()->expects = true; }

void Tensor::backward(const Tensor* seed, std::span<const Tensor> also) const {
  Scope scope;
  Node root = node_of(*this), start = seed_for(*this, seed);
  const Differentiated graph(root);
  std::optional<NodeMap<int>> holders;  // worked out for the first that needs it
  auto has_twins = [&](const Tensor& t) {
    if (!holders) holders = value_holders();
    return *holders->find(t.impl()->storage->value) > 1;
  };
  std::vector<Tensor> leaves;
  std::vector<TargetNames> names;
  const Unwatched unwatched;
  for (Tensor& leaf : live_leaves()) {
    TargetNames own = graph.names_of(leaf);
    if (own.nodes.empty()) refuse_versions(leaf);
    if (graph.has_given_up(leaf)) leaf.impl()->missed = true;
    if (!graph.contains(own.nodes[0])) continue;
    if (!memory_of(own.nodes[0]) && has_twins(leaf)) refuse_twins(leaf);
    leaves.push_back(leaf);
    names.push_back(std::move(own));
  }
  const std::size_t asked = leaves.size();
  if (asked == 0) refuse_data("backward", *this, root);
  for (const Tensor& t : also) {
    if (!t.defined() || t.impl()->storage->lost || t.impl()->leaf || !t.is_floating_point()) continue;
    if (t.impl()->expects && graph.has_given_up(t)) t.impl()->missed = true;
    TargetNames own = graph.names_of(t);
    if (own.nodes.empty() || !graph.reads(own.nodes[0]) || device_of(own.nodes[0]).empty()) continue;
    if (!memory_of(own.nodes[0]) && has_twins(t)) continue;  // whose it is cannot be told
    leaves.push_back(t);
    names.push_back(std::move(own));
  }
  if (leaves.empty())
    throw UserError("backward",
                    fmt::format("{} does not depend on any tensor that requires a gradient", describe(*this)))
        .help("call requires_grad_() on the parameters");
  std::vector<Node> grads = summed_gradients(root, start, names, device());
  std::vector<bool> gone(grads.size());
  if (graph.reads_overwritten()) {
    check_still_there(std::span(grads).first(asked), *this);
    for (std::size_t i = asked; i < grads.size(); ++i)  // gradients of `also`
      if (gone[i] = static_cast<bool>(overwritten_read(std::span(grads).subspan(i, 1))); gone[i])
        grads[i] = Node();
  }
  const NoGradScope no_grad;
  const UntrackedScope untracked;  // a gradient may be differentiated again
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    TensorImpl& impl = *leaves[i].impl();
    if (!grads[i]) {  // one that did not ask, and is behind a detach()
      if (i >= asked && !impl.grad && !gone[i]) impl.grad = leaves[i].zeros_like();
      continue;
    }
    const Tensor g = hooked_gradient(leaves[i], make_tensor(grads[i], leaves[i].device(), origin_of(*this)));
    if (impl.grad && impl.grad->impl()->storage->lost) continue;  // a sum with what was given up
    if (impl.grad)
      impl.grad->replace(*impl.grad + g);  // other holders of the tensor see the sum
    else
      impl.grad = g;
    impl.grad->impl()->storage->unasked = i >= asked;
  }
}

}  // namespace lathe
