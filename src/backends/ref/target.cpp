// REF's target.
#include "target/matrix_units.h"
#include "target/target_family.h"

namespace lathe::backends {
namespace {

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
  t.shared_banks = 32;
  t.async_copies = t.bulk_copies = true;
  // Panels that a unit reads itself are made where no value is a vector.
  for (const MatrixUnit& unit : matrix_units())
    if (unit.reads != UnitReads::Panels) t.units.emplace_back(unit.name);
  return t;
}

}  // namespace

TargetFamily ref_targets();

TargetFamily ref_targets() {
  return {[] { return std::vector<std::string>{"ref"}; },
          [](std::string_view name) { return name == "ref" ? std::optional(ref()) : std::nullopt; }};
}

}  // namespace lathe::backends
