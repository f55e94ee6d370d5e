#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/await_products.h"
#include "codegen/codegen.h"
#include "codegen/count.h"
#include "codegen/decompose.h"
#include "codegen/expand.h"
#include "codegen/fuse_multiply_add.h"
#include "codegen/group_memory.h"
#include "codegen/linearize.h"
#include "codegen/lower_checks.h"
#include "codegen/lower_index.h"
#include "codegen/lower_reduce.h"
#include "codegen/lowering.h"
#include "codegen/map_parallel.h"
#include "codegen/pipeline_copies.h"
#include "codegen/separate_nests.h"
#include "codegen/step_fault.h"
#include "ir/verify.h"

namespace lathe {
namespace {

struct Pass {
  const char* name;
  const char* purpose;
  Node (*run)(Node kernel, Lowering& lowering);
  KernelStage gives;  // what the verifier expects of its result
};

// What happens to a kernel after its options, in order.
// clang-format off
constexpr Pass kPasses[] = {
    {"expand", "unrolled ranges become copies and vector lanes",
     expand, KernelStage::Ranges},
    {"group_memory", "neighbouring accesses become one, where there are no vector values",
     group_memory, KernelStage::Ranges},
    {"lower_reduce", "reduces become loops over accumulators",
     [](Node k, Lowering&) { return lower_reduce(k); }, KernelStage::Ranges},
    {"fuse_multiply_add", "x*y + z where the target does it in one step",
     [](Node k, Lowering& l) { return l.target.fma ? fuse_multiply_add(k, l.invariant) : k; }, KernelStage::Ranges},
    // After contraction: the error terms of the polynomials are exact only as written.
    {"decompose", "what the target lacks, by what it has",
     [](Node k, Lowering& l) { return decompose(k, l.target); }, KernelStage::Ranges},
    {"map_parallel", "parallel ranges become launch indices",
     map_parallel, KernelStage::Lowered},
    {"separate_nests", "every range is one loop",
     [](Node k, Lowering&) { return separate_nests(k); }, KernelStage::Lowered},
    // After the launch is mapped: every thread reports its own faults.
    {"lower_checks", "checks of indices become comparisons and a report",
     lower_checks, KernelStage::Lowered},
    // Last, because it needs the bounds of launch indices and makes machine integers of all that came before.
    {"lower_index", "index arithmetic becomes 32- or 64-bit",
     [](Node k, Lowering&) { return lower_index(k); }, KernelStage::Lowered},
};
// clang-format on

thread_local PassHook pass_hook = nullptr;

void done(const char* pass) {
  if (pass_hook != nullptr) pass_hook(pass);
}

class Steps {
 public:
  Steps(std::span<const Opt> opts, const Target& target, const LowerOptions& how)
      : opts_(opts), lowering_{target, {}, {}, how.invariant}, checks_(how.checks) {}

  Program run(Node kernel) {
    check_kernel(kernel, "schedule");
    done("verify");
    Node node = apply_options(kernel, opts_, lowering_.target);
    done("apply_options");
    verify(node, "apply_options", KernelStage::Ranges, to_string(opts_));
    for (const Pass& pass : kPasses) {
      node = after_step(pass.name, pass.run(node, lowering_));
      done(pass.name);
      verify(node, pass.name, pass.gives);
    }
    Program program = linearize(node, lowering_.launch);
    after_step("linearize", program);
    done("linearize");
    if (lowering_.target.groups) program = await_products(pipeline_copies(std::move(program)));
    after_step("pipeline_copies", program);
    check_program(program, "linearize");
    done("verify");
    program.checks = std::move(lowering_.checks);
    return program;
  }

 private:
  void verify(Node kernel, const char* pass, KernelStage gives, const std::string& rule = "") const {
    if (checks_ == Checks::EveryStep)
      check_kernel(kernel, pass, rule, gives);
    else
      check_closed(kernel, pass, rule);
    done("verify");
  }

  std::span<const Opt> opts_;
  Lowering lowering_;
  Checks checks_;
};

}  // namespace

PassHook set_pass_hook(PassHook hook) { return std::exchange(pass_hook, hook); }

Program lower_kernel(Node kernel, std::span<const Opt> opts, const Target& target, const std::string& name,
                     const LowerOptions& how) {
  Scope scope;
  Program program;
  try {
    program = Steps(opts, target, how).run(kernel);
  } catch (InternalError& error) {
    // Found late: once more, to find the step that is to blame.
    if (how.checks != Checks::EveryStep)
      lower_kernel(kernel, opts, target, name, {Checks::EveryStep, how.invariant});
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
