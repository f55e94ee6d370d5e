#include "reference/kernel_code.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/text.h"
#include "reference/dependencies.h"
#include "reference/emit.h"
#include "reference/group_units.h"

namespace lathe::reference {
namespace {

// Iterations without an order between them, where an End closes the range.
bool is_parallel(Node range) {
  RangeKind k = range_kind(range);
  return k != RangeKind::Loop && k != RangeKind::Reduce && k != RangeKind::Unroll;
}
bool may_be_thread(Node range) {
  RangeKind k = range_kind(range);
  return k == RangeKind::Local || k == RangeKind::Group || k == RangeKind::Warp;
}

std::vector<Node> by_id(std::span<const Node> ranges) {
  std::vector<Node> out(ranges.begin(), ranges.end());
  std::sort(out.begin(), out.end(), [](Node a, Node b) {
    return range_id(a) != range_id(b) ? range_id(a) < range_id(b) : a.key() < b.key();
  });
  return out;
}

// The ranges that become threads: none, unless threads have to meet or share memory. A group range that a
// reduce closes directly is a plain loop.
std::vector<Node> thread_ranges_of(Node kernel) {
  std::vector<Node> order = toposort(kernel), out;
  bool meet = false;
  NodeMap<char> reduced;
  for (Node n : order) {
    meet = meet || needs_group(n);
    if (n.is(Op::Reduce) || n.is(Op::Fold))
      for (Node r : closed_ranges(n)) reduced[r] = 1;
  }
  if (!meet) return out;
  for (Node n : order)
    if (n.is(Op::Range) && may_be_thread(n) && !reduced.contains(n)) out.push_back(n);
  return by_id(out);
}

// How long a loop may be expected to run. A bound that is loaded says nothing in advance.
std::int64_t expected_extent(Node extent) {
  constexpr std::int64_t kUnknown = 64;
  std::vector<Node> below = toposort(extent);
  bool loaded = std::any_of(below.begin(), below.end(), [](Node n) { return n.is(Op::Load); });
  return loaded ? std::min(extent.hi(), kUnknown) : extent.hi();
}

// A loop (or the threads of a group, or the whole kernel) while its steps are being collected.
struct Frame {
  std::vector<std::uint32_t> tokens;
  std::vector<Step> steps;
  NodeMap<std::uint32_t> values;  // registers of what was computed here
  Step begin;                     // LoopBegin or ThreadsBegin; Halt where there is none
};

class KernelCode {
 public:
  KernelCode(Node kernel, bool registers_hold_memory)
      : kernel_(kernel),
        threads_(thread_ranges_of(kernel)),
        deps_(kernel, threads_),
        emit_(code_, registers_hold_memory) {
    find_memory();
    chain_.push_back(std::make_unique<Frame>());
  }

  Code take() {
    std::vector<std::vector<Node>> nests;
    for (Node effect : kernel_.args()) {
      if (!nests.empty() && can_share_loops(nests.back(), effect))
        nests.back().push_back(effect);
      else
        nests.push_back({effect});
    }
    for (const std::vector<Node>& nest : nests) root_nest(nest);
    return finished();
  }

  Code take_at(std::span<const Node> ranges) {
    std::vector<std::uint32_t> tokens;
    for (Node r : ranges)
      if (deps_.holds(r)) tokens.push_back(deps_.range_token(r));
    open(std::move(tokens), Step());
    for (Node r : ranges) {
      code_.positions.push_back(code_.take(1));
      here().values[r] = code_.positions.back();
    }
    value(kernel_);
    close_to(1);
    return finished();
  }

 private:
  Code finished() {
    code_.steps = std::move(chain_[0]->steps);
    code_.steps.push_back(Step());
    return std::move(code_);
  }

  // ---- memory

  void find_memory() {
    NodeMap<std::vector<Node>> accesses;
    for (Node n : deps_.order()) {
      if (!n.is(Op::Load) && !n.is(Op::Store)) continue;
      Node base = base_memory(n.arg(0));
      bool shared = base.is(Op::Define) && !threads_.empty() && define_space(base) != Space::Register &&
                    define_space(base) != Space::Fragment;
      std::uint32_t slot = emit_.memory(base, shared);
      MemorySlot& m = code_.memories[slot];
      if (n.is(Op::Store))
        m.writes = true;
      else if (n.arg(0).is(Op::Param))
        m.reads_first = true;
      if (m.kind == MemorySlot::Kind::Private) accesses[base].push_back(n);
    }
    // Memory is private to the unordered ranges that all its accesses depend on.
    for (const auto& [base, nodes] : accesses)
      for (Node r : deps_.order()) {
        if (!r.is(Op::Range) || !is_parallel(r)) continue;
        std::uint32_t token = deps_.range_token(r);
        if (std::all_of(nodes.begin(), nodes.end(), [&](Node n) { return deps_.depends(n, token); }))
          private_to_[r].push_back(emit_.memory(base, false));
      }
  }

  // ---- frames

  Frame& here() { return *chain_.back(); }

  std::size_t home(Node node) const {
    for (std::size_t i = chain_.size(); i-- > 1;)
      for (std::uint32_t token : chain_[i]->tokens)
        if (deps_.depends(node, token)) return i;
    return 0;
  }

  // Does something with the frames inside a node's home put aside.
  template <class Work>
  void at_home(Node node, Work work) {
    std::size_t depth = home(node) + 1;
    std::vector<std::unique_ptr<Frame>> aside;
    std::move(chain_.begin() + static_cast<std::ptrdiff_t>(depth), chain_.end(), std::back_inserter(aside));
    chain_.resize(depth);
    work();
    std::move(aside.begin(), aside.end(), std::back_inserter(chain_));
  }

  void open(std::vector<std::uint32_t> tokens, Step begin) {
    chain_.push_back(std::make_unique<Frame>());
    here().tokens = std::move(tokens);
    here().begin = begin;
  }

  void open_loop(Node range, bool unordered, int sample_dim, double combinations) {
    Step begin;
    begin.act = Act::LoopBegin;
    begin.a = value(range.arg(0));
    begin.dst = code_.take(1);
    begin.memory = code_.take(kLoopState);
    begin.shuffled = unordered;
    // Upcast positions are one thread's own: no order within their loop, but the order of effects around it.
    bool agents = range_kind(range) != RangeKind::Upcast;
    if (unordered && agents && !in_threads()) begin.id = range_id(range);
    begin.sample_dim = static_cast<std::int16_t>(sample_dim);
    begin.combinations = combinations;
    begin.estimate = expected_extent(range.arg(0));
    begin.node = range;
    open({deps_.range_token(range)}, begin);
    here().values[range] = begin.dst;
    if (!unordered) return;
    if (const std::vector<std::uint32_t>* slots = private_to_.find(range))
      for (std::uint32_t slot : *slots) {
        Step forget;
        forget.act = Act::Forget;
        forget.memory = slot;
        here().steps.push_back(forget);
      }
  }

  bool in_threads() const {
    return std::any_of(chain_.begin(), chain_.end(),
                       [](const auto& f) { return f->begin.act == Act::ThreadsBegin; });
  }

  void close() {
    std::unique_ptr<Frame> frame = std::move(chain_.back());
    chain_.pop_back();
    Frame& outer = here();
    if (frame->begin.act == Act::Halt) {  // a scope without a loop
      outer.steps.insert(outer.steps.end(), frame->steps.begin(), frame->steps.end());
      return;
    }
    bool loop = frame->begin.act == Act::LoopBegin;
    Step end;
    end.act = loop ? Act::LoopEnd : Act::ThreadsEnd;
    end.jump = frame->begin.jump = static_cast<std::int32_t>(frame->steps.size() + 1);
    outer.steps.push_back(frame->begin);
    outer.steps.insert(outer.steps.end(), frame->steps.begin(), frame->steps.end());
    outer.steps.push_back(end);
  }
  void close_to(std::size_t depth) {
    while (chain_.size() > depth) close();
  }

  // ---- nests

  bool can_share_loops(const std::vector<Node>& nest, Node effect) const {
    if (!threads_.empty() || !effect.is(Op::End) || !nest[0].is(Op::End)) return false;
    std::span<const Node> a = closed_ranges(nest[0]), b = closed_ranges(effect);
    if (!std::equal(a.begin(), a.end(), b.begin(), b.end())) return false;
    std::vector<Node> below = toposort(effect);
    return std::none_of(nest.begin(), nest.end(),
                        [&](Node n) { return std::find(below.begin(), below.end(), n) != below.end(); });
  }

  void root_nest(const std::vector<Node>& effects) {
    if (chain_[0]->values.contains(effects[0])) return;
    first_of_.clear();
    std::vector<Node> ranges = by_id(closed_ranges(effects[0])), outer, inner;
    std::vector<Node> threads;
    for (Node n : toposort(effects[0]))
      if (std::find(threads_.begin(), threads_.end(), n) != threads_.end()) threads.push_back(n);
    threads = by_id(threads);
    double combinations = 1;
    for (Node r : ranges) {
      if (std::find(threads.begin(), threads.end(), r) != threads.end()) continue;
      if (is_parallel(r)) combinations *= static_cast<double>(std::max<std::int64_t>(r.arg(0).hi(), 0));
      (threads.empty() || is_parallel(r) ? outer : inner).push_back(r);
    }
    int dim = 0;
    for (Node r : outer) open_loop(r, is_parallel(r), is_parallel(r) ? dim++ : -1, combinations);
    if (!threads.empty()) open_threads(threads);
    for (Node r : inner) open_loop(r, false, -1, 1);
    for (Node e : effects) value(e.is(Op::End) ? e.arg(0) : e);
    close_to(1);
    for (Node e : effects) chain_[0]->values[e] = kNoRegister;
  }

  void open_threads(const std::vector<Node>& threads) {
    ThreadDims dims;
    Step begin;
    begin.act = Act::ThreadsBegin;
    std::vector<std::uint32_t> tokens = {Dependencies::kThreadToken};
    for (Node t : threads) {
      dims.extent.push_back(value(t.arg(0)));
      dims.index.push_back(code_.take(1));
      tokens.push_back(deps_.range_token(t));
      begin.estimate *= std::max<std::int64_t>(t.arg(0).hi(), 1);
    }
    begin.memory = static_cast<std::uint32_t>(code_.threads.size());
    begin.node = threads[0];
    code_.threads.push_back(dims);
    open(tokens, begin);
    for (std::size_t i = 0; i < threads.size(); ++i) {
      here().values[threads[i]] = dims.index[i];
      std::uint32_t is_first = code_.take(1);
      here().steps.push_back(scalar_step(Op::Eq, dtypes::Index, is_first, dims.index[i], emit_.index(0)));
      first_of_.emplace_back(threads[i], is_first);
    }
  }

  // ---- values

  const std::uint32_t* known(Node node) const { return chain_[home(node)]->values.find(node); }

  std::uint32_t value(Node root) {
    std::vector<Node> stack = {root};
    std::vector<std::uint32_t> args;
    while (!stack.empty()) {
      Node node = stack.back();
      if (emit_.leaf(node) != kNoRegister || known(node) != nullptr) {
        stack.pop_back();
        continue;
      }
      if (opens_loops(node)) {
        stack.pop_back();
        loops_of(node);
        continue;
      }
      if (node.is(Op::Range) || node.is(Op::Carry))
        throw InternalError("reference", "used outside the loop that closes it: " + print_node(node));
      std::size_t before = stack.size();
      for (Node a : node.args())
        if (!is_free(a)) stack.push_back(a);
      if (stack.size() != before) continue;
      stack.pop_back();
      args.clear();
      for (Node a : node.args()) args.push_back(register_of(a));
      step_of(node, args);
    }
    return register_of(root);
  }

  static bool opens_loops(Node node) { return node.is(Op::Reduce) || node.is(Op::Get) || node.is(Op::End); }

  // Needs nothing computed any more.
  bool is_free(Node node) {
    return node.is(Op::Param) || node.is(Op::Define) || emit_.leaf(node) != kNoRegister ||
           known(node) != nullptr;
  }
  std::uint32_t register_of(Node node) {
    if (std::uint32_t r = emit_.leaf(node); r != kNoRegister) return r;
    const std::uint32_t* r = known(node);
    return r == nullptr ? kNoRegister : *r;
  }

  void step_of(Node node, std::span<const std::uint32_t> args) {
    Frame& frame = *chain_[home(node)];
    std::uint32_t dst = kNoRegister;
    switch (node.op()) {
      case Op::After:
      case Op::Prefetch:
      case Op::Sink: break;
      case Op::Barrier: {
        if (threads_.empty()) break;  // no other thread to wait for
        Step s;
        s.act = Act::Barrier;
        s.node = node;
        frame.steps.push_back(s);
        break;
      }
      case Op::Load: {
        dst = code_.take(node.dtype().lanes);
        std::uint32_t slot = emit_.memory(base_memory(node.arg(0)), false);
        std::uint32_t index = emit_.scaled_index(frame.steps, node, args[1]);
        Step s = emit_.load(node, slot, index, args.size() > 2 ? args[2] : kNoRegister, dst);
        s.first = node.arg(0).is(Op::Param);
        frame.steps.push_back(s);
        break;
      }
      case Op::Store: store(frame, node, args); break;
      default: dst = code_.take(node.dtype().lanes); emit_.value(frame.steps, node, args, dst);
    }
    frame.values[node] = dst;
  }

  void store(Frame& frame, Node node, std::span<const std::uint32_t> args) {
    std::uint32_t slot = emit_.memory(base_memory(node.arg(0)), false);
    std::uint32_t index = emit_.scaled_index(frame.steps, node, args[1]);
    std::uint32_t gate = args.size() > 3 ? args[3] : kNoRegister;
    std::uint16_t lanes = node.arg_count() > 3 ? node.arg(3).dtype().lanes : std::uint16_t{1};
    if (code_.memories[slot].kind != MemorySlot::Kind::Private && in_threads())
      for (auto [range, is_first] : first_of_) {
        if (deps_.depends(node, deps_.range_token(range))) continue;
        std::uint32_t both = code_.take(lanes);
        Step splat = copy_step(both, is_first, lanes);
        splat.act = Act::Splat;
        frame.steps.push_back(splat);
        if (gate != kNoRegister)
          frame.steps.push_back(scalar_step(Op::And, dtypes::Bool, both, both, gate, kNoRegister, lanes));
        gate = both;
      }
    frame.steps.push_back(emit_.store(node, slot, index, args[2], gate));
  }

  void loops_of(Node node) {
    at_home(node, [&] {
      std::size_t depth = chain_.size();
      std::uint32_t result = kNoRegister;
      if (node.is(Op::End)) {
        std::vector<Node> together = ends_beside(node);
        for (Node r : by_id(closed_ranges(node)))
          if (std::find(threads_.begin(), threads_.end(), r) == threads_.end() || !in_threads())
            open_loop(r, is_parallel(r), -1, 1);
        for (Node e : together) value(e.arg(0));
        close_to(depth);
        for (Node e : together) here().values[e] = kNoRegister;
      } else if (node.is(Op::Reduce)) {
        result = reduce(node, depth);
      } else {
        result = fold(node, depth);
      }
      here().values[node] = result;
    });
  }

  // The Ends that run in one loop with this one, itself first: those over the same ranges, in the same scope,
  // with no order between them. A range is one loop wherever that is possible: the components of a fold that
  // became accumulators rely on it.
  std::vector<Node> ends_beside(Node node) {
    std::vector<Node> out = {node};
    std::span<const Node> ranges = closed_ranges(node);
    std::vector<std::uint32_t> open;
    for (const auto& frame : chain_) open.insert(open.end(), frame->tokens.begin(), frame->tokens.end());
    for (Node e : deps_.order()) {
      std::span<const Node> other = closed_ranges(e);
      if (!e.is(Op::End) || e == node ||
          !std::equal(ranges.begin(), ranges.end(), other.begin(), other.end()))
        continue;
      if (!deps_.depends_only_on(e, open) || home(e) + 1 != chain_.size() || known(e) != nullptr) continue;
      if (std::none_of(out.begin(), out.end(), [&](Node o) { return is_below(o, e) || is_below(e, o); }))
        out.push_back(e);
    }
    return out;
  }
  static bool is_below(Node node, Node root) {
    std::vector<Node> below = toposort(root);
    return std::find(below.begin(), below.end(), node) != below.end();
  }

  std::uint32_t reduce(Node node, std::size_t depth) {
    Op op = reduce_op(node);
    DType dtype = node.dtype();
    std::uint32_t total = code_.take(dtype.lanes);
    here().steps.push_back(
        copy_step(total, emit_.constant(dtype, unit_of(op, dtype.element())), dtype.lanes));
    for (Node r : by_id(closed_ranges(node))) open_loop(r, false, -1, 1);
    std::uint32_t element = value(node.arg(0));
    here().steps.push_back(scalar_step(op, dtype, total, total, element, kNoRegister, dtype.lanes));
    here().steps.back().carries = true;
    here().steps.back().node = node;
    close_to(depth);
    Step end;
    end.act = Act::ReduceEnd;
    end.a = total;
    end.node = node;
    here().steps.push_back(end);
    return total;
  }

  std::uint32_t fold(Node get, std::size_t depth) {
    Node fold = get.arg(0);
    if (!fold.is(Op::Fold)) throw InternalError("reference", "cannot evaluate " + print_node(get));
    auto n = static_cast<std::size_t>(fold.ints()[1]), wanted = static_cast<std::size_t>(get.int_attr());
    std::vector<std::size_t> parts = deps_.needed(fold, wanted);
    std::vector<std::uint32_t> running(n, kNoRegister);
    for (std::size_t c : parts) {
      std::uint16_t lanes = fold.arg(c).dtype().lanes;
      std::uint32_t start = value(fold.arg(c));
      running[c] = code_.take(lanes);
      here().steps.push_back(copy_step(running[c], start, lanes));
    }
    for (Node r : by_id(closed_ranges(fold))) open_loop(r, false, -1, 1);
    open({deps_.carry_token(fold.ints()[0])}, Step());
    for (std::size_t c : parts) {
      AttrData left{"", {fold.ints()[0], static_cast<std::int64_t>(c), 0}};
      here().values[intern(Op::Carry, fold.arg(c).dtype(), {}, Attr::of(left))] = running[c];
    }
    std::vector<std::uint32_t> next(n, kNoRegister);
    for (std::size_t c :
         parts) {  // all at once: copies first, since a step may be another component's running value
      std::uint16_t lanes = fold.arg(c).dtype().lanes;
      std::uint32_t step = value(fold.arg(n + c));
      next[c] = code_.take(lanes);
      here().steps.push_back(copy_step(next[c], step, lanes));
    }
    for (std::size_t c : parts) {
      here().steps.push_back(copy_step(running[c], next[c], fold.arg(c).dtype().lanes));
      here().steps.back().carries = true;
    }
    close_to(depth);
    return running[wanted];
  }

  Node kernel_;
  Code code_;
  std::vector<Node> threads_;
  Dependencies deps_;
  Emitter emit_;
  NodeMap<std::vector<std::uint32_t>> private_to_;
  std::vector<std::unique_ptr<Frame>> chain_;
  std::vector<std::pair<Node, std::uint32_t>> first_of_;
};

}  // namespace

Code code_of_kernel(Node kernel) {
  if (!kernel.is(Op::Sink)) throw InternalError("reference", "a kernel is a Sink, not " + print_node(kernel));
  return KernelCode(kernel, true).take();
}

Code code_of_store(Node store, std::span<const Node> ranges) {
  if (!store.is(Op::Store)) throw InternalError("reference", "a store is wanted, not " + print_node(store));
  return KernelCode(store, false).take_at(ranges);
}

}  // namespace lathe::reference
