#include "target/target.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/text.h"
#include "target/matrix_units.h"

namespace lathe {
namespace {

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB;

// No device this milestone compiles for computes in 8- or 16-bit floats: values are stored in them and
// computed in float, which rounds the same way on every device.
const std::vector<Scalar> kSmallFloats = {Scalar::Float16, Scalar::BFloat16,    Scalar::Fp8e4m3,
                                          Scalar::Fp8e5m2, Scalar::Fp8e4m3fnuz, Scalar::Fp8e5m2fnuz};

// One row per x86-64 level. Caches are those of a plain server core of that level: the rows are for golden
// files and offline compiles; a real machine fills in its own.
struct X86Row {
  const char* name;
  int vector_bytes, vector_registers;
  bool fma;
  bool avx512;  // masks, and what AVX-512 F, VL and DQ have beside wider vectors
  std::int64_t l1, l2, l3;
  const char* features;  // that matrix units ask for
};
constexpr X86Row kX86[] = {
    // name      vector registers fma avx512    l1         l2           l3       features
    {"x86-64-v2", 16, 16, false, false, 32 * kKiB, 256 * kKiB, 8 * kMiB, ""},
    {"x86-64-v3", 32, 16, true, false, 32 * kKiB, 512 * kKiB, 16 * kMiB, "+avx2"},
    {"x86-64-v4", 64, 32, true, true, 32 * kKiB, 1 * kMiB, 32 * kMiB, "+avx2,+avx512bw"},
};

Target x86(const X86Row& row) {
  Target t;
  t.name = t.cpu = row.name;
  t.vectors = t.threads = true;
  t.triple = "x86_64-unknown-linux-gnu";
  t.fma = row.fma;
  t.strided_lanes = t.scales = row.avx512;  // gathers and scatters; vscalefps, vrndscaleps
  t.table_lanes = row.avx512 ? 16 : 0;      // vpermps
  t.vector_bytes = row.vector_bytes;
  t.vector_registers = row.vector_registers;
  t.max_load_bytes = row.vector_bytes;
  t.cores = 2;
  t.l1 = row.l1, t.l2 = row.l2, t.l3 = row.l3;
  t.shared_bytes = 64 * kMiB;  // scratch of one part, in ordinary memory
  t.emulated = kSmallFloats;
  if (row.vector_bytes >= 32) t.converted = {Scalar::Float16};  // F16C
  t.units = units_of_features(row.features);
  return t;
}

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

Target cuda(const CudaRow& row) {
  Target t;
  t.name = row.name;
  t.groups = t.fma = true;
  t.max_load_bytes = 16;
  t.cores = row.cores;
  t.l2 = row.l2;
  t.max_group = 1024;
  t.max_locals[0] = t.max_locals[1] = 1024, t.max_locals[2] = 64;
  t.max_groups[0] = 2147483647, t.max_groups[1] = t.max_groups[2] = 65535;
  t.core_shared_bytes = row.core_shared_bytes;
  t.shared_bytes = row.core_shared_bytes - kKiB;
  t.warp = 32;
  t.async_copies = true;  // since sm_80
  t.bulk_copies = t.name == "sm_90a";
  t.thread_registers = 255;
  t.core_threads = row.core_threads;
  t.core_registers = 64 * kKiB;
  t.emulated = kSmallFloats;
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

// REF may do everything, so that every option has a meaning there; it has no fused multiply-add, so that a
// program rounds as its kernel does.
Target ref() {
  Target t;
  t.name = "ref";
  t.reference = true;
  t.vectors = t.groups = t.threads = true;
  t.strided_lanes = t.rounds_products = true;
  t.table_lanes = 16;
  t.vector_bytes = 16;
  t.vector_registers = 16;
  t.l1 = 32 * kKiB, t.l2 = 256 * kKiB, t.l3 = 8 * kMiB;
  t.max_group = 1024;
  for (int i = 0; i < 3; ++i) t.max_locals[i] = 1024, t.max_groups[i] = 2147483647;
  t.shared_bytes = 64 * kMiB;
  t.warp = 4;
  t.async_copies = t.bulk_copies = true;
  // Panels that a unit reads itself are made where no value is a vector.
  for (const MatrixUnit& unit : matrix_units())
    if (unit.reads != UnitReads::Panels) t.units.emplace_back(unit.name);
  return t;
}

// What a name may add to a level, by LLVM's names: all that the CPU backend looks for beyond the levels.
constexpr std::string_view kExtraFeatures[] = {"avxvnni",    "avx512vnni", "avx512vbmi", "avx512bf16",
                                               "avx512fp16", "amx-tile",   "amx-bf16",   "amx-int8"};

// "x86-64-v4+avx512bf16": a level, and features beyond it.
Target x86_with(const X86Row& row, std::string_view features) {
  Target t = x86(row);
  t.name += features;
  std::string list;
  for (const char c : features) list += c == '+' ? std::string(list.empty() ? "+" : ",+") : std::string(1, c);
  for_each_feature(list, [&](std::string_view feature) {
    if (std::find(std::begin(kExtraFeatures), std::end(kExtraFeatures), feature) != std::end(kExtraFeatures))
      return;
    UserError error("target", fmt::format("target '{}' names the unknown feature '{}'", t.name, feature));
    if (auto near = nearest_word(feature, kExtraFeatures))
      error.note(fmt::format("did you mean '{}'?", *near));
    throw std::move(error).help(fmt::format("features beyond a level: {}", fmt::join(kExtraFeatures, ", ")));
  });
  t.features = list;
  t.units = units_of_features(std::string(row.features) + "," + list);
  t.rounds_products = has_feature(list, "avx512bf16");
  return t;
}

}  // namespace

bool Target::emulates(DType dtype) const {
  return std::find(emulated.begin(), emulated.end(), dtype.scalar) != emulated.end();
}

bool Target::has_native(Op op) const {
  return std::any_of(native.begin(), native.end(), [&](const OpError& own) { return own.op == op; });
}

// Every member is bound by name, so that one added to Target does not compile until it is in the key.
std::string Target::key() const {
  const auto& [name, reference, features, cpu, triple, vectors, groups, threads, fma, vector_bytes,
               vector_registers, max_load_bytes, strided_lanes, table_lanes, scales, rounds_products, cores,
               l1, l2, l3, max_buffers, max_group, max_locals, max_groups, shared_bytes, warp,
               thread_registers, async_copies, bulk_copies, core_threads, core_registers, core_shared_bytes,
               emulated, converted, native, units] = *this;
  auto names = [](const std::vector<Scalar>& scalars) {
    std::vector<std::string_view> list;
    for (Scalar s : scalars) list.push_back(DType(s).name());
    return fmt::format("{}", fmt::join(list, ","));
  };
  std::vector<std::string> functions;
  for (const OpError& own : native) functions.push_back(fmt::format("{}:{}", info(own.op).name, own.ulp));
  return fmt::format(
      "{} reference={} cpu={} triple={} features={} vectors={} groups={} threads={} fma={} vector_bytes={} "
      "vector_registers={} max_load_bytes={} strided_lanes={} table_lanes={} scales={} rounds_products={} "
      "cores={} l1={} l2={} l3={} max_buffers={} max_group={} "
      "max_locals={} max_groups={} shared_bytes={} warp={} thread_registers={} async_copies={} "
      "bulk_copies={} core={},{},{} "
      "emulated={} converted={} native={} units={}",
      name, reference, cpu, triple, features, vectors, groups, threads, fma, vector_bytes, vector_registers,
      max_load_bytes, strided_lanes, table_lanes, scales, rounds_products, cores, l1, l2, l3, max_buffers,
      max_group, fmt::join(max_locals, "x"), fmt::join(max_groups, "x"), shared_bytes, warp, thread_registers,
      async_copies, bulk_copies, core_threads, core_registers, core_shared_bytes, names(emulated),
      names(converted), fmt::join(functions, ","), fmt::join(units, ","));
}

Target named_target(std::string_view name) {
  if (name == "ref") return ref();
  for (const X86Row& row : kX86) {
    if (name == row.name) return x86(row);
    const std::string_view level = row.name;
    if (name.starts_with(level) && name.substr(level.size()).starts_with('+'))
      return x86_with(row, name.substr(level.size()));
  }
  for (const CudaRow& row : kCuda)
    if (name == row.name) return cuda(row);
  std::vector<std::string> names = target_names();
  UserError error("target", fmt::format("no target is called '{}'", name));
  std::vector<std::string_view> views(names.begin(), names.end());
  if (auto near = nearest_word(name, views)) error.note(fmt::format("did you mean '{}'?", *near));
  throw std::move(error).help(fmt::format("known targets: {}", fmt::join(names, ", ")));
}

std::vector<std::string> target_names() {
  std::vector<std::string> names{"ref"};
  for (const X86Row& row : kX86) names.emplace_back(row.name);
  for (const CudaRow& row : kCuda) names.emplace_back(row.name);
  return names;
}

}  // namespace lathe
