#include "codegen/lower/transpose_loads.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/lower/relist.h"
#include "codegen/lower/transpose.h"
#include "ir/access.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "rules/index_parts.h"

namespace lathe {
namespace {

constexpr std::size_t kWords = 4;  // of a row that are loaded at once: 16 bytes

// A vector whose lanes are words that are loaded one by one from places that differ by constants.
struct Gathered {
  Node vector;
  Node load;                         // of the first lane
  Node scalar;                       // of all indices, or null
  std::int64_t first = 0, step = 0;  // the constant of the first lane's, and from word to word
  std::vector<std::int64_t> apart;   // of each lane, from the first one
};

// The load of a word: of an element, or of the parts that are packed into it.
Node load_of(Node word) {
  if (word.is(Op::Pack) && word.arg_count() == 1) word = word.arg(0);
  return word.is(Op::Load) ? word : Node();
}

std::optional<Gathered> gathered(Node n) {
  if (!n.is(Op::Vec) || n.dtype().element().bytes() != 4 || n.dtype().is_bool() ||
      n.arg_count() % kWords != 0)
    return std::nullopt;
  Gathered out{n, load_of(n.arg(0)), Node(), 0, 0, {}};
  for (Node word : n.args()) {
    Node load = load_of(word);
    if (!load || load.arg_count() > 2 || access_of(load) != Access{} || word.op() != n.arg(0).op() ||
        load.arg(0) != out.load.arg(0) || load.dtype() != out.load.dtype() || load.arg(1).dtype().lanes > 1)
      return std::nullopt;
    const IndexParts at = index_parts(load.arg(1));
    if (out.apart.empty()) out.scalar = at.scalar, out.first = at.constant;
    if (at.scalar != out.scalar) return std::nullopt;
    out.apart.push_back(at.constant - out.first);
  }
  out.step = out.load.dtype().lanes;
  return out;
}

bool are_of_same_rows(const Gathered& x, const Gathered& y) {
  return x.load.arg(0) == y.load.arg(0) && x.load.dtype() == y.load.dtype() && x.scalar == y.scalar &&
         x.apart == y.apart && x.vector.arg(0).op() == y.vector.arg(0).op();
}

// Four vectors of words that are neighbours in every row.
using Tile = std::vector<Gathered>;

class Tiles {
 public:
  explicit Tiles(const std::vector<NodeRef>& code) {
    for (Node n : code) {
      // What is stored may be what is loaded after it, and loads stay in their loop.
      if (n.is(Op::Store) || n.is(Op::Barrier) || n.is(Op::Range) || n.is(Op::End) || n.is(Op::If) ||
          n.is(Op::EndIf))
        settle();
      else if (std::optional<Gathered> found = gathered(n))
        waiting_.push_back(*std::move(found));
    }
    settle();
    count_uses(code);
  }

  bool empty() const { return tiles_.empty(); }
  struct Place {
    std::size_t tile, column;
  };
  const Place* find(Node vector) const { return places_.find(vector); }
  const Tile& operator[](std::size_t i) const { return tiles_[i]; }
  // Whether nothing but vectors of tiles took the value.
  bool is_gone(Node n) const {
    const std::int64_t* left = uses_.find(n);
    return left != nullptr && *left == 0;
  }

 private:
  void settle() {
    std::vector<Gathered> all = std::exchange(waiting_, {});
    std::stable_sort(all.begin(), all.end(),
                     [](const Gathered& x, const Gathered& y) { return x.first < y.first; });
    for (const Gathered& first : all) {
      if (places_.contains(first.vector)) continue;
      Tile tile{first};
      for (const Gathered& next : all)
        if (tile.size() < kWords && are_of_same_rows(first, next) &&
            next.first == tile.back().first + first.step && !places_.contains(next.vector))
          tile.push_back(next);
      if (tile.size() < kWords) continue;
      for (std::size_t i = 0; i < kWords; ++i) places_.try_emplace(tile[i].vector, Place{tiles_.size(), i});
      tiles_.push_back(std::move(tile));
    }
  }

  void count_uses(const std::vector<NodeRef>& code) {
    for (const Tile& tile : tiles_)
      for (const Gathered& g : tile)
        for (Node word : g.vector.args()) uses_[word] = uses_[load_of(word)] = 0;
    for (std::size_t i = code.size(); i-- > 0;) {  // users are behind what they use
      Node n = code[i];
      if (places_.contains(n)) continue;
      for (Node a : n.args())
        if (std::int64_t* left = uses_.find(a); left != nullptr && !(n.is(Op::Pack) && is_gone(n))) ++*left;
    }
  }

  std::vector<Gathered> waiting_;
  std::vector<Tile> tiles_;
  NodeMap<Place> places_;
  NodeMap<std::int64_t> uses_;  // of words and their loads, by others
};

std::vector<Node> put_tile(Relist& list, const Tile& tile) {
  const Gathered& first = tile[0];
  const auto elements = static_cast<std::uint16_t>(kWords * static_cast<std::size_t>(first.step));
  const DType index = first.load.arg(1).dtype();
  std::vector<Node> rows;
  for (const std::int64_t apart : first.apart) {
    Node at = int_const(index, first.first + apart);
    if (first.scalar)
      at = first.first + apart == 0 ? list.named(first.scalar)
                                    : list.put(apply(Op::Add, list.named(first.scalar), at));
    Node row = list.put(load(list.named(first.load.arg(0)), at, Node(), elements));
    rows.push_back(first.vector.arg(0).is(Op::Pack) ? list.put(pack({&row, 1})) : row);
  }
  // Rows 0, 4, 8, ... in one vector, rows 1, 5, 9, ... in the next: a transpose of every four lanes is that
  // of all.
  const auto lanes = static_cast<std::int64_t>(rows.size());
  std::vector<Node> joined;
  for (std::size_t r = 0; r < kWords; ++r) {
    std::vector<Node> own;
    for (std::size_t i = r; i < rows.size(); i += kWords) own.push_back(rows[i]);
    joined.push_back(own.size() == 1 ? own[0] : shuffled(list, own, lanes, [](std::int64_t i) { return i; }));
  }
  return transposed(list, joined);
}

}  // namespace

Program transpose_loads(Program program, const Target& target) {
  if (!target.vectors) return program;
  const Tiles tiles(program.code);
  if (tiles.empty()) return program;
  Relist list(std::move(program));
  NodeMap<std::vector<Node>> columns;  // by the first vector of a tile
  for (Node n : list.before()) {
    if (tiles.is_gone(n)) continue;
    const Tiles::Place* place = tiles.find(n);
    if (place == nullptr) {
      list.keep(n);
      continue;
    }
    const Tile& tile = tiles[place->tile];
    std::vector<Node>& here = columns[tile[0].vector];
    if (here.empty()) here = put_tile(list, tile);
    list.replace(n, here[place->column]);
  }
  return list.take();
}

}  // namespace lathe
