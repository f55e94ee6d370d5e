#include "error/refusals.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/env.h"
#include "codegen/codegen.h"
#include "engine/disk_cache.h"
#include "ir/build.h"
#include "lathe/jit.h"
#include "lathe/lathe.h"
#include "target/target.h"

namespace lathe::test {
namespace {

namespace fs = std::filesystem;

std::string kind_of(const std::exception& e) {
  if (dynamic_cast<const JitError*>(&e) != nullptr) return "JitError";
  if (dynamic_cast<const KernelOptError*>(&e) != nullptr) return "KernelOptError";
  if (dynamic_cast<const UserError*>(&e) != nullptr) return "UserError";
  if (dynamic_cast<const CompileError*>(&e) != nullptr) return "CompileError";
  if (dynamic_cast<const OutOfMemory*>(&e) != nullptr) return "OutOfMemory";
  if (dynamic_cast<const DeviceError*>(&e) != nullptr) return "DeviceError";
  if (dynamic_cast<const InternalError*>(&e) != nullptr) return "InternalError";
  return "not an error of Lathe";
}

std::function<std::string()> thrown(std::function<void()> call) {
  return [call = std::move(call)]() -> std::string {
    try {
      call();
    } catch (const std::exception& e) {
      return kind_of(e) + "\n" + e.what();
    }
    return "nothing was refused";
  };
}

// What is written to standard error: warnings, after which work goes on.
std::function<std::string()> warned(std::function<void()> call) {
  return [call = std::move(call)] {
    testing::internal::CaptureStderr();
    call();
    return "warning\n" + testing::internal::GetCapturedStderr();
  };
}

// What the program prints, and its exit status.
std::function<std::string()> printed(const std::string& words, const std::string& environment = "") {
  return [=] {
    FILE* pipe = popen((environment + " '" LATHE_PROGRAM "' " + words + " 2>&1").c_str(), "r");
    std::string out;
    std::array<char, 4096> part{};
    while (std::fgets(part.data(), part.size(), pipe) != nullptr) out += part.data();
    int status = pclose(pipe);
    return "exit status " + std::to_string(WEXITSTATUS(status)) + "\n" + out;
  };
}

struct Folder {
  Folder() : path(fs::temp_directory_path() / "lathe-error-XXXXXX") {
    std::string name = path.string();
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

void read_flags(const char* variable) {
  const char* variables[] = {variable};
  parse_environment(variables);
}

// out[i] = a[i] + 1 over 10 elements.
Node small_kernel() {
  Node i = range(index_const(10), 0, RangeKind::Global);
  Node value = load(param(dtypes::Float32, 1, 10), i) + number(dtypes::Float32, 1);
  Node effect = end(store(param(dtypes::Float32, 0, 10), i, value), {&i, 1});
  return sink({&effect, 1});
}
void with_options(const char* text) {
  Scope scope;
  apply_options(small_kernel(), parse_opts(text), named_target("x86-64-v3"));
}

Tensor zeros(const Shape& shape, DataType dtype = dtypes::float32) {
  return Tensor::zeros(shape, {dtype, "CPU"});
}

void shapes(std::vector<Refusal>& all) {
  auto row = [&](const char* id, const char* when, std::function<void()> call) {
    all.push_back({id, "Shapes", when, thrown(std::move(call))});
  };
  row("broadcast", "Operands whose shapes do not broadcast.", [] { zeros({2, 3}) + zeros({4, 3}); });
  row("matmul-inner", "A product over axes of different sizes.",
      [] { zeros({4, 8}).matmul(zeros({16, 8})); });
  row("reshape-elements", "A reshape that changes the number of elements.",
      [] { zeros({2, 3}).reshape({4, 2}); });
  row("axis-range", "An axis the tensor does not have.", [] { zeros({2, 3}).sum(2); });
  row("axis-twice", "One axis named twice.", [] { zeros({2, 3}).sum({0, -2}); });
  row("cat-shapes", "Joining tensors that differ in another axis.",
      [] { Tensor::cat({zeros({2, 3}), zeros({3, 2})}); });
  row("shrink-bounds", "A part that reaches outside.", [] { zeros({2, 3}).shrink({{0, 2}, {1, 4}}); });
  row("index-range", "A constant index past the end.", [] { zeros({2, 3})[2]; });
  row("index-count", "More indices than axes.", [] { zeros({2, 3}).getitem({0, 0, 0}); });
  row("assign-shape", "Writing something of another shape in place.",
      [] { zeros({2, 3}).clone().assign(zeros({4, 3})); });
  row("item-shape", "item() of more than one element.", [] { zeros({2, 3}).item(); });
  row("empty-max", "The maximum of nothing.", [] { zeros({0}).max(); });
  row("values-shape", "Values that do not fill the shape.",
      [] { Tensor(std::vector<float>{1, 2, 3}, {2, 2}); });
  row("ragged-list", "A nested list with rows of different lengths.", [] { Tensor({{1, 2}, {3}}); });
  row("conv-channels", "A convolution whose weight takes a different number of channels.",
      [] { zeros({1, 3, 8, 8}).conv2d(zeros({4, 2, 3, 3})); });
  row("einsum-operands", "A formula for a different number of operands.",
      [] { Tensor::einsum("ij,jk->ik", {zeros({2, 3})}); });
  row("undefined-tensor", "Using a tensor that was never made.", [] { Tensor() + 1; });
  row("shape-overflow", "More elements than 64 bits can count.", [] {
    std::int64_t n = std::int64_t{1} << 40;
    zeros({1, 1}).expand({n, n}).sum().item();
  });
}

void dtypes_and_devices(std::vector<Refusal>& all) {
  auto row = [&](const char* section, const char* id, const char* when, std::function<void()> call) {
    all.push_back({id, section, when, thrown(std::move(call))});
  };
  row("Dtypes", "bits-of-floats", "Bit operations on floats.", [] {
    Tensor f = zeros({1});
    f & f;
  });
  row("Dtypes", "sub-bool", "Subtracting bools.", [] {
    Tensor b = zeros({1}, dtypes::bool_);
    b - b;
  });
  row("Dtypes", "index-dtype", "An index that is not an integer.", [] { zeros({3})[zeros({1})]; });
  row("Dtypes", "dtype-name", "A misspelt dtype.", [] { dtypes::parse("flaot32"); });
  row("Dtypes", "bitcast-size",
      "Reinterpreting as elements of another size where the last axis does not fit.",
      [] { zeros({3}, dtypes::uint8).bitcast(dtypes::float32); });
  row("Devices", "mixed-devices", "Operands on two devices.", [] {
    Tensor::ones({2}, {.device = "CPU"}).contiguous() + Tensor::ones({2}, {.device = "CPU:1"}).contiguous();
  });
  row("Devices", "device-name", "A device that is not there.", [] { Tensor::zeros({2}, {.device = "GPU"}); });
  row("Devices", "device-number", "A device number past the last.",
      [] { Tensor::zeros({2}, {.device = "CPU:99"}).contiguous().realize(); });
  row("Devices", "null-values", "Asking NULL for a value.",
      [] { (Tensor::ones({2}, {.device = "NULL:x86-64-v3"}).contiguous() + 1).tolist(); });
  row("Devices", "null-target", "A target no backend compiles for.",
      [] { (Tensor::ones({2}, {.device = "NULL:z80"}).contiguous() + 1).realize(); });
  row("Devices", "shard", "Sharding, which is not there yet.", [] { zeros({2}).shard({"CPU", "CPU:1"}); });
}

void environment_and_memory(std::vector<Refusal>& all) {
  auto row = [&](const char* section, const char* id, const char* when, std::function<std::string()> call) {
    all.push_back({id, section, when, std::move(call)});
  };
  row("Environment", "flag-name",
      "A misspelt flag, set by a program. (A misspelt LATHE_ variable is a warning.)",
      thrown([] { const FlagScope scope("LATHE_DEUBG", "1"); }));
  row("Environment", "flag-value", "A value outside its range.", thrown([] { read_flags("LATHE_DEBUG=9"); }));
  row("Environment", "flag-choice", "A value that is none of the choices.",
      thrown([] { read_flags("LATHE_CPU=gcc"); }));
  row("Environment", "flag-bytes", "A size that is not a number.",
      thrown([] { read_flags("LATHE_MEMORY_LIMIT=much"); }));
  row("Environment", "flag-without", "A rule to leave out that there is none of.", thrown([] {
        FlagScope without(Flag::Without, "lanes,treads");
        (zeros({2}) + 1).contiguous().realize();
      }));
  row("Memory", "out-of-memory", "A computation whose plan exceeds the memory there is.", thrown([] {
        FlagScope limit(Flag::MemoryLimit, "1M");
        Tensor x = Tensor::full({1 << 20}, 1.0, {.device = "CPU:7"}).contiguous();
        (x + 1).contiguous().realize();
      }));
  row("Cache", "cache-unreadable", "A cache folder that is a file.", warned([] {
        Folder folder;
        std::ofstream(folder.path / "file") << "in the way";
        engine::DiskCache((folder.path / "file").string()).put("kernel", "k", "v");
      }));
  row("Cache", "cache-damaged", "An entry of the cache that was damaged.", warned([] {
        Folder folder;
        engine::DiskCache cache((folder.path / "cache").string());
        cache.put("kernel", "key", "the machine code");
        std::ofstream(cache.path_of("kernel", "key")) << "broken";
        cache.get("kernel", "key");
      }));
}

void captures(std::vector<Refusal>& all) {
  auto row = [&](const char* id, const char* when, std::function<void()> call) {
    all.push_back({id, "Captures and variables", when, thrown(std::move(call))});
  };
  auto twice = [](Jit& f, const Tensor& x) {
    f({x});
    f({x});
  };
  row("jit-item", "Reading a value inside a captured function.", [twice] {
    Jit f = jit(
        [](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0] * in[0].sum().item()}; });
    Tensor x = Tensor::ones({3}).contiguous().realize();
    twice(f, x);
    f({x});
  });
  row("jit-shape", "Calling a captured function with another shape.", [twice] {
    Jit f = jit([](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {(in[0] + 1).realize()}; });
    twice(f, Tensor::ones({3}).contiguous().realize());
    f({Tensor::ones({4}).contiguous().realize()});
  });
  row("jit-count", "Calling a captured function with a different number of arguments.", [twice] {
    Jit f = jit([](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {(in[0] + 1).realize()}; });
    Tensor x = Tensor::ones({3}).contiguous().realize();
    twice(f, x);
    f({x, x});
  });
  row("jit-save-early", "Saving before anything is captured.", [] {
    Jit f = jit([](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0] + 1}; });
    f.save("nowhere");
  });
  row("jit-file", "Loading a file that is not a captured program.", [] {
    Folder folder;
    std::ofstream(folder.path / "program") << "not a program";
    Jit::load(folder.path / "program");
  });
  row("variable-range", "A variable bound outside its range.", [] { Variable("n", 1, 8).bind(9); });
  row("variable-empty", "A variable whose range is empty.", [] { Variable("n", 8, 1).size(); });
  row("variable-unbound", "Realizing a tensor whose variable has no value.", [] {
    Variable n("n", 1, 8);
    Tensor::ones({8}).contiguous().realize().shrink({{0, n.size()}}).sum().item();
  });
  row("variable-twice", "One variable with two values in one computation.", [] {
    Variable n("n", 1, 8);
    Tensor x = Tensor::ones({8}).contiguous().realize();
    (x.shrink({{0, n.bind(3)}}).sum() + x.shrink({{0, n.bind(4)}}).sum()).item();
  });
}

void options_and_programs(std::vector<Refusal>& all) {
  auto row = [&](const char* id, const char* when, const char* text) {
    all.push_back({id, "Kernel options", when, thrown([text] { with_options(text); })});
  };
  row("option-text", "An option list that cannot be read.", "UPCAST(0, four)");
  row("option-name", "A misspelt option.", "UPCAS(0, 4)");
  row("option-axis", "An axis the kernel does not have.", "UPCAST(3, 4)");
  row("option-size", "A size that cannot be.", "UPCAST(0, -3)");
  row("option-target", "An option the target has no hardware for.", "LOCAL(0, 5)");
  auto program = [&](const char* id, const char* when, const char* words, const char* environment = "") {
    all.push_back({id, "Command line", when, printed(words, environment)});
  };
  program("cli-command", "A misspelt command.", "devises");
  program("cli-option", "A misspelt option.", "bench ir --jsno");
  program("cli-value", "A value of the wrong kind.", "bench ir --nodes many");
  program("cli-range", "A number out of range.", "bench ir --rounds 0");
  program("cli-net", "A misspelt net.", "bench compile resnet50_foward");
  program("cli-environment", "A wrong flag in the environment.", "devices", "LATHE_DEBUG=9");
}

}  // namespace

const std::vector<Refusal>& refusals() {
  static const auto* all = [] {
    auto* rows = new std::vector<Refusal>;
    shapes(*rows);
    dtypes_and_devices(*rows);
    environment_and_memory(*rows);
    captures(*rows);
    options_and_programs(*rows);
    return rows;
  }();
  return *all;
}

}  // namespace lathe::test
