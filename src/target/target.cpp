#include "target/target.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/text.h"
#include "target/target_family.h"

namespace lathe {
namespace {

// Every member is bound by name, here and below, so that one that is added does not compile until it is in
// the key.
std::string key_of(const CoreRates& rates) {
  const auto& [arithmetic, l1, l2, l3, memory] = rates;
  return fmt::format("{},{},{},{},{}", arithmetic, l1, l2, l3, memory);
}

std::string key_of(const GroupRates& rates) {
  const auto& [busy_threads, fragment_word, fragment_row, panel_words, panel_step, bulk_bytes, copy_cycles,
               panel_products, other_products, moved_bytes, launch_seconds] = rates;
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{}", busy_threads, fragment_word, fragment_row,
                     panel_words, panel_step, bulk_bytes, copy_cycles, panel_products, other_products,
                     moved_bytes, launch_seconds);
}

}  // namespace

bool Target::emulates(DType dtype) const {
  return std::find(emulated.begin(), emulated.end(), dtype.scalar) != emulated.end();
}

bool Target::has_native(Op op) const {
  return std::any_of(native.begin(), native.end(), [&](const OpError& own) { return own.op == op; });
}

std::string Target::key() const {
  const auto& [name, reference, features, cpu, triple, vectors, groups, threads, fma, vector_bytes,
               vector_registers, max_load_bytes, small_masks, strided_lanes, table_lanes, scales,
               rounds_products, wide_integers, divides_constants, cores, l1, l2, l3, l1_ways, l2_ways, rates,
               rates_from, sums_in_flight, prefetch_streams, prefetch_lines, reload_steps, wake_steps,
               max_buffers, max_group, max_locals, max_groups, shared_bytes, warp, thread_registers,
               shared_banks, group_rates, async_copies, bulk_copies, core_threads, core_registers,
               core_shared_bytes, emulated, converted, native, units] = *this;
  auto names = [](const std::vector<Scalar>& scalars) {
    std::vector<std::string_view> list;
    for (Scalar s : scalars) list.push_back(DType(s).name());
    return fmt::format("{}", fmt::join(list, ","));
  };
  std::vector<std::string> functions;
  for (const OpError& own : native) functions.push_back(fmt::format("{}:{}", info(own.op).name, own.ulp));
  return fmt::format(
      "{} reference={} cpu={} triple={} features={} vectors={} groups={} threads={} fma={} vector_bytes={} "
      "vector_registers={} max_load_bytes={} small_masks={} strided_lanes={} table_lanes={} scales={} "
      "rounds_products={} wide_integers={} divides_constants={} "
      "cores={} l1={} l2={} l3={} ways={},{} rates={} from={} in_flight={} prefetch={},{} reload={} "
      "wake={} max_buffers={} max_group={} "
      "max_locals={} max_groups={} shared_bytes={} warp={} thread_registers={} banks={} "
      "group_rates={} async_copies={} "
      "bulk_copies={} core={},{},{} "
      "emulated={} converted={} native={} units={}",
      name, reference, cpu, triple, features, vectors, groups, threads, fma, vector_bytes, vector_registers,
      max_load_bytes, small_masks, strided_lanes, table_lanes, scales, rounds_products, wide_integers,
      divides_constants, cores, l1, l2, l3, l1_ways, l2_ways, key_of(rates), rates_from, sums_in_flight,
      prefetch_streams, prefetch_lines, reload_steps, wake_steps, max_buffers, max_group,
      fmt::join(max_locals, "x"), fmt::join(max_groups, "x"), shared_bytes, warp, thread_registers,
      shared_banks, key_of(group_rates), async_copies, bulk_copies, core_threads, core_registers,
      core_shared_bytes, names(emulated), names(converted), fmt::join(functions, ","), fmt::join(units, ","));
}

Target named_target(std::string_view name) {
  for (const TargetFamily& family : target_families())
    if (std::optional<Target> found = family.find(name)) return *std::move(found);
  std::vector<std::string> names = target_names();
  UserError error("target", fmt::format("no target is called '{}'", name));
  std::vector<std::string_view> views(names.begin(), names.end());
  if (auto near = nearest_word(name, views)) error.note(fmt::format("did you mean '{}'?", *near));
  throw std::move(error).help(fmt::format("known targets: {}", fmt::join(names, ", ")));
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const TargetFamily& family : target_families())
    for (std::string& name : family.names()) names.push_back(std::move(name));
  return names;
}

std::vector<Scalar> all_small_floats() {
  return {Scalar::Float16, Scalar::BFloat16,    Scalar::Fp8e4m3,
          Scalar::Fp8e5m2, Scalar::Fp8e4m3fnuz, Scalar::Fp8e5m2fnuz};
}

}  // namespace lathe
