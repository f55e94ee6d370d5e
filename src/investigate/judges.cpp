#include "investigate/judges.h"

#include <memory>

#include <fmt/format.h>

#include "base/env.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/first_use.h"
#include "engine/kernels.h"
#include "engine/prove.h"
#include "investigate/fenced.h"
#include "investigate/setting.h"
#include "ir/build.h"
#include "search/job.h"
#include "verify/bounds.h"

namespace lathe::investigate {
namespace {

// Steps of the solver for one access.
constexpr unsigned kEffort = 20000;

void add(std::vector<Opinion>& out, const Judge& judge, const std::string& says) {
  if (!says.empty()) out.push_back({std::string(judge.name), says.substr(0, says.find('\n'))});
}

// Everything is verified after every step.
std::string verifier(const Setting& setting) {
  try {
    engine::ProofCounts counts;
    Compile context = setting.compile();
    context.checks = Checks::EveryStep;
    const Subject& subject = setting.subject();
    const Node kernel =
        engine::prove_accesses(subject.kernel, setting.options(), subject.name, context.quiet(), counts);
    lower_kernel(kernel, setting.options(), context, subject.name);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

// The kernel after each step: the first access that a binding of its ranges takes out of its memory.
class Bounds : public StepSink {
 public:
  explicit Bounds(StepSink* outer) : outer_(outer) {}
  void kernel(const StepInfo& step, Node& kernel) override {
    if (outer_ != nullptr) outer_->kernel(step, kernel);
    if (!says.empty()) return;
    for (const verify::AccessProof& access : verify::prove_bounds(kernel, {.effort = kEffort}).accesses)
      if (access.proof == verify::Proof::Refuted)
        says = fmt::format("after {}: {}", step.name, access.counterexample);
  }
  void program(const StepInfo& step, Program& program) override {
    if (outer_ != nullptr) outer_->program(step, program);
  }
  std::string says;

 private:
  StepSink* outer_;  // of an experiment around this one
};

std::string bounds_proof(const Setting& setting) {
  Bounds seen(engine::experiment_sink());
  const engine::ExperimentScope experiment({.sink = &seen});
  try {
    setting.lower();
  } catch (const InternalError&) {  // the verifier's
  } catch (const KernelOptError&) {
  }
  return seen.says;
}

// As the engine runs it for the first time, where a difference is an error.
std::string first_use(const Setting& setting) {
  OpenDevice& device = setting.device();
  if (!device.device->computes()) return "";
  const FlagScope strict(Flag::Check, "strict"), save(Flag::Save, "");
  const Subject& subject = setting.subject();
  Step step;
  step.ast = subject.kernel;
  step.device = device.text;
  step.name = subject.name;
  std::vector<std::unique_ptr<Fenced>> memory;
  std::vector<Place> places;
  for (const reference::Array& array : setting.before()) {
    memory.push_back(std::make_unique<Fenced>(device, array.byte_count()));
    memory.back()->fill(array);
    places.push_back(memory.back()->place());
    step.buffers.emplace_back(new_buffer(array.dtype(), array.size(), device.text));
  }
  std::vector<std::pair<NodeRef, std::int64_t>> bindings;
  for (const auto& [name, value] : subject.bindings)
    bindings.emplace_back(variable(name, value, value), value);
  try {
    const engine::KernelRequest request{
        .ast = subject.kernel, .name = subject.name, .device = &device, .options = setting.options()};
    engine::ReadyKernel kernel = engine::ready_kernels({&request, 1})[0];
    LaunchFaultRef fault;
    engine::launch_checked(step, kernel, device, places, bindings, fault);
  } catch (const InternalError& error) {
    return error.what();
  } catch (const CompileError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

std::vector<Opinion> ask_judges(const Subject& subject, const Conditions& conditions) {
  const Scope scope;
  std::vector<Opinion> out;
  const Setting setting(subject, conditions);
  add(out, kVerifier, verifier(setting));
  add(out, kBoundsProof, bounds_proof(setting));
  return out;
}

std::vector<Opinion> opinions_of(const StepsRun& run) {
  std::vector<Opinion> out;
  if (run.outcome == Outcome::Wrong)
    add(out, is_missing_order(run.text) ? kRaceDetector : kReference,
        fmt::format("after {}: {}", run.steps.empty() ? "" : run.steps.back().name, run.text));
  return out;
}

std::vector<Opinion> ask_on_device(const Subject& subject, const Conditions& conditions) {
  const Scope scope;
  std::vector<Opinion> out;
  if (const DeviceRun run = run_on_device(subject, conditions, 1); run.text.starts_with(kWroteOutside))
    add(out, kFences, run.text);
  add(out, kFirstUse, first_use(Setting(subject, conditions)));
  return out;
}

}  // namespace lathe::investigate
