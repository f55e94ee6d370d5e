// Kernels in memory: many at once, and again after others were dropped.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "backends/cpu/loader.h"
#include "base/error.h"
#include "cpu/harness.h"

namespace lathe::test {
namespace {

// out[i] = in[i] + added.
Program adder(double added) {
  ProgramBuilder b("adder");
  Node out = b.buffer(dtypes::Float32, 64), in = b.buffer(dtypes::Float32, 64);
  Node r = b.loop(int_const(dtypes::Int64, 64));
  b.add(store(out, r, apply(Op::Add, load(in, r), float_const(dtypes::Float32, added))));
  b.close();
  return b.take();
}

float first_output(const backends::CpuKernel& kernel) {
  std::vector<float> out(64), in(64, 1.0f);
  void* buffers[] = {out.data(), in.data()};
  kernel.function(buffers, nullptr, 0, nullptr);
  EXPECT_EQ(out.front(), out.back());
  return out.front();
}

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

TEST(CpuLoading, ThousandsOfKernelsAreAFewMappings) {
  SKIP_WITHOUT_LLVM();
  Scope scope;
  const Binary one = llvm_compiler()->compile(adder(1)), two = llvm_compiler()->compile(adder(2));
  std::vector<std::unique_ptr<backends::CpuKernel>> kernels;
  kernels.push_back(backends::load_kernel(one));
  const std::size_t before = mappings();
  for (int i = 0; i < 3000; ++i) kernels.push_back(backends::load_kernel(i % 2 == 0 ? two : one));
  EXPECT_LT(mappings(), before + 100);
  for (std::size_t i = 0; i < kernels.size(); i += 59)
    ASSERT_EQ(first_output(*kernels[i]), i % 2 == 1 ? 3.0f : 2.0f) << i;
  // What is dropped makes room, and those beside it stay as they are.
  for (std::size_t i = 0; i < kernels.size(); i += 3) kernels[i].reset();
  for (std::size_t i = 0; i < kernels.size(); i += 3) kernels[i] = backends::load_kernel(two);
  EXPECT_LT(mappings(), before + 100);
  for (std::size_t i = 0; i < kernels.size(); ++i)
    ASSERT_EQ(first_output(*kernels[i]), i % 3 == 0 || i % 2 == 1 ? 3.0f : 2.0f) << i;
}

TEST(CpuLoading, DamagedCodeIsRefusedAndTheNextKernelRuns) {
  SKIP_WITHOUT_LLVM();
  Scope scope;
  const Binary whole = llvm_compiler()->compile(adder(1));
  int refused = 0;
  for (std::size_t bytes : {whole.bytes.size() / 2, whole.bytes.size() - 64}) {
    Binary part = whole;
    part.bytes.resize(bytes);
    try {
      backends::load_kernel(part);
    } catch (const Error&) {
      ++refused;
    }
    EXPECT_EQ(first_output(*backends::load_kernel(whole)), 2.0f);
  }
  EXPECT_EQ(refused, 2);
}

}  // namespace
}  // namespace lathe::test
