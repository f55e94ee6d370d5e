#include "investigate/experiment.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/env.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/kernels.h"
#include "engine/prove.h"
#include "investigate/fenced.h"
#include "investigate/setting.h"
#include "ir/build.h"
#include "ir/launch.h"
#include "runtime/executor.h"
#include "runtime/fault_cell.h"
#include "verify/expected.h"

namespace lathe::investigate {
namespace {

using reference::Array;

// Operations of REF for what a kernel should store.
constexpr double kExpectedOps = 2e7;
// And for a program that no device runs.
constexpr double kProgramOps = 1e8;
// The kernel of a subject, compiled and in memory of its device.
class Loaded {
 public:
  explicit Loaded(const Setting& setting) : setting_(setting), program_(setting.lower()) {
    const Binary binary = setting.compiler().compile(program_);
    kernel_ = setting.device().device->load(binary);
    for (const Array& array : setting.before())
      buffers_.push_back(std::make_unique<Fenced>(setting.device(), array.byte_count()));
    for (const auto& [name, value] : setting.subject().bindings)
      bindings_.emplace_back(variable(name, value, value), value);
  }

  // What is wrong beside the values, or nothing.
  std::string run(std::vector<Array>& after) {
    OpenDevice& device = setting_.device();
    const std::vector<Array>& before = setting_.before();
    for (std::size_t slot = 0; slot < buffers_.size(); ++slot) buffers_[slot]->fill(before[slot]);
    std::optional<FaultCell> cell;
    if (!program_.checks.empty()) cell.emplace(device);
    std::vector<Arg> args;
    std::vector<Place> reads, writes;
    for (const ProgramParam& param : buffer_params(program_)) {
      const Place place = buffers_[static_cast<std::size_t>(param.slot)]->place();
      args.push_back({Arg::Kind::Span, place.span, 0});
      if (param.reads) reads.push_back(place);
      if (param.writes) writes.push_back(place);
    }
    if (cell) args.push_back({Arg::Kind::Span, cell->span(), 0});
    for (const NodeRef& v : program_.variables)
      args.push_back({Arg::Kind::Int, {}, engine::evaluate_index(v, bindings_)});
    const Grid grid = engine::grid_of(program_, bindings_);
    executor().wait(executor().launch(
        {&device, kMainQueue, kernel_.get(), grid, args, reads, writes, setting_.subject().name}));
    std::string wrong;
    after.clear();
    for (std::size_t slot = 0; slot < buffers_.size(); ++slot) {
      after.emplace_back(before[slot].dtype(), before[slot].size());
      if (!buffers_[slot]->read(after.back())) wrong = fmt::format("{} {}", kWroteOutside, slot);
    }
    if (cell && cell->value() != 0) wrong = kReportsOutside;
    return wrong;
  }

 private:
  const Setting& setting_;
  Program program_;
  std::unique_ptr<Kernel> kernel_;
  std::vector<std::unique_ptr<Fenced>> buffers_;
  std::vector<std::pair<NodeRef, std::int64_t>> bindings_;
};

// For targets without a machine: the program on REF. What is wrong beside the values, or nothing.
std::string run_on_ref(const Setting& setting, std::vector<Array>& after) {
  const Program program = setting.lower();
  after = setting.before();
  after.emplace_back(dtypes::Int64, 1);  // where checks report
  std::vector<reference::View> views;
  for (Array& array : after) views.push_back(array.view());
  const reference::EvalReport report =
      reference::program_eval(program, views, setting.subject().bindings, {.max_ops = kProgramOps});
  if (report.incomplete || report.sampled) throw InternalError("investigate", "too long for REF");
  const bool reported = after.back().at(0).i != 0;
  after.pop_back();
  if (!report.faults.empty()) return report.faults[0];
  return reported ? std::string(kReportsOutside) : "";
}

}  // namespace

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::Right: return "right";
    case Outcome::Wrong: return "wrong";
    case Outcome::Unknown: return "unknown";
    case Outcome::Refused: return "refused";
    case Outcome::Crashed: return "crashed";
    case Outcome::Hung: return "hung";
  }
  return "";
}

bool is_missing_order(std::string_view fault) {
  constexpr std::string_view kKinds[] = {"race:",
                                         "divergent barrier:",
                                         "read before arrival:",
                                         "write before arrival:",
                                         "nothing arrives:",
                                         "a part of a warp:"};
  return std::ranges::any_of(kKinds, [&](std::string_view kind) { return fault.starts_with(kind); });
}

bool is_failure(Outcome outcome) { return outcome != Outcome::Right && outcome != Outcome::Unknown; }

DeviceRun run_on_device(const Subject& subject, const Conditions& conditions, int runs) {
  const Scope scope;
  const Setting setting(subject, conditions);
  const verify::Expected expected(subject.kernel, setting.before(), subject.bindings, kExpectedOps,
                                  setting.target().native);
  DeviceRun out;
  if (expected.report().incomplete) {
    out.text = expected.report().reason.empty() ? "it is too long for REF" : expected.report().reason;
    return out;
  }
  if (!expected.report().faults.empty()) {
    out.outcome = Outcome::Unknown;
    out.text = "wrong as scheduled: " + expected.report().faults[0];
    return out;
  }
  if (expected.report().index_fault) {
    out.text = kOutsideInputs;
    return out;
  }
  std::vector<Array> first, after;
  try {
    std::optional<Loaded> loaded;
    if (setting.device().device->computes()) loaded.emplace(setting);
    for (int run = 0; run < runs; ++run) {
      const std::string wrong = loaded ? loaded->run(after) : run_on_ref(setting, after);
      if (!wrong.empty() && out.text.empty()) {
        out.outcome = Outcome::Wrong;
        out.failed = 1;
        out.text = wrong;
      }
      if (run == 0)
        first = after;
      else
        out.same_bits &= first == after;
    }
  } catch (const InternalError& error) {
    return {Outcome::Refused, error.what()};
  } catch (const CompileError& error) {
    return {Outcome::Refused, error.what()};
  } catch (const KernelOptError& error) {
    return {Outcome::Refused, error.what()};
  }
  if (out.outcome == Outcome::Wrong) return out;
  verify::Judgement judged;
  for (const std::vector<Array>* result : {&first, &after}) {
    judged = expected.judge(setting.before(), *result, [&] {
      return apply_options(subject.kernel, setting.options(), setting.compile());
    });
    if (judged.failed > 0 || out.same_bits) break;
  }
  out.passed = judged.passed, out.failed = judged.failed;
  out.outcome = judged.failed > 0 ? Outcome::Wrong : judged.passed > 0 ? Outcome::Right : Outcome::Unknown;
  if (judged.failed > 0 && judged.slot >= 0)
    out.difference = difference_map(subject.kernel, subject.bindings, expected.report().samples, judged.slot,
                                    after[static_cast<std::size_t>(judged.slot)]);
  out.text = judged.slot < 0 ? judged.text() : fmt::format("in buffer {} {}", judged.slot, judged.text());
  return out;
}

}  // namespace lathe::investigate
