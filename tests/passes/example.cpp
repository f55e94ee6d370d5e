#include "passes/example.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <span>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "codegen/options/kernel_work.h"
#include "ir/build.h"
#include "ir/text.h"
#include "schedule/schedule.h"

namespace lathe::test {
namespace {

// Buffers that a step makes have numbers of their own in every run.
std::string numbered_buffers(const std::string& text) {
  static const std::regex kBuffer(R"((Buffer\.\w+ [^\n]*?\[)(\d+))");
  std::map<std::string, std::size_t> numbers;
  std::string out;
  auto begin = text.cbegin();
  for (std::sregex_iterator at(text.begin(), text.end(), kBuffer), end; at != end; ++at) {
    const std::size_t number = numbers.try_emplace((*at)[2].str(), numbers.size() + 1).first->second;
    out.append(begin, (*at)[2].first);
    out += std::to_string(number);
    begin = (*at)[2].second;
  }
  return out.append(begin, text.cend());
}

// The graphs before and after one step of a schedule.
struct Watched : StepSink {
  explicit Watched(std::string_view name) : step(name) {}
  void tensors(const StepInfo& from, std::vector<Node>& targets) override { add(from, print_graph(targets)); }
  void kernel(const StepInfo& from, Node& kernel) override { add(from, print_graph(kernel)); }
  void add(const StepInfo& from, const std::string& text) {
    if (from.name != last && !done) {
      done = last == step;
      if (!done) before = std::exchange(now, "");
      last = from.name;
    }
    if (!done) now += (now.empty() ? "" : "\n") + text;
  }
  std::string_view step;
  std::string last, before, now;
  bool done = false;
};

std::string scheduled(std::string_view step, Node target, const Target& facts) {
  Watched watched(step);
  watched.now = print_graph(target);
  Compile compile;
  compile.checks = Checks::EveryStep;
  compile.sink = &watched;
  schedule({&target, 1},
           {.default_device = "CPU",
            .max_buffers = facts.max_buffers,
            .rows = rows_of(facts),
            .fast_threads = [&](const std::string&) { return facts.has_fast_threads(); }},
           compile);
  return watched.now == watched.before ? kUnchanged : numbered_buffers(watched.now);
}

std::string launch_text(const KernelWork& work) {
  std::string text;
  auto add = [&](const std::string& name, Node size) {
    if (size) text += fmt::format("# {} {}\n", name, index_text(size));
  };
  for (std::size_t i = 0; i < 3; ++i) {
    add(fmt::format("groups {}", i), work.lowering.launch.groups[i]);
    add(fmt::format("threads of a group {}", i), work.lowering.launch.locals[i]);
  }
  add("parts", work.lowering.launch.threads);
  if (!work.lowering.checks.empty()) text += fmt::format("# checks {}\n", work.lowering.checks.size());
  return text;
}

// A step from program to program on a program as text.
std::string on_text(std::string_view step, const std::string& in, const Target& target) {
  Compile compile(target);
  compile.checks = Checks::EveryStep;
  KernelWork work(Node(), {}, compile);
  work.program = parse_program(in);
  work.linear = true;
  for (const VerifyFault& fault : verify_program(work.program))
    throw UserError("example", "a program that is none: " + fault.text);
  const std::string before = print_program(work.program);
  for (const StepRow<KernelWork>& row : lower_rows())
    if (row.name == step) run_step(row, work);
  const std::string after = print_program(work.program);
  return after == before ? kUnchanged : after;
}

// Those that begin with a kernel do what comes before the step too: a program is long, and what made it is
// not.
std::optional<std::string> on_program(std::string_view step, KernelWork& work) {
  const std::span<const StepRow<KernelWork>> rows = lower_rows();
  const auto named = [&](std::string_view name) {
    return std::ranges::find_if(rows, [&](const StepRow<KernelWork>& row) { return row.name == name; });
  };
  if (named(step) == rows.end() || named(step) <= named("linearize")) return std::nullopt;
  run_steps(option_rows(), work);
  for (const StepRow<KernelWork>& row : rows) {
    const std::string before = work.linear ? print_program(work.program) : "";
    run_step(row, work);
    if (row.name != step) continue;
    const std::string after = print_program(work.program);
    return after == before ? kUnchanged : after;
  }
  return std::nullopt;
}

std::string on_kernel(std::string_view step, Node kernel, std::span<const Opt> opts, const Target& target) {
  Compile compile(target);
  compile.checks = Checks::EveryStep;
  KernelWork work(kernel, opts, compile);
  if (const auto program = on_program(step, work)) return *program;
  auto run = [&](const StepRow<KernelWork>& row) {
    const Node before = work.kernel;
    run_step(row, work);
    if (work.linear) return print_program(work.program);
    const std::string launch = launch_text(work);
    return work.kernel == before && launch.empty() ? std::string(kUnchanged)
                                                   : launch + print_graph(work.kernel);
  };
  for (const StepRow<KernelWork>& row : lower_rows())
    if (row.name == step) return run(row);
  for (const StepRow<KernelWork>& row : option_rows()) {
    if (row.name == step) return run(row);
    run_step(row, work);
  }
  throw UserError("example", fmt::format("there is no step {}", step));
}

}  // namespace

namespace {

// A target by its name, and the facts it is to be without: "x86-64-v3 -wide_integers".
Target target_of(const std::string& text) {
  std::istringstream words(text);
  std::string name;
  words >> name;
  Target target = named_target(name);
  for (std::string fact; words >> fact;) {
    if (fact == "-wide_integers")
      target.wide_integers = false;
    else if (fact == "-divides_constants")
      target.divides_constants = false;
    else
      throw UserError("example", "no fact of a target: " + fact);
  }
  return target;
}

}  // namespace

Example parse_example(const std::string& text) {
  Example out;
  std::istringstream lines(text);
  std::string* part = nullptr;
  for (std::string line; std::getline(lines, line);) {
    if (line == "in")
      part = &out.in;
    else if (line == "out")
      part = &out.out;
    else if (part != nullptr)
      *part += line + "\n";
    else if (line.starts_with("#"))
      out.about += line + "\n";
    else if (line.starts_with("target "))
      out.target = line.substr(7);
    else if (line.starts_with("options "))
      out.options = line.substr(8);
    else
      throw UserError("example", "a line that is no part of one: " + line);
  }
  return out;
}

std::string print_example(const Example& e) {
  const std::string options = e.options.empty() ? "" : "options " + e.options + "\n";
  return e.about + "target " + e.target + "\n" + options + "in\n" + e.in + "out\n" + e.out;
}

std::string after_step(std::string_view step, const Example& example) {
  const Target target = target_of(example.target);
  if (example.in.starts_with("program ")) return on_text(step, example.in, target);
  const Node graph = parse_graph(example.in);
  for (const StepInfo& row : schedule_steps())
    if (row.name == step) return scheduled(step, graph, target);
  return on_kernel(step, graph, parse_opts(example.options), target);
}

}  // namespace lathe::test
