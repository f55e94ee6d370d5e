// The context of a compile, passed through scheduling, options, lowering and program steps: the target, the
// flags that change code, disabled or planted rules, and the sink that sees the graph after each step.
// Nothing else affects the generated code: the same graph in the same context gives the same program.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ir/node.h"
#include "ir/program.h"
#include "rewrite/rewriter.h"
#include "target/target.h"

namespace lathe {

// A row of a list of steps, as a reader knows it.
struct StepInfo {
  const char* name;
  const char* purpose;
  bool optional =
      false;  // a compile may do without it: slower code, and results that differ by rounding at most
};

// Receives what every step gives, by the step's name. It may put something else into its place: so tests
// plant faults, to show that whoever looks at results notices.
class StepSink {
 public:
  virtual ~StepSink() = default;
  virtual void tensors(const StepInfo& /*step*/, std::vector<Node>& /*targets*/) {}
  virtual void kernel(const StepInfo& /*step*/, Node& /*kernel*/) {}
  virtual void program(const StepInfo& /*step*/, Program& /*program*/) {}
  virtual void checked(const StepInfo& /*step*/) {}  // what the step gave has been verified
};

// What is verified. None: nothing, for what is thrown away. Borders: what comes in and what goes out
// entirely, and that every range is closed wherever ranges become something else; where a fault is found,
// everything is run again with EveryStep, for the name of the step. EveryStep: everything after every step.
enum class Checks : std::uint8_t { None, Borders, EveryStep };
#ifdef NDEBUG
inline constexpr Checks kUsualChecks = Checks::Borders;
#else
inline constexpr Checks kUsualChecks = Checks::EveryStep;
#endif

class Blame;

struct Compile {
  Compile();                      // of a schedule, whose devices are in its options
  Compile(const Target& target);  // of kernels; the target outlives it
  Compile(Target&& target);       // of kernels; keeps the target

  std::shared_ptr<const Target> kept;  // what `target` refers to, where nobody else has it
  const Target& target;
  // LATHE_INVARIANT: the division of a reduce depends only on its own extents, and products are fused with
  // the sums they are added to and with nothing else, because what else is in a kernel depends on sizes.
  bool invariant = false;
  // LATHE_TF32: products of float32 numbers may be done in tf32.
  bool tf32 = false;
  Checks checks = kUsualChecks;
  RuleChanges rules{};
  StepSink* sink = nullptr;
  Blame* blame = nullptr;  // records which rule made which node, once something malformed was found

  // The same without onlookers and checks, for what is tried and thrown away.
  Compile quiet() const;
  // The same for another target.
  Compile with(const Target& other) const;
};

}  // namespace lathe
