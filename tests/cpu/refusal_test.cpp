// What the CPU backend refuses, and how: damaged code, code for another CPU, text a compiler does not take.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/binary.h"
#include "backends/cpu/llvm_module.h"
#include "backends/cpu/matrix_probe.h"
#include "base/env.h"
#include "base/error.h"
#include "cpu/harness.h"
#include "render/c_text.h"
#include "target/matrix_units.h"

namespace lathe::test {
namespace {

Program copy_program(std::string name) {
  ProgramBuilder b(std::move(name));
  Node out = b.buffer(dtypes::Float32, 4), in = b.buffer(dtypes::Float32, 4);
  Node i = b.loop(int_const(dtypes::Int64, 4));
  b.add(store(out, i, load(in, i)));
  b.close();
  return b.take();
}

template <class Kind, class Function>
std::string refusal(Function function) {
  try {
    function();
  } catch (const Kind& e) {
    return e.what();
  }
  return "no refusal";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A kernel's name is printed as it is, so a bad one makes text that no compiler takes.
TEST(CpuRefusal, ACompileErrorCarriesTheReasonAndTheSource) {
  Scope scope;
  for (const auto& compiler : compilers()) {
    std::string text = refusal<CompileError>([&] { compiler->compile(copy_program("two words")); });
    EXPECT_TRUE(contains(text, "refused kernel two words")) << text;
    EXPECT_TRUE(contains(text, "error: ")) << text;
    EXPECT_TRUE(contains(text, "two words(")) << text;
  }
}

TEST(CpuRefusal, ABadKernelOfABatchIsNamedAndGoodBatchesCompile) {
  Scope scope;
  std::vector<Program> programs;
  for (int i = 0; i < 70; ++i) programs.push_back(copy_program("good" + std::to_string(i)));
  std::vector<Binary> binaries = c_compiler()->compile_all(programs);
  ASSERT_EQ(binaries.size(), 70u);
  for (std::size_t i : {std::size_t{0}, std::size_t{69}}) {
    Bytes buffers[] = {Bytes(16), bytes_of(std::vector<float>{1, 2, 3, 4})};
    run(binaries[i], buffers);
    EXPECT_EQ(buffers[0], buffers[1]);
    EXPECT_TRUE(contains(binaries[i].source, "good" + std::to_string(i) + "("));
  }
  programs[3].name = "ba d";
  std::string text = refusal<CompileError>([&] { c_compiler()->compile_all(programs); });
  EXPECT_TRUE(contains(text, "ba d")) << text;
}

TEST(CpuRefusal, CodeForAnotherCpuIsNotRun) {
  Scope scope;
  Binary binary = compilers().front()->compile(copy_program("elsewhere"));
  backends::CpuCode code = backends::unpack(binary.bytes);
  code.features += ",+riscv-vectors";
  binary.bytes = backends::pack(code);
  Bytes buffers[] = {Bytes(16), Bytes(16)};
  std::string text = refusal<DeviceError>([&] { run(binary, buffers); });
  EXPECT_EQ(text,
            "lathe: CPU: kernel elsewhere was compiled for another CPU\n"
            "  note: this CPU lacks riscv-vectors\n"
            "  help: compile it again on this machine");
}

TEST(CpuRefusal, DamagedCodeIsNotRun) {
  Scope scope;
  for (const auto& compiler : compilers()) {
    Binary whole = compiler->compile(copy_program("damaged"));
    for (std::size_t at : {std::size_t{3}, whole.bytes.size() / 2, whole.bytes.size() - 1}) {
      Binary binary = whole;
      binary.bytes[at] = static_cast<char>(binary.bytes[at] ^ 0x20);
      Bytes buffers[] = {Bytes(16), Bytes(16)};
      EXPECT_THROW(run(binary, buffers), DeviceError) << at;
    }
    Binary cut = whole;
    cut.bytes.resize(cut.bytes.size() / 2);
    Bytes buffers[] = {Bytes(16), Bytes(16)};
    EXPECT_THROW(run(cut, buffers), DeviceError);
  }
}

TEST(CpuRefusal, AnObjectThatIsNoObjectIsRefusedByTheLoader) {
  backends::CpuCode code;
  code.code = "this is not an object file";
  Binary binary{"kernel", backends::pack(code), ""};
  Bytes buffers[] = {Bytes(16)};
  EXPECT_THROW(run(binary, buffers), DeviceError);
  code.kind = backends::CodeKind::SharedLibrary;
  binary.bytes = backends::pack(code);
  EXPECT_THROW(run(binary, buffers), DeviceError);
}

TEST(CpuRefusal, AKernelThatItsCodeLacksIsRefused) {
  Scope scope;
  for (const auto& compiler : compilers()) {
    Binary binary = compiler->compile(copy_program("present"));
    binary.entry = "absent";
    Bytes buffers[] = {Bytes(16), Bytes(16)};
    EXPECT_TRUE(contains(refusal<DeviceError>([&] { run(binary, buffers); }), "absent"));
  }
}

TEST(CpuTarget, TheHostRunsItsOwnLevelAndAllBelow) {
  const Target& host = backends::host_target();
  EXPECT_EQ(backends::missing_features(host.features), "");
  EXPECT_EQ(backends::cpu_target_names()[0], host.name);
  EXPECT_EQ(backends::cpu_target(host.name).key(), host.key());
  EXPECT_EQ(backends::cpu_target("").key(), host.key());
  EXPECT_GE(host.cores, 1);
  EXPECT_GT(host.l1, 0);
  EXPECT_THROW(backends::cpu_target("x86-64-v9"), UserError);
  EXPECT_EQ(named_target(host.name).name, host.name);
}

TEST(CpuTarget, AMisspeltFeatureIsNamed) {
  try {
    backends::cpu_target("x86-64-v4+avx512bf61");
    ADD_FAILURE() << "accepted";
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("target 'x86-64-v4+avx512bf61' names the unknown feature 'avx512bf61'"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("did you mean 'avx512bf16'?"), std::string::npos) << text;
  }
}

// All levels are compiled on every machine and run where they can be.
TEST(CpuTarget, EveryLevelCompilesAndRunsWhereItsFeaturesAre) {
  Scope scope;
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    Target target = backends::cpu_target(name);
    std::vector<std::shared_ptr<const Compiler>> of_level{backends::make_c_compiler(target)};
    if (llvm_compiler()) of_level.push_back(backends::make_llvm_compiler(target));
    for (const auto& compiler : of_level) {
      Binary binary = compiler->compile(copy_program("level"));
      Bytes buffers[] = {Bytes(16), bytes_of(std::vector<float>{1, 2, 3, 4})};
      if (backends::missing_features(target.features).empty()) {
        run(binary, buffers);
        EXPECT_EQ(buffers[0], buffers[1]) << name;
      } else {
        EXPECT_THROW(run(binary, buffers), DeviceError) << name;
      }
    }
  }
}

TEST(CpuTarget, UnitsOfTheHostAreThoseAChildSawWork) {
  const std::vector<std::string>& units = backends::host_target().units;
  EXPECT_EQ(backends::working_units(units), units);
  EXPECT_TRUE(backends::working_units({"no such unit"}).empty());
  // Rows of other machines end their child, or not; this process lives on, and those that work are found all
  // the same.
  std::vector<std::string> all;
  for (const MatrixUnit& unit : matrix_units()) all.emplace_back(unit.name);
  const std::vector<std::string> found = backends::working_units(all);
  for (const std::string& unit : units)
    EXPECT_NE(std::find(found.begin(), found.end(), unit), found.end()) << unit;
}

TEST(CpuTarget, LatheCpuChoosesTheCompiler) {
  SKIP_WITHOUT_LLVM();
  FlagScope c(Flag::Cpu, "c");
  EXPECT_EQ(backends::make_cpu_compiler(backends::host_target())->version().substr(0, 2), "c ");
  FlagScope llvm(Flag::Cpu, "llvm");
  EXPECT_EQ(backends::make_cpu_compiler(backends::host_target())->version().substr(0, 5), "llvm ");
}

}  // namespace
}  // namespace lathe::test
