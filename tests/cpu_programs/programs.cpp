// What codegen makes, run on the CPU by both compilers, against REF's evaluation of the same program: equal
// bits, for kernels with the options of the heuristic and with random ones, for every level this machine can
// run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "backends/cpu/host.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/kernels.h"
#include "codegen/random_options.h"
#include "cpu/harness.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "reference/reference.h"
#include "reference/tensor_eval.h"
#include "render/unit_text.h"
#include "rules/linear.h"
#include "target/matrix_units.h"

namespace lathe::test {
namespace {

// Inputs by slot. Floats are no whole numbers, so that another order of additions would show; int32 stays
// small enough to be a length or an index.
std::vector<Bytes> made_up(Node kernel, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Bytes> out;
  for (Node n : toposort(kernel)) {
    if (!n.is(Op::Param)) continue;
    auto slot = static_cast<std::size_t>(param_slot(n));
    if (out.size() <= slot) out.resize(slot + 1);
    std::vector<Element> values;
    for (std::int64_t i = 0; i < memory_size(n); ++i) {
      double v = n.dtype().is_float()         ? static_cast<double>(random() % 20001) / 1000 - 10
                 : n.dtype() == dtypes::Int32 ? static_cast<double>(random() % 7)
                                              : static_cast<double>(random() % 250);
      values.push_back(convert(n.dtype(), dtypes::Float64, {0, v}));
    }
    out[slot] = elements(n.dtype(), values);
  }
  return out;
}

struct Case {
  std::string name;
  NodeRef kernel;
  Target target;
  std::vector<Opt> opts;
  Program program;
};

Case make_case(const NamedKernel& k, const Target& target, std::vector<Opt> opts, std::size_t number) {
  Program program = lower_kernel(k.kernel, opts, target, fmt::format("k{}", number));
  return {k.name, k.kernel, target, std::move(opts), std::move(program)};
}

// The value of every variable the kernels name.
const reference::Bindings kBindings = {{"n", 5}};

void check(const Case& c, const Binary& binary, const std::string& compiler, std::vector<Bytes> want) {
  std::vector<Bytes> got = want;
  std::vector<reference::View> views(want.size());
  std::vector<Bytes> ordered;
  for (const ProgramParam& p : c.program.params) {
    auto slot = static_cast<std::size_t>(p.slot);
    views[slot] = {p.dtype, want[slot].data(), p.size, true};
    ordered.push_back(got[slot]);
  }
  reference::EvalReport report = reference::program_eval(c.program, views, kBindings);
  ASSERT_TRUE(report.ok()) << c.name << ": " << (report.faults.empty() ? "incomplete" : report.faults[0]);
  std::int64_t threads = c.program.threads ? reference::index_value(c.program.threads, kBindings) : 1;
  std::vector<std::int64_t> variables;
  for (const NodeRef& v : c.program.variables) variables.push_back(reference::index_value(v, kBindings));
  run(binary, ordered, variables, threads);
  for (std::size_t p = 0; p < ordered.size(); ++p) {
    const ProgramParam& param = c.program.params[p];
    auto width = static_cast<std::size_t>(param.dtype.bytes());
    const Bytes& expected = want[static_cast<std::size_t>(param.slot)];
    for (std::size_t i = 0; i * width < expected.size(); ++i) {
      Element x = read_element(param.dtype, expected.data() + i * width),
              y = read_element(param.dtype, ordered[p].data() + i * width);
      ASSERT_TRUE(same(param.dtype, x, y))
          << c.name << " for " << c.target.name << " by " << compiler << " with '" << to_string(c.opts)
          << "': param " << param.slot << " at " << i << " is " << text_of(param.dtype, y) << ", not "
          << text_of(param.dtype, x) << "\n"
          << print_program(c.program) << binary.source;
    }
  }
}

void check_all(const std::vector<Case>& cases) {
  for (bool llvm : {true, false}) {
    if (llvm && !llvm_compiler()) continue;
    // One batch a target: a compiler makes code for one.
    std::size_t begin = 0;
    while (begin < cases.size()) {
      std::size_t end = begin;
      std::vector<Program> programs;
      while (end < cases.size() && cases[end].target.name == cases[begin].target.name)
        programs.push_back(cases[end++].program);
      const Target& target = cases[begin].target;
      auto compiler = llvm ? backends::make_llvm_compiler(target) : backends::make_c_compiler(target);
      std::vector<Binary> binaries = compiler->compile_all(programs);
      for (std::size_t i = begin; i < end; ++i)
        check(cases[i], binaries[i - begin], compiler->version(), made_up(cases[i].kernel, 5));
      begin = end;
    }
  }
}

// The host's own target, and the levels it can run.
std::vector<Target> runnable_targets() {
  std::vector<Target> out;
  for (const std::string& name : backends::cpu_target_names()) {
    Target target = backends::cpu_target(name);
    if (backends::missing_features(target.features).empty()) out.push_back(target);
  }
  return out;
}

TEST(CpuPrograms, KernelsWithTheHeuristicsOptionsEqualTheReference) {
  Scope scope;
  std::vector<Case> cases;
  std::vector<NamedKernel> kernels = small_kernels();
  for (const Target& target : runnable_targets())
    for (const NamedKernel& k : kernels) {
      cases.push_back(make_case(k, target, {}, cases.size()));
      cases.push_back(make_case(k, target, choose_options(k.kernel, target), cases.size()));
    }
  check_all(cases);
}

TEST(CpuPrograms, KernelsWithRandomOptionsEqualTheReference) {
  constexpr std::uint32_t kSeed = 2026;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Scope scope;
  std::mt19937 random(kSeed);
  std::vector<Case> cases;
  std::vector<NamedKernel> kernels = small_kernels();
  for (const Target& target : runnable_targets())
    for (int i = 0; i < 60; ++i) {
      const NamedKernel& k = kernels[random() % kernels.size()];
      cases.push_back(make_case(k, target, random_options(k.kernel, target, random), cases.size()));
    }
  check_all(cases);
}

// Whether this machine has the features of a target, and its tile units work.
bool can_run(const Target& target) {
  const std::vector<std::string>& here = backends::host_target().units;
  return backends::missing_features(target.features).empty() &&
         std::all_of(target.units.begin(), target.units.end(), [&](const std::string& unit) {
           return !is_fragment_unit(unit) || std::find(here.begin(), here.end(), unit) != here.end();
         });
}

TEST(CpuPrograms, MatrixUnitsCompileEverywhereAndRunWhereTheyWork) {
  SKIP_WITHOUT_LLVM();
  Scope scope;
  const NamedKernel kernels[] = {
      {"bf16 70x90x100", small_matmul(70, 90, 100, dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32)},
      {"bf16 64x96x128", small_matmul(64, 96, 128, dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32)},
      {"i8 96x64x320", small_matmul(96, 64, 320, dtypes::Int8, dtypes::Int8, dtypes::Int32)},
      {"bf16 64x96x544", small_matmul(64, 96, 544, dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32)},
      {"rounded 64x64x512", bf16_matmul(64, 64, 512)},
      {"rounded 64x64x512 and a constant", bf16_matmul(64, 64, 512, 1.0)},
      {"i8 32x128x1088", small_matmul(32, 128, 1088, dtypes::Int8, dtypes::Int8, dtypes::Int32)},
      {"i8 40x33x90", small_matmul(40, 33, 90, dtypes::Int8, dtypes::Int8, dtypes::Int32)},
      {"u8 by i8 20x64x64", small_matmul(20, 64, 64, dtypes::UInt8, dtypes::Int8, dtypes::Int32)},
      {"i8 by u8 20x64x64", small_matmul(20, 64, 64, dtypes::Int8, dtypes::UInt8, dtypes::Int32)},
      {"u8 20x64x65", small_matmul(20, 64, 65, dtypes::UInt8, dtypes::UInt8, dtypes::Int32)},
      {"i16 20x64x64", small_matmul(20, 64, 64, dtypes::Int16, dtypes::Int16, dtypes::Int32)},
      {"u7 by i8 20x64x64", seven_bit_matmul(20, 64, 64)},
      {"blocks 40x32", block_matvec_bytes(40, 32)},
  };
  std::set<std::string_view> printed;
  for (const char* name : {"x86-64-v3", "x86-64-v4", "x86-64-v3+avxvnni", "x86-64-v4+avx512bf16+avx512vnni",
                           "x86-64-v4+avx512bf16+avx512vnni+amx-tile+amx-bf16+amx-int8"}) {
    const Target target = backends::cpu_target(name);
    for (const NamedKernel& k : kernels) {
      Case c = make_case(k, target, choose_options(k.kernel, target), 0);
      Binary binary = backends::make_llvm_compiler(target)->compile(c.program);
      for (const std::string& unit_name : target.units) {
        const MatrixUnit* unit = find_matrix_unit(unit_name);
        for (int lanes = 4; lanes <= 16; lanes *= 2)
          if (binary.source.find("@" + render::intrinsic_of(*unit, lanes)) != std::string::npos)
            printed.insert(unit->name);
      }
      if (!can_run(target)) continue;
      check(c, binary, "llvm", made_up(c.kernel, 5));
      auto compiler = backends::make_c_compiler(target);
      if (compiler->target().units == target.units)
        check(c, compiler->compile(c.program), compiler->version(), made_up(c.kernel, 5));
    }
  }
  std::set<std::string_view> all;
  for (const MatrixUnit& unit : matrix_units())
    if (unit.threads == 1) all.insert(unit.name);  // others are of targets with groups of threads
  EXPECT_EQ(printed, all);
}

// Every byte, by vectors of a length for which there is an instruction and of others.
// Lanes along the channels of a convolution lie an image apart, and vectors of the tile are neighbours: they
// are transposed, four and two at a time.
TEST(CpuPrograms, TilesWhoseLanesLieApartAreTransposedBeforeTheyAreStored) {
  Scope scope;
  std::vector<Case> cases;
  for (const Target& target : runnable_targets())
    for (std::int64_t x : {3, 6, 7}) {
      const NamedKernel kernel{"convolution", convolution(2, 3, 16, x, 3)};
      const std::vector<Opt> opts = parse_opts(fmt::format("UPCAST(3, {}) UPCAST(1, 16) STAGE(0, 1, 0)", x));
      cases.push_back(make_case(kernel, target, opts, cases.size()));
      if (x != 6 || target.vector_bytes < 32 || !llvm_compiler()) continue;
      const Binary binary = backends::make_llvm_compiler(target)->compile(cases.back().program);
      for (const char* text : {"store <2 x float>", "store <4 x float>"})
        EXPECT_NE(binary.source.find(text), std::string::npos) << target.name;
      EXPECT_EQ(binary.source.find("scatter"), std::string::npos) << target.name;
    }
  check_all(cases);
}

TEST(CpuPrograms, FloatsOfFourBitsAreTheSameFromATable) {
  Scope scope;
  const NamedKernel kernel{"nibble_floats", nibble_floats(256)};
  std::vector<Element> bytes;
  for (std::int64_t i = 0; i < 256; ++i) bytes.push_back({i, 0});
  const std::vector<Bytes> memory{Bytes(std::size_t{256} * 4), elements(dtypes::UInt8, bytes)};
  for (const Target& target : runnable_targets())
    for (const char* opts : {"UPCAST(0, 16)", "UPCAST(0, 32)", "UPCAST(0, 8)", ""})
      for (bool llvm : {true, false}) {
        if (llvm && !llvm_compiler()) continue;
        auto compiler = llvm ? backends::make_llvm_compiler(target) : backends::make_c_compiler(target);
        const Case c = make_case(kernel, compiler->target(), parse_opts(opts), 0);
        const Binary binary = compiler->compile(c.program);
        check(c, binary, compiler->version(), memory);
        const bool table = target.features.find("+avx512f") != std::string::npos;
        const bool whole = std::string_view(opts).find("6") != std::string_view::npos ||
                           std::string_view(opts).find("32") != std::string_view::npos;
        if (!llvm) continue;
        EXPECT_EQ(binary.source.find("permvar") != std::string::npos, table && whole) << opts;
      }
}

// C has no text for fragments, so a kernel for its target must not ask for them.
TEST(CpuPrograms, TheTargetOfTheCCompilerHasUnitsOfVectorsAlone) {
  const Target target = backends::cpu_target("x86-64-v4+avx512bf16+avx512vnni+amx-tile+amx-bf16+amx-int8");
  EXPECT_EQ(backends::make_c_compiler(target)->target().units,
            (std::vector<std::string>{"vdpbf16ps", "vpdpbusd", "vpdpwssd"}));
}

// Sums of all sizes a float has, beyond its largest and below its smallest normal number, infinities and NaN.
TEST(CpuPrograms, ProductsOfBFloat16AreRoundedAsTheReferenceDoes) {
  Scope scope;
  constexpr std::int64_t kRows = 270, kColumns = 64, kSteps = 6;
  std::mt19937 random(11);
  std::vector<Element> a, b;
  for (std::int64_t i = 0; i < kRows * kSteps; ++i) {
    const auto row = static_cast<int>(i / kSteps);
    double v = std::ldexp(static_cast<double>(random() % 256) - 128, row - 142);
    if (row == 268) v = NAN;
    if (row == 269) v = random() % 2 == 0 ? INFINITY : -INFINITY;
    a.push_back(convert(dtypes::BFloat16, dtypes::Float64, {0, v}));
  }
  for (std::int64_t i = 0; i < kSteps * kColumns; ++i)
    b.push_back(
        convert(dtypes::BFloat16, dtypes::Float64, {0, (static_cast<double>(random() % 256) - 128) / 128}));
  const NamedKernel kernel{"bf16_matmul", bf16_matmul(kRows, kColumns, kSteps)};
  const std::vector<Bytes> memory{Bytes(kRows * kColumns * 2), elements(dtypes::BFloat16, a),
                                  elements(dtypes::BFloat16, b)};
  for (const Target& target : runnable_targets())
    for (bool llvm : {true, false}) {
      if (llvm && !llvm_compiler()) continue;
      const Case c = make_case(kernel, target, choose_options(kernel.kernel, target), 0);
      auto compiler = llvm ? backends::make_llvm_compiler(target) : backends::make_c_compiler(target);
      const Case plain =
          make_case(kernel, compiler->target(), choose_options(kernel.kernel, compiler->target()), 0);
      check(llvm ? c : plain, compiler->compile(llvm ? c.program : plain.program), compiler->version(),
            memory);
    }
}

// The instruction counts numbers below the smallest normal one as zero, as products do; a sum that something
// was added to may be such a number.
TEST(CpuPrograms, ProductsOfBFloat16AreRoundedByOneInstruction) {
  SKIP_WITHOUT_LLVM();
  Scope scope;
  for (const char* name :
       {"x86-64-v4+avx512bf16", "x86-64-v4+avx512bf16+avx512vnni+amx-tile+amx-bf16+amx-int8"}) {
    const Target target = backends::cpu_target(name);
    for (const double added : {0.0, 1.0}) {
      Node kernel = bf16_matmul(64, 64, 64, added);
      const Case c = make_case({"k", kernel}, target, choose_options(kernel, target), 0);
      const std::string source = backends::make_llvm_compiler(target)->compile(c.program).source;
      EXPECT_EQ(source.find("fptrunc") != std::string::npos, added == 0) << source;
    }
  }
}

int count_calls(const std::string& source, std::string_view what) {
  int found = 0;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);)
    found += line.find("call") != line.npos && line.find(what) != line.npos;
  return found;
}
std::string tile_source(std::int64_t size, DType dtype, DType sum) {
  Target target = backends::cpu_target("x86-64-v4+avx512bf16+avx512vnni+amx-tile+amx-bf16+amx-int8");
  target.l1 = 48 << 10, target.l2 = 2 << 20, target.cores = 1;
  Node kernel = small_matmul(size, size, size, dtype, dtype, sum);
  const Case c = make_case({"k", kernel}, target, choose_options(kernel, target), 0);
  return backends::make_llvm_compiler(target)->compile(c.program).source;
}

// The fragments of one factor are the same in the next step of the loop around the sum and stay in the first
// cache, as far as they fit; those of the other go past it.
TEST(CpuPrograms, FragmentsThatAreReadOnceGoPastTheFirstCache) {
  SKIP_WITHOUT_LLVM();
  Scope scope;
  const std::string fits = tile_source(512, dtypes::BFloat16, dtypes::Float32);  // 32 KiB in a step
  EXPECT_EQ(count_calls(fits, "tileloadd64"), 2) << fits;
  EXPECT_EQ(count_calls(fits, "tileloaddt164"), 2) << fits;
  EXPECT_EQ(fits.find("past"), std::string::npos) << fits;
  const std::string half = tile_source(1024, dtypes::BFloat16, dtypes::Float32);  // 64 KiB
  EXPECT_EQ(count_calls(half, "tileloadd64"), 2) << half;
  EXPECT_EQ(count_calls(half, "tileloaddt164"), 4) << half;
  EXPECT_NE(half.find("icmp slt i64 %r"), std::string::npos) << half;
}

// Rows of the first factor are read from where they lie, without a copy, where the nearest cache holds all
// that a step reads again and they do not share its places; the second factor is words of several rows.
TEST(CpuPrograms, FragmentsAreReadWhereTheirRowsLie) {
  SKIP_WITHOUT_LLVM();
  Scope scope;
  const auto copies = [](const std::string& source) {
    int found = 0;
    for (std::size_t at = 0; (at = source.find("store <16 x i32>", at)) != std::string::npos; ++at) ++found;
    return found;
  };
  const auto apart = [](const std::string& source) {  // fragments whose rows do not follow each other
    int found = 0;
    std::istringstream lines(source);
    for (std::string line; std::getline(lines, line);)
      found += line.find("call void @llvm.x86.tileload") != line.npos && !line.ends_with("i64 64)");
    return found;
  };
  const std::string bf16 = tile_source(512, dtypes::BFloat16, dtypes::Float32);
  EXPECT_EQ(apart(bf16), 2) << bf16;
  EXPECT_EQ(count_calls(bf16, "i64 1024)"), 2) << bf16;
  EXPECT_EQ(copies(bf16), 1) << bf16;
  const std::string bytes = tile_source(448, dtypes::Int8, dtypes::Int32);
  EXPECT_EQ(apart(bytes), 2) << bytes;
  EXPECT_EQ(copies(bytes), 1) << bytes;
  // Rows half a page apart share places, those of 768 do not fit, and the last ones of 500 are filled with
  // zeros.
  for (const std::int64_t size : {1024, 768, 500}) {
    const std::string copied = tile_source(size, dtypes::BFloat16, dtypes::Float32);
    EXPECT_EQ(apart(copied), 0) << size << "\n" << copied;
    EXPECT_EQ(copies(copied), 2) << copied;
  }
}

// Blocks of a panel are filled as they lie in the source: the loop that moves furthest there is the
// outermost.
TEST(CpuPrograms, PanelsAreFilledInTheOrderOfTheirSource) {
  Scope scope;
  Target target = backends::cpu_target("x86-64-v4+avx512bf16+avx512vnni+amx-tile+amx-bf16+amx-int8");
  target.cores = 1;
  Node kernel = small_matmul(512, 512, 512, dtypes::BFloat16, dtypes::BFloat16, dtypes::Float32);
  const Case c = make_case({"k", kernel}, target, choose_options(kernel, target), 0);
  std::vector<Node> open;
  for (Node n : c.program.code) {
    if (n.is(Op::Range)) open.push_back(n);
    if (n.is(Op::End)) open.pop_back();
    if (!n.is(Op::Load) || !n.arg(0).is(Op::Param) || param_slot(n.arg(0)) != 2) continue;
    // Words of k and columns n: steps of 16 pairs of rows, then of 32 columns, 16 of those, pairs of rows.
    std::vector<std::int64_t> steps;
    for (Node r : open)
      for (const Term& term : linear(n.arg(1)).terms)
        if (term.node == r) steps.push_back(term.coefficient);
    EXPECT_EQ(steps, (std::vector<std::int64_t>{32 * 512, 32, 16, 2 * 512}));
  }
}

// A result that the second cache does not hold is asked for while its sums are computed.
TEST(CpuPrograms, LargeResultsOfFragmentsAreAskedForBeforeTheyAreWritten) {
  SKIP_WITHOUT_LLVM();
  Scope scope;
  EXPECT_EQ(count_calls(tile_source(256, dtypes::Int8, dtypes::Int32), "llvm.prefetch"), 0);
  const std::string large = tile_source(2048, dtypes::Int8, dtypes::Int32);
  // 32 rows of two lines in 32 steps of the sum.
  EXPECT_EQ(count_calls(large, "llvm.prefetch"), 2) << large;
}

// All rows are packed first where there are many blocks of columns; the second cache does not hold them, so
// each step of a sum asks for a part of what it will read for the next rows.
TEST(CpuPrograms, PackedRowsAreAskedForBeforeTheirStep) {
  SKIP_WITHOUT_LLVM();
  Scope scope;
  Target target = backends::cpu_target("x86-64-v4+avx512bf16+avx512vnni+amx-tile+amx-bf16+amx-int8");
  target.l1 = 48 << 10, target.l2 = 2 << 20, target.l3 = 256 << 20, target.cores = 1;
  const auto asked = [&](std::int64_t size) {
    Node kernel = bf16_matmul(size, size, size);
    const Case c = make_case({"k", kernel}, target, choose_options(kernel, target), 0);
    return count_calls(backends::make_llvm_compiler(target)->compile(c.program).source,
                       "i32 0, i32 2, i32 1");
  };
  EXPECT_EQ(asked(2048), 4);  // 32 lines of two fragments, shared out among 8 strips of columns
  EXPECT_EQ(asked(1024), 0);
}

// Sums that are stored as they are go from the unit to their rows; others, and those under a gate, go through
// memory of the kernel's own.
TEST(CpuPrograms, SumsOfFragmentsAreWrittenToTheirRows) {
  SKIP_WITHOUT_LLVM();
  Scope scope;
  const std::string direct = tile_source(512, dtypes::Int8, dtypes::Int32);
  EXPECT_EQ(count_calls(direct, "tilestored64"), 4) << direct;
  EXPECT_EQ(count_calls(direct, "i64 2048)"), 4) << direct;
  EXPECT_EQ(direct.find("load <16 x i32>"), std::string::npos) << direct;
  // Of two by two only the first is never beyond an edge.
  const std::string gated = tile_source(500, dtypes::Int8, dtypes::Int32);
  EXPECT_EQ(count_calls(gated, "tilestored64"), 4) << gated;
  EXPECT_EQ(count_calls(gated, "i64 2000)"), 1) << gated;
}

// Rows of sums that are complete are written in the steps of the next sum, where those have room, and the
// last ones at the end.
TEST(CpuPrograms, RowsOfFragmentsAreWrittenWhileTheNextAreComputed) {
  SKIP_WITHOUT_LLVM();
  Scope scope;
  const auto rows = [](const std::string& source) {
    const std::size_t at = source.find("@table0 = private constant [");
    return at == std::string::npos ? 0 : std::stoi(source.substr(at + 28)) / 2;  // where from and where to
  };
  Target target = backends::cpu_target("x86-64-v4+avx512bf16+avx512vnni+amx-tile+amx-bf16+amx-int8");
  target.l1 = 48 << 10, target.l2 = 2 << 20, target.cores = 1;
  const auto rounded = [&](std::int64_t size, double added) {
    Node kernel = bf16_matmul(size, size, size, added);
    const Case c = make_case({"k", kernel}, target, choose_options(kernel, target), 0);
    return backends::make_llvm_compiler(target)->compile(c.program).source;
  };
  const std::string bf16 = rounded(512, 0);
  EXPECT_EQ(rows(bf16), 64) << bf16;  // of two by two fragments, four in each of 16 steps
  EXPECT_EQ(count_calls(bf16, "tilestored64"), 4) << bf16;
  std::size_t conversions = 0;
  for (std::size_t at = 0; (at = bf16.find("fptrunc <16 x float>", at)) != std::string::npos; ++at)
    ++conversions;
  EXPECT_EQ(conversions, 4 + 64) << bf16;
  EXPECT_EQ(rows(rounded(512, 1.0)), 64);
  EXPECT_EQ(rows(tile_source(1024, dtypes::Int8, dtypes::Int32)), 64);
  EXPECT_EQ(rows(rounded(1024, 0)), 0);                               // reads past the first cache
  EXPECT_EQ(rows(tile_source(512, dtypes::Int8, dtypes::Int32)), 0);  // 8 steps
  EXPECT_EQ(rows(rounded(500, 0)), 0);                                // rows beyond the edge
}

// Tile registers are assigned by the printer: one that is read before a loop and used in it is not written
// there.
TEST(CpuPrograms, FragmentsReadBeforeALoopLastThroughItsSteps) {
  SKIP_WITHOUT_LLVM();
  Scope scope;
  const Target target = backends::cpu_target("x86-64-v4+avx512bf16+avx512vnni+amx-tile+amx-bf16+amx-int8");
  int held = 0;
  for (std::int64_t k : {64, 100}) {
    Node kernel = small_matmul(20, 64, k, dtypes::UInt8, dtypes::Int8, dtypes::Int32);
    const Case c = make_case({"k", kernel}, target, choose_options(kernel, target), 0);
    const std::string source = backends::make_llvm_compiler(target)->compile(c.program).source;
    struct Loop {
      std::set<char> used, written;  // registers: used before they were written inside, and written
    };
    std::vector<Loop> loops;
    std::istringstream lines(source);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("loop")) loops.emplace_back();
      if (line.starts_with("done")) loops.pop_back();
      const std::size_t call = line.find("@llvm.x86.t");
      if (line.find("call") == std::string::npos || call == std::string::npos) continue;
      const bool product = line.find("tdp", call) == call + 10;
      const bool writes = product || line.find("tilezero") != line.npos || line.find("tileload") != line.npos;
      std::vector<char> tiles;
      for (std::size_t at = call; (at = line.find("i8 ", at)) != std::string::npos;)
        tiles.push_back(line[at += 3]);
      for (Loop& loop : loops)
        for (std::size_t i = 0; i < tiles.size(); ++i) {
          const bool reads = product ? i > 0 : !writes;
          if (reads && !loop.written.contains(tiles[i])) loop.used.insert(tiles[i]), ++held;
          if (writes && i == 0) {
            EXPECT_FALSE(loop.used.contains(tiles[i]) && !product) << line << "\n" << source;
            loop.written.insert(tiles[i]);
          }
        }
    }
  }
  EXPECT_GT(held, 0);
}

// Scaling by a power of two is one instruction on some machines and two multiplications on others: the same
// bits, where results are subnormal, at the edges of the format, for infinities and NaN.
TEST(CpuPrograms, PowersOfTwoHaveTheSameBitsInEveryWidth) {
  SKIP_WITHOUT_LLVM();
  Scope scope;
  std::vector<float> inputs;
  for (float edge : {-152.0f, -151.0f, -150.0f, -149.5f, -149.0f, -127.0f, -126.0f, -1.0f, -0.5f, 0.0f, 0.5f,
                     127.0f, 127.99999f, 128.0f, 129.0f, 130.0f, 1e30f, INFINITY, NAN})
    for (float x : {edge, -edge, std::nextafter(edge, -INFINITY), std::nextafter(edge, INFINITY)})
      inputs.push_back(x);
  std::mt19937 random(7);
  while (inputs.size() % 512 != 0 || inputs.size() < 4096)
    inputs.push_back(static_cast<float>(random()) * 0x1p-32f * 290 - 155);
  const auto n = static_cast<std::int64_t>(inputs.size());
  const std::vector<Bytes> memory{Bytes(inputs.size() * 4), bytes_of(inputs)};
  for (const Target& target : runnable_targets())
    for (std::int64_t lanes : {1, 4, 8, 16}) {
      const NamedKernel kernel{"powers_of_two", powers_of_two(n)};
      std::vector<Opt> opts;
      if (lanes > 1) opts = parse_opts(fmt::format("UPCAST(0, {})", lanes));
      const Case c = make_case(kernel, target, opts, 0);
      for (bool llvm : {true, false}) {
        auto compiler = llvm ? backends::make_llvm_compiler(target) : backends::make_c_compiler(target);
        check(c, compiler->compile(c.program), compiler->version(), memory);
      }
    }
}

// The printer knows the scaling by its arithmetic (render/power_of_two.h): should the arithmetic change, the
// instruction would be lost without any result being wrong.
TEST(CpuPrograms, PowersOfTwoAreScaledByOneInstructionWhereThereIsOne) {
  SKIP_WITHOUT_LLVM();
  Scope scope;
  auto source = [](const char* name) {
    const Target target = backends::cpu_target(name);
    const Case c = make_case({"powers_of_two", powers_of_two(512)}, target, parse_opts("UPCAST(0, 16)"), 0);
    return backends::make_llvm_compiler(target)->compile(c.program).source;
  };
  for (const char* instruction : {"scalef", "roundeven"}) {
    EXPECT_NE(source("x86-64-v4").find(instruction), std::string::npos);
    EXPECT_EQ(source("x86-64-v3").find(instruction), std::string::npos);
  }
}

}  // namespace
}  // namespace lathe::test
