#include "codegen/lower/keep_fragments.h"

#include "codegen/lower/fragments.h"
#include "codegen/lower/relist.h"
#include "ir/access.h"

namespace lathe {
namespace {

// From which step of its sum on each load goes past L1.
NodeMap<std::int64_t> read_past(const Program& program, const Target& target) {
  NodeMap<std::int64_t> out;
  const NodeMap<Fragment> fragments = factor_fragments(program);
  for (const FragmentSum& sum : fragment_sums(program, fragments)) {
    std::int64_t bytes = 0;  // that each step reads again
    for (Node load : sum.again) bytes += fragments.find(load)->bytes();
    if (bytes == 0) continue;
    for (Node load : sum.once) out[load] = 0;
    const std::int64_t kept = target.l1 * 2 / 3 / bytes;
    if (kept < sum.loop.arg(0).hi())
      for (Node load : sum.again) out[load] = kept;
  }
  return out;
}

}  // namespace

Program keep_fragments(Program program, const Target& target) {
  if (!has_fragment_products(program)) return program;
  const NodeMap<std::int64_t> past = read_past(program, target);
  if (past.empty()) return program;
  Relist list(std::move(program));
  for (Node n : list.before()) {
    if (const std::int64_t* from = past.find(n))
      list.replace(n, with_access(n, {.past = *from}));
    else
      list.keep(n);
  }
  return list.take();
}

}  // namespace lathe
