#include "codegen/lower/store_in_place.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "codegen/lower/fragments.h"
#include "codegen/lower/relist.h"
#include "ir/access.h"
#include "ir/build.h"

namespace lathe {
namespace {

// Where the rows of a fragment are stored, one after the other.
struct Rows {
  Node memory, place;                    // the first at element `place` + distance
  std::int64_t distance = 0, pitch = 0;  // in elements
  int stored = 0;
  std::vector<Node> instead;  // loads and stores of rows, which are not needed then
};

bool is_own(Node memory) { return base_memory(memory).is(Op::Define); }

class Finder {
 public:
  explicit Finder(const Program& program) : program_(program), shape_(sum_fragment(program)) {
    for (Node n : program_.code) {
      for (Node arg : n.args()) ++uses_[arg];
      if (is_fragment_product(n) && n.arg(2).is(Op::Load)) sums_[base_memory(n.arg(2).arg(0))] = 1;
    }
  }

  // By the store of the fragment.
  NodeMap<Rows> run() {
    NodeMap<Rows> out;
    for (std::size_t at = 0; at < program_.code.size(); ++at) {
      Node store = program_.code[at];
      if (!is_fragment_store(store)) continue;
      Rows rows = rows_after(at);
      if (rows.stored == shape_.rows && rows.pitch >= shape_.columns &&
          rows.memory.dtype() == store.arg(2).dtype().element() && !read_elsewhere(store, rows.instead))
        out[store] = std::move(rows);
    }
    return out;
  }

 private:
  bool is_fragment_store(Node n) const {
    return n.is(Op::Store) && shape_.rows > 0 && is_own(n.arg(0)) && n.arg(1).is_const() &&
           !sums_.contains(base_memory(n.arg(0))) && n.arg(2).dtype().lanes == shape_.lanes();
  }

  // What follows the store of a fragment, as far as it is loads and stores of its rows and what neither reads
  // nor writes other memory.
  Rows rows_after(std::size_t at) {
    Node fragment = program_.code[at];
    Rows rows;
    NodeMap<std::int64_t> row_of;  // by load
    for (std::size_t j = at + 1; j < program_.code.size() && rows.stored < shape_.rows; ++j) {
      Node n = program_.code[j];
      if (n.is(Op::Load) && base_memory(n.arg(0)) == base_memory(fragment.arg(0))) {
        if (!n.arg(1).is_const()) break;
        const std::int64_t from = n.arg(1).const_int() - fragment.arg(1).const_int();
        if (from < 0 || from >= shape_.lanes()) continue;  // of another fragment
        if (from % shape_.columns != 0 || n.dtype().lanes != shape_.columns || uses_[n] != 1) break;
        row_of[n] = from / shape_.columns;
        rows.instead.push_back(n);
      } else if (n.is(Op::Store)) {
        const std::int64_t* row = row_of.find(n.arg(2));
        if (row == nullptr && is_own(n.arg(0))) continue;  // another fragment
        if (row == nullptr || *row != rows.stored || !add_row(rows, n)) break;
      } else if (!n.is(Op::Add) && !n.is(Op::Mul) && !n.is(Op::After) &&
                 !(n.is(Op::Load) && sums_.contains(base_memory(n.arg(0))))) {
        break;
      }
    }
    return rows;
  }

  // Whether the store of a row belongs to the others.
  static bool add_row(Rows& rows, Node store) {
    Node memory = base_memory(store.arg(0));
    if (store.arg_count() > 3 || store.arg(1).dtype().lanes > 1 || !memory.is(Op::Param)) return false;
    const SplitIndex at = split_index(store.arg(1));
    if (rows.stored == 0) rows.memory = memory, rows.place = at.place, rows.distance = at.distance;
    if (rows.stored == 1) rows.pitch = at.distance - rows.distance;
    if (memory != rows.memory || at.place != rows.place ||
        at.distance != rows.distance + rows.stored * rows.pitch)
      return false;
    rows.instead.push_back(store);
    ++rows.stored;
    return true;
  }

  // Whether anything but the loads of its rows reads what the fragment's store leaves in the kernel's memory.
  bool read_elsewhere(Node fragment, const std::vector<Node>& rows) const {
    const std::int64_t first = fragment.arg(1).const_int();
    for (Node n : program_.code) {
      if (!n.is(Op::Load) || base_memory(n.arg(0)) != base_memory(fragment.arg(0))) continue;
      if (std::find(rows.begin(), rows.end(), n) != rows.end()) continue;
      if (!n.arg(1).is_const()) return true;
      const std::int64_t at = n.arg(1).const_int();
      if (at < first + shape_.lanes() && first < at + n.dtype().lanes) return true;
    }
    return false;
  }

  const Program& program_;
  const Fragment shape_;
  NodeMap<int> uses_;
  NodeMap<char> sums_;  // accumulators
};

}  // namespace

Program store_in_place(Program program) {
  if (!has_fragment_products(program)) return program;
  const NodeMap<Rows> found = Finder(program).run();
  if (found.empty()) return program;
  const int count = sum_fragment(program).rows;
  Relist list(std::move(program));
  NodeMap<char> instead;
  for (Node n : list.before()) {
    if (instead.contains(n)) {
      list.drop(n);
      continue;
    }
    const Rows* rows = found.find(n);
    if (rows == nullptr || !list.is_known(list.named(rows->place))) {
      list.keep(n);
      continue;
    }
    Node place = list.named(rows->place);
    Node index = rows->distance == 0
                     ? place
                     : list.put(apply(Op::Add, place, int_const(place.dtype(), rows->distance)));
    Node args[] = {rows->memory, index, n.arg(2)};
    list.replace(n, with_access(intern(Op::Store, dtypes::Void, args), {-1, count, rows->pitch}));
    for (Node row : rows->instead) instead[row] = 1;
  }
  return list.take();
}

}  // namespace lathe
