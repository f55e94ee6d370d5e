#include "engine/lay_out_steps.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "codegen/choose/lay_out_factors.h"
#include "codegen/choose/split_sum.h"
#include "codegen/choose/tf32_factors.h"
#include "engine/compile_context.h"
#include "ir/build.h"
#include "ir/walk.h"
#include "schedule/kernel_rules.h"
#include "schedule/normalize.h"

namespace lathe::engine {
namespace {

// A copy serves products up to so many steps later: until then it takes memory.
constexpr std::size_t kNear = 24;

// The first buffer of a kernel is the one it writes; kernels with several stores say so by theirs.
std::vector<Node> written_by(const Step& step) {
  if (step.is_copy()) return {step.buffers[0]};
  std::vector<Node> out;
  for (Node n : toposort(step.ast))
    if (n.is(Op::Store) && base_memory(n.arg(0)).is(Op::Param))
      out.push_back(step.buffers[static_cast<std::size_t>(param_slot(base_memory(n.arg(0))))]);
  return out;
}

class Layouts {
 public:
  Layouts(Schedule schedule, const std::function<const Target*(const std::string&)>& target_of)
      : schedule_(std::move(schedule)), target_of_(target_of) {}

  Schedule run() {
    std::vector<Step> steps;
    for (Step& step : schedule_.steps) {
      const Target* target = step.is_copy() || !step.options.empty() ? nullptr : target_of_(step.device);
      if (target != nullptr && target->groups) {
        const Compile compile = compile_for(*target);
        if (Node cut_off = tf32_factors(step.ast, compile); cut_off != Node(step.ast)) step.ast = cut_off;
        if (const std::optional<LaidOut> made = lay_out_factors(step.ast, compile))
          replace(step, *made, steps);
        if (const std::optional<SplitSum> made = split_sum(step.ast, compile)) take_parts(step, *made, steps);
      }
      for (Node buffer : written_by(step))
        std::erase_if(known_, [&](const Known& known) { return Node(known.source) == buffer; });
      steps.push_back(std::move(step));
    }
    schedule_.steps = std::move(steps);
    return std::move(schedule_);
  }

 private:
  struct Known {
    NodeRef kernel, source, copy;
    std::size_t made = 0;  // the number of the step that stores it
  };

  void replace(Step& step, const LaidOut& laid_out, std::vector<Step>& steps) {
    NodeMap<Node> buffers;  // of params
    for (Node n : toposort(laid_out.kernel)) {
      if (!n.is(Op::Param)) continue;
      const auto slot = static_cast<int>(param_slot(n));
      buffers[n] =
          slot < laid_out.params
              ? Node(step.buffers[static_cast<std::size_t>(slot)])
              : copy_of(step, laid_out.copies[static_cast<std::size_t>(slot - laid_out.params)], steps);
    }
    const NormalKernel product = normalize_kernel(substitute(laid_out.kernel, buffers));
    step.ast = product.ast;
    step.buffers.assign(product.buffers.begin(), product.buffers.end());
  }

  static void take_parts(Step& step, const SplitSum& split, std::vector<Step>& steps) {
    const NodeRef sums = new_buffer(dtypes::Float32, split.size, buffer_device(step.buffers[0]));
    auto with_buffers = [&](Node kernel, int slot_of_sums, Step& to) {
      NodeMap<Node> buffers;
      for (Node n : toposort(kernel))
        if (n.is(Op::Param)) {
          const auto slot = static_cast<int>(param_slot(n));
          buffers[n] = slot == slot_of_sums ? Node(sums) : Node(step.buffers[static_cast<std::size_t>(slot)]);
        }
      const NormalKernel normal = normalize_kernel(merge_ranges(substitute(kernel, buffers)));
      to.ast = normal.ast;
      to.name = kernel_name(normal.ast);
      to.buffers.assign(normal.buffers.begin(), normal.buffers.end());
    };
    Step parts, whole = step;
    parts.device = step.device;
    parts.origin = step.origin + " in parts";
    with_buffers(split.parts, 0, parts);
    with_buffers(split.whole, split.params, whole);
    steps.push_back(std::move(parts));
    step = std::move(whole);
  }

  Node copy_of(const Step& product, const FactorCopy& copy, std::vector<Step>& steps) {
    const NodeRef source = product.buffers[static_cast<std::size_t>(copy.source)];
    for (const Known& known : known_)
      if (known.kernel == copy.kernel && known.source == source && steps.size() - known.made < kNear)
        return known.copy;
    Step step;
    step.ast = copy.kernel;
    step.buffers = {new_buffer(copy.dtype, copy.size, buffer_device(source)), source};
    step.device = product.device;
    step.name = kernel_name(copy.kernel);
    step.origin = "layout of " + product.origin;
    known_.push_back({copy.kernel, source, step.buffers[0], steps.size()});
    steps.push_back(std::move(step));
    return known_.back().copy;
  }

  Schedule schedule_;
  const std::function<const Target*(const std::string&)>& target_of_;
  std::vector<Known> known_;  // what is stored laid out and still holds
};

}  // namespace

Schedule lay_out_steps(Schedule schedule, const std::function<const Target*(const std::string&)>& target_of) {
  return Layouts(std::move(schedule), target_of).run();
}

}  // namespace lathe::engine
