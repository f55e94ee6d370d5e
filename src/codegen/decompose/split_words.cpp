#include "codegen/decompose/split_words.h"

#include <limits>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/small_vector.h"
#include "codegen/decompose/word_pairs.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace lathe {
namespace {

using Args = SmallVector<Node, 16>;

bool is_signed(DType dtype) { return dtype.scalar == Scalar::Int64; }

[[noreturn]] void refuse(const std::string& what) {
  throw UserError("compile", what + " on a target without 64-bit integers")
      .help("use smaller tensors or 32-bit integers");
}

class Splitter {
 public:
  Node run(Node root) {
    for (Node n : toposort(root)) visit(n);
    return at(root);
  }

 private:
  Node at(Node old) const { return *done_.find(old); }
  const WordPair& pair(Node old) const { return *pairs_.find(old); }
  // Either operand of an op that also takes other dtypes beside them: an index or a count.
  Node small(Node old) const {
    const bool number = is_word_pair(old.dtype()) && !is_memory(old);
    return number ? bitcast(pair(old).low, dtypes::Int32) : at(old);
  }

  void visit(Node n) {
    if (is_memory(n))
      done_.try_emplace(n, memory(n));
    else if (is_word_pair(n.dtype()))
      pairs_.try_emplace(n, number(n));
    else
      done_.try_emplace(n, other(n));
  }

  // ---- memory

  static bool is_memory(Node n) { return n.is(Op::Param) || n.is(Op::Define) || n.is(Op::After); }

  Node memory(Node n) const {
    if (n.is(Op::After)) return rebuilt(n, at(n.arg(0)).dtype());
    if (!is_word_pair(n.dtype())) return n;
    AttrData d = *n.attr().data;
    d.ints[1] *= 2;
    if (d.ints[1] > std::numeric_limits<std::int32_t>::max())
      refuse(fmt::format("a buffer of {} 64-bit integers", memory_size(n)));
    return intern(n.op(), dtypes::UInt32.vec(n.dtype().lanes), {}, Attr::of(d));
  }

  // The places of the words of numbers at these places; of neighbours the first is enough.
  static Node word_places(Node index) {
    const std::uint16_t lanes = index.dtype().lanes;
    Node first = index * splat(int_const(dtypes::Int32, 2), lanes);
    if (lanes == 1) return first;
    std::vector<Node> places;
    for (int i = 0; i < lanes; ++i)
      for (int part = 0; part < 2; ++part) places.push_back(lane(first, i) + int_const(dtypes::Int32, part));
    return vec(places);
  }
  // One gate for all lanes, or each twice.
  static Node word_gate(Node gate) {
    if (!gate || gate.dtype().lanes == 1) return gate;
    std::vector<Node> twice;
    for (int i = 0; i < gate.dtype().lanes; ++i) twice.insert(twice.end(), 2, lane(gate, i));
    return vec(twice);
  }
  Node gate_of(Node n, std::size_t place) const {
    return n.arg_count() > place ? word_gate(at(n.arg(place))) : Node();
  }

  WordPair loaded(Node n) const {
    const std::uint16_t lanes = n.dtype().lanes;
    Node words = load(at(n.arg(0)), word_places(small(n.arg(1))), gate_of(n, 2),
                      static_cast<std::uint16_t>(2 * lanes));
    std::vector<Node> low, high;
    for (int i = 0; i < lanes; ++i) {
      low.push_back(lane(words, 2 * i));
      high.push_back(lane(words, 2 * i + 1));
    }
    return {vec(low), vec(high)};
  }
  Node stored(Node n) const {
    const WordPair& value = pair(n.arg(2));
    std::vector<Node> words;
    for (int i = 0; i < n.arg(2).dtype().lanes; ++i) {
      words.push_back(lane(value.low, i));
      words.push_back(lane(value.high, i));
    }
    return store(at(n.arg(0)), word_places(small(n.arg(1))), vec(words), gate_of(n, 3));
  }

  // ---- numbers

  WordPair number(Node n) const {
    const DType dtype = n.dtype();
    const std::uint16_t lanes = dtype.lanes;
    auto each = [&](auto part) -> WordPair { return {part(&WordPair::low), part(&WordPair::high)}; };
    switch (n.op()) {
      case Op::Const: return pair_of_constant(n.int_attr(), lanes);
      case Op::Load: return loaded(n);
      case Op::Cast: return is_word_pair(n.arg(0).dtype()) ? pair(n.arg(0)) : pair_of(at(n.arg(0)));
      case Op::Bitcast:
        if (is_word_pair(n.arg(0).dtype())) return pair(n.arg(0));
        refuse("the bits of a float64");
      case Op::Where: return select_pair(at(n.arg(0)), pair(n.arg(1)), pair(n.arg(2)));
      case Op::Neg:
      case Op::Not: return opposite_of(n.op(), pair(n.arg(0)));
      case Op::Splat: return each([&](auto word) { return splat(pair(n.arg(0)).*word, lanes); });
      case Op::Lane: return each([&](auto word) { return lane(pair(n.arg(0)).*word, n.int_attr()); });
      case Op::Vec:
        return each([&](auto word) {
          std::vector<Node> words;
          for (Node a : n.args()) words.push_back(pair(a).*word);
          return vec(words);
        });
      case Op::Iota: return pair_of(iota(dtypes::UInt32, lanes));
      case Op::HReduce: return combined(reduce_op(n), pair(n.arg(0)), n.arg(0).dtype());
      case Op::Range:
      case Op::Special:
      case Op::Var: return pair_of(counted(n));
      default: break;
    }
    if (!is_scalar_op(n.op()) || n.arg_count() != 2)
      throw InternalError("split_words", fmt::format("{} gives {}", info(n.op()).name, dtype.str()));
    return apply_to_pairs(n.op(), pair(n.arg(0)), pair(n.arg(1)), is_signed(dtype));
  }

  WordPair combined(Op op, const WordPair& x, DType dtype) const {
    auto at_lane = [&](int i) -> WordPair { return {lane(x.low, i), lane(x.high, i)}; };
    WordPair sum = at_lane(0);
    for (int i = 1; i < dtype.lanes; ++i) sum = apply_to_pairs(op, sum, at_lane(i), is_signed(dtype));
    return sum;
  }

  // What counts has no more than 2^31 steps on such a machine.
  Node counted(Node n) const {
    if (n.hi() > std::numeric_limits<std::int32_t>::max() ||
        n.lo() < std::numeric_limits<std::int32_t>::min())
      refuse(fmt::format("{} up to {}", info(n.op()).name, n.hi()));
    Args args;
    for (Node a : n.args()) args.push_back(small(a));
    return intern(n.op(), dtypes::Int32, args, n.attr());
  }

  // ---- the rest

  // Over what became of the operands; 64-bit ones are indices, and counts of loops.
  Node rebuilt(Node n, DType dtype) const {
    Args args;
    for (Node a : n.args())
      args.push_back(a.is(Op::Range) && is_word_pair(a.dtype()) ? counted(a) : small(a));
    return intern(n.op(), dtype, args, n.attr());
  }

  Node other(Node n) const {
    if (n.is(Op::Store) && is_word_pair(n.arg(2).dtype())) return stored(n);
    if (n.is(Op::Prefetch) && is_word_pair(n.arg(0).dtype()))
      return prefetch(at(n.arg(0)), word_places(small(n.arg(1))), n.int_attr());
    if (n.arg_count() == 0) return n;
    const DType from = n.arg(0).dtype();
    if (n.is(Op::Cast) && is_word_pair(from)) return from_pair(pair(n.arg(0)), is_signed(from), n.dtype());
    if (n.is(Op::Bitcast) && is_word_pair(from)) refuse("a float64 from its bits");
    if (is_scalar_op(n.op()) && is_word_pair(from) && n.arg_count() == 2)
      return compare_pairs(n.op(), pair(n.arg(0)), pair(n.arg(1)), is_signed(from));
    return rebuilt(n, n.dtype());
  }

  NodeMap<Node> done_;
  NodeMap<WordPair> pairs_;
};

}  // namespace

Node split_words(Node kernel, const Target& target) {
  return target.wide_integers || target.reference ? kernel : Splitter().run(kernel);
}

}  // namespace lathe
