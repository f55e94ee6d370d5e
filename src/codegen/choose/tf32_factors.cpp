#include "codegen/choose/tf32_factors.h"

#include <algorithm>
#include <vector>

#include "codegen/codegen.h"
#include "codegen/kernel/substitute.h"
#include "ir/build.h"
#include "ir/dot.h"
#include "ir/ranges.h"
#include "ir/walk.h"
#include "target/matrix_units.h"

namespace lathe {
namespace {

bool has_tf32(const Target& target) {
  return std::any_of(target.units.begin(), target.units.end(), [](const std::string& name) {
    const MatrixUnit* unit = find_matrix_unit(name);
    return unit != nullptr && unit->dot == "tf32";
  });
}

// Numbers that have more than tf32 keeps.
bool is_wide(Node factor) {
  return factor.dtype() == dtypes::Float32 &&
         !(factor.is(Op::Cast) && factor.arg(0).dtype().is_float() && factor.arg(0).dtype().bits() <= 16);
}

// The largest sum of products of two such factors, or null.
Node largest_product(Node kernel) {
  Node best;
  double most = 0;
  for (Node n : toposort(kernel)) {
    if (!n.is(Op::Reduce) || reduce_op(n) != Op::Add || n.dtype() != dtypes::Float32) continue;
    Node element = n.arg(0);
    double steps = 1;
    for (Node r : ranges_of(element)) steps *= typical_extent(r);
    if (steps <= most) continue;
    most = steps;
    const bool fits = element.is(Op::Mul) && is_wide(element.arg(0)) && is_wide(element.arg(1));
    best = fits ? n : Node();
  }
  return best;
}

}  // namespace

Node tf32_factors(Node kernel, const Compile& compile) {
  if (!compile.tf32 || compile.invariant || !has_tf32(compile.target)) return kernel;
  Node reduce = largest_product(kernel);
  if (!reduce) return kernel;
  Node element = reduce.arg(0);
  Node product = as_tf32(element.arg(0)) * as_tf32(element.arg(1));
  NodeMap<Node> map;
  map.try_emplace(reduce, reduce_ranges(Op::Add, product, closed_ranges(reduce)));
  Node cut_off = substitute(kernel, map);
  const std::vector<Opt> opts = choose_options(cut_off, compile);
  const bool on_unit =
      std::any_of(opts.begin(), opts.end(), [](const Opt& opt) { return opt.op == OptOp::TC; });
  return on_unit ? cut_off : kernel;
}

}  // namespace lathe
