#include "render/tile_sources.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/build.h"
#include "ir/ranges.h"
#include "target/cache_line.h"

namespace lathe::render {
namespace {

constexpr int kWordBytes = 4;
// Rows that are a multiple of it apart share a few places of the nearest cache.
constexpr std::int64_t kSharedPlaces = 2048;

// A loop of a copy: by how many words of the panel and elements of the source it moves.
struct CopyLoop {
  Node range;
  std::int64_t extent = 0, panel = 0, source = 0;
};

struct Copy {
  Node load, store;
  std::size_t begin = 0, end = 0;  // of its instructions
  CopyLoop rows;
  std::vector<CopyLoop> fragments;  // in order of `panel`, largest first
  Linear place;                     // of the source, without what the loops add
};

// What is known of one array of the kernel's own.
struct Panel {
  std::vector<Node> loads, stores;
  std::size_t stored_at = 0;
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
  Finder(const Program& program, const NodeMap<Node>& fragments, int rows, int columns)
      : program_(program), fragments_(fragments), rows_(rows), columns_(columns) {
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
      } else {
        panel.stores.push_back(n);
        panel.stored_at = at, panel.loops = open;
      }
    }
  }

  TileSources run(std::int64_t cache) {
    TileSources out;
    for (const auto& [memory, panel] : panels_) {
      if (memory_size(memory) * kWordBytes > cache * 2 / 3) continue;
      std::optional<Copy> copy = copy_of(panel);
      if (!copy || !read_at_ease(*copy)) continue;
      NodeMap<SourceRows> rows;
      for (Node load : panel.loads)
        if (std::optional<SourceRows> found = rows_of(*copy, load)) rows[load] = *std::move(found);
      if (rows.size() < panel.loads.size()) continue;
      for (Node load : panel.loads) out.rows[load] = *rows.find(load);
      for (std::size_t at = copy->begin; at <= copy->end; ++at) out.copies[program_.code[at]] = 1;
    }
    return out;
  }

 private:
  // The loops that do nothing but fill the panel, and what they copy.
  std::optional<Copy> copy_of(const Panel& panel) {
    if (panel.stores.size() != 1 || panel.loads.empty() || panel.loops.empty()) return std::nullopt;
    Copy copy;
    copy.store = panel.stores[0];
    Node value = copy.store.arg(2);
    if (copy.store.arg_count() > 3 || copy.store.arg(1).dtype().lanes > 1 || !value.is(Op::Pack) ||
        value.arg_count() != 1 || value.dtype().lanes != columns_ || value.dtype().bytes() != kWordBytes)
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
      if (loop.panel == columns_ && loop.extent == rows_)
        copy.rows = loop;
      else if (loop.panel > 0 && loop.panel % (rows_ * columns_) == 0)
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

  static bool read_at_ease(const Copy& copy) {
    const std::int64_t bytes = copy.rows.source * copy.load.dtype().element().bytes();
    return bytes > 0 && bytes % kLineBytes == 0 && bytes % kSharedPlaces != 0;
  }

  // The rows that the copy would have put where the fragment is read.
  std::optional<SourceRows> rows_of(const Copy& copy, Node load) const {
    if (!fragments_.contains(load) || load.dtype().lanes != rows_ * columns_ || load.arg(1).dtype().lanes > 1)
      return std::nullopt;
    Linear index = linear(load.arg(1));
    SourceRows found{copy.load.arg(0), copy.place, copy.rows.source};
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
    return is_nothing(index) ? std::optional(std::move(found)) : std::nullopt;
  }

  const Program& program_;
  const NodeMap<Node>& fragments_;
  const int rows_, columns_;
  NodeMap<Panel> panels_;
  NodeMap<std::size_t> begins_, ends_;
  NodeMap<char> written_;
};

}  // namespace

TileSources tile_sources(const Program& program, const NodeMap<Node>& fragments, int rows, int columns,
                         std::int64_t cache) {
  return Finder(program, fragments, rows, columns).run(cache);
}

}  // namespace lathe::render
