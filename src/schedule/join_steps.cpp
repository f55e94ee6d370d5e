#include "schedule/join_steps.h"

#include <algorithm>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/shape.h"
#include "ir/walk.h"
#include "rules/simplify.h"
#include "schedule/cost.h"
#include "schedule/join_folds.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 8>;

void sort_by_id(Nodes& ranges) {
  std::sort(ranges.begin(), ranges.end(), [](Node a, Node b) { return range_id(a) < range_id(b); });
}
Node extents_of(std::span<const Node> ranges) {
  Nodes extents;
  for (Node r : ranges) extents.push_back(r.arg(0));
  return dims(extents);
}

// Bytes that an access moves: every element once, however often it is accessed.
double bytes_of(Node access) {
  Node memory = access.arg(0);
  double n = 1;
  for (Node r : ranges_of(access.arg(1))) n *= static_cast<double>(std::max<std::int64_t>(r.arg(0).hi(), 1));
  return std::min(n, static_cast<double>(buffer_size(memory))) * memory.dtype().bytes();
}

// Whether a kernel works on rows: in loops of its own, inside its parallel ranges.
bool has_rows(Node sink) {
  if (sink.arg_count() > 1) return true;
  for (Node r : all_ranges(sink))
    if (range_kind(r) == RangeKind::Loop) return true;
  return false;
}

// A kernel with one store, as it was planned.
struct Single {
  Node store;    // null: a copy, or nothing to compute, or a kernel that is left as it is
  Nodes ranges;  // of the output, outermost first
  Node extents;  // of those
  Nodes loads, reduces;
  bool alone = false;  // a sum of products, or a kernel with options of its own: nothing joins it
};

Single look_at(const PlannedStep& step) {
  Single s;
  if (!step.sink || has_rows(step.sink)) return s;
  Node effect = step.sink.arg(0);
  s.ranges.append(closed_ranges(effect).begin(), closed_ranges(effect).end());
  sort_by_id(s.ranges);
  s.extents = extents_of(s.ranges);
  s.store = effect.is(Op::End) ? effect.arg(0) : effect;
  for (Node n : toposort(s.store)) {
    if (n.is(Op::Load)) s.loads.push_back(n);
    if (n.is(Op::Reduce)) s.reduces.push_back(n);
  }
  // A scan or scatter has its outputs in memory until the last step.
  for (Node n : step.ops) s.alone |= is_product_sum(n) || is_sequential(n);
  s.alone |= step.root.is(Op::Contiguous) && !attached_options(step.root).empty();
  return s;
}

// A kernel in the making.
struct Kernel {
  std::vector<int> members;
  std::vector<Node> stores;  // by member, over the ranges of the first
  Nodes ranges;
  Node extents;
  NodeMap<Nodes> loads;           // buffer -> indices read
  NodeMap<Node> written;          // buffer -> its Store
  NodeMap<char> read_in_reduces;  // buffers
  NodeMap<char> buffers;
  Nodes reduces;
  double weight = 0;
  bool alone = false, open = false;  // open: others may join
  std::optional<FoldKernel> fold;    // what it carries through tiles of an axis, for others that do
};

// Of the kernels that read a buffer, the last few are tried.
constexpr std::size_t kReadersTried = 8;

class Joiner {
 public:
  Joiner(const Plan& plan, const StepOrder& order, const NodeMap<char>& wanted, int max_buffers,
         const RuleChanges& changes)
      : plan_(plan),
        order_(order),
        wanted_(wanted),
        max_buffers_(max_buffers),
        changes_(changes),
        rewriter_(simplify_rules(), changes),
        kernel_of_(plan.steps.size(), -1),
        first_allowed_(plan.steps.size(), 0) {}

  std::vector<JoinedStep> run() {
    for (int step : order_.order) {
      Single single = look_at(plan_.steps[static_cast<std::size_t>(step)]);
      int at = place(step, single);
      kernel_of_[static_cast<std::size_t>(step)] = at;
      for (int next : order_.next[static_cast<std::size_t>(step)]) {
        int& first = first_allowed_[static_cast<std::size_t>(next)];
        first = std::max(first, at);
      }
      if (single.store) last_over_[single.extents] = at;
      for (Node load : single.loads) {
        std::vector<int>& readers = readers_[load.arg(0)];
        if (readers.empty() || readers.back() != at) readers.push_back(at);
      }
    }
    return finish();
  }

 private:
  // Every kernel runs after those before it in the list. A step may join a kernel that is not before anything
  // the step waits for, so the list stays a valid order, and no two kernels can wait for each other.
  int place(int step, const Single& single) {
    const int first = first_allowed_[static_cast<std::size_t>(step)];
    std::optional<FoldKernel> fold = fold_kernel(plan_.steps[static_cast<std::size_t>(step)]);
    if (fold)
      if (const int at = place_fold(step, *fold); at >= 0) return at;
    if (single.store)
      if (const int at = place_beside(step, single); at >= 0) return at;
    if (single.store) {
      SmallVector<int, 8> tried;
      auto attempt = [&](int at) {
        if (at < first || std::find(tried.begin(), tried.end(), at) != tried.end()) return false;
        tried.push_back(at);
        return join(kernels_[static_cast<std::size_t>(at)], at, step, single);
      };
      // What it waits for last; then those that read what it reads; then any over the same ranges.
      if (first < static_cast<int>(kernels_.size()) && attempt(first)) return first;
      for (Node load : single.loads)
        if (const std::vector<int>* readers = readers_.find(load.arg(0)))
          for (std::size_t i = 0; i < std::min(kReadersTried, readers->size()); ++i)
            if (int at = (*readers)[readers->size() - 1 - i]; attempt(at)) return at;
      if (const int* last = last_over_.find(single.extents); last != nullptr && attempt(*last)) return *last;
    }
    Kernel kernel;
    kernel.open = static_cast<bool>(single.store);
    kernel.ranges = single.ranges;
    kernel.extents = single.extents;
    if (single.store)
      add(kernel, step, single, single.store);
    else
      kernel.members.push_back(step);
    kernel.fold = std::move(fold);
    if (kernel.fold) folds_.push_back(static_cast<int>(kernels_.size()));
    kernels_.push_back(std::move(kernel));
    return static_cast<int>(kernels_.size()) - 1;
  }

  // Tries the last kernels that carry values through the same tiles; -1 if none accepts the step. A kernel
  // that no other waits for yet may be moved to a later position.
  int place_fold(int step, const FoldKernel& fold) {
    const PlannedStep& planned = plan_.steps[static_cast<std::size_t>(step)];
    if (planned.root.is(Op::Store)) return -1;
    for (std::size_t i = 0; i < std::min(kReadersTried, folds_.size()); ++i) {
      int at = folds_[folds_.size() - 1 - i];
      Kernel& kernel = kernels_[static_cast<std::size_t>(at)];
      const bool later = at < first_allowed_[static_cast<std::size_t>(step)];
      if (later && is_waited_for(kernel)) continue;
      if (reads_one_of(planned, kernel.members) || !same_device(planned, kernel)) continue;
      std::optional<FoldKernel> joined = join_folds(*kernel.fold, fold, changes_);
      if (!joined || over_limit(*joined)) continue;
      if (later) {
        folds_.erase(folds_.end() - 1 - static_cast<std::ptrdiff_t>(i));
        at = move_to_end(at);
        folds_.push_back(at);
      }
      Kernel& taken = kernels_[static_cast<std::size_t>(at)];
      taken.fold = std::move(joined);
      taken.members.push_back(step);
      return at;
    }
    return -1;
  }

  // A value computed only from results of a fold, each at the index where it is stored, is stored by the
  // fold's kernel: for example an output rounded to fewer bits, if gradients need the unrounded one. -1 for
  // other values.
  int place_beside(int step, const Single& single) {
    const PlannedStep& planned = plan_.steps[static_cast<std::size_t>(step)];
    const int at = first_allowed_[static_cast<std::size_t>(step)];
    if (planned.root.is(Op::Store) || !single.reduces.empty() || single.loads.empty() || single.alone)
      return -1;
    if (std::find(folds_.begin(), folds_.end(), at) == folds_.end()) return -1;
    Kernel& kernel = kernels_[static_cast<std::size_t>(at)];
    if (!same_device(planned, kernel)) return -1;
    for (Node made : kernel.fold->effects) {
      Nodes ranges(closed_ranges(made).begin(), closed_ranges(made).end());
      sort_by_id(ranges);
      if (extents_of(ranges) != single.extents) continue;
      NodeMap<Node> to, values;
      for (std::size_t i = 0; i < ranges.size(); ++i) to[single.ranges[i]] = ranges[i];
      Node store = substitute(single.store, to), from = made.is(Op::End) ? made.arg(0) : made;
      bool same = true;
      for (Node n : toposort(store)) {
        if (!n.is(Op::Load)) continue;
        same &= n.arg(0) == from.arg(0) && n.arg_count() == 2 && same_index(n.arg(1), from.arg(1));
        values[n] = from.arg(2);
      }
      if (!same) continue;
      FoldKernel joined = *kernel.fold;
      joined.effects.push_back(end(substitute(store, values), ranges));
      if (over_limit(joined)) return -1;
      kernel.fold = std::move(joined);
      kernel.members.push_back(step);
      return at;
    }
    return -1;
  }

  bool is_waited_for(const Kernel& kernel) const {
    for (int member : kernel.members)
      for (int next : order_.next[static_cast<std::size_t>(member)])
        if (kernel_of_[static_cast<std::size_t>(next)] >= 0) return true;
    return false;
  }
  bool reads_one_of(const PlannedStep& step, std::span<const int> members) const {
    return std::any_of(members.begin(), members.end(), [&](int m) {
      const PlannedStep& made = plan_.steps[static_cast<std::size_t>(m)];
      return std::find(step.reads.begin(), step.reads.end(), made.root) != step.reads.end();
    });
  }
  bool same_device(const PlannedStep& step, const Kernel& kernel) const {
    const PlannedStep& other = plan_.steps[static_cast<std::size_t>(kernel.members[0])];
    return buffer_device(step.buffer) == buffer_device(other.buffer) && !other.root.is(Op::Store);
  }
  bool over_limit(const FoldKernel& fold) const {
    if (max_buffers_ <= 0) return false;
    int buffers = 0;
    for (Node n : toposort(sink(SmallVector<Node, 8>(fold.effects.begin(), fold.effects.end()))))
      buffers += n.is(Op::Buffer);
    return buffers > max_buffers_;
  }
  int move_to_end(int from) {
    const int to = static_cast<int>(kernels_.size());
    Kernel moved = std::move(kernels_[static_cast<std::size_t>(from)]);
    kernels_[static_cast<std::size_t>(from)] = Kernel();
    for (int member : moved.members) {
      kernel_of_[static_cast<std::size_t>(member)] = to;
      for (int next : order_.next[static_cast<std::size_t>(member)]) {
        int& first = first_allowed_[static_cast<std::size_t>(next)];
        first = std::max(first, to);
      }
    }
    kernels_.push_back(std::move(moved));
    return to;
  }

  void add(Kernel& kernel, int step, const Single& single, Node store) {
    kernel.members.push_back(step);
    kernel.stores.push_back(store);
    kernel.weight += plan_.steps[static_cast<std::size_t>(step)].weight;
    kernel.alone |= single.alone;
    kernel.written[store.arg(0)] = store;
    kernel.buffers[store.arg(0)] = 1;
    for (Node n : toposort(store)) {
      if (n.is(Op::Load)) {
        Nodes& known = kernel.loads[n.arg(0)];
        if (std::find(known.begin(), known.end(), n.arg(1)) == known.end()) known.push_back(n.arg(1));
        kernel.buffers[n.arg(0)] = 1;
      }
      if (!n.is(Op::Reduce)) continue;
      for (Node below : toposort(n.arg(0)))
        if (below.is(Op::Load)) kernel.read_in_reduces[below.arg(0)] = 1;
      if (std::find(kernel.reduces.begin(), kernel.reduces.end(), n) == kernel.reduces.end())
        kernel.reduces.push_back(n);
    }
  }

  bool same_index(Node a, Node b) { return a == b || rewriter_.rewrite(a) == rewriter_.rewrite(b); }

  // The step's ranges as ranges of the kernel. A reduce takes over the ranges of one of the kernel's that
  // runs equally far, so that both are one loop. Says whether every reduce of the step found one.
  static bool match_ranges(const Kernel& kernel, const Single& single, NodeMap<Node>& to) {
    for (std::size_t i = 0; i < single.ranges.size(); ++i) to[single.ranges[i]] = kernel.ranges[i];
    bool all = true;
    NodeMap<char> used;
    for (Node reduce : single.reduces) {
      Nodes mine(closed_ranges(reduce).begin(), closed_ranges(reduce).end());
      sort_by_id(mine);
      Node extents = extents_of(mine);
      bool found = false;
      for (Node other : kernel.reduces) {
        Nodes theirs(closed_ranges(other).begin(), closed_ranges(other).end());
        sort_by_id(theirs);
        if (extents_of(theirs) != extents) continue;
        if (std::any_of(theirs.begin(), theirs.end(), [&](Node r) { return used.contains(r); })) continue;
        for (std::size_t i = 0; i < mine.size(); ++i) to[mine[i]] = theirs[i], used[theirs[i]] = 1;
        found = true;
        break;
      }
      all &= found;
    }
    return all;
  }

  bool join(Kernel& kernel, int at, int step, const Single& single) {
    const PlannedStep& planned = plan_.steps[static_cast<std::size_t>(step)];
    if (!kernel.open || kernel.extents != single.extents || single.alone || kernel.alone) return false;
    if (buffer_device(kernel.stores[0].arg(0)) != buffer_device(planned.buffer)) return false;
    if (kernel.written.contains(planned.buffer)) return false;  // two versions of one buffer
    NodeMap<Node> to;
    const bool same_loops = match_ranges(kernel, single, to);
    Node store = substitute(single.store, to);

    Joining facts;
    NodeMap<Node> values;
    NodeMap<char> in_reduce;
    for (Node n : toposort(store))
      if (n.is(Op::Reduce))
        for (Node below : toposort(n.arg(0))) in_reduce[below] = 1;
    for (Node n : toposort(store)) {
      if (!n.is(Op::Load)) continue;
      const double bytes = bytes_of(n);
      facts.moved += bytes;
      if (const Node* made = kernel.written.find(n.arg(0))) {
        if (!same_index(n.arg(1), made->arg(1)) || !reads_last_store(planned, n.arg(0))) return false;
        Node value = made->arg(2);
        // A gate may be on what the kernel makes, too: operands come first, so that part is known.
        values[n] =
            n.arg_count() > 2 ? where(substitute(n.arg(2), values), value, zero_of(value.dtype())) : value;
        facts.saved += bytes;
        facts.follows = true;
        facts.inside_reduce |= in_reduce.contains(n);
        continue;
      }
      if (const Nodes* known = kernel.loads.find(n.arg(0)))
        if (std::any_of(known->begin(), known->end(), [&](Node i) { return same_index(i, n.arg(1)); }))
          facts.saved += bytes, facts.shares = true;
    }
    facts.written = bytes_of(store);
    facts.moved += facts.written;
    // What the kernel reads may be overwritten only where it is read, and not while a reduce reads it.
    if (const Nodes* read = kernel.loads.find(planned.buffer))
      for (Node index : *read)
        if (!same_index(index, store.arg(1))) return false;
    if (!values.empty()) store = substitute(store, values);
    NodeMap<char> fresh;
    fresh[planned.buffer] = 1;
    for (Node n : toposort(store)) {
      if (n.is(Op::Load)) fresh[n.arg(0)] = 1;
      if (!n.is(Op::Reduce)) continue;
      for (Node below : toposort(n.arg(0)))
        if (below.is(Op::Load) && (below.arg(0) == planned.buffer || kernel.written.contains(below.arg(0))))
          return false;
    }
    if (kernel.read_in_reduces.contains(planned.buffer)) return false;
    facts.buffers = static_cast<int>(kernel.buffers.size());
    for (const auto& [buffer, one] : fresh) facts.buffers += !kernel.buffers.contains(buffer);
    facts.weight = kernel.weight + planned.weight;
    facts.reduces_before = static_cast<int>(kernel.reduces.size());
    facts.reduces_added = static_cast<int>(single.reduces.size());
    facts.same_loops = same_loops;
    facts.apart = static_cast<int>(kernels_.size()) - at;
    if (max_buffers_ > 0 && facts.buffers > max_buffers_) return false;
    if (!worth_joining(facts)) return false;
    add(kernel, step, single, store);
    return true;
  }

  // Whether the step reads the result of the kernel's store to the buffer. A version made by several stores
  // has at each position the value of the last one.
  bool reads_last_store(const PlannedStep& step, Node buffer) const {
    for (Node version : step.reads) {
      const Node* stored = plan_.stored.find(version);
      if ((stored != nullptr ? *stored : is_memory(version) ? base_memory(version) : Node()) != buffer)
        continue;
      if (stored == nullptr && version.arg_count() != 2) return false;
    }
    return true;
  }

  std::vector<JoinedStep> finish() {
    NodeMap<std::vector<int>> readers;  // stored value -> kernels that read it
    for (std::size_t i = 0; i < plan_.steps.size(); ++i)
      for (Node read : plan_.steps[i].reads) readers[read].push_back(kernel_of_[i]);
    std::vector<JoinedStep> out;
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      const Kernel& kernel = kernels_[k];
      if (kernel.members.empty()) continue;  // it runs later
      JoinedStep step;
      step.members = kernel.members;
      if (kernel.fold && kernel.members.size() > 1) {
        step.sink = sink(SmallVector<Node, 8>(kernel.fold->effects.begin(), kernel.fold->effects.end()));
      } else if (kernel.members.size() == 1) {
        step.sink = plan_.steps[static_cast<std::size_t>(kernel.members[0])].sink;
      } else {
        Nodes effects;
        for (std::size_t i = 0; i < kernel.members.size(); ++i)
          if (needed(plan_.steps[static_cast<std::size_t>(kernel.members[i])].root, static_cast<int>(k),
                     readers))
            effects.push_back(end(kernel.stores[i], kernel.ranges));
        step.sink = sink(effects);
      }
      out.push_back(std::move(step));
    }
    return out;
  }
  bool needed(Node root, int kernel, const NodeMap<std::vector<int>>& readers) const {
    if (root.is(Op::Store) || wanted_.contains(root)) return true;
    const std::vector<int>* by = readers.find(root);
    return by == nullptr || std::any_of(by->begin(), by->end(), [&](int k) { return k != kernel; });
  }

  const Plan& plan_;
  const StepOrder& order_;
  const NodeMap<char>& wanted_;
  int max_buffers_;
  const RuleChanges& changes_;
  Rewriter rewriter_;
  std::vector<Kernel> kernels_;
  std::vector<int> kernel_of_, first_allowed_;
  NodeMap<std::vector<int>> readers_;  // buffer -> kernels that read it
  std::vector<int> folds_;             // kernels that have one
  NodeMap<int> last_over_;             // extents -> the last kernel over them
};

}  // namespace

std::vector<JoinedStep> join_steps(const Plan& plan, const StepOrder& order, const NodeMap<char>& wanted,
                                   int max_buffers, const RuleChanges& changes) {
  return Joiner(plan, order, wanted, max_buffers, changes).run();
}

}  // namespace lathe
