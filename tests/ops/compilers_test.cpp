// The op suite through every compiler of kernels: the CPU's two printers must give the same bits, and NVRTC
// must take what is printed for CUDA, without a GPU. A tenth of the variants, or what OPS_SAMPLE says. Many
// cases are realized together, so that a compiler gets at least 64 kernels a unit.
#include <gtest/gtest.h>

#include "backends/cpu/compilers.h"
#include "backends/cpu/host.h"
#include "backends/cuda/cuda_compiler.h"
#include "backends/cuda/nvrtc.h"
#include "base/env.h"
#include "suite.h"

namespace lathe::test {
namespace {

constexpr std::size_t kGroups = 8;

// The group's share of the sampled variants.
std::vector<Variant> share(std::size_t group) {
  std::uint64_t n = sample_size(10);
  std::vector<Variant> out;
  for (std::size_t i = group; i < cases().size(); i += kGroups) {
    for (const Variant& v : variants_of(cases()[i]))
      if (chosen(v, n)) out.push_back(v);
    for (const Variant& v : special_variants_of(cases()[i]))
      if (chosen(v, n)) out.push_back(v);
  }
  return out;
}

// At most this many tensors at a time: batches are full, and memory is not.
constexpr std::size_t kAtOnce = 512;

class OpsCompilers : public testing::TestWithParam<std::size_t> {};

// The bytes of everything the variants want, through one of the CPU's compilers.
std::vector<std::vector<std::byte>> results(const std::vector<Variant>& variants, const char* compiler,
                                            std::vector<Wanted>& wanted) {
  FlagScope choice(Flag::Cpu, compiler);
  for (const Variant& v : variants) add_wanted(v, "CPU", wanted);
  std::vector<std::vector<std::byte>> out;
  for (std::size_t from = 0; from < wanted.size(); from += kAtOnce) {
    std::vector<Tensor> tensors;
    for (std::size_t i = from; i < std::min(from + kAtOnce, wanted.size()); ++i)
      tensors.push_back(wanted[i].value.contiguous());
    Tensor::realize_all(std::span<const Tensor>(tensors));
    for (const Tensor& t : tensors) out.push_back(t.bytes());
  }
  return out;
}

TEST_P(OpsCompilers, OfTheCpuGiveTheSameBits) {
  if (device_under_test() != "CPU") GTEST_SKIP() << "OPS_DEVICE is not the CPU";
  if (flag_text(Flag::Cpu) != "llvm") GTEST_SKIP() << "LATHE_CPU is not llvm";
  if (backends::find_c_compiler().empty()) GTEST_SKIP() << "no C compiler on PATH";
  try {
    backends::make_llvm_compiler(backends::host_target());
  } catch (const std::exception& e) {
    GTEST_SKIP() << e.what();
  }
  std::vector<Variant> variants = share(GetParam());
  std::vector<Wanted> by_llvm, by_c;
  auto first = results(variants, "llvm", by_llvm), second = results(variants, "c", by_c);
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_TRUE(same_bits(by_llvm[i].value.dtype(), first[i], second[i]))
        << by_llvm[i].what << ": the LLVM and the C printer give different bits";
}

TEST_P(OpsCompilers, OfCudaTakeEveryKernelWithoutAGpu) {
  if (device_under_test() != "CPU") GTEST_SKIP() << "OPS_DEVICE is not the CPU";
  if (backends::Nvrtc::get() == nullptr) GTEST_SKIP() << backends::Nvrtc::why_missing();
  static_assert(backends::kCudaBatch >= 64);
  std::vector<Wanted> wanted;
  for (const Variant& v : share(GetParam())) add_wanted(v, "NULL:sm_90a", wanted);
  // Moving to another device is no kernel, and there are no values to move.
  std::erase_if(wanted,
                [](const Wanted& w) { return w.what.starts_with("to ") || w.what.starts_with("to_ "); });
  for (std::size_t from = 0; from < wanted.size(); from += kAtOnce) {
    std::vector<Tensor> tensors;
    for (std::size_t i = from; i < std::min(from + kAtOnce, wanted.size()); ++i)
      tensors.push_back(wanted[i].value.contiguous());
    try {
      Tensor::realize_all(std::span<const Tensor>(tensors));
    } catch (const Error&) {  // one by one, to name the guilty ones
      for (std::size_t i = 0; i < tensors.size(); ++i)
        EXPECT_NO_THROW(tensors[i].realize()) << wanted[from + i].what;
    }
  }
}

std::string label(const testing::TestParamInfo<std::size_t>& info) { return std::to_string(info.param); }
INSTANTIATE_TEST_SUITE_P(Group, OpsCompilers, testing::Range(std::size_t{0}, kGroups), label);

}  // namespace
}  // namespace lathe::test
