#include <gtest/gtest.h>

#include <cstring>

#include "cpu/harness.h"

namespace lathe::test {
namespace {

Program add_program(std::uint16_t lanes) {
  ProgramBuilder b("add");
  Node out = b.buffer(dtypes::Float32, 64), x = b.buffer(dtypes::Float32, 64),
       y = b.buffer(dtypes::Float32, 64);
  Node i = b.loop(int_const(dtypes::Int64, 64 / lanes)) * int_const(dtypes::Int64, lanes);
  b.add(store(out, i, load(x, i, Node(), lanes) + load(y, i, Node(), lanes)));
  b.close();
  return b.take();
}

TEST(Cpu, AddsTwoArraysWithBothCompilers) {
  Scope scope;
  std::vector<float> x(64), y(64), sum(64);
  for (int i = 0; i < 64; ++i) x[i] = i * 0.25f, y[i] = 100.0f - i, sum[i] = x[i] + y[i];
  for (auto compiler : compilers())
    for (std::uint16_t lanes : {1, 4, 16, 64}) {
      Binary binary = compiler->compile(add_program(lanes));
      Bytes buffers[] = {Bytes(64 * 4), bytes_of(x), bytes_of(y)};
      run(binary, buffers);
      EXPECT_EQ(values_of<float>(buffers[0]), sum) << compiler->version() << "\n" << binary.source;
    }
}

}  // namespace
}  // namespace lathe::test
