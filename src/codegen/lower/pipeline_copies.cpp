#include "codegen/lower/pipeline_copies.h"

#include <algorithm>
#include <vector>

#include "base/planted.h"
#include "base/small_vector.h"
#include "codegen/lower/pipelined_loops.h"
#include "ir/build.h"
#include "ir/group_ops.h"
#include "ir/ranges.h"
#include "ir/shared_memory.h"
#include "ir/walk.h"

namespace lathe {
namespace {

using Nodes = SmallVector<Node, 16>;

constexpr std::int64_t kWarp = 32;

// Up to so many slots copies run as far ahead as they can instead.
constexpr std::int64_t kFewSlots = 4;

using Item = ProgramTree::Item;

class Pipeliner {
 public:
  explicit Pipeliner(Program program)
      : program_(std::move(program)), tree_(program_), loops_(pipelined_loops(program_, tree_)) {
    for (Node panel : ring_panels(program_)) rings_.try_emplace(panel, resized(panel, 1));
    for (const PipelinedLoop& l : loops_)
      for (Node panel : l.panels) rings_[panel] = resized(panel, l.slots);
    for (const NodeRef& n : program_.code) {
      if (n->is(Op::Range)) next_range_ = std::max(next_range_, range_id(n) + 1);
      for_each_memory(n, [&](Node memory) {
        Node base = base_memory(memory);
        if (base.is(Op::Define)) next_define_ = std::max(next_define_, define_id(base) + 1);
      });
    }
  }

  Program run() {
    program_.code.clear();
    listed_.emplace_back();
    for (const PipelinedLoop& l : loops_)
      if (l.roles && waits_in_step(l)) begin_roles(l);
    emit(0);
    if (consumers_) close(consumers_);
    program_.shared_bytes = 0;
    NodeMap<char> seen;
    for (const NodeRef& n : program_.code)
      for_each_memory(n, [&](Node memory) {
        Node base = base_memory(memory);
        if (is_group_memory(base) && seen.try_emplace(base).second)
          program_.shared_bytes += shared_bytes_of(base);
      });
    return std::move(program_);
  }

 private:
  static Node resized(Node panel, std::int64_t slots) {
    return define(panel.dtype(), define_id(panel), memory_size(panel) * slots, Space::Shared,
                  {shared_form(panel).swizzled, 1});
  }

  // ---- the new list

  // Lists a node after operands that are new.
  void list(Node root) {
    std::vector<Node> stack{root};
    while (!stack.empty()) {
      Node n = stack.back();
      bool ready = true;
      for (Node a : n.args())
        if (!is_operand_only(a) && a.dtype() != dtypes::Void && !available(a)) {
          stack.push_back(a);
          ready = false;
        }
      if (!ready) continue;
      stack.pop_back();
      if (n != root && available(n)) continue;
      listed_.back().try_emplace(n);
      program_.code.emplace_back(n);
    }
  }
  bool available(Node n) const {
    return std::any_of(listed_.begin(), listed_.end(), [&](const auto& scope) { return scope.contains(n); });
  }
  void open(Node n) {
    list(n);
    listed_.emplace_back();
  }
  void close(Node n) {
    listed_.pop_back();
    program_.code.emplace_back(intern(n.is(Op::If) ? Op::EndIf : Op::End, dtypes::Void, {n}));
  }

  // What a node became, in the program or in the copy of a step.
  struct Names {
    NodeMap<Node> map;
    const Names* outer = nullptr;
    Node of(Node n) const {
      if (const Node* to = map.find(n)) return *to;
      return outer != nullptr ? outer->of(n) : n;
    }
  };
  // The memory, after what became of the effects it waits for.
  Node memory_of(Node memory, const Names& names) const {
    if (memory.is(Op::After)) {
      Nodes args;
      args.push_back(memory_of(memory.arg(0), names));
      for (std::size_t i = 1; i < memory.arg_count(); ++i) args.push_back(names.of(memory.arg(i)));
      return memory.with_args(args);
    }
    const Node* ring = rings_.find(memory);
    return ring != nullptr ? *ring : memory;
  }
  static Node plus(Node index, Node offset) {
    if (offset.is_const_int(0)) return index;
    return apply(Op::Add, index, offset.dtype() == index.dtype() ? offset : cast(offset, index.dtype()));
  }
  // Where the slot of a step begins in the ring of a panel.
  Node slot_offset(Node panel) const {
    const Node* slot = slots_.find(panel);
    if (slot == nullptr || !*slot) return int_const(dtypes::Int32, 0);
    return apply(Op::Mul, *slot, int_const(slot->dtype(), memory_size(panel)));
  }
  Nodes operands(Node n, const Names& names) const {
    Nodes args;
    for (Node a : n.args()) {
      const bool memory = a.is(Op::After) || a.is(Op::Define);
      args.push_back(memory ? memory_of(a, names) : names.of(a));
    }
    auto move = [&](std::size_t memory, std::size_t index) {
      args[index] = plus(args[index], slot_offset(base_memory(n.arg(memory))));
    };
    if (n.is(Op::Load) || n.is(Op::Store) || n.is(Op::Matrices)) move(0, 1);
    if (n.is(Op::PanelDot)) move(0, 1), move(2, 3);
    return args;
  }
  void instruction(Node n, Names& names) {
    if (is_operand_only(n)) {
      if (n.is(Op::Special) && !available(n)) list(n);
      return;
    }
    Node now = n.arg_count() == 0 ? n : rebuild(n, operands(n, names));
    names.map[n] = now;
    if (n.dtype() == dtypes::Void || n.is(Op::Load) || !available(now)) list(now);
  }
  void emit(int at) {
    for (const Item& item : tree_.items(at)) {
      if (item.block < 0) {
        instruction(item.node, names_);
        continue;
      }
      Node now = rebuild(item.node, operands(item.node, names_));
      names_.map[item.node] = now;
      const auto loop = std::find_if(loops_.begin(), loops_.end(),
                                     [&](const PipelinedLoop& l) { return l.block == item.block; });
      if (loop != loops_.end()) {
        if (loop->boxes.empty())
          pipelined(*loop, now, at > 0);
        else
          consumers_ ? multiplied(*loop, now) : pipelined_boxes(*loop, now);
        continue;
      }
      open(now);
      emit(item.block);
      close(now);
    }
  }

  void pipelined(const PipelinedLoop& l, Node range, bool again) {
    const DType dtype = range.dtype();
    auto number = [&](std::int64_t v) { return int_const(dtype, v); };
    Node extent = range.arg(0);
    if (again) {  // others may still work on the last steps of the time before
      Node wait = wait_copies(0, next_number_++);
      list(wait);
      list(barrier({&wait, 1}));
    }
    const bool overlaps = l.slots > kFewSlots && products_overlap(l);
    const std::int64_t ahead = l.slots - (overlaps ? 2 : 1);
    // A loop even of one step: what is computed there depends on it, and so is listed nowhere else.
    Node early = fresh_range(number(ahead), dtype);
    open(early);
    fill(l, early, early, extent);
    close(early);
    open(range);
    Node slot =
        apply(Op::TruncMod, planted(Fault::PipelineSlot) ? range + number(1) : range, number(l.slots));
    Node arrived = wait_copies(ahead - 1, next_number_++), met = barrier({&arrived, 1});
    list(arrived);
    list(met);
    const std::vector<Item>& items = tree_.items(l.block);
    for (const Item& item : items)
      if (item.node.is(Op::Barrier)) names_.map[item.node] = met;
    std::size_t last_product = l.full;
    for (std::size_t i = 0; i < items.size(); ++i)
      tree_.each_inside(items[i], [&](Node n) {
        if (n.is(Op::PanelDot)) last_product = i;
      });
    use_slot(l, slot);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!l.fill[i] && !items[i].node.is(Op::Barrier) && !(l.needed[i] && only_for_fills(l, i))) {
        if (overlaps && is_result(items[i].node))
          keep(items[i].node, l.products);
        else
          one(items[i]);
      }
      if (i != last_product) continue;
      Node step = apply(Op::Add, range, number(ahead));
      fill(l, step, apply(Op::TruncMod, step, number(l.slots)), extent);
      for (Node panel : l.panels) slots_[panel] = slot;
    }
    for (Node panel : l.panels) slots_[panel] = Node();
    close(range);
  }

  // The same by bulk copies: one thread starts them, and all wait until they have arrived. The products of a
  // step may be under way while the group meets: that is for the slot of the step before.
  void pipelined_boxes(const PipelinedLoop& l, Node range) {
    const DType dtype = range.dtype();
    auto number = [&](std::int64_t v) { return int_const(dtype, v); };
    const Start with = prepare(l);
    begin(with.barriers, l.slots);
    const std::int64_t ahead = l.slots - 1;
    Node early = fresh_range(number(ahead), dtype);
    open(early);
    start(l, with, early, early, range.arg(0));
    close(early);
    open(range);
    Node slot = apply(Op::TruncMod, range, number(l.slots)),
         parity = apply(Op::TruncMod, apply(Op::TruncDiv, range, number(l.slots)), number(2)),
         arrived = await_arrivals(with.barriers, slot, parity);
    list(arrived);
    const std::vector<Item>& items = tree_.items(l.block);
    for (const Item& item : items)
      if (item.node.is(Op::Barrier)) names_.map[item.node] = arrived;
    const bool overlaps = products_overlap(l);
    auto next = [&](Node after) {
      list(barrier({&after, 1}));
      Node step = apply(Op::Add, range, number(ahead));
      start(l, with, step, apply(Op::TruncMod, step, number(l.slots)), range.arg(0));
    };
    if (!overlaps) next(arrived);
    use_slot(l, slot);
    Node last = arrived;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (l.fill[i] || items[i].node.is(Op::Barrier) || (l.needed[i] && only_for_fills(l, i))) continue;
      if (overlaps && is_result(items[i].node))
        last = keep(items[i].node, l.products);
      else
        one(items[i]);
    }
    if (overlaps) next(last);
    for (Node panel : l.panels) slots_[panel] = Node();
    close(range);
  }
  // The same with roles: warps of their own start the copies, each when the slot is free, before all else.
  // The rest of the program is the others'.
  void begin_roles(const PipelinedLoop& l) {
    for (const Item& item : tree_.items(0))  // both roles may need them
      tree_.each_inside(item, [&](Node n) {
        if (n.is(Op::Special) && !available(n)) list(n);
      });
    const std::int64_t consumers = add_producers();
    Start with = prepare(l);
    with.first = listed(equal(listed(thread()), int_const(dtypes::Int32, consumers)));
    filled_ = with.barriers;
    free_ = define(dtypes::UInt64, next_define_++, l.slots, Space::Barrier);
    begin(filled_, l.slots, free_, consumers / kWarp);
    Node producer =
        intern(Op::If, dtypes::Void, {less(int_const(dtypes::Int32, role_limit_ - 1), role_index_)});
    open(producer);
    Node ahead = fresh_range(l.range.arg(0), l.range.dtype());
    open(ahead);
    start(l, with, ahead, slot_of(l, ahead), l.range.arg(0),
          await_arrivals(free_, slot_of(l, ahead), parity_of(l, ahead, 1)));
    close(ahead);
    close(producer);
    consumers_ = intern(Op::If, dtypes::Void, {less(role_index_, int_const(dtypes::Int32, role_limit_))});
    open(consumers_);
  }
  static Node slot_of(const PipelinedLoop& l, Node step) {
    return apply(Op::TruncMod, step, int_const(step.dtype(), l.slots));
  }
  // The parity of the turn of the ring that a step is in, or of one further on.
  static Node parity_of(const PipelinedLoop& l, Node step, std::int64_t more = 0) {
    Node turn = apply(Op::TruncDiv, step, int_const(step.dtype(), l.slots));
    if (more > 0) turn = apply(Op::Add, turn, int_const(step.dtype(), more));
    return apply(Op::TruncMod, turn, int_const(step.dtype(), 2));
  }
  void multiplied(const PipelinedLoop& l, Node range) {
    open(range);
    Node slot = slot_of(l, range), arrived = await_arrivals(filled_, slot, parity_of(l, range));
    list(arrived);
    const std::vector<Item>& items = tree_.items(l.block);
    for (const Item& item : items)
      if (item.node.is(Op::Barrier)) names_.map[item.node] = arrived;
    const bool overlaps = products_overlap(l);
    use_slot(l, slot);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (l.fill[i] || items[i].node.is(Op::Barrier) || (l.needed[i] && only_for_fills(l, i))) continue;
      if (overlaps && is_result(items[i].node))
        keep(items[i].node, l.products);
      else
        one(items[i]);
    }
    // One thread of each warp says so, of the step before where this one's products are under way.
    Node one_of_warp =
        equal(apply(Op::TruncMod, thread(), int_const(dtypes::Int32, kWarp)), int_const(dtypes::Int32, 0));
    Node before = apply(Op::Add, range, int_const(range.dtype(), -1)),
         later = less(int_const(range.dtype(), 0), range);
    Node says = intern(Op::If, dtypes::Void, {overlaps ? logical_and(one_of_warp, later) : one_of_warp});
    open(says);
    list(arrive_bytes(free_, overlaps ? slot_of(l, before) : slot, 0));
    close(says);
    for (Node panel : l.panels) slots_[panel] = Node();
    close(range);
  }
  // Four warps more, along the last launch index of threads that there is; how many threads there were.
  std::int64_t add_producers() {
    static constexpr const char* kNames[] = {"l0", "l1", "l2"};
    std::size_t last = 0;
    std::int64_t below = 1, all = 1;
    for (std::size_t i = 0; i < program_.locals.size(); ++i)
      if (program_.locals[i] && program_.locals[i]->const_int() > 1) {
        below = all;
        all *= program_.locals[i]->const_int();
        last = i;
      }
    role_limit_ = all / below;
    const std::int64_t extent = role_limit_ + kProducers / below;
    program_.locals[last] = index_const(extent);
    role_index_ = special(kNames[last], extent, dtypes::Int32);
    list(role_index_);
    return all;
  }
  // The first threads make a barrier each, and all know it; those in `more` are for several arrivals.
  void begin(Node barriers, std::int64_t count, Node more = Node(), std::int64_t arrivals = 0) {
    Node condition = intern(Op::If, dtypes::Void, {less(thread(), int_const(dtypes::Int32, count))});
    open(condition);
    list(begin_arrivals(barriers, thread(), 1));
    if (more) list(begin_arrivals(more, thread(), arrivals));
    close(condition);
    Node fence = proxy_fence(next_number_++);
    list(fence);
    list(barrier({&fence, 1}));
  }
  // The number of this thread in its group.
  Node thread() {
    static constexpr const char* kNames[] = {"l0", "l1", "l2"};
    Node number = int_const(dtypes::Int32, 0), below = int_const(dtypes::Int32, 1);
    for (std::size_t i = 0; i < 3; ++i) {
      if (!program_.locals[i]) continue;
      const std::int64_t extent = program_.locals[i]->const_int();
      Node index = special(kNames[i], extent, dtypes::Int32);
      if (!available(index)) list(index);
      number = number.is_const_int(0) ? index : apply(Op::Add, number, apply(Op::Mul, index, below));
      below = int_const(dtypes::Int32, below.int_attr() * extent);
    }
    return number;
  }
  // What does not change from step to step is before all of them.
  Node listed(Node n) {
    if (!is_operand_only(n) && !available(n)) list(n);
    return n;
  }
  // A coordinate of the boxes: what it has in every step, and for each step.
  Node in_every_step(const Linear& sum, Node range, std::int64_t more) {
    Node total = int_const(dtypes::Int32, sum.constant + more);
    for (const Term& t : sum.terms) {
      if (t.node == range) continue;
      Node here = times(names_.of(t.node), t.coefficient);
      total = total.is_const_int(0) ? here : apply(Op::Add, here, total);
    }
    return listed(total);
  }
  static Node times(Node n, std::int64_t by) {
    return by == 1 ? cast(n, dtypes::Int32)
                   : apply(Op::Mul, cast(n, dtypes::Int32), int_const(dtypes::Int32, by));
  }
  static Node in_step(Node base, const Linear& sum, Node range, Node step) {
    for (const Term& t : sum.terms)
      if (t.node == range) base = apply(Op::Add, times(step, t.coefficient), base);
    return base;
  }
  struct Start {
    Node barriers, first;  // those that copies arrive at; whether this is the thread that starts them
    std::vector<std::vector<std::pair<Node, Node>>> bases;  // columns and rows, of each place of each panel
    std::int64_t bytes = 0;                                 // of a step
  };
  Start prepare(const PipelinedLoop& l) {
    Start made;
    made.barriers = define(dtypes::UInt64, next_define_++, l.slots, Space::Barrier);
    made.first = listed(equal(listed(thread()), int_const(dtypes::Int32, 0)));
    for (const PanelBoxes& boxes : l.boxes) {
      made.bases.emplace_back();
      for (const PanelBoxes::Place& place : boxes.places) {
        made.bases.back().emplace_back(in_every_step(boxes.column, l.range, place.column),
                                       in_every_step(boxes.row, l.range, place.row));
        made.bytes += boxes.box.elements() * boxes.source.dtype().bytes();
      }
    }
    return made;
  }
  // The bulk copies of a step into a slot, where there is such a step, after a wait.
  void start(const PipelinedLoop& l, const Start& with, Node step, Node slot, Node extent,
             Node wait = Node()) {
    Node exists = less(step, extent);
    Node condition =
        intern(Op::If, dtypes::Void, {exists.lo() == 1 ? with.first : logical_and(exists, with.first)});
    open(condition);
    if (wait) list(wait);
    use_slot(l, slot);
    list(arrive_bytes(with.barriers, slot, with.bytes));
    for (std::size_t i = 0; i < l.panels.size(); ++i) {
      const PanelBoxes& boxes = l.boxes[i];
      Node ring = *rings_.find(l.panels[i]), offset = slot_offset(l.panels[i]);
      for (std::size_t p = 0; p < boxes.places.size(); ++p) {
        const auto& [column, row] = with.bases[i][p];
        const std::int64_t index = boxes.places[p].index;
        list(bulk_copy(boxes.box, ring,
                       index == 0 ? offset : apply(Op::Add, offset, int_const(offset.dtype(), index)),
                       boxes.source, in_step(column, boxes.column, l.range, step),
                       in_step(row, boxes.row, l.range, step), with.barriers, slot));
      }
    }
    close(condition);
  }

  // From here on the panels of the loop are those of a slot; where it begins is before all that needs it.
  void use_slot(const PipelinedLoop& l, Node slot) {
    for (Node panel : l.panels) {
      slots_[panel] = slot;
      if (Node offset = slot_offset(panel); !is_operand_only(offset) && !available(offset)) list(offset);
    }
  }
  // Whether all products are in the body itself and their results go to registers for the next step.
  bool products_overlap(const PipelinedLoop& l) {
    std::int64_t here = 0;
    bool kept = true;
    for (const Item& item : tree_.items(l.block)) {
      here += item.node.is(Op::PanelDot);
      tree_.each_inside(item, [&](Node n) {
        for (std::size_t i = 0; i < n.arg_count(); ++i)
          if (n.arg(i).is(Op::PanelDot)) kept &= is_result(n) || (n.is(Op::PanelDot) && i == 4);
      });
    }
    return here > 0 && here == l.products && kept && !reads_results(l);
  }
  // Whether a step works on its own results: then it has waited for them.
  bool reads_results(const PipelinedLoop& l) {
    NodeMap<char> results;
    bool reads = false;
    for (const Item& item : tree_.items(l.block))
      if (is_result(item.node)) results.try_emplace(base_memory(item.node.arg(0)));
    for (const Item& item : tree_.items(l.block))
      tree_.each_inside(item, [&](Node n) {
        for (std::size_t i = 0; i < n.arg_count(); ++i)
          if (n.arg(i).is(Op::Load) && results.contains(base_memory(n.arg(i).arg(0))))
            reads |= !(n.is(Op::PanelDot) && i == 4);
      });
    return reads;
  }
  // Whether it is known in a step which products are done: all of the step before, or all.
  bool waits_in_step(const PipelinedLoop& l) {
    bool results = false;
    for (const Item& item : tree_.items(l.block))
      tree_.each_inside(item, [&](Node n) { results |= is_result(n); });
    return products_overlap(l) || !results;
  }
  static bool is_result(Node n) {
    if (!n.is(Op::Store) || !n.arg(2).is(Op::PanelDot)) return false;
    Node base = base_memory(n.arg(0));
    return base.is(Op::Define) && define_space(base) == Space::Register;
  }
  // A result that the next step adds to, with the products of this step still under way.
  Node keep(Node store, std::int64_t products) {
    Nodes args = operands(store, names_);
    args[2] = wait_products(args[2], products);
    Node now = store.with_args(args);
    names_.map[store] = now;
    list(now);
    return now;
  }
  void one(const Item& item) {
    if (item.block < 0) return instruction(item.node, names_);
    Node now = rebuild(item.node, operands(item.node, names_));
    names_.map[item.node] = now;
    open(now);
    emit(item.block);
    close(now);
  }
  // Whether nothing but the fills uses an item of the body.
  bool only_for_fills(const PipelinedLoop& l, std::size_t which) {
    const std::vector<Item>& items = tree_.items(l.block);
    bool other = false;
    for (std::size_t i = which + 1; i < items.size(); ++i) {
      if (l.fill[i]) continue;
      tree_.each_inside(items[i], [&](Node n) {
        for (Node a : n.args()) other |= a == items[which].node && !(l.needed[i] && only_for_fills(l, i));
      });
    }
    return !other;
  }
  Node fresh_range(Node extent, DType dtype) {
    AttrData d{"", {next_range_++, static_cast<std::int64_t>(RangeKind::Loop)}};
    return intern(Op::Range, dtype, {extent}, Attr::of(d));
  }

  // The copies of a step into a slot, where there is such a step, as one batch.
  void fill(const PipelinedLoop& l, Node step, Node slot, Node extent) {
    Node exists = less(step, extent), condition;
    if (exists.lo() != 1) {
      condition = intern(Op::If, dtypes::Void, {exists});
      open(condition);
    }
    Names names;
    names.outer = &names_;
    names.map[l.range] = step;
    use_slot(l, slot);
    const std::vector<Item>& items = tree_.items(l.block);
    for (std::size_t i = 0; i < items.size(); ++i)
      if (l.fill[i] || l.needed[i]) copy(items[i], names);
    if (condition) close(condition);
    if (l.waits) list(commit_copies(next_number_++));
  }
  static bool from_memory(Node n) {
    return n.is(Op::Lane) || std::any_of(n.args().begin(), n.args().end(), [](Node a) {
             return a.is(Op::Load) || a.is(Op::Lane) || a.is(Op::Vec);
           });
  }
  void copy(const Item& item, Names& names) {
    Node n = item.node;
    if (item.block >= 0) {
      Node now = fresh_range(names.of(n.arg(0)), n.dtype());
      names.map[n] = now;
      open(now);
      for (const Item& inner : tree_.items(item.block)) copy(inner, names);
      close(now);
      return;
    }
    // What only a copy needs is listed with it.
    if (n.is(Op::Store) && is_async_copy(n)) {
      Node load = whole_load(n.arg(2));
      Nodes to = operands(n, names), from = operands(load, names);
      list(copy_async(base_memory(to[0]), to[1], base_memory(from[0]), from[1],
                      from.size() > 2 ? from[2] : Node(), to.size() > 3 ? to[3] : Node(),
                      load.dtype().lanes));
      return;
    }
    if (is_operand_only(n)) return;
    Nodes args = operands(n, names);
    if (n.is(Op::Store) || n.is(Op::Load)) args[0] = base_memory(args[0]);
    if (n.is(Op::Store)) return list(n.with_args(args));
    Node now = n.arg_count() == 0 ? n : rebuild(n, args);
    names.map[n] = now;
    // Several loops may need a part of an index: it is before them, as it did.
    const bool index = n.dtype().lanes == 1 && (n.dtype().is_int() || n.dtype().is_bool()) && !n.is(Op::Load);
    if (index && !is_operand_only(now) && !from_memory(now) && !available(now)) list(now);
  }

  Program program_;
  ProgramTree tree_;
  std::vector<PipelinedLoop> loops_;
  NodeMap<Node> rings_;                // of a panel
  Node role_index_, consumers_;        // where warps have roles: what tells them apart, and the scope of most
  Node filled_, free_;                 // and the barriers of their slots
  std::int64_t role_limit_ = 0;        // of the index: producers have this and more
  NodeMap<Node> slots_;                // of a panel: which of its ring is meant here
  std::vector<NodeMap<char>> listed_;  // by open scope
  Names names_;
  std::int64_t next_range_ = 0, next_define_ = 0, next_number_ = 0;
};

}  // namespace

Program pipeline_copies(Program program) {
  if (ring_panels(program).empty()) return program;
  return Pipeliner(std::move(program)).run();
}

}  // namespace lathe
