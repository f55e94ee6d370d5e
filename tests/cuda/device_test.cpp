// The device itself: needs a GPU, else every test here is skipped with the driver's reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <random>

#include "base/error.h"
#include "codegen/kernels.h"
#include "codegen/random_options.h"
#include "cuda/support.h"
#include "ir/build.h"
#include "reference/reference.h"

namespace lathe::test {
namespace {

void expect_same_as_reference(Device& device, const Program& program, const Binary& binary) {
  constexpr std::uint64_t seed = 21;
  std::vector<reference::Array> got = arrays_for(program, seed), want = got;
  std::vector<reference::View> views;
  for (reference::Array& array : want) views.push_back(array.view());
  reference::EvalReport report = reference::program_eval(program, views, bindings());
  EXPECT_TRUE(report.ok()) << program.name << ": "
                           << (report.faults.empty() ? "incomplete" : report.faults[0]);
  run_on(device, program, binary, got);
  // REF computes an instruction's function, not its bits.
  const bool by_instruction =
      std::any_of(program.code.begin(), program.code.end(), [](const NodeRef& n) { return n->is(Op::Exp2); });
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!by_instruction || !got[i].dtype().is_float()) {
      EXPECT_EQ(got[i], want[i]) << program.name << ", param " << i << ", seed " << seed << "\n"
                                 << binary.source;
      continue;
    }
    for (std::int64_t e = 0; e < got[i].size(); ++e)
      EXPECT_NEAR(got[i].number(e), want[i].number(e), 1e-6 * (1 + std::fabs(want[i].number(e))))
          << program.name << ", param " << i << ", element " << e << ", seed " << seed;
  }
}

TEST(CudaDevice, RunsTheKernelsOfTheCodegenTestsAsReferenceDoes) {
  LATHE_NEEDS_GPU();
  Scope scope;
  std::shared_ptr<const Compiler> compiler = cuda_compiler();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  std::vector<Program> programs;
  std::vector<std::string> names;
  for (const NamedKernel& k : small_kernels()) {
    auto name = [&] { return "k" + std::to_string(programs.size()); };
    programs.push_back(
        lower_kernel(k.kernel, choose_options(k.kernel, compiler->target()), compiler->target(), name()));
    programs.push_back(lower_kernel(k.kernel, {}, compiler->target(), name()));
    names.insert(names.end(), {k.name + " with its options", k.name + " without options"});
  }
  std::vector<Binary> binaries = compiler->compile_all(programs);
  for (std::size_t i = 0; i < programs.size(); ++i) {
    SCOPED_TRACE(names[i]);
    expect_same_as_reference(*device, programs[i], binaries[i]);
  }
}

TEST(CudaDevice, RunsGroupedReducesWithSharedMemoryAndBarriers) {
  LATHE_NEEDS_GPU();
  Scope scope;
  std::shared_ptr<const Compiler> compiler = cuda_compiler();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  struct Case {
    const char* name;
    Node kernel;
    const char* options;
  };
  const Case cases[] = {
      {"rows", row_sum(64, 256), "LOCAL(0, 4) GROUP(0, 8)"},
      {"rows_top", row_sum(64, 250), "GROUPTOP(0, 16)"},
      {"nested", masked_reduce_in_reduce(16, 250, 250), "GROUPTOP(1, 16)"},
      {"nested_primes", masked_reduce_in_reduce(7, 251, 241), "GROUPTOP(1, 16)"},
      {"nested_twice", masked_reduces_in_reduce(16, 25, 25, 25), "GROUPTOP(2, 16)"},
      {"product", matmul(32, 32, 64), "LOCAL(0, 4) LOCAL(1, 4) GROUP(0, 8)"},
  };
  for (const Case& c : cases) {
    Program program = lower_kernel(c.kernel, parse_opts(c.options), compiler->target(), c.name);
    EXPECT_GT(program.shared_bytes, 0) << c.name;
    expect_same_as_reference(*device, program, compiler->compile(program));
  }
}

TEST(CudaDevice, RunsProductsFromPanelsThatAGroupFills) {
  LATHE_NEEDS_GPU();
  Scope scope;
  std::shared_ptr<const Compiler> compiler = cuda_compiler();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  const Node kernels[] = {matmul(128, 128, 64), matmul(100, 136, 77), matmul(200, 60, 48),
                          small_matmul(96, 160, 64, dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32),
                          convolution(2, 16, 20, 17, 3)};
  std::vector<Program> programs;
  for (Node k : kernels)
    programs.push_back(lower_kernel(k, choose_options(k, compiler->target()), compiler->target(),
                                    "product" + std::to_string(programs.size())));
  // More shared memory than a kernel has without asking for it.
  programs.push_back(lower_kernel(matmul(64, 64, 256),
                                  parse_opts("LOCAL(0, 8) LOCAL(1, 8) STAGE(1, 0) STAGE(1, 1)"),
                                  compiler->target(), "large_panels"));
  programs.push_back(lower_kernel(matmul(64, 64, 1024),
                                  parse_opts("LOCAL(0, 16) LOCAL(1, 16) STAGE(1, 0) STAGE(1, 1)"),
                                  compiler->target(), "larger_panels"));
  EXPECT_GT(programs.back().shared_bytes, 48 * 1024);
  std::vector<Binary> binaries = compiler->compile_all(programs);
  for (std::size_t i = 0; i < programs.size(); ++i)
    expect_same_as_reference(*device, programs[i], binaries[i]);
}

// Every order of the factors, by asynchronous copies: on the unit that the chip would take, and on that of a
// warp.
TEST(CudaDevice, RunsProductsFromSwizzledPanelsInEveryOrder) {
  LATHE_NEEDS_GPU();
  Scope scope;
  std::shared_ptr<const Compiler> compiler = cuda_compiler();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  std::vector<Program> programs;
  for (int order = 0; order < 4; ++order) {
    Node square = turned_matmul(192, 256, 320, order % 2 == 0, order / 2 == 0),
         odd = turned_matmul(136, 200, 264, order % 2 == 0, order / 2 == 0);
    for (Node kernel : {square, odd})
      programs.push_back(lower_kernel(kernel, choose_options(kernel, compiler->target()), compiler->target(),
                                      "product" + std::to_string(programs.size())));
    programs.push_back(
        lower_kernel(turned_matmul(64, 64, 256, order % 2 == 0, order / 2 == 0),
                     parse_opts("TC(1, 0, 1, 1) UPCAST(0, 2) LOCAL(0, 2) UPCAST(0, 4) LOCAL(0, 2) TILE(4, 4) "
                                "STAGE(4, 4, 2) STAGE(4, 5, 2) PIPELINE(4, 3)"),
                     compiler->target(), "product" + std::to_string(programs.size())));
    // Products that are under way when the loop ends, whose sums are stored under a condition.
    if (compiler->target().bulk_copies)
      for (const char* pipeline : {"PIPELINE(5, 5)", "PIPELINE(5, 3, 1)"})
        programs.push_back(
            lower_kernel(turned_matmul(136, 200, 1288, order % 2 == 0, order / 2 == 0),
                         parse_opts(std::string("TC(1, 4, 1, 1) STAGE(5, 4, 2) STAGE(5, 5, 2) ") + pipeline),
                         compiler->target(), "product" + std::to_string(programs.size())));
  }
  std::vector<Binary> binaries = compiler->compile_all(programs);
  for (std::size_t i = 0; i < programs.size(); ++i)
    expect_same_as_reference(*device, programs[i], binaries[i]);
}

// Every kind of number that the units multiply, on the unit of four warps with and without roles and on that
// of a warp; of those that the chip has.
TEST(CudaDevice, RunsProductsOfEveryKindOfNumber) {
  LATHE_NEEDS_GPU();
  Scope scope;
  std::shared_ptr<const Compiler> compiler = cuda_compiler();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  const Target& target = compiler->target();
  const std::pair<DType, DType> kinds[] = {
      {dtypes::BFloat16, dtypes::BFloat16}, {dtypes::Float16, dtypes::Float16},
      {dtypes::Float32, dtypes::Float32},   {dtypes::Fp8e4m3, dtypes::Fp8e4m3},
      {dtypes::Fp8e5m2, dtypes::Fp8e5m2},   {dtypes::Fp8e4m3, dtypes::Fp8e5m2},
      {dtypes::Fp8e5m2, dtypes::Fp8e4m3},   {dtypes::Int8, dtypes::Int8},
      {dtypes::Int8, dtypes::UInt8},        {dtypes::UInt8, dtypes::Int8},
      {dtypes::UInt8, dtypes::UInt8}};
  std::vector<Program> programs;
  auto add = [&](Node kernel, const std::vector<Opt>& opts) {
    programs.push_back(lower_kernel(kernel, opts, target, "product" + std::to_string(programs.size())));
  };
  for (const auto& [x, y] : kinds) {
    const int first = 2 * (32 / x.bits());  // the factors, after the loads of their words' numbers
    const std::int64_t row = 128 / x.bytes();
    Node odd = unit_matmul(136, 200, 3 * row + 32, x, y, true, true),
         kernel = unit_matmul(256, 256, 5 * row, x, y, true, true);
    add(odd, choose_options(odd, target));
    add(kernel, choose_options(kernel, target));
    Node turned = unit_matmul(96, 160, 2 * row, x, y, true, false);
    add(turned, choose_options(turned, target));
    if (!target.bulk_copies) continue;
    for (const int how : {1, 2})
      add(kernel, parse_opts(fmt::format("TC(1, 3, 1, 1) LOCAL(0, 2) STAGE(6, {}, 2) STAGE(6, {}, 2) "
                                         "PIPELINE(6, 3, {})",
                                         first, first + 1, how)));
  }
  std::vector<Binary> binaries = compiler->compile_all(programs);
  for (std::size_t i = 0; i < programs.size(); ++i) {
    SCOPED_TRACE(i);
    expect_same_as_reference(*device, programs[i], binaries[i]);
  }
}

TEST(CudaDevice, RunsRowsThatAGroupSharesAsReferenceDoes) {
  LATHE_NEEDS_GPU();
  Scope scope;
  std::shared_ptr<const Compiler> compiler = cuda_compiler();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  std::vector<Program> programs;
  for (std::int64_t columns : {17, 64, 100, 1000, 1024, 1337, 4096, 8192, 20000}) {
    Node kernel = centred_rows(8, columns);
    programs.push_back(lower_kernel(kernel, choose_options(kernel, compiler->target()), compiler->target(),
                                    "rows" + std::to_string(columns)));
  }
  std::vector<Binary> binaries = compiler->compile_all(programs);
  for (std::size_t i = 0; i < programs.size(); ++i) {
    std::vector<reference::Array> got = arrays_for(programs[i], 3), want = got;
    std::vector<reference::View> views;
    for (reference::Array& array : want) views.push_back(array.view());
    ASSERT_TRUE(reference::program_eval(programs[i], views, bindings()).ok()) << programs[i].name;
    run_on(*device, programs[i], binaries[i], got);
    for (std::size_t slot = 0; slot < got.size(); ++slot)
      EXPECT_EQ(got[slot], want[slot]) << programs[i].name << ", param " << slot;
  }
}

TEST(CudaDevice, RunsAttentionAsReferenceDoes) {
  LATHE_NEEDS_GPU();
  Scope scope;
  std::shared_ptr<const Compiler> compiler = cuda_compiler();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  std::vector<Program> programs;
  for (const bool causal : {false, true}) {
    Node kernel = unit_attention(2, 192, 2, 64, causal);
    programs.push_back(lower_kernel(kernel, choose_options(kernel, compiler->target()), compiler->target(),
                                    causal ? "causal" : "full"));
  }
  std::vector<Binary> binaries = compiler->compile_all(programs);
  for (std::size_t i = 0; i < programs.size(); ++i) {
    std::vector<reference::Array> got = arrays_for(programs[i], 3), want = got;
    std::vector<reference::View> views;
    for (reference::Array& array : want) views.push_back(array.view());
    ASSERT_TRUE(reference::program_eval(programs[i], views, bindings()).ok()) << programs[i].name;
    run_on(*device, programs[i], binaries[i], got);
    for (std::int64_t e = 0; e < got[0].size(); ++e)
      ASSERT_NEAR(got[0].number(e), want[0].number(e), 0.02 * std::max(1.0, std::abs(want[0].number(e))))
          << e;
  }
}

// One float in 37, subnormal arguments and results included.
TEST(CudaDevice, ExponentialsOfTheInstructionAreWithinTheirError) {
  LATHE_NEEDS_GPU();
  Scope scope;
  std::shared_ptr<const Compiler> compiler = cuda_compiler();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  constexpr std::int64_t kPart = 1 << 22;
  constexpr std::uint64_t kStep = 37;
  Node i = range(index_const(kPart), 0, RangeKind::Global);
  Node effect = end(
      store(param(dtypes::Float32, 0, kPart), i, apply(Op::Exp2, load(param(dtypes::Float32, 1, kPart), i))),
      {&i, 1});
  Node kernel = sink({&effect, 1});
  const Program program =
      lower_kernel(kernel, choose_options(kernel, compiler->target()), compiler->target(), "exponentials");
  const Binary binary = compiler->compile(program);
  double stated = 0;
  for (const OpError& own : compiler->target().native)
    if (own.op == Op::Exp2) stated = own.ulp;
  ASSERT_GT(stated, 0);
  std::vector<reference::Array> arrays = {reference::Array(dtypes::Float32, kPart),
                                          reference::Array(dtypes::Float32, kPart)};
  auto* out = reinterpret_cast<float*>(arrays[0].data());
  auto* in = reinterpret_cast<float*>(arrays[1].data());
  double worst = 0;
  float at = 0;
  for (std::uint64_t first = 0; first < std::uint64_t{1} << 32; first += kPart * kStep) {
    for (std::int64_t e = 0; e < kPart; ++e)
      in[e] = std::bit_cast<float>(static_cast<std::uint32_t>(first + static_cast<std::uint64_t>(e) * kStep));
    run_on(*device, program, binary, arrays);
    for (std::int64_t e = 0; e < kPart; ++e) {
      const double exact = std::exp2(static_cast<double>(in[e]));
      if (std::isnan(in[e]) || static_cast<float>(exact) == out[e]) {
        EXPECT_EQ(std::isnan(in[e]), std::isnan(out[e])) << in[e];
        continue;
      }
      const double ulp = std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23);
      if (const double off = std::fabs(out[e] - exact) / ulp; off > worst) worst = off, at = in[e];
    }
  }
  // Powers of two are exact, as REF takes them to be.
  for (std::int64_t e = 0; e < kPart; ++e) in[e] = static_cast<float>(e % 254 - 126);
  run_on(*device, program, binary, arrays);
  for (std::int64_t e = 0; e < 254; ++e) EXPECT_EQ(out[e], std::exp2(in[e])) << in[e];
  std::printf("exp2 by the instruction: at most %.3f ulp, at %a\n", worst, static_cast<double>(at));
  EXPECT_LE(worst, stated) << at;
}

TEST(CudaDevice, RandomListsOfOptionsRunAsReferenceDoes) {
  LATHE_NEEDS_GPU();
  Scope scope;
  std::shared_ptr<const Compiler> compiler = cuda_compiler();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  const std::vector<NamedKernel> kernels = small_kernels();
  std::vector<Program> programs;
  std::vector<std::string> names;
  for (std::uint32_t seed = 1; seed <= 256; ++seed) {
    std::mt19937 random(seed);
    const NamedKernel& k = kernels[random() % kernels.size()];
    const std::vector<Opt> opts = random_options(k.kernel, compiler->target(), random);
    programs.push_back(lower_kernel(k.kernel, opts, compiler->target(), "k" + std::to_string(seed)));
    names.push_back(k.name + ", seed " + std::to_string(seed) + ", " + to_string(opts));
  }
  std::vector<Binary> binaries = compiler->compile_all(programs);
  for (std::size_t i = 0; i < programs.size() && !HasFailure(); ++i) {
    SCOPED_TRACE(names[i]);
    expect_same_as_reference(*device, programs[i], binaries[i]);
  }
}

// out[i] = Y[idx[i]] by counting, the slow way: 2.6e12 steps. Every thread of a group takes part in each
// inner reduce.
TEST(CudaDevice, RunsTheNestedGroupReduceAtFullSize) {
  LATHE_NEEDS_GPU();
  Scope scope;
  constexpr std::int64_t rows = 1024, columns = 50000;
  std::shared_ptr<const Compiler> compiler = cuda_compiler();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  Program program = lower_kernel(masked_reduce_in_reduce(rows, columns, columns),
                                 parse_opts("GROUPTOP(1, 16)"), compiler->target(), "gather");
  std::mt19937 random(17);  // seed 17
  std::vector<reference::Array> arrays = arrays_for(program, 17);
  for (std::int64_t j = 0; j < columns; ++j) arrays[1].set(j, {static_cast<std::int64_t>(random() % 256), 0});
  for (std::int64_t i = 0; i < rows; ++i)
    arrays[2].set(i, {static_cast<std::int64_t>(random() % columns), 0});
  run_on(*device, program, compiler->compile(program), arrays);
  for (std::int64_t i = 0; i < rows; ++i)
    ASSERT_EQ(arrays[0].at(i).i, arrays[1].at(arrays[2].at(i).i).i) << "row " << i;
}

TEST(CudaDevice, VirtualDevicesCopyAndWaitForEachOther) {
  LATHE_NEEDS_GPU();
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < backends::kCudaDevices; ++i) devices.push_back(backends::open_cuda_device(i));
  constexpr std::size_t bytes = 1 << 20;
  std::vector<unsigned char> in(bytes), out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) in[i] = static_cast<unsigned char>(i * 7);
  std::vector<Memory> memories;
  for (auto& device : devices) memories.push_back(device->alloc(bytes));
  Memory from{0, bytes, in.data()}, to{0, bytes, out.data()};
  Event last = devices[0]->copy(0, {memories[0], 0, bytes}, {from, 0, bytes}, {});
  for (std::size_t i = 1; i < devices.size(); ++i) {
    EXPECT_TRUE(devices[i]->reaches(*devices[i - 1]));
    last = devices[i]->copy(static_cast<int>(i % 2), {memories[i], 0, bytes}, {memories[i - 1], 0, bytes},
                            {&last, 1});
  }
  last = devices[0]->copy(1, {to, 0, bytes}, {memories.back(), 0, bytes}, {&last, 1});
  devices[0]->wait(last);
  EXPECT_EQ(in, out);
  for (std::size_t i = 0; i < devices.size(); ++i) devices[i]->free(memories[i]);
}

// Each launch reads what the one before wrote; the same list again, then with other memory, then a longer
// one.
TEST(CudaDevice, RunsListsOfLaunchesInOrderWithTheArgumentsOfEachCall) {
  LATHE_NEEDS_GPU();
  Scope scope;
  constexpr std::int64_t kSize = 1000;
  std::shared_ptr<const Compiler> compiler = cuda_compiler();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  Node i = range(index_const(kSize), 0, RangeKind::Global);
  Node effect = end(store(param(dtypes::Float32, 0, kSize), i,
                          load(param(dtypes::Float32, 1, kSize), i) * float_const(dtypes::Float32, 2) +
                              float_const(dtypes::Float32, 1)),
                    {&i, 1});
  Node body = sink({&effect, 1});
  const Program program =
      lower_kernel(body, choose_options(body, compiler->target()), compiler->target(), "twice_and_one");
  std::unique_ptr<Kernel> kernel = device->load(compiler->compile(program));
  Grid grid;
  for (std::size_t d = 0; d < 3; ++d) {
    if (program.groups[d]) grid.groups[d] = program.groups[d].node().const_int();
    if (program.locals[d]) grid.locals[d] = program.locals[d].node().const_int();
  }
  const std::size_t bytes = kSize * sizeof(float);
  std::vector<Memory> memory;
  for (int m = 0; m < 4; ++m) memory.push_back(device->alloc(bytes));
  std::unique_ptr<LaunchList> known;
  std::vector<float> host(kSize);
  for (const auto& [first, launches] : {std::pair(0, 6), std::pair(0, 6), std::pair(2, 6), std::pair(0, 9)}) {
    std::vector<float> start(kSize, static_cast<float>(first + 1));
    const Memory from{0, bytes, start.data()}, to{0, bytes, host.data()};
    const Memory pair[] = {memory[static_cast<std::size_t>(first)],
                           memory[static_cast<std::size_t>(first) + 1]};
    const Event filled = device->copy(1, {pair[0], 0, bytes}, {from, 0, bytes}, {});
    std::vector<std::vector<Arg>> args;
    std::vector<LaunchCall> calls;
    for (int l = 0; l < launches; ++l)
      args.push_back({{Arg::Kind::Span, {pair[(l + 1) % 2], 0, bytes}, 0},
                      {Arg::Kind::Span, {pair[l % 2], 0, bytes}, 0}});
    for (const std::vector<Arg>& list : args) calls.push_back({kernel.get(), grid, list});
    const Event ran = device->launch_all(0, calls, known, {&filled, 1});
    device->wait(device->copy(1, {to, 0, bytes}, {pair[launches % 2], 0, bytes}, {&ran, 1}));
    float want = static_cast<float>(first + 1);
    for (int l = 0; l < launches; ++l) want = want * 2 + 1;
    EXPECT_EQ(host, std::vector<float>(kSize, want)) << first << " " << launches;
  }
  for (const Memory& m : memory) device->free(m);
}

TEST(CudaDevice, TimesWorkOnlyWhenAsked) {
  LATHE_NEEDS_GPU();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  Memory memory = device->alloc(1 << 24);
  Span lower{memory, 0, 1 << 23}, upper{memory, 1 << 23, 1 << 23};
  Event plain = device->copy(0, lower, upper, {});
  device->set_timing(true);
  Event timed = device->copy(0, lower, upper, {});
  device->set_timing(false);
  device->wait(timed);
  EXPECT_EQ(device->elapsed_ns(plain, plain), 0);
  EXPECT_GT(device->elapsed_ns(timed, timed), 0);
  device->free(memory);
}

TEST(CudaDevice, ThousandsOfWorksKeepTheirOrder) {
  LATHE_NEEDS_GPU();
  std::unique_ptr<Device> device = backends::open_cuda_device(1);
  Memory memory = device->alloc(8);
  Event first, last;
  std::vector<std::uint64_t> values(5000);
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    values[i] = i;
    last = device->copy(0, {memory, 0, 8}, {{0, 8, &values[i]}, 0, 8}, {});
    if (i == 0) first = last;
  }
  std::uint64_t got = 0;
  device->wait(device->copy(1, {{0, 8, &got}, 0, 8}, {memory, 0, 8}, {&last, 1}));
  device->wait(first);
  EXPECT_EQ(got, values.size() - 1);
  device->free(memory);
}

TEST(CudaDevice, OutOfMemorySaysHowMuchIsLeft) {
  LATHE_NEEDS_GPU();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  try {
    device->alloc(std::size_t{1} << 46);
    FAIL() << "64 TiB were handed out";
  } catch (const OutOfMemory& e) {
    EXPECT_NE(std::string(e.what()).find("are free"), std::string::npos) << e.what();
  }
}

TEST(CudaDevice, ImportedHostMemoryIsReadWhereItIs) {
  LATHE_NEEDS_GPU();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  std::vector<int> data(4096, 7), back(4096, 0);
  bool released = false;
  Memory memory = device->import(data.data(), data.size() * sizeof(int), [&] { released = true; });
  EXPECT_EQ(memory.host, data.data());
  device->free(memory);
  EXPECT_TRUE(released);
}

TEST(CudaDevice, RefusesToRunOnMemoryOfTheHost) {
  LATHE_NEEDS_GPU();
  Scope scope;
  std::shared_ptr<const Compiler> compiler = cuda_compiler();
  std::unique_ptr<Device> device = backends::open_cuda_device(0);
  Program program = lower_kernel(scale_add(8), {}, compiler->target(), "scale");
  std::unique_ptr<Kernel> kernel = device->load(compiler->compile(program));
  float data[8] = {};
  Memory memory{reinterpret_cast<std::uintptr_t>(data), sizeof data, data};
  Arg arg{Arg::Kind::Span, {memory, 0, sizeof data}, 0};
  const Arg args[] = {arg, arg, arg};
  try {
    device->launch(0, *kernel, {}, args, {});
    FAIL() << "the kernel was launched";
  } catch (const DeviceError& e) {
    EXPECT_STREQ(e.what(), "lathe: CUDA: argument 0 of kernel scale is memory of another device");
  }
}

TEST(CudaDevice, RefusesAnIndexThatDoesNotExist) {
  LATHE_NEEDS_GPU();
  EXPECT_THROW(backends::open_cuda_device(-1), DeviceError);
  EXPECT_THROW(backends::open_cuda_device(1000), DeviceError);
}

TEST(CudaDevice, WithoutADriverSaysWhy) {
  if (backends::CudaDriver::get() != nullptr) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_FALSE(backends::CudaDriver::why_missing().empty());
  EXPECT_THROW(backends::open_cuda_device(0), DeviceError);
}

}  // namespace
}  // namespace lathe::test
