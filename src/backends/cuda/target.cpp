// NVIDIA's architectures as targets.
#include "target/matrix_units.h"
#include "target/target_family.h"

namespace lathe::backends {
namespace {

// Shared memory and threads by NVIDIA's table of compute capabilities; a block gets all of a multiprocessor's
// shared memory but 1 KiB, which the system keeps.
struct CudaRow {
  const char* name;
  std::int64_t core_shared_bytes, core_threads, l2;
  int cores;
};
constexpr CudaRow kCuda[] = {
    // name   shared     threads  l2        multiprocessors
    {"sm_80", 164 * kKiB, 2048, 40 * kMiB, 108},
    {"sm_89", 100 * kKiB, 1536, 72 * kMiB, 128},
    {"sm_90a", 228 * kKiB, 2048, 50 * kMiB, 132},
};

// Bytes a cycle of one multiprocessor: 128 lanes of float32 and 32 banks of 4 bytes of shared memory by the
// CUDA guide; what comes from L2 while all of them copy, measured on an H200 (docs/benchmarks.md).
constexpr CoreRates kRates{.arithmetic = 512, .l1 = 128, .l2 = 30, .l3 = 30, .memory = 15};

// All measured on one H200, which is the only chip of the rows that Lathe was run on; products of bf16.
constexpr GroupRates kGroupRates{.busy_threads = 256,
                                 .fragment_word = 0.6,
                                 .fragment_row = 0.6,
                                 .panel_words = 1024,  // 4096 float operations a cycle by the data sheet
                                 .panel_step = 150,
                                 .bulk_bytes = 60,
                                 .copy_cycles = 2600,
                                 .panel_products = 250e12,
                                 .other_products = 30e12,
                                 .moved_bytes = 2e12,
                                 .launch_seconds = 3e-6};

Target cuda(const CudaRow& row) {
  Target t;
  t.name = row.name;
  t.groups = t.fma = true;
  t.max_load_bytes = 16;
  t.cores = row.cores;
  t.l2 = row.l2;
  t.rates = kRates;
  t.group_rates = kGroupRates;
  t.max_group = 1024;
  t.max_locals[0] = t.max_locals[1] = 1024, t.max_locals[2] = 64;
  t.max_groups[0] = 2147483647, t.max_groups[1] = t.max_groups[2] = 65535;
  t.core_shared_bytes = row.core_shared_bytes;
  t.shared_bytes = row.core_shared_bytes - kKiB;
  t.shared_banks = 32;
  t.warp = 32;
  t.async_copies = true;  // since sm_80
  t.bulk_copies = t.name == "sm_90a";
  t.thread_registers = 255;
  t.core_threads = row.core_threads;
  t.core_registers = 64 * kKiB;
  t.emulated = all_small_floats();
  t.converted = {Scalar::Float16, Scalar::BFloat16};
  // ex2.approx with subnormal results: 2 by the CUDA guide, 2.1 seen where results become subnormal.
  t.native = {{Op::Exp2, 2.5}};
  // Units of fp8 keep 14 bits of their sums, which kernels add up outside of them after every 128 steps.
  if (t.name != "sm_80") t.native.push_back({Op::PanelDot, 8192});
  t.features = "+sm_80";  // every row is at least that
  if (t.name != "sm_80") t.features += ",+sm_89";
  if (t.name == "sm_90a") t.features += ",+sm_90a";
  t.units = units_of_features(t.features);
  return t;
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const CudaRow& row : kCuda) out.emplace_back(row.name);
  return out;
}

std::optional<Target> find(std::string_view name) {
  for (const CudaRow& row : kCuda)
    if (name == row.name) return cuda(row);
  return std::nullopt;
}

}  // namespace

TargetFamily cuda_targets();

TargetFamily cuda_targets() { return {names, find}; }

}  // namespace lathe::backends
