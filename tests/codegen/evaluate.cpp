#include "codegen/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/codegen.h"
#include "ir/build.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "reference/reference.h"

namespace lathe::test {
namespace {

using reference::Array;
using reference::View;

const reference::Bindings kBindings = {{"n", 5}};

// Small whole numbers, so that sums are exact in any order; int32 stays small enough to be a length or an
// index.
std::vector<Array> made_up(Node kernel) {
  std::mt19937 random(7);
  std::vector<Array> arrays(8);
  for (Node n : toposort(kernel)) {
    if (!n.is(Op::Param)) continue;
    Array array(n.dtype(), memory_size(n));
    for (std::int64_t i = 0; i < array.size(); ++i) {
      int v = static_cast<int>(random() % 17);
      if (n.dtype() == dtypes::Int32)
        v %= 7;
      else if (!n.dtype().is_unsigned())
        v -= 8;
      array.set(i, {v, static_cast<double>(v)});
    }
    arrays[static_cast<std::size_t>(param_slot(n))] = array;
  }
  return arrays;
}
std::vector<View> views(std::vector<Array>& arrays) {
  std::vector<View> out;
  for (Array& a : arrays) out.push_back(a.view());
  return out;
}

// Where an evaluation was only a sample, what it did not write is not compared.
std::string difference(const std::vector<Array>& want, const std::vector<Array>& got,
                       const reference::EvalReport& report) {
  for (std::size_t slot = 0; slot < want.size(); ++slot)
    for (std::int64_t i = 0; i < want[slot].size(); ++i) {
      if (report.sampled && slot < report.written.size() && !report.written[slot].empty() &&
          !report.written[slot][static_cast<std::size_t>(i)])
        continue;
      double x = want[slot].number(i), y = got[slot].number(i);
      if (x != y && !(std::fabs(x - y) <= 1e-5 * (1 + std::fabs(x))))
        return fmt::format("param {} at {} is {}, not {}", slot, i, y, x);
    }
  return "";
}
std::string fault(const reference::EvalReport& report) {
  return report.ok() ? "" : report.faults.empty() ? "the evaluation is incomplete" : report.faults[0];
}

}  // namespace

std::string compare_with_reference(Node kernel, std::span<const Opt> opts, const Compile& compile,
                                   std::uint64_t seed) {
  auto blame = [&](std::string_view form, const std::string& what) {
    return fmt::format("{} for {} with options '{}', seed {}: {}", form, compile.target.name, to_string(opts),
                       seed, what);
  };
  reference::EvalOptions options;
  options.seed = seed;
  std::vector<Array> want = made_up(kernel);
  std::vector<View> memory = views(want);
  if (std::string f = fault(reference::kernel_eval(kernel, memory, kBindings, options)); !f.empty())
    return blame("kernel as scheduled", f);

  std::vector<Array> optimised = made_up(kernel);
  memory = views(optimised);
  Node after = apply_options(kernel, opts, compile);
  reference::EvalReport report = reference::kernel_eval(after, memory, kBindings, options);
  if (!report.ok()) return blame("kernel", fault(report) + "\n" + print_graph(after));
  if (std::string d = difference(want, optimised, report); !d.empty())
    return blame("kernel", d + "\n" + print_graph(after));

  std::vector<Array> lowered = made_up(kernel);
  memory = views(lowered);
  Program program = lower_kernel(kernel, opts, compile, "k");
  report = reference::program_eval(program, memory, kBindings, options);
  if (!report.ok()) return blame("program", fault(report) + "\n" + print_program(program));
  if (std::string d = difference(want, lowered, report); !d.empty())
    return blame("program", d + "\n" + print_program(program));
  return "";
}

namespace {

// What the program of an option list stores.
std::vector<Array> stored(Node kernel, std::span<const Opt> opts, const Compile& compile) {
  std::vector<Array> memory = made_up(kernel);
  for (Array& array : memory)  // sums of these are rounded
    for (std::int64_t i = 0; array.dtype() == dtypes::Float32 && i < array.size(); ++i)
      array.set(i, {0, static_cast<float>(array.number(i) * 0.7310585786)});
  std::vector<View> seen = views(memory);
  const reference::EvalReport report =
      reference::program_eval(lower_kernel(kernel, opts, compile, "k"), seen, kBindings);
  EXPECT_TRUE(report.ok()) << fault(report);
  return memory;
}

std::string first_difference(const std::vector<Array>& want, const std::vector<Array>& got) {
  for (std::size_t slot = 0; slot < want.size(); ++slot)
    for (std::int64_t i = 0; i < want[slot].size(); ++i)
      if (want[slot].cell(i).i != got[slot].cell(i).i)
        return fmt::format("element {} of slot {} is {} and {}", i, slot, want[slot].number(i),
                           got[slot].number(i));
  return "";
}

}  // namespace

std::string compare_bits(Node kernel, std::span<const Opt> opts, std::span<const Opt> other,
                         const Target& target) {
  const Compile compile(target);
  const std::string found = first_difference(stored(kernel, opts, compile), stored(kernel, other, compile));
  if (found.empty()) return "";
  return fmt::format("'{}' and '{}' for {}: {}", to_string(opts), to_string(other), target.name, found);
}

std::string compare_bits(Node kernel, std::span<const Opt> opts, const Compile& compile,
                         const Compile& other) {
  return first_difference(stored(kernel, opts, compile), stored(kernel, opts, other));
}

std::string refusal(Node kernel, const char* opts, const char* target) {
  try {
    apply_options(kernel, parse_opts(opts), named_target(target));
  } catch (const KernelOptError& error) {
    std::string text = error.what();
    return text.substr(0, text.find('\n'));
  }
  return "accepted";
}

int count_ops(const Program& program, Op op) {
  return static_cast<int>(std::count_if(program.code.begin(), program.code.end(),
                                        [&](const NodeRef& n) { return n.node().is(op); }));
}
int count_ops(const Program& program, Op op, int lanes) {
  return static_cast<int>(std::count_if(program.code.begin(), program.code.end(), [&](const NodeRef& n) {
    return n.node().is(op) && n.node().dtype().lanes == lanes;
  }));
}

}  // namespace lathe::test
