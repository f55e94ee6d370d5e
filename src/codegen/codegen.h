// One kernel in, one program out. `pipeline.cpp` is the map of what runs when.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/node.h"
#include "ir/program.h"
#include "lathe/options.h"
#include "target/target.h"

namespace lathe {

// The options a kernel gets without search: a pure function of the kernel and the target. Invariant: no
// reduce is split, so that a row has the same bits in any batch.
std::vector<Opt> choose_options(Node kernel, const Target& target, bool invariant = false);

// The rules it is made of, each with what it is for; one that is among disabled_rules() is left out.
struct HeuristicRule {
  const char* name;
  const char* reason;
};
std::span<const HeuristicRule> heuristic_rules();

// The kernel with options applied: still kernel form. Throws KernelOptError naming the option and the reason.
Node apply_options(Node kernel, std::span<const Opt> opts, const Target& target);

// Where lower_kernel verifies: the kernel that comes in, that every range is closed wherever ranges become
// something else, and the program that goes out; or all of it after every step, so that a broken graph is
// blamed on the step that broke it.
enum class Checks : std::uint8_t { Borders, EveryStep };
#ifdef NDEBUG
inline constexpr Checks kUsualChecks = Checks::Borders;
#else
inline constexpr Checks kUsualChecks = Checks::EveryStep;
#endif

struct LowerOptions {
  Checks checks = kUsualChecks;
  // Products are fused with the sums they are added to and with nothing else, because what else stands in a
  // kernel depends on sizes.
  bool invariant = false;
};

// Options, expansion, lowering, linearising. What is malformed is an InternalError that names the kernel, the
// step and the node, in every build.
Program lower_kernel(Node kernel, std::span<const Opt> opts, const Target& target, const std::string& name,
                     const LowerOptions& how = {});

// Called on this thread after each step of lower_kernel with its name ("apply_options", "expand", ...,
// "linearize", and "verify" after each check), for benchmarks; null turns it off. Returns the one before.
using PassHook = void (*)(const char* pass);
PassHook set_pass_hook(PassHook hook);

}  // namespace lathe
