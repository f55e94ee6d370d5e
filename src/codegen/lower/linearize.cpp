#include "codegen/lower/linearize.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/planted.h"
#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/shared_memory.h"
#include "ir/walk.h"

namespace lathe {
namespace {

// A loop, or the whole program (loop 0).
struct Loop {
  Node range;
  int parent = -1;
  std::vector<Node> ends;   // what closes it, in the order they were found
  std::vector<Node> needs;  // what must be before it closes
  struct Item {
    Node node;      // an instruction, or null:
    int loop = -1;  // a loop inside this one
  };
  std::vector<Item> body;
  bool placed = false;
};

class Linearizer {
 public:
  explicit Linearizer(Node kernel) : kernel_(kernel) { loops_.emplace_back(); }

  Program run(const Launch& launch) {
    find_loops();
    place();
    emit(0);
    arguments(launch);
    return std::move(program_);
  }

 private:
  // ---- which loops there are and how they nest

  void find_loops() {
    order_ = toposort(kernel_);
    std::vector<Node> ends;
    for (Node n : order_)
      if (n.is(Op::End)) ends.push_back(n);
    // Users are after what they use, so from the back an outer loop is known before those inside it.
    for (std::size_t i = ends.size(); i-- > 0;) {
      SmallVector<Node, 8> closed(closed_ranges(ends[i]).begin(), closed_ranges(ends[i]).end());
      std::sort(closed.begin(), closed.end(), [](Node a, Node b) { return range_id(a) < range_id(b); });
      for (std::size_t j = 0; j < closed.size(); ++j) {
        auto [slot, fresh] = index_.try_emplace(closed[j], static_cast<int>(loops_.size()));
        if (!fresh) continue;
        loops_.emplace_back();
        loops_.back().range = closed[j];
        loops_.back().parent = -2;  // decided once all of them are known
      }
      first_.try_emplace(ends[i], closed.empty() ? Node() : closed[0]);
      for (std::size_t j = 1; j < closed.size(); ++j) set_parent(closed[j], *index_.find(closed[j - 1]));
    }
    for (Node e : ends) {
      Node outer = *first_.find(e);
      if (!outer) continue;
      loops_[at(outer)].ends.push_back(e);
    }
    for (std::size_t i = ends.size(); i-- > 0;)
      if (Node outer = *first_.find(ends[i]); outer && loops_[at(outer)].parent == -2)
        set_parent(outer, scope_of(ends[i]));
  }
  std::size_t at(Node range) const { return static_cast<std::size_t>(*index_.find(range)); }

  void set_parent(Node range, int parent) {
    Loop& loop = loops_[at(range)];
    if (loop.parent >= 0) {
      check_internal(loop.parent == parent, "linearize", "two nests open one range in different places");
      return;
    }
    loop.parent = parent;
  }
  int depth(int loop) {
    int d = 0;
    for (int l = loop; l > 0; l = loops_[static_cast<std::size_t>(l)].parent) ++d;
    return d;
  }
  // The innermost loop among the free ranges of a node. Ranges that nothing closes do not exist in a kernel.
  int scope_of(Node node) {
    if (ranges_of(node).empty()) return 0;
    Node set(node->ranges.load(std::memory_order_acquire));
    if (const int* known = scopes_.find(set)) return *known;
    int best = 0, best_depth = 0;
    for (Node r : ranges_of(node)) {
      const int* loop = index_.find(r);
      check_internal(loop != nullptr, "linearize", "a range is never closed");
      if (int d = depth(*loop); d > best_depth) best = *loop, best_depth = d;
    }
    scopes_.try_emplace(set, best);
    return best;
  }

  // ---- order: operands first, and all that a loop needs before the loop

  struct Frame {
    Node node;
    std::size_t next;
    std::span<const Node> needs;
  };
  // What must be before a node: its operands; for an End, those of every End that closes the same loop.
  std::span<const Node> needs_of(Node node) {
    if (node == kernel_) {
      add_effects(node.args(), loops_[0].needs);
      return loops_[0].needs;
    }
    Node outer = node.is(Op::End) ? *first_.find(node) : Node();
    if (!outer) return node.args();
    Loop& loop = loops_[at(outer)];
    if (loop.needs.empty()) {
      SmallVector<Node, 8> effects;
      for (Node e : loop.ends) effects.push_back(e.arg(0));
      add_effects(effects, loop.needs);
      for (Node e : loop.ends)
        loop.needs.insert(loop.needs.end(), closed_ranges(e).begin(), closed_ranges(e).end());
    }
    return loop.needs;
  }

  // Where several params are written in one step of a loop, all that goes into the stores is before the
  // first of them: a param may be read where another store writes it, or share the bytes of one that is
  // written.
  static void add_effects(std::span<const Node> effects, std::vector<Node>& needs) {
    Node first;
    bool several = false;
    for (Node e : effects) {
      if (!e.is(Op::Store) || !base_memory(e.arg(0)).is(Op::Param)) continue;
      several |= first && base_memory(e.arg(0)) != first;
      first = base_memory(e.arg(0));
    }
    for (Node e : effects)
      if (several && e.is(Op::Store)) needs.insert(needs.end(), e.args().begin(), e.args().end());
    needs.insert(needs.end(), effects.begin(), effects.end());
  }

  void place() {
    NodeMap<char> entered, finished;
    std::vector<Frame> stack;
    auto enter = [&](Node n) {
      if (finished.contains(n)) return;
      check_internal(entered.try_emplace(n).second, "linearize", "a loop needs its own result");
      stack.push_back({n, 0, needs_of(n)});
    };
    enter(kernel_);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next < top.needs.size()) {
        Node need = top.needs[top.next++];
        enter(need);
        continue;
      }
      Node node = top.node;
      stack.pop_back();
      if (!finished.try_emplace(node).second) continue;
      if (node.is(Op::End)) {
        Node outer = *first_.find(node);
        if (!outer) continue;
        for (Node e : loops_[at(outer)].ends) finished.try_emplace(e);
        for (Node e : loops_[at(outer)].ends) put_loops(e);
      } else if (is_instruction(node)) {
        int scope = scope_of(node);
        if (planted(Fault::LinearScope) && is_first_store(node))
          scope = std::max(loops_[static_cast<std::size_t>(scope)].parent, 0);
        loops_[static_cast<std::size_t>(scope)].body.push_back({node, -1});
      }
    }
  }
  void put_loops(Node end_node) {
    SmallVector<Node, 8> closed(closed_ranges(end_node).begin(), closed_ranges(end_node).end());
    std::sort(closed.begin(), closed.end(), [](Node a, Node b) { return range_id(a) > range_id(b); });
    for (Node r : closed) {
      int loop = *index_.find(r);
      Loop& l = loops_[static_cast<std::size_t>(loop)];
      if (l.placed) continue;
      l.placed = true;
      loops_[static_cast<std::size_t>(l.parent)].body.push_back({Node(), loop});
    }
  }
  // What an accumulator begins with.
  [[maybe_unused]] static bool is_first_store(Node n) {
    return n.is(Op::Store) && base_memory(n.arg(0)).is(Op::Define) && n.arg(2).is_const();
  }
  static bool is_instruction(Node n) {
    switch (n.op()) {
      case Op::Const:
      case Op::Param:
      case Op::Var:
      case Op::After:
      case Op::Sink:
      case Op::Range: return false;
      default: return true;
    }
  }

  // ---- the list

  void emit(int which) {
    const Loop& loop = loops_[static_cast<std::size_t>(which)];
    for (const Loop::Item& item : loop.body) {
      if (item.node) {
        program_.code.emplace_back(item.node);
        continue;
      }
      Node range = loops_[static_cast<std::size_t>(item.loop)].range;
      program_.code.emplace_back(range);
      emit(item.loop);
      program_.code.emplace_back(intern(Op::End, dtypes::Void, {range}));
    }
  }

  void arguments(const Launch& launch) {
    NodeMap<std::size_t> slots;
    for (Node n : order_) {
      if (n.is(Op::Param) && slots.try_emplace(n, program_.params.size()).second)
        program_.params.push_back({param_slot(n), n.dtype(), memory_size(n), false, false});
      if (is_group_memory(n)) program_.shared_bytes += shared_bytes_of(n);
    }
    auto note = [&](Node memory, bool write) {
      Node base = base_memory(memory);
      if (!base.is(Op::Param)) return;
      ProgramParam& p = program_.params[*slots.find(base)];
      (write ? p.writes : p.reads) = true;
    };
    for (Node n : order_) {
      if (n.is(Op::Load)) note(n.arg(0), false);
      if (n.is(Op::Store)) note(n.arg(0), true);
    }
    std::sort(program_.params.begin(), program_.params.end(),
              [](const ProgramParam& a, const ProgramParam& b) { return a.slot < b.slot; });
    std::vector<Node> variables;
    auto add_variables = [&](Node root) {
      for (Node n : toposort(root)) {
        if (!n.is(Op::Var)) continue;
        bool known =
            std::any_of(variables.begin(), variables.end(), [&](Node v) { return v.text() == n.text(); });
        if (!known) variables.push_back(n);
      }
    };
    add_variables(kernel_);
    for (int i = 0; i < 3; ++i) {
      program_.groups[i] = launch.groups[i];
      program_.locals[i] = launch.locals[i];
      if (launch.groups[i]) add_variables(launch.groups[i]);
      if (launch.locals[i]) add_variables(launch.locals[i]);
    }
    program_.threads = launch.threads;
    if (launch.threads) add_variables(launch.threads);
    std::sort(variables.begin(), variables.end(), [](Node a, Node b) { return a.text() < b.text(); });
    for (Node v : variables) program_.variables.emplace_back(v);
  }

  Node kernel_;
  std::vector<Node> order_;
  std::vector<Loop> loops_;
  NodeMap<int> index_;   // Range -> loop
  NodeMap<int> scopes_;  // set of ranges -> innermost loop
  NodeMap<Node> first_;  // End -> the outermost range it closes
  Program program_;
};

}  // namespace

Program linearize(Node kernel, const Launch& launch) { return Linearizer(kernel).run(launch); }

}  // namespace lathe
