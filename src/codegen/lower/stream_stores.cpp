#include "codegen/lower/stream_stores.h"

#include <algorithm>
#include <bit>
#include <set>
#include <vector>

#include "codegen/lower/relist.h"
#include "ir/access.h"
#include "ir/build.h"
#include "rules/linear.h"
#include "target/cache_line.h"

namespace lathe {
namespace {

struct Place {
  Node base;  // the index without its constant part, or null
  std::int64_t offset = 0;
};
Place place_of(Node index) {
  if (index.is_const()) return {Node(), index.int_attr()};
  if (index.is(Op::Add) && index.arg(1).is_const()) return {index.arg(0), index.arg(1).int_attr()};
  return {index, 0};
}

std::int64_t element_bytes(Node store) { return store.arg(2).dtype().bytes(); }
std::int64_t stored_bytes(Node store) { return element_bytes(store) * store.arg(2).dtype().lanes; }

// Consecutive elements in one instruction, with no mask.
bool is_plain_vector(Node store) {
  const bool masked = store.arg_count() > 3 && store.arg(3).dtype().lanes > 1;
  return store.arg(1).dtype().lanes == 1 && stored_bytes(store) >= 16 &&
         std::has_single_bit(static_cast<std::uint64_t>(stored_bytes(store))) && !masked;
}

// Whether the stores together write every byte of the lines that this one writes to, and each line begins
// where it should.
bool fills_lines(Node store, const std::vector<Node>& stores) {
  const std::int64_t line = kLineBytes / element_bytes(store);
  const Place at = place_of(store.arg(1));
  if (at.base && !is_multiple(at.base, line)) return false;
  if (at.offset % store.arg(2).dtype().lanes != 0) return false;
  std::set<std::int64_t> pieces;
  for (Node other : stores) {
    const Place there = place_of(other.arg(1));
    if (there.base == at.base && other.arg(0) == store.arg(0) && stored_bytes(other) == stored_bytes(store))
      pieces.insert(there.offset);
  }
  const std::int64_t lanes = store.arg(2).dtype().lanes, begin = at.offset / line * line;
  for (std::int64_t piece = begin; piece < begin + line; piece += lanes)
    if (!pieces.contains(piece)) return lanes >= line;
  return true;
}

// All of a program's stores that can.
NodeMap<char> streamed(const Program& program, const Target& target) {
  NodeMap<char> out;
  for (const ProgramParam& param : program.params) {
    if (!param.writes || param.reads || param.size * param.dtype.bytes() <= target.l3) continue;
    std::vector<Node> stores;
    for (const NodeRef& node : program.code)
      if (node->is(Op::Store) && base_memory(node->arg(0)).is(Op::Param) &&
          param_slot(base_memory(node->arg(0))) == param.slot && is_plain_vector(node))
        stores.push_back(node);
    for (Node store : stores)
      if (fills_lines(store, stores)) out.try_emplace(store);
  }
  return out;
}

}  // namespace

Program stream_stores(Program program, const Target& target) {
  if (target.l3 <= 0 || !target.vectors) return program;
  const NodeMap<char> stores = streamed(program, target);
  if (stores.empty()) return program;
  Relist list(std::move(program));
  for (Node n : list.before())
    if (stores.contains(n))
      list.replace(n, with_access(n, {.past = 0}));
    else
      list.keep(n);
  return list.take();
}

}  // namespace lathe
