// Kernels that many programs spend their time in, compiled for every chip without a GPU: nothing is spilled,
// no matrix product is serialised, and the registers of a thread are a table that may only get better
// (tests/cuda/golden/flagships.txt; `make golden` writes it).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "backends/cuda/compiler_log.h"
#include "backends/cuda/dialect.h"
#include "base/atomic_file.h"
#include "codegen/kernels.h"
#include "cuda/support.h"
#include "ir/walk.h"
#include "schedule/schedule.h"
#include "schedule/small_attention.h"
#include "test_folders.h"

namespace lathe::test {
namespace {

constexpr const char* kTable = "tests/cuda/golden/flagships.txt";
constexpr const char* kChips[] = {"sm_80", "sm_89", "sm_90a"};

struct Flagship {
  const char* name;
  Node kernel;
  std::vector<const char*> instructions = {};  // that it is for, which only sm_90a has; empty: for all chips
};

// The kernels of attention and its gradients that have a fold, in order: the output, the gradient of queries,
// those of keys and values.
std::vector<Node> attention_kernels(std::int64_t width, AttentionMask mask) {
  ScheduleOptions options;
  options.rows = Rows::Group;
  options.unit_folds = true;
  const Schedule made = schedule(small_attention({64, 4096, 4096, width, width}, mask).all, options);
  std::vector<Node> kernels;
  for (const Step& step : made.steps) {
    const std::vector<Node> order = toposort(step.ast);
    if (std::any_of(order.begin(), order.end(), [](Node n) { return n.is(Op::Fold); }))
      kernels.push_back(step.ast);
  }
  return kernels;
}

std::vector<Flagship> flagships() {
  using namespace dtypes;
  std::vector<Flagship> all = {
      {"product_f32", matmul(4096, 4096, 4096)},
      {"product_bf16", small_matmul(4096, 4096, 4096, BFloat16, BFloat16, Float32)},
      {"product_bf16_nt", turned_matmul(4096, 4096, 4096, true, true)},
      {"product_bf16_tn", turned_matmul(4096, 4096, 4096, false, false)},
      {"product_odd", matmul(1000, 1000, 999)},
      {"product_bf16_odd", turned_matmul(1000, 1000, 1000, true, false)},
      {"product_f16", unit_matmul(4096, 4096, 4096, Float16, Float16, true, false)},
      {"product_tf32", unit_matmul(4096, 4096, 4096, Float32, Float32, true, true)},
      {"product_fp8", unit_matmul(4096, 4096, 4096, Fp8e4m3, Fp8e4m3, true, true)},
      {"product_fp8_mixed", unit_matmul(4096, 4096, 4096, Fp8e5m2, Fp8e4m3, true, true)},
      {"product_s8", unit_matmul(4096, 4096, 4096, Int8, Int8, true, true)},
      {"row_sum", row_sum(32768, 8192)},
      {"rows", centred_rows(32768, 8192)},
      {"convolution", channel_convolution(64, 256, 256, 56, 3), {"wgmma.mma_async"}},
      {"weight_gradient", channel_weight_gradient(64, 256, 256, 56, 3), {"wgmma.mma_async"}},
      {"attention_64",
       unit_attention(16, 4096, 32, 64, false),
       {"wgmma.mma_async", "cp.async.bulk.tensor.2d"}},
      {"attention_128",
       unit_attention(16, 4096, 32, 128, false),
       {"wgmma.mma_async", "cp.async.bulk.tensor.2d"}},
      {"attention_128_causal",
       unit_attention(16, 4096, 32, 128, true),
       {"wgmma.mma_async", "cp.async.bulk.tensor.2d"}},
  };
  const auto add = [&](std::int64_t width, AttentionMask mask, const std::vector<const char*>& names) {
    const std::vector<Node> kernels = attention_kernels(width, mask);
    EXPECT_EQ(kernels.size(), names.size());
    for (std::size_t i = 0; i < std::min(kernels.size(), names.size()); ++i)
      all.push_back({names[i], kernels[i], {"wgmma.mma_async", "cp.async.bulk.tensor.2d"}});
  };
  add(64, AttentionMask::None, {"attention_64_training", "attention_64_queries", "attention_64_keys_values"});
  add(128, AttentionMask::None,
      {"attention_128_training", "attention_128_queries", "attention_128_keys_values"});
  add(128, AttentionMask::Causal,
      {"attention_128_causal_training", "attention_128_causal_queries", "attention_128_causal_keys_values"});
  return all;
}

// What the compiler makes of a kernel; LATHE_SAVE=folder keeps its source, options and log.
backends::KernelResources compiled(const Flagship& flagship, const char* chip) {
  const Target target = named_target(chip);
  const std::vector<Opt> options = choose_options(flagship.kernel, target);
  const std::string source =
      render::c_text(lower_kernel(flagship.kernel, options, target, flagship.name), backends::cuda_c());
  std::string log;
  EXPECT_NE(backends::Nvrtc::get()->compile(source, chip, log), "") << log;
  if (const char* folder = std::getenv("LATHE_SAVE"))
    std::ofstream(fmt::format("{}/{}.{}.cu", folder, flagship.name, chip))
        << "// " << to_string(options) << "\n"
        << source << "/*" << log << "*/\n";
  EXPECT_TRUE(backends::faults_in(log).empty()) << log;
  for (const char* instruction : flagship.instructions)
    EXPECT_NE(source.find(instruction), std::string::npos) << flagship.name << " has no " << instruction;
  const std::vector<backends::KernelResources> found = backends::resources_in(log);
  EXPECT_EQ(found.size(), 1u) << log;
  return found.empty() ? backends::KernelResources{} : found[0];
}

// The table: its first line names the compiler it is of, the others "chip kernel registers".
std::map<std::string, int> rows_of(const std::string& table, std::string& compiler) {
  std::istringstream lines(table);
  std::getline(lines, compiler);
  std::map<std::string, int> rows;
  std::string chip, kernel;
  for (int registers; lines >> chip >> kernel >> registers;) rows[chip + " " + kernel] = registers;
  return rows;
}

TEST(CudaFlagships, SpillNothingAndTakeNoMoreRegistersThanBefore) {
  LATHE_NEEDS_NVRTC();
  Scope scope;
  const std::string path = std::string(LATHE_SOURCE_DIR "/") + kTable,
                    compiler = backends::Nvrtc::get()->version();
  const std::string first = "registers a thread, by NVRTC " + compiler;
  std::string known_first, text = first + "\n";
  const auto known = rows_of(read_file(path).value_or(""), known_first);
  const bool update = std::getenv("UPDATE_GOLDEN") != nullptr;
  // Another compiler gives registers in its own way.
  const bool comparable = !update && known_first == first;
  std::size_t rows = 0;
  for (const char* chip : kChips)
    for (const Flagship& flagship : flagships()) {
      if (!flagship.instructions.empty() && std::string_view(chip) != "sm_90a") continue;
      const backends::KernelResources found = compiled(flagship, chip);
      const std::string row = fmt::format("{} {}", chip, flagship.name);
      EXPECT_EQ(found.kernel, flagship.name);
      EXPECT_EQ(found.spill_stores + found.spill_loads + found.stack, 0) << row;
      EXPECT_GT(found.registers, 0) << row;
      text += fmt::format("{} {}\n", row, found.registers);
      ++rows;
      if (update || !comparable) continue;
      ASSERT_TRUE(known.contains(row)) << row << " is not in " << kTable << ": make golden writes it";
      EXPECT_LE(found.registers, known.at(row)) << row << ": if this is meant, make golden and say why";
    }
  if (update) return write_file_atomic(path, text);
  EXPECT_EQ(known.size(), rows) << kTable << " has other rows: make golden writes it";
  if (!comparable)
    GTEST_SKIP() << "registers were not compared: the table is of another compiler than NVRTC " << compiler;
}

}  // namespace
}  // namespace lathe::test
