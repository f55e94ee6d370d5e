#include "codegen/lower/prefetch_fragments.h"

#include "codegen/lower/fragments.h"
#include "codegen/lower/relist.h"
#include "ir/build.h"
#include "rules/linear.h"
#include "target/cache_line.h"

namespace lathe {
namespace {

// Counted in elements of the memory that is read.
struct Ahead {
  Node around;                // the loop whose steps share the lines out
  std::int64_t distance = 0;  // from a fragment to the one that will be read instead
  std::int64_t share = 0;     // of each step of `around`
};

// By the first of the fragments that a step reads again, where they follow each other in one panel.
NodeMap<Ahead> find_ahead(const Program& program, const Target& target) {
  NodeMap<Ahead> out;
  const NodeMap<Fragment> fragments = factor_fragments(program);
  for (const FragmentSum& sum : fragment_sums(program, fragments)) {
    if (sum.again.empty() || !sum.outside || !sum.around.arg(0).is_const()) continue;
    Node first = sum.again[0], memory = base_memory(first.arg(0));
    const std::int64_t element = memory.dtype().bytes();
    if (memory_size(memory) * element <= target.l2) continue;
    const Linear place = linear(first.arg(1));
    std::int64_t distance = 0, bytes = 0;
    for (const Term& term : place.terms)
      if (term.node == sum.outside) distance = term.coefficient;
    bool follow = distance > 0;
    for (Node load : sum.again) {
      follow &= base_memory(load.arg(0)) == memory &&
                (linear(load.arg(1)).constant - place.constant) * element == bytes;
      bytes += fragments.find(load)->bytes();
    }
    const std::int64_t lines = bytes / kLineBytes, steps = sum.around.arg(0).int_attr();
    if (follow) out[first] = {sum.around, distance, (lines + steps - 1) / steps * (kLineBytes / element)};
  }
  return out;
}

// The places of the lines that are prefetched where a fragment is read.
std::vector<Node> lines_of(Node load, const Ahead& ahead, EarlyValues& early) {
  const SplitIndex at = split_index(load.arg(1));
  const DType dtype = at.place.dtype();
  const auto number = [&](std::int64_t v) { return int_const(dtype, v); };
  Node share = apply(Op::Mul, cast(ahead.around, dtype), number(ahead.share));
  Node from = apply(Op::Add, at.place, share);
  std::vector<Node> out;
  for (std::int64_t line = 0; line < ahead.share; line += kLineBytes / load.arg(0).dtype().bytes())
    out.push_back(early.want(apply(Op::Add, from, number(at.distance + ahead.distance + line))));
  return out;
}

}  // namespace

Program prefetch_fragments(Program program, const Target& target) {
  if (!has_fragment_products(program)) return program;
  const NodeMap<Ahead> ahead = find_ahead(program, target);
  if (ahead.empty()) return program;
  EarlyValues early(program);
  NodeMap<std::vector<Node>> lines;
  for (const auto& [load, found] : ahead) lines[load] = lines_of(load, found, early);
  Relist list(std::move(program));
  early.put_first(list);
  for (Node n : list.before()) {
    if (const std::vector<Node>* here = lines.find(n))
      for (Node index : *here) list.put(prefetch(base_memory(n.arg(0)), index, 2));
    list.keep(n);
    early.put_after(n, list);
  }
  return list.take();
}

}  // namespace lathe
