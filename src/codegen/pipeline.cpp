#include <fmt/format.h>

#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/decompose/decompose.h"
#include "codegen/decompose/divide_constants.h"
#include "codegen/decompose/split_words.h"
#include "codegen/kernel/count.h"
#include "codegen/kernel/fuse_multiply_add.h"
#include "codegen/lower/await_products.h"
#include "codegen/lower/defer_rows.h"
#include "codegen/lower/expand.h"
#include "codegen/lower/group_memory.h"
#include "codegen/lower/join_stores.h"
#include "codegen/lower/keep_fragments.h"
#include "codegen/lower/linearize.h"
#include "codegen/lower/lower_checks.h"
#include "codegen/lower/lower_index.h"
#include "codegen/lower/lower_reduce.h"
#include "codegen/lower/map_parallel.h"
#include "codegen/lower/pipeline_copies.h"
#include "codegen/lower/prefetch_fragments.h"
#include "codegen/lower/prefetch_results.h"
#include "codegen/lower/read_in_place.h"
#include "codegen/lower/round_products.h"
#include "codegen/lower/separate_nests.h"
#include "codegen/lower/small_tables.h"
#include "codegen/lower/start_products.h"
#include "codegen/lower/store_in_place.h"
#include "codegen/lower/stream_stores.h"
#include "codegen/lower/transpose_loads.h"
#include "codegen/lower/transpose_stores.h"
#include "codegen/options/kernel_work.h"

namespace lathe {
namespace {

void make_program(KernelWork& work) {
  work.program = linearize(work.kernel, work.lowering.launch);
  work.linear = true;
}

constexpr bool kOptional = true, kNeeded = false;

// The steps of a kernel after its options (apply_options.cpp), in order.
// clang-format off
constexpr StepRow<KernelWork> kLowerSteps[] = {
    {"expand", "unrolled ranges become copies and vector lanes",
     [](KernelWork& w) { w.kernel = expand(w.kernel, w.lowering); }, has_ranges, kNeeded, is_closed},
    {"group_memory", "contiguous accesses become one, on targets without vector values",
     [](KernelWork& w) { w.kernel = group_memory(w.kernel, w.lowering); }, has_ranges, kOptional},
    {"lower_reduce", "reduces become loops over accumulators",
     [](KernelWork& w) { w.kernel = lower_reduce(w.kernel); }, has_ranges},
    {"start_products", "a matrix unit's sums start from the value that is added to them",
     [](KernelWork& w) { if (w.compile.target.groups) w.kernel = start_products(w.kernel); }, has_ranges, kOptional},
    {"fuse_multiply_add", "x*y + z becomes one instruction where the target has it",
     [](KernelWork& w) { if (w.compile.target.fma) w.kernel = fuse_multiply_add(w.kernel, w.compile.invariant); },
     has_ranges, kOptional},
    // Before decompose, which would write both with integers.
    {"round_products", "sums of bfloat16 products are rounded to bfloat16 by one instruction where the target has it",
     [](KernelWork& w) { w.kernel = round_products(w.kernel, w.compile.target); }, has_ranges, kOptional},
    {"small_tables", "4-bit floats are decoded with a table lookup where the target has an instruction for it",
     [](KernelWork& w) { w.kernel = small_tables(w.kernel, w.compile.target); }, has_ranges, kOptional},
    // After contraction: the error terms of the polynomials are exact only as written.
    {"decompose", "ops the target lacks become ops it has",
     [](KernelWork& w) { w.kernel = decompose(w.kernel, w.compile.target); }, has_ranges},
    {"map_parallel", "parallel ranges become launch indices",
     [](KernelWork& w) { w.kernel = map_parallel(w.kernel, w.lowering); }, is_lowered, kNeeded, is_closed},
    {"separate_nests", "a range used by several nests becomes one loop per nest",
     [](KernelWork& w) { w.kernel = separate_nests(w.kernel); }, is_lowered},
    // After the launch is mapped: every thread reports its own faults.
    {"lower_checks", "checks of indices become comparisons and a report",
     [](KernelWork& w) { w.kernel = lower_checks(w.kernel, w.lowering); }, is_lowered},
    // Last of the steps on a graph: it needs the bounds of launch indices and turns indices into machine integers
    // everywhere.
    {"lower_index", "index arithmetic becomes 32- or 64-bit",
     [](KernelWork& w) { w.kernel = lower_index(w.kernel); }, is_lowered},
    // After lower_index, which makes divisions and may make 64-bit integers.
    {"divide_constants", "divisions by constants become multiplications, where the target's compiler leaves them as they are",
     [](KernelWork& w) { w.kernel = divide_constants(w.kernel, w.compile.target); }, is_lowered},
    {"split_words", "64-bit integers become pairs of 32-bit words, where the target has no others",
     [](KernelWork& w) { w.kernel = split_words(w.kernel, w.compile.target); }, is_lowered},
    {"linearize", "the kernel as a list in execution order",
     make_program, is_ordered, kNeeded, is_closed},
    {"pipeline_copies", "asynchronous copies are started as many loop steps ahead as their panels have slots",
     [](KernelWork& w) { if (w.compile.target.groups) w.program = pipeline_copies(std::move(w.program)); }, is_ordered},
    {"await_products", "waits for asynchronous products are placed where their sums are read",
     [](KernelWork& w) { if (w.compile.target.groups) w.program = await_products(std::move(w.program)); }, is_program},
    {"stream_stores", "full cache lines of results that exceed the caches are stored with streaming stores",
     [](KernelWork& w) { w.program = stream_stores(std::move(w.program), w.compile.target); }, is_program, kOptional},
    // After streaming, which decides what takes a branch.
    {"join_stores", "stores under the same condition share one branch, and strided stores become adjacent",
     [](KernelWork& w) { w.program = join_stores(std::move(w.program), w.compile.target); }, is_program},
    // After joining, which makes them adjacent.
    {"transpose_stores", "groups of vectors with interleaved strided lanes are transposed before they are stored",
     [](KernelWork& w) { w.program = transpose_stores(std::move(w.program), w.compile.target); }, is_program, kOptional},
    {"transpose_loads", "words of rows that are lanes are loaded as rows and transposed",
     [](KernelWork& w) { w.program = transpose_loads(std::move(w.program), w.compile.target); }, is_program, kOptional},
    // For matrix units whose fragments belong to one thread.
    {"keep_fragments", "fragments that the next step reads again stay in L1, others bypass it",
     [](KernelWork& w) { w.program = keep_fragments(std::move(w.program), w.compile.target); }, is_program, kOptional},
    {"prefetch_fragments", "fragments of the next rows are prefetched where L2 does not hold their panel",
     [](KernelWork& w) { w.program = prefetch_fragments(std::move(w.program), w.compile.target); }, is_program, kOptional},
    // After both, which identify fragments by their panels.
    {"read_in_place", "fragments are read where their rows are, without a copy",
     [](KernelWork& w) { w.program = read_in_place(std::move(w.program), w.compile.target); }, is_program, kOptional},
    {"defer_rows", "rows of finished sums are converted and stored during the steps of the next sums",
     [](KernelWork& w) { w.program = defer_rows(std::move(w.program)); }, is_program, kOptional},
    // After deferring, which leaves nothing to wait for.
    {"prefetch_results", "results of matrix units that L2 does not hold are prefetched while their sums are computed",
     [](KernelWork& w) { w.program = prefetch_results(std::move(w.program), w.compile.target); }, is_program, kOptional},
    {"store_in_place", "matrix units store sums to the rows of the result themselves",
     [](KernelWork& w) { w.program = store_in_place(std::move(w.program)); }, is_program, kOptional},
};
// clang-format on

// Input from the scheduler or a user: fully verified in every build.
constexpr StepRow<KernelWork> kScheduled{"schedule", "the kernel as scheduled", nullptr, has_ranges};

Program lowered(Node kernel, std::span<const Opt> opts, const Compile& compile) {
  KernelWork work(kernel, opts, compile);
  blame_step(kScheduled.info(), work, has_ranges(work));
  if (compile.sink != nullptr) compile.sink->checked(kScheduled.info());
  run_steps(option_rows(), work);
  if (work.refusal) throw work.refusal->error();
  run_steps(lower_rows(), work);
  // The output is verified in every build; if every step is verified, that is already done.
  if (compile.checks == Checks::Borders) blame_step(lower_rows().back().info(), work, is_program(work));
  work.program.checks = std::move(work.lowering.checks);
  return std::move(work.program);
}

}  // namespace

std::span<const StepRow<KernelWork>> lower_rows() { return kLowerSteps; }
std::vector<StepInfo> option_steps() { return infos(option_rows()); }
std::vector<StepInfo> lower_steps() { return infos(lower_rows()); }

Program lower_kernel(Node kernel, std::span<const Opt> opts, const Compile& compile,
                     const std::string& name) {
  Scope scope;
  Program program;
  try {
    program = with_blame(compile, [&](const Compile& context) { return lowered(kernel, opts, context); });
  } catch (InternalError& error) {
    error.note(fmt::format("kernel {} with options {}", name, to_string(opts)));
    throw;
  }
  program.name = name;
  Work work = count_work(kernel);
  program.flops = work.flops;
  program.bytes = work.bytes;
  return program;
}

}  // namespace lathe
