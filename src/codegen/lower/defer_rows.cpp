#include "codegen/lower/defer_rows.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "codegen/lower/fragments.h"
#include "codegen/lower/relist.h"
#include "ir/access.h"
#include "ir/build.h"
#include "ir/group_ops.h"
#include "ir/machine_ops.h"

namespace lathe {
namespace {

// Fewer steps have no room for the rows of a block: with 8 the unit waits longer than it would for their
// stores.
constexpr std::int64_t kFewestSteps = 16;

struct DeferredRows {
  Node loop;           // of the sum
  Node last_fragment;  // the last store of a fragment to `memory`
  Node memory;         // of the kernel's own
  Node param, place;   // a row is stored `to` elements from element `place`
  struct Row {
    std::int64_t from = 0, to = 0;  // elements
  };
  std::vector<Row> rows;    // in the order of the result
  std::vector<Node> chain;  // of one row: its load, what is computed from it, its store
  NodeMap<char> instead;    // instructions of all rows, in order
};

// The load of a fragment, which may be packed from there.
Node load_of_fragment(Node fragment) { return fragment.is(Op::Pack) ? fragment.arg(0) : fragment; }

class Finder {
 public:
  explicit Finder(const Program& program)
      : program_(program), fragments_(factor_fragments(program)), shape_(sum_fragment(program)) {}

  std::optional<DeferredRows> run() {
    if (shape_.rows == 0 || !has_room() || !find_loop()) return std::nullopt;
    for (std::size_t at = end_ + 1; at < program_.code.size(); ++at) {
      Node n = program_.code[at];
      if (n.is(Op::End)) break;
      if (!take(n)) return std::nullopt;
    }
    if (!found_.param || !found_.memory || stores_.empty() || !is_place_known() || !only_written() ||
        !find_rows() || !find_chain())
      return std::nullopt;
    return std::move(found_);
  }

 private:
  // Steps that read all the way from L2 have no room for more, and stores past the caches no order.
  bool has_room() const {
    for (const auto& [fragment, shape] : fragments_)
      if (Node load = load_of_fragment(fragment); load.is(Op::Load) && access_of(load).past > 0) return false;
    return std::none_of(program_.code.begin(), program_.code.end(),
                        [](Node n) { return n.is(Op::Store) && access_of(n).past == 0; });
  }

  // The one loop that reads fragments, inside another.
  bool find_loop() {
    std::vector<Node> open;
    for (std::size_t at = 0; at < program_.code.size(); ++at) {
      Node n = program_.code[at];
      if (n.is(Op::Range)) open.push_back(n);
      if (n.is(Op::End)) {
        if (open.back() == found_.loop) end_ = at;
        open.pop_back();
      }
      if (!fragments_.contains(n)) continue;
      if (open.size() < 2 || (found_.loop && found_.loop != open.back())) return false;
      found_.loop = open.back();
    }
    return found_.loop && found_.loop.arg(0).is_const() && found_.loop.arg(0).int_attr() >= kFewestSteps;
  }

  // An instruction after the loop.
  bool take(Node n) {
    const int lanes = n.dtype().lanes;
    if (n.is(Op::Load)) {
      if (lanes == shape_.lanes()) return base_memory(n.arg(0)).is(Op::Define);  // an accumulator
      found_.instead[n] = 1;
      return base_memory(n.arg(0)) == found_.memory && n.arg(1).is_const() && lanes == shape_.columns &&
             n.arg_count() == 2;
    }
    if (n.is(Op::Store)) return take_store(n);
    if (lanes == shape_.columns && !n.is(Op::Splat)) {
      found_.instead[n] = 1;
      return std::all_of(n.args().begin(), n.args().end(),
                         [&](Node arg) { return found_.instead.contains(arg) || constant_of(arg); });
    }
    return n.is(Op::Add) || n.is(Op::Mul) || n.is(Op::Splat) || n.is(Op::After);
  }
  bool take_store(Node store) {
    Node memory = base_memory(store.arg(0));
    if (store.arg_count() > 3 || store.arg(1).dtype().lanes > 1) return false;
    const int lanes = store.arg(2).dtype().lanes;
    if (memory.is(Op::Define)) {
      if (lanes != shape_.lanes() || !store.arg(1).is_const()) return false;
      if (found_.memory && found_.memory != memory) return false;
      found_.memory = memory, found_.last_fragment = store;
      ++fragment_stores_;
      return true;
    }
    Node place = split_index(store.arg(1)).place;
    if (found_.param && (memory != found_.param || place != found_.place)) return false;
    found_.param = memory, found_.place = place;
    found_.instead[store] = 1;
    stores_.push_back(store);
    return lanes == shape_.columns;
  }

  // Before the loop, and no number that stands for "nowhere".
  bool is_place_known() const {
    if (found_.place.lo() < 0) return false;
    if (found_.place.is_const() || found_.place.is(Op::Var)) return true;
    for (Node n : program_.code) {
      if (n == found_.loop) return false;
      if (n == found_.place) return true;
    }
    return false;
  }

  // Nothing else reads or writes the result, or reads the sums.
  bool only_written() const {
    return std::none_of(program_.code.begin(), program_.code.end(), [&](Node n) {
      if ((!n.is(Op::Load) && !n.is(Op::Store)) || found_.instead.contains(n)) return false;
      Node memory = base_memory(n.arg(0));
      return memory == found_.param || (n.is(Op::Load) && memory == found_.memory);
    });
  }

  // Every row of every fragment once, all computed in the same way.
  bool find_rows() {
    for (Node store : stores_) {
      Node load = load_of(store.arg(2));
      if (!load || !same(store.arg(2), stores_[0].arg(2))) return false;
      found_.rows.push_back({load.arg(1).int_attr(), split_index(store.arg(1)).distance});
    }
    std::vector<std::int64_t> from;
    for (const DeferredRows::Row& row : found_.rows) from.push_back(row.from);
    std::sort(from.begin(), from.end());
    std::sort(found_.rows.begin(), found_.rows.end(),
              [](const DeferredRows::Row& a, const DeferredRows::Row& b) { return a.to < b.to; });
    return std::adjacent_find(from.begin(), from.end()) == from.end() &&
           static_cast<int>(from.size()) * shape_.columns == fragment_stores_ * shape_.lanes();
  }
  bool find_chain() {
    for (const auto& [n, unused] : found_.instead)
      if (n == stores_[0] || needs(stores_[0].arg(2), n)) found_.chain.push_back(n);
    return found_.chain.front().is(Op::Load) && found_.chain.back() == stores_[0];
  }

  // The one load of a row that a value is computed from.
  static Node load_of(Node value) {
    if (value.is(Op::Load)) return value;
    Node found;
    for (Node arg : value.args()) {
      Node load = load_of(arg);
      if (load && found && load != found) return Node();
      if (load) found = load;
    }
    return found;
  }
  static bool needs(Node value, Node what) {
    if (value == what) return true;
    if (value.is(Op::Load)) return false;
    return std::any_of(value.args().begin(), value.args().end(), [&](Node arg) { return needs(arg, what); });
  }
  // Whether two values are the same but for the row they begin with.
  static bool same(Node a, Node b) {
    if (a == b) return true;
    if (a.is(Op::Load) && b.is(Op::Load)) return a.dtype() == b.dtype();
    if (a.op() != b.op() || a.dtype() != b.dtype() || a.arg_count() != b.arg_count() || a.arg_count() == 0 ||
        !(a.attr() == b.attr()))
      return false;
    if (is_commutative(a.op()) && same(a.arg(0), b.arg(1)) && same(a.arg(1), b.arg(0))) return true;
    for (std::size_t i = 0; i < a.arg_count(); ++i)
      if (!same(a.arg(i), b.arg(i))) return false;
    return true;
  }

  const Program& program_;
  const NodeMap<Fragment> fragments_;
  const Fragment shape_;
  std::size_t end_ = 0;
  int fragment_stores_ = 0;
  std::vector<Node> stores_;
  DeferredRows found_;
};

class Writer {
 public:
  Writer(Program program, DeferredRows rows)
      : list_(std::move(program)), deferred_(std::move(rows)), later_(fresh_register(list_.before())) {}

  Program run() {
    set_ = list_.put(store(later_, int32(0), nowhere()));
    for (Node n : deferred_.chain)
      for (Node arg : n.args())
        if (arg.is(Op::Splat) && constant_of(arg)) list_.put(arg);
    for (Node n : list_.before()) {
      if (deferred_.instead.contains(n)) {
        list_.drop(n);
        continue;
      }
      if (n == deferred_.loop) find_later();
      list_.keep(n);
      if (n == deferred_.loop) put_some_rows(n);
      if (n == deferred_.last_fragment)
        set_again_ =
            list_.put(store(later_, int32(0), list_.sized(list_.named(deferred_.place), dtypes::Int64)));
    }
    put_last_rows();
    return list_.take();
  }

 private:
  static Node fresh_register(const std::vector<NodeRef>& code) {
    std::int64_t id = 0;
    for (Node n : code)
      for_each_memory(n, [&](Node memory) {
        if (Node base = base_memory(memory); base.is(Op::Define)) id = std::max(id, define_id(base) + 1);
      });
    return define(dtypes::Int64, id, 1, Space::Register);
  }
  static Node int32(std::int64_t v) { return int_const(dtypes::Int32, v); }
  static Node nowhere() { return int_const(dtypes::Int64, -1); }

  // Where the rows of the block before are to be stored, and whether there was one.
  void find_later() {
    at_ = list_.put(load(after(later_, {&set_, 1}), int32(0)));
    any_ = list_.put(less(nowhere(), at_));
  }
  // Indices are before the branch: what comes after it may list the same.
  void put_some_rows(Node loop) {
    const auto count = static_cast<std::int64_t>(deferred_.rows.size());
    const std::int64_t steps = loop.arg(0).int_attr(), each = (count + steps - 1) / steps;
    const auto number = [&](std::int64_t v) { return int_const(loop.dtype(), v); };
    std::vector<std::int64_t> ends;  // of each row, one after the other: from, to
    for (const DeferredRows::Row& row : deferred_.rows) {
      ends.push_back(row.from);
      ends.push_back(row.to);
    }
    std::vector<std::pair<Node, Node>> entries;
    for (std::int64_t i = 0; i < each; ++i) {
      Node from = sum(list_.put(apply(Op::Mul, list_.named(loop), number(2 * each))), 2 * i);
      if (each * steps > count) from = list_.put(apply(Op::Min, from, number(2 * (count - 1))));
      entries.emplace_back(from, sum(from, 1));
    }
    Node branch = list_.put(intern(Op::If, dtypes::Void, {any_}));
    for (const auto& [from, to] : entries) {
      Node row = list_.put(table(dtypes::Int64, ends, from)), end = list_.put(table(dtypes::Int64, ends, to));
      put_row(deferred_.memory, row, list_.put(apply(Op::Add, at_, end)));
    }
    list_.put(intern(Op::EndIf, dtypes::Void, {branch}));
  }
  Node sum(Node index, std::int64_t more) {
    return more == 0 ? index : list_.put(apply(Op::Add, index, int_const(index.dtype(), more)));
  }
  void put_last_rows() {
    Node effects[] = {set_, set_again_};
    Node at = list_.put(load(after(later_, effects), int32(0)));
    Node branch = list_.put(intern(Op::If, dtypes::Void, {list_.put(less(nowhere(), at))}));
    Node memory = after(deferred_.memory, {&set_again_, 1});
    for (const DeferredRows::Row& row : deferred_.rows)
      put_row(memory, int_const(dtypes::Int64, row.from), sum(at, row.to));
    list_.put(intern(Op::EndIf, dtypes::Void, {branch}));
  }
  void put_row(Node memory, Node from, Node to) {
    NodeMap<Node> now;
    Node args[] = {memory, from};
    now[deferred_.chain.front()] = list_.put(intern(Op::Load, deferred_.chain.front().dtype(), args));
    for (std::size_t i = 1; i + 1 < deferred_.chain.size(); ++i) {
      Node n = deferred_.chain[i];
      SmallVector<Node, 4> operands;
      for (Node arg : n.args()) operands.push_back(now.contains(arg) ? *now.find(arg) : arg);
      now[n] = list_.put(n.with_args(operands));
    }
    Node value = *now.find(deferred_.chain.back().arg(2));
    list_.put(store(deferred_.param, to, value));
  }

  Relist list_;
  DeferredRows deferred_;
  Node later_;            // where the rows that are left in memory are to be stored, or -1
  Node set_, set_again_;  // its stores
  Node at_, any_;
};

}  // namespace

Program defer_rows(Program program) {
  if (!has_fragment_products(program)) return program;
  std::optional<DeferredRows> rows = Finder(program).run();
  return rows ? Writer(std::move(program), std::move(*rows)).run() : program;
}

}  // namespace lathe
