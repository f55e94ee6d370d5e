#include "render/tile_rows.h"

#include <algorithm>
#include <utility>

#include "ir/build.h"
#include "ir/dot.h"

namespace lathe::render {
namespace {

// Fewer steps have no room for the rows of a block: with 8 the unit waits longer than it would for their
// stores.
constexpr std::int64_t kFewestSteps = 16;

std::pair<Node, std::int64_t> place_of(Node index) {
  if (index.is(Op::Add) && index.arg(1).is_const()) return {index.arg(0), index.arg(1).int_attr()};
  return {index, 0};
}

class Finder {
 public:
  Finder(const Program& program, const NodeMap<Node>& fragments, int rows, int columns)
      : program_(program), fragments_(fragments), lanes_(rows * columns), columns_(columns) {}

  std::optional<LaterRows> run() {
    if (!find_loop()) return std::nullopt;
    for (std::size_t at = end_ + 1; at < program_.code.size(); ++at) {
      Node n = program_.code[at];
      if (n.is(Op::End)) break;
      if (!take(n)) return std::nullopt;
    }
    if (!found_.param || !found_.memory || stores_.empty() || !only_written()) return std::nullopt;
    for (Node store : stores_) {
      Node load = load_of(store.arg(2));
      if (!load || !same(store.arg(2), stores_[0].arg(2))) return std::nullopt;
      found_.rows.push_back({load.arg(1).int_attr(), place_of(store.arg(1)).second});
    }
    std::vector<std::int64_t> from;
    for (const LaterRows::Row& row : found_.rows) from.push_back(row.from);
    std::sort(from.begin(), from.end());
    if (std::adjacent_find(from.begin(), from.end()) != from.end() ||
        from.size() * static_cast<std::size_t>(columns_) !=
            static_cast<std::size_t>(fragment_stores_) * lanes_)
      return std::nullopt;
    for (Node n : found_.instead)
      if (n == load_of(stores_[0].arg(2)) || n == stores_[0] || needs(stores_[0].arg(2), n))
        found_.chain.push_back(n);
    std::sort(found_.rows.begin(), found_.rows.end(),
              [](const LaterRows::Row& a, const LaterRows::Row& b) { return a.to < b.to; });
    return std::move(found_);
  }

 private:
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
      if (!n.is(Op::Load) || !fragments_.contains(n)) continue;
      if (open.size() < 2 || (found_.loop && found_.loop != open.back())) return false;
      found_.loop = open.back();
    }
    return found_.loop && found_.loop.arg(0).is_const() && found_.loop.arg(0).int_attr() >= kFewestSteps;
  }

  // An instruction after the loop.
  bool take(Node n) {
    if (n.is(Op::Load)) {
      if (n.dtype().lanes == lanes_) return base_memory(n.arg(0)).is(Op::Define);  // an accumulator
      found_.instead.push_back(n);
      return base_memory(n.arg(0)) == found_.memory && n.arg(1).is_const() && n.dtype().lanes == columns_ &&
             n.arg_count() == 2;
    }
    if (n.is(Op::Store)) {
      Node memory = base_memory(n.arg(0));
      if (n.arg_count() > 3 || n.arg(1).dtype().lanes > 1) return false;
      if (memory.is(Op::Define)) {
        if (n.arg(2).dtype().lanes != lanes_ || !n.arg(1).is_const()) return false;
        if (found_.memory && found_.memory != memory) return false;
        found_.memory = memory, found_.last_fragment = n;
        ++fragment_stores_;
        return true;
      }
      Node place = place_of(n.arg(1)).first;
      if (found_.param && (memory != found_.param || place != found_.place)) return false;
      found_.param = memory, found_.place = place;
      found_.instead.push_back(n);
      stores_.push_back(n);
      return n.arg(2).dtype().lanes == columns_;
    }
    if (n.dtype().lanes == columns_ && !n.is(Op::Splat)) {
      found_.instead.push_back(n);
      return std::all_of(n.args().begin(), n.args().end(),
                         [&](Node arg) { return arg.dtype().lanes == columns_ || arg.is_const(); });
    }
    return n.is(Op::Add) || n.is(Op::Mul) || n.is(Op::Splat) || n.is(Op::After);
  }

  // Nothing else reads or writes the result, or reads the sums.
  bool only_written() const {
    for (Node n : program_.code) {
      const bool row = std::find(found_.instead.begin(), found_.instead.end(), n) != found_.instead.end();
      if (n.is(Op::Load) && !row &&
          (base_memory(n.arg(0)) == found_.param || base_memory(n.arg(0)) == found_.memory))
        return false;
      if (n.is(Op::Store) && !row && base_memory(n.arg(0)) == found_.param) return false;
    }
    return true;
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
  const NodeMap<Node>& fragments_;
  const int lanes_, columns_;
  std::size_t end_ = 0;
  int fragment_stores_ = 0;
  std::vector<Node> stores_;
  LaterRows found_;
};

}  // namespace

std::optional<LaterRows> later_rows(const Program& program, const NodeMap<Node>& fragments, int rows,
                                    int columns) {
  return Finder(program, fragments, rows, columns).run();
}

}  // namespace lathe::render
