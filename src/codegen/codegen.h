// One kernel in, one program out. `pipeline.cpp` is the map of what runs when.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "codegen/kernel/refusal.h"
#include "ir/node.h"
#include "ir/program.h"
#include "lathe/options.h"
#include "pipeline/compile.h"

namespace lathe {

// The options a kernel gets without search: a pure function of the kernel and the context.
std::vector<Opt> choose_options(Node kernel, const Compile& compile);

// The rules it is made of (choose/rules.def), each with what it is for and what it does; a compile may
// disable any.
class Chooser;
enum class RulePlace : std::uint8_t { Kernel, Rest, Part };
struct HeuristicRule {
  const char* name;
  const char* reason;
  RulePlace place;
  bool needed;  // a kernel without it may be too slow to be of any use
  bool (Chooser::*applies)() const;
  bool (Chooser::*propose)();
};
std::span<const HeuristicRule> heuristic_rules();

// The kernel with options applied, still kernel form, or which option it does not take and why.
OrRefusal<Node> try_options(Node kernel, std::span<const Opt> opts, const Compile& compile);
// The same for a list that has to fit: throws KernelOptError.
Node apply_options(Node kernel, std::span<const Opt> opts, const Compile& compile);

// Options, expansion, lowering, linearising. What is malformed is an InternalError that names the kernel, the
// step, the rule and the node, in every build.
Program lower_kernel(Node kernel, std::span<const Opt> opts, const Compile& compile, const std::string& name);

// The steps of apply_options, and those lower_kernel takes after them, in order.
std::vector<StepInfo> option_steps();
std::vector<StepInfo> lower_steps();

}  // namespace lathe
