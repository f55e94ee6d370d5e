// Worked examples after scheduling, as files: a gradient by ragged ranges, and stores as versions. `make
// golden` rewrites them.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "graphs.h"
#include "ir/text.h"
#include "schedule/schedule.h"
#include "support/golden.h"

namespace lathe {
namespace {

using namespace test;

void expect_kernels(const std::string& name, std::span<const Node> targets) {
  Schedule s = schedule(targets);
  std::string text = "# " + name + "\n";
  for (const Step& step : s.steps)
    text +=
        fmt::format("\n# {}: {}\n{}", step.name, step.origin, step.is_copy() ? "" : print_graph(step.ast));
  for (std::size_t at; (at = text.find(" \n")) != std::string::npos;) text.erase(at, 1);
  expect_golden("tests/schedule/golden/" + name + ".txt", text);
}

Node assign(Node view, Node memory, Node value) {
  Node effect = intern(Op::Store, dtypes::Void, {view, value});
  return after(memory, {&effect, 1});
}

TEST(Golden, TheGradientOfAnEmbeddingIsASumOverALoadedRange) {
  Scope scope;
  auto list = [](std::int64_t n) { return new_buffer(dtypes::Int32, n, "CPU"); };
  Node bounds = list(31), begin = cut(bounds, {0}, {30}), end = cut(bounds, {1}, {31});
  Node grad = ragged_reduce(Op::Add, input({20, 8}), list(20), list(20), begin, end);
  expect_kernels("embedding_gradient", std::span(&grad, 1));
}

// x[1:] += x[:-1]; a, b = b, a; y = x*2, x += 1; kv[:, pos] = new.
TEST(Golden, StoresAreVersions) {
  Scope scope;
  Node one = float_const(dtypes::Float32, 1), two = float_const(dtypes::Float32, 2);
  Node x = f32_buffer(8), tail = cut(x, {1}, {8});
  Node shifted = assign(tail, x, tail + cut(x, {0}, {7}));
  expect_kernels("overlapping_update", std::span(&shifted, 1));

  Node a = f32_buffer(8), b = f32_buffer(8), swapped[] = {assign(a, a, b), assign(b, b, a)};
  expect_kernels("swap", swapped);

  Node kept[] = {x * two, assign(x, x, x + one)};
  expect_kernels("read_then_update", kept);

  Node cache = f32_buffer(4 * 6), rows = view(cache, {4, 6}), pos = variable("pos", 0, 5);
  Node from[] = {index_const(0), pos}, to[] = {index_const(4), pos + index_const(1)};
  Node next = assign(shrink(rows, from, to), cache, input({4, 1})), read = sum(view(next, {4, 6}), {1});
  Node step[] = {next, read};
  expect_kernels("cache_row", step);
}

}  // namespace
}  // namespace lathe
