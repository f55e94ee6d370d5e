// CUDA source and cubins, without a GPU: skipped, with the reason, where NVRTC is not installed.
#include <gtest/gtest.h>

#include <set>

#include "backends/cuda/compiler_log.h"
#include "backends/cuda/dialect.h"
#include "base/error.h"
#include "codegen/kernels.h"
#include "cuda/support.h"
#include "ir/build.h"
#include "support/golden.h"

namespace lathe::test {
namespace {

// out[i] = op(a[i], ...) over one global range.
Node elementwise(Op op, DType dtype, std::int64_t n) {
  Node i = range(index_const(n), 0, RangeKind::Global);
  int count = info(op).args;
  std::vector<Node> x;
  for (int k = 0; k < count; ++k)
    x.push_back(load(param(op == Op::Where && k == 0 ? dtypes::Bool : dtype, k + 1, n), i));
  Node value = count == 1   ? apply(op, x[0])
               : count == 2 ? apply(op, x[0], x[1])
                            : apply(op, x[0], x[1], x[2]);
  Node effect = end(store(param(value.dtype(), 0, n), i, value), {&i, 1});
  return sink({&effect, 1});
}

Node conversion(DType from, DType to, std::int64_t n) {
  Node i = range(index_const(n), 0, RangeKind::Global);
  Node effect = end(store(param(to, 0, n), i, cast(load(param(from, 1, n), i), to)), {&i, 1});
  return sink({&effect, 1});
}

const DType kAll[] = {dtypes::Bool,       dtypes::Int8,    dtypes::UInt8,    dtypes::Int16,
                      dtypes::UInt16,     dtypes::Int32,   dtypes::UInt32,   dtypes::Int64,
                      dtypes::UInt64,     dtypes::Float16, dtypes::BFloat16, dtypes::Float32,
                      dtypes::Float64,    dtypes::Fp8e4m3, dtypes::Fp8e5m2,  dtypes::Fp8e4m3fnuz,
                      dtypes::Fp8e5m2fnuz};

bool defined_on(Op op, DType dtype) {
  const OpInfo& row = info(op);
  return dtype.is_bool() ? row.on_bool : dtype.is_float() ? row.on_float : row.on_int;
}

std::string golden(const char* name) { return std::string("tests/cuda/golden/") + name; }

TEST(CudaSource, OfALocalAndGroupedRowSumIsAsExpected) {
  Scope scope;
  Target target = named_target("sm_90a");
  Program program = lower_kernel(row_sum(64, 256), parse_opts("LOCAL(0, 4) GROUP(0, 8)"), target, "row_sum");
  expect_golden(golden("row_sum_local_group.cu"), render::c_text(program, backends::cuda_c()));
}

TEST(CudaCompiler, CompilesEveryKernelOfTheCodegenTestsInOneUnit) {
  LATHE_NEEDS_NVRTC();
  Scope scope;
  std::shared_ptr<const Compiler> compiler = cuda_compiler();
  std::vector<Program> programs;
  for (const NamedKernel& k : small_kernels())
    programs.push_back(lower_kernel(k.kernel, choose_options(k.kernel, compiler->target()),
                                    compiler->target(), "k" + std::to_string(programs.size())));
  std::vector<Binary> binaries = compiler->compile_all(programs);
  ASSERT_EQ(binaries.size(), programs.size());
  for (std::size_t i = 0; i < binaries.size(); ++i) {
    EXPECT_EQ(binaries[i].entry, programs[i].name);
    EXPECT_EQ(binaries[i].bytes.substr(1, 3), "ELF") << programs[i].name;
  }
}

TEST(CudaCompiler, CompilesTheNestedGroupReduceAtFullSizeForEveryTarget) {
  LATHE_NEEDS_NVRTC();
  Scope scope;
  for (const char* name : {"sm_80", "sm_90a"}) {
    Program program = lower_kernel(masked_reduce_in_reduce(1024, 50000, 50000), parse_opts("GROUPTOP(1, 16)"),
                                   named_target(name), "gather");
    EXPECT_GT(program.shared_bytes, 0);
    EXPECT_EQ(backends::make_cuda_compiler(named_target(name))->compile(program).bytes.substr(1, 3), "ELF")
        << name;
  }
}

TEST(CudaCompiler, CompilesEveryOpOnEveryDtype) {
  LATHE_NEEDS_NVRTC();
  Scope scope;
  std::shared_ptr<const Compiler> compiler = cuda_compiler();
  std::vector<Program> programs;
  for (int o = 0; o < kScalarOps; ++o)
    for (DType dtype : kAll)
      if (Op op = static_cast<Op>(o); defined_on(op, dtype))
        programs.push_back(lower_kernel(elementwise(op, dtype, 60), {}, compiler->target(),
                                        std::string(info(op).name) + "_" + dtype.str()));
  for (DType from : kAll)
    for (DType to : kAll)
      if (from != to)
        programs.push_back(
            lower_kernel(conversion(from, to, 60), {}, compiler->target(), from.str() + "_to_" + to.str()));
  std::vector<Binary> binaries = compiler->compile_all(programs);
  for (std::size_t i = 0; i < binaries.size(); ++i)
    EXPECT_EQ(binaries[i].bytes.substr(1, 3), "ELF") << programs[i].name;
  // A unit holds a batch: its kernels share one cubin.
  std::set<std::string> units;
  for (const Binary& binary : binaries) units.insert(binary.bytes);
  EXPECT_EQ(units.size(), (programs.size() + backends::kCudaBatch - 1) / backends::kCudaBatch);
}

// The units and copies that a chip has, in the source of a product.
TEST(CudaSource, OfAProductUsesWhatTheChipHas) {
  Scope scope;
  Node kernel = turned_matmul(4096, 4096, 4096, true, false);
  const auto has = [&](const char* target, const char* text) {
    const Target t = named_target(target);
    const Program program = lower_kernel(kernel, choose_options(kernel, t), t, "product");
    return render::c_text(program, backends::cuda_c()).find(text) != std::string::npos;
  };
  for (const char* target : {"sm_80", "sm_89"}) {
    for (const char* text : {"cp.async.cg", "ldmatrix", "mma.sync"}) EXPECT_TRUE(has(target, text)) << target;
    EXPECT_FALSE(has(target, "wgmma"));
  }
  for (const char* text : {"cp.async.bulk.tensor.2d", "mbarrier.arrive.expect_tx", "mbarrier.try_wait.parity",
                           "__grid_constant__", "product_maps[] = {2", "wgmma.mma_async"})
    EXPECT_TRUE(has("sm_90a", text)) << text;
  EXPECT_FALSE(has("sm_90a", "cp.async.cg"));
}

// The assembler moves conversions that stand under a condition up past the wait for the sums they convert,
// unless they depend on something that is only there after it.
TEST(CudaSource, OfSumsOfAUnitDependsOnWhatComesAfterTheWait) {
  Scope scope;
  Node kernel = turned_matmul(1000, 1000, 1000, true, false);
  for (const char* pipeline : {"", "PIPELINE(5, 5)", "PIPELINE(5, 4, 1)"}) {
    const Program program = lower_kernel(
        kernel, parse_opts(std::string("TC(1, 3, 1, 1) STAGE(5, 4, 2) STAGE(5, 5, 2) ") + pipeline),
        named_target("sm_90a"), "product");
    const std::string source = render::c_text(program, backends::cuda_c());
    const bool under_way = pipeline[0] != 0;  // when the loop ends
    const std::size_t wait = source.find("wgmma.wait_group.sync.aligned 0;"),
                      after = source.find("%clock_hi");
    ASSERT_NE(wait, std::string::npos);
    EXPECT_EQ(after != std::string::npos && after > wait, under_way) << pipeline;
  }
}

TEST(CudaCompiler, ItsLogIsRead) {
  const char* log =
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n"
      "ptxas info    : Compiling entry function 'k1' for 'sm_90a'\n"
      "ptxas info    : Function properties for k1\n"
      "    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 8 bytes cumulative stack size\n";
  const std::vector<backends::KernelResources> found = backends::resources_in(log);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kernel, "k1");
  EXPECT_EQ(found[0].registers, 40);
  EXPECT_EQ(found[0].spill_stores, 16);
  EXPECT_EQ(found[0].spill_loads, 24);
  EXPECT_EQ(found[0].stack, 8);
  ASSERT_EQ(backends::faults_in(log).size(), 1u);
}

TEST(CudaCompiler, SaysWhatItRefusedAndShowsTheSource) {
  LATHE_NEEDS_NVRTC();
  std::string log;
  EXPECT_EQ(backends::Nvrtc::get()->compile("__global__ void broken() { nonsense; }", "sm_90a", log), "");
  EXPECT_NE(log.find("nonsense"), std::string::npos) << log;
  EXPECT_EQ(backends::Nvrtc::get()->compile("", "sm_1", log), "");
  EXPECT_FALSE(log.empty());
}

}  // namespace
}  // namespace lathe::test
