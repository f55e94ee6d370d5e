#include "codegen/lower/read_in_place.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/lower/fragments.h"
#include "codegen/lower/relist.h"
#include "ir/access.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/ranges.h"
#include "rules/linear.h"
#include "target/cache_line.h"

namespace lathe {
namespace {

// Rows that are a multiple of it apart share a few sets of L1.
constexpr std::int64_t kSharedSets = 2048;

// Rows of a fragment in a param, evenly apart.
struct SourceRows {
  Node param;
  Linear place;            // of the first row's first element
  std::int64_t pitch = 0;  // elements from one row to the next
  Fragment fragment;
  DType index;  // of what counts elements
};

// A loop of a copy: by how many words of the panel and elements of the source it moves.
struct CopyLoop {
  Node range;
  std::int64_t extent = 0, panel = 0, source = 0;
};

struct Copy {
  Node load, store;
  std::size_t begin = 0, end = 0;  // of its instructions
  Fragment fragment;               // of the panel
  CopyLoop rows;
  std::vector<CopyLoop> fragments;  // in order of `panel`, largest first
  Linear place;                     // of the source, without what the loops add
};

// What is known of one array of the kernel's own.
struct Panel {
  std::vector<Node> loads, stores;
  std::vector<Node> loops;  // around the store, outermost first
};

std::int64_t taken(Linear& sum, Node range) {
  for (Term& term : sum.terms)
    if (term.node == range) return std::exchange(term.coefficient, 0);
  return 0;
}
bool is_nothing(const Linear& sum) {
  return sum.constant == 0 &&
         std::all_of(sum.terms.begin(), sum.terms.end(), [](const Term& t) { return t.coefficient == 0; });
}
bool is_counter(Node n) { return n.is(Op::Range) || n.is(Op::Special) || n.is(Op::Var); }

class Finder {
 public:
  explicit Finder(const Program& program) : program_(program), fragments_(factor_fragments(program)) {
    std::vector<Node> open;
    for (std::size_t at = 0; at < program.code.size(); ++at) {
      Node n = program.code[at];
      if (n.is(Op::Range)) {
        open.push_back(n);
        begins_[n] = at;
      }
      if (n.is(Op::End)) {
        ends_[open.back()] = at;
        open.pop_back();
      }
      if (!n.is(Op::Load) && !n.is(Op::Store)) continue;
      Node memory = base_memory(n.arg(0));
      if (n.is(Op::Store) && memory.is(Op::Param)) written_[memory] = 1;
      if (!memory.is(Op::Define)) continue;
      Panel& panel = panels_[memory];
      if (n.is(Op::Load)) {
        panel.loads.push_back(n);
        around_[n] = open;
      } else {
        panel.stores.push_back(n);
        panel.loops = open;
      }
    }
  }

  void run(std::int64_t cache) {
    for (const auto& [memory, panel] : panels_) {
      if (memory_size(memory) * memory.dtype().bytes() > cache * 2 / 3) continue;
      std::optional<Copy> copy = copy_of(panel);
      if (!copy || !stays_in_l1(*copy)) continue;
      std::vector<SourceRows> found;
      for (Node load : panel.loads)
        if (std::optional<SourceRows> rows = rows_of(*copy, load)) found.push_back(*std::move(rows));
      if (found.size() < panel.loads.size()) continue;
      for (std::size_t i = 0; i < found.size(); ++i) rows[panel.loads[i]] = std::move(found[i]);
      for (std::size_t at = copy->begin; at <= copy->end; ++at) copies[program_.code[at]] = 1;
    }
  }

  NodeMap<SourceRows> rows;  // by the loads of fragments
  NodeMap<char> copies;      // instructions that are not needed then

 private:
  // The loops that do nothing but fill the panel, and what they copy.
  std::optional<Copy> copy_of(const Panel& panel) {
    if (panel.stores.size() != 1 || panel.loads.empty() || panel.loops.empty()) return std::nullopt;
    Copy copy;
    if (const Fragment* fragment = fragments_.find(panel.loads[0])) copy.fragment = *fragment;
    copy.store = panel.stores[0];
    Node value = copy.store.arg(2);
    if (copy.store.arg_count() > 3 || copy.store.arg(1).dtype().lanes > 1 || !value.is(Op::Pack) ||
        value.arg_count() != 1 || value.dtype().lanes != copy.fragment.columns)
      return std::nullopt;
    copy.load = value.arg(0);
    if (!copy.load.is(Op::Load) || copy.load.arg_count() > 2 || copy.load.arg(1).dtype().lanes > 1 ||
        !copy.load.arg(0).is(Op::Param) || written_.contains(copy.load.arg(0)))
      return std::nullopt;
    Linear index = linear(copy.store.arg(1));
    copy.place = linear(copy.load.arg(1));
    for (std::size_t i = panel.loops.size(); i-- > 0 && fills_only(panel.loops[i], copy);) {
      Node range = panel.loops[i];
      copy.begin = *begins_.find(range), copy.end = *ends_.find(range);
      if (!range.arg(0).is_const()) return std::nullopt;
      CopyLoop loop{range, range.arg(0).int_attr(), taken(index, range), taken(copy.place, range)};
      if (loop.panel == copy.fragment.columns && loop.extent == copy.fragment.rows)
        copy.rows = loop;
      else if (loop.panel > 0 && loop.panel % copy.fragment.lanes() == 0)
        copy.fragments.push_back(loop);
      else
        return std::nullopt;
    }
    std::sort(copy.fragments.begin(), copy.fragments.end(),
              [](const CopyLoop& a, const CopyLoop& b) { return a.panel > b.panel; });
    const bool known = std::all_of(copy.place.terms.begin(), copy.place.terms.end(),
                                   [](const Term& t) { return t.coefficient == 0 || is_counter(t.node); });
    return copy.rows.range && is_nothing(index) && known ? std::optional(std::move(copy)) : std::nullopt;
  }
  bool fills_only(Node range, const Copy& copy) const {
    for (std::size_t at = *begins_.find(range); at <= *ends_.find(range); ++at) {
      Node n = program_.code[at];
      if (!n.is(Op::Range) && !n.is(Op::End) && !n.is(Op::Add) && !n.is(Op::Mul) && n != copy.load &&
          n != copy.store && n != copy.store.arg(2))
        return false;
    }
    return true;
  }

  static bool stays_in_l1(const Copy& copy) {
    const std::int64_t bytes = copy.rows.source * copy.load.dtype().element().bytes();
    return bytes > 0 && bytes % kLineBytes == 0 && bytes % kSharedSets != 0;
  }

  // The rows that the copy would have put where the fragment is read.
  std::optional<SourceRows> rows_of(const Copy& copy, Node load) const {
    const Fragment* fragment = fragments_.find(load);
    if (fragment == nullptr || *fragment != copy.fragment || load.arg(1).dtype().lanes > 1)
      return std::nullopt;
    Linear index = linear(load.arg(1));
    SourceRows found{copy.load.arg(0), copy.place, copy.rows.source, *fragment, copy.load.arg(1).dtype()};
    for (const CopyLoop& loop : copy.fragments) {
      std::int64_t last = index.constant / loop.panel;
      if (last < 0) return std::nullopt;
      index.constant -= last * loop.panel;
      found.place.constant += last * loop.source;
      for (Term& term : index.terms) {
        if (term.coefficient != loop.panel || !term.node.is(Op::Range) || !term.node.arg(0).is_const())
          continue;
        term.coefficient = 0;
        found.place.add_term(term.node, loop.source);
        last += term.node.arg(0).int_attr() - 1;
      }
      if (last >= loop.extent) return std::nullopt;
    }
    const std::vector<Node>& around = *around_.find(load);
    const bool open = std::all_of(found.place.terms.begin(), found.place.terms.end(), [&](const Term& t) {
      return t.coefficient == 0 || !t.node.is(Op::Range) ||
             std::find(around.begin(), around.end(), t.node) != around.end();
    });
    return open && is_nothing(index) ? std::optional(std::move(found)) : std::nullopt;
  }

  const Program& program_;
  const NodeMap<Fragment> fragments_;
  NodeMap<Panel> panels_;
  NodeMap<std::size_t> begins_, ends_;  // of loops
  NodeMap<std::vector<Node>> around_;   // loops around a load, outermost first
  NodeMap<char> written_;
};

// Counters of inner loops last, so that what does not change in them is one value.
Node index_of(const Linear& place, DType dtype) {
  std::vector<Term> terms(place.terms.begin(), place.terms.end());
  std::stable_sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) {
    auto depth = [](Node n) { return n.is(Op::Range) ? range_id(n) : -1; };
    return depth(a.node) < depth(b.node);
  });
  Node sum;
  for (const Term& term : terms) {
    if (term.coefficient == 0) continue;
    Node part = apply(Op::Mul, cast(term.node, dtype), int_const(dtype, term.coefficient));
    sum = sum ? apply(Op::Add, sum, part) : part;
  }
  if (!sum) return int_const(dtype, place.constant);
  return place.constant == 0 ? sum : apply(Op::Add, sum, int_const(dtype, place.constant));
}

}  // namespace

Program read_in_place(Program program, const Target& target) {
  if (!has_fragment_products(program)) return program;
  Finder finder(program);
  finder.run(target.l1);
  if (finder.rows.empty()) return program;
  EarlyValues early(program);
  NodeMap<Node> loads;
  for (const auto& [load, rows] : finder.rows) {
    const DType element = rows.param.dtype();
    const int parts = load.dtype().bytes() / element.bytes();
    const DType dtype = element.vec(static_cast<std::uint16_t>(rows.fragment.lanes() * parts));
    Node index = early.want(index_of(rows.place, rows.index));
    Node read = intern(Op::Load, dtype, {rows.param, index});
    loads[load] = with_access(read, {access_of(load).past, rows.fragment.rows, rows.pitch});
  }
  Relist list(std::move(program));
  early.put_first(list);
  for (Node n : list.before()) {
    if (finder.copies.contains(n)) {
      list.drop(n);
      continue;
    }
    if (const Node* load = loads.find(n)) {
      Node read = list.put(*load);
      list.replace(n, pack({&read, 1}));
    } else {
      list.keep(n);
    }
    early.put_after(n, list);
  }
  return list.take();
}

}  // namespace lathe
