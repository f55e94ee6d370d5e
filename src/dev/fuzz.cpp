#include "lathe/dev/fuzz.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "dev/fuzz_program.h"
#include "engine/engine.h"
#include "engine/graph_text.h"
#include "engine/prepared_schedule.h"
#include "investigate/graph_subject.h"
#include "ir/walk.h"
#include "lathe/device.h"
#include "runtime/devices.h"
#include "search/limits.h"
#include "search/space.h"

namespace lathe::dev {
namespace {

using investigate::Outcome;
using investigate::Subject;

// Two devices round in another order; float16 and bfloat16 coarsely.
constexpr double kRelative = 2e-3, kRelativeHalf = 3e-2;
// Elements of a graph, all values together, that REF schedules again.
constexpr double kMostElements = 2e5;

// Nothing hides what is wrong, and nothing comes from an earlier process.
struct Plainly {
  const FlagScope check{Flag::Check, "off"}, cache{Flag::Cache, "off"}, beam{Flag::Beam, "0"};
};

// What differs between the devices, or nothing.
std::string difference(std::uint64_t seed) {
  const FuzzProgram here = make_fuzz_program(seed, default_device()), there = make_fuzz_program(seed, "REF");
  const std::vector<double> got = here.result.tolist(), want = there.result.tolist();
  if (got.size() != want.size()) return fmt::format("{} elements, not {}", got.size(), want.size());
  double size = 0;
  for (const double v : want) size = std::isfinite(v) ? std::max(size, std::fabs(v)) : size;
  const bool half = here.result.dtype().is_float() && here.result.dtype().itemsize() == 2;
  const double bound = here.exact && !half ? 0 : (half ? kRelativeHalf : kRelative) * (size + 1);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
    if (!same && !(std::fabs(got[i] - want[i]) <= bound))
      return fmt::format("element {} is {}, and {} on REF", i, got[i], want[i]);
  }
  return "";
}

double elements_of(std::span<const NodeRef> targets) {
  double all = 0;
  for (Node n : toposort(std::vector<Node>(targets.begin(), targets.end()))) {
    double elements = 1;
    for (Node size : n.shape()) elements *= static_cast<double>(std::max<std::int64_t>(size.hi(), 1));
    all += elements;
  }
  return all;
}

bool has_variables(std::span<const NodeRef> targets) {
  const std::vector<Node> all = toposort(std::vector<Node>(targets.begin(), targets.end()));
  return std::ranges::any_of(all, [](Node n) { return n.is(Op::Var); });
}

// What one program gives to compare.
struct Made {
  std::vector<investigate::GraphSubject> graphs;
  std::vector<Subject> kernels;
};

void take_call(const engine::Call& call, Made& made) {
  if (!has_variables(call.targets) && elements_of(call.targets) <= kMostElements)
    made.graphs.push_back({"fuzz", call.targets});
  for (std::size_t i = 0; i < call.prepared->steps.size(); ++i) {
    const Step& step = call.prepared->schedule.steps[i];
    const engine::MadeKernel* kernel = call.prepared->steps[i].kernel.made;
    if (step.is_copy() || kernel == nullptr) continue;
    Subject subject;
    subject.name = step.name;
    subject.options_from = kernel->options_from;
    subject.options = kernel->options;
    subject.device = step.device;
    subject.kernel = kernel->ast;
    for (Node n : toposort(kernel->ast))
      if (n.is(Op::Var))
        for (const auto& [variable, value] : call.bindings)
          if (variable->text() == n.text()) subject.bindings.emplace_back(n.text(), value);
    made.kernels.push_back(std::move(subject));
  }
}

// A few steps of the search away from the kernel's own list, or from none.
std::vector<Opt> random_list(const Subject& subject, const Target& target, std::mt19937_64& random) {
  search::Limits limits;
  limits.max_upcast = 128;
  std::vector<Opt> list = random() % 2 == 0 ? subject.options : std::vector<Opt>();
  for (std::size_t steps = 1 + random() % 4; steps > 0; --steps) {
    const search::StepKinds kinds = search::neighbours(subject.kernel, list, target, limits);
    if (kinds.empty()) break;
    const auto& kind = kinds[random() % kinds.size()];
    if (!kind.empty()) list = kind[random() % kind.size()];
  }
  return list;
}

class Seed {
 public:
  Seed(std::uint64_t seed, int lists, const std::string& folder)
      : seed_(seed), lists_(lists), folder_(folder), random_(hash_mix(seed)) {}

  FuzzSeed run() {
    try {
      const std::string differs = collect();
      if (!graphs_are_right() || !kernels_are_right()) return std::move(out_);
      if (!differs.empty()) failed("program", "", differs);
    } catch (const InternalError& error) {
      failed("program", "", error.what());
    }
    return std::move(out_);
  }

 private:
  void failed(std::string kind, std::string path, const std::string& text) {
    out_.kind = std::move(kind);
    out_.path = std::move(path);
    out_.text = text.substr(0, text.find('\n'));
  }

  std::string collect() {
    const Plainly plainly;
    const std::string computing = default_device();
    engine::set_observer([&](const engine::Call& call) {
      const bool here = std::ranges::any_of(call.prepared->schedule.steps,
                                            [&](const Step& step) { return step.device == computing; });
      if (here) take_call(call, made_);
    });
    struct Unobserved {
      ~Unobserved() { engine::set_observer({}); }
    } unobserved;
    return difference(seed_);
  }

  bool graphs_are_right() {
    for (const investigate::GraphSubject& graph : made_.graphs) {
      ++out_.graphs;
      const investigate::StepsRun run = investigate::run_schedule_on_ref(graph, {});
      if (!is_failure(run.outcome)) continue;
      const std::string path = fmt::format("{}/graph_fuzz_{}.txt", folder_, seed_);
      write_file_atomic(path, to_text(graph), Sync::No);
      failed("graph", path, run.text);
      return false;
    }
    return true;
  }

  bool kernels_are_right() {
    static std::set<std::uint64_t> seen;  // of this process
    for (const Subject& subject : made_.kernels) {
      if (!seen.insert(hash_string(to_text(subject))).second) continue;
      ++out_.kernels;
      out_.symbolic += !subject.bindings.empty();
      if (!is_right(subject)) return false;
      const Target& target = open_device(subject.device).compiler->target();
      for (int i = 0; i < lists_; ++i) {
        Subject other = subject;
        other.options = random_list(subject, target, random_);
        other.options_from = "user";
        other.seed = random_() % 1000 + 1;
        ++out_.lists;
        if (!is_right(other)) return false;
      }
    }
    return true;
  }

  bool is_right(const Subject& subject) {
    const investigate::DeviceRun run = investigate::run_on_device(subject, {}, 1);
    if (!is_failure(run.outcome)) return true;
    const std::string path = fmt::format("{}/kernel_fuzz_{}_{}.txt", folder_, seed_, out_.lists);
    write_file_atomic(path, to_text(subject), Sync::No);
    failed("kernel", path, run.text);
    return false;
  }

  std::uint64_t seed_;
  int lists_;
  const std::string& folder_;
  std::mt19937_64 random_;
  Made made_;
  FuzzSeed out_;
};

}  // namespace

FuzzSeed fuzz_seed(std::uint64_t seed, int lists, const std::string& folder) {
  const Scope scope;
  return Seed(seed, lists, folder).run();
}

bool run_fuzz_program(std::uint64_t seed) { return difference(seed).empty(); }

std::string fuzz_program_text(std::uint64_t seed) { return make_fuzz_program(seed, default_device()).text; }

}  // namespace lathe::dev
