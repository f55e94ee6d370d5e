#include <fmt/format.h>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/count.h"
#include "codegen/decompose.h"
#include "codegen/expand.h"
#include "codegen/fuse_multiply_add.h"
#include "codegen/linearize.h"
#include "codegen/lower_index.h"
#include "codegen/lower_reduce.h"
#include "codegen/lowering.h"
#include "codegen/map_parallel.h"
#include "ir/build.h"

namespace lathe {
namespace {

struct Pass {
  const char* name;
  const char* purpose;
  Node (*run)(Node kernel, Lowering& lowering);
};

// What happens to a kernel after its options, in order.
constexpr Pass kPasses[] = {
    {"expand", "unrolled ranges become copies and vector lanes", expand},
    {"lower_reduce", "reduces become loops over accumulators",
     [](Node k, Lowering&) { return lower_reduce(k); }},
    {"fuse_multiply_add", "x*y + z where the target does it in one step",
     [](Node k, Lowering& l) { return l.target.fma ? fuse_multiply_add(k) : k; }},
    // After contraction: the error terms of the polynomials are exact only as written.
    {"decompose", "what the target lacks, by what it has",
     [](Node k, Lowering& l) { return decompose(k, l.target); }},
    {"map_parallel", "parallel ranges become launch indices", map_parallel},
    // Last, because it needs the bounds of launch indices and makes plain machine integers of all that came
    // before.
    {"lower_index", "index arithmetic becomes 32- or 64-bit",
     [](Node k, Lowering&) { return lower_index(k); }},
};

}  // namespace

Program lower_kernel(Node kernel, std::span<const Opt> opts, const Target& target, const std::string& name) {
  Scope scope;
  Lowering lowering{target, {}};
  Node node = apply_options(kernel, opts, target);
  for (const Pass& pass : kPasses) node = pass.run(node, lowering);
  Program program = linearize(node, lowering.launch);
  program.name = name;
  Work work = count_work(kernel);
  program.flops = work.flops;
  program.bytes = work.bytes;
  return program;
}

}  // namespace lathe
