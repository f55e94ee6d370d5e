#include "lathe/context.h"

#include "base/env.h"
#include "engine/engine.h"

namespace lathe {

struct FlagOverride::Impl {
  FlagScope scope;
};
FlagOverride::FlagOverride(std::string_view name, std::string_view value)
    : impl_(new Impl{FlagScope(name, value)}) {}
FlagOverride::~FlagOverride() = default;

std::vector<FlagRow> flags() {
  std::vector<FlagRow> rows;
  for (const FlagInfo& info : flag_table())
    rows.push_back({std::string(info.name), flag_text(info.flag), std::string(info.help)});
  return rows;
}

Counters counters() {
  const engine::Counters c = engine::counters();
  return {c.kernels,   c.copies,   c.flops,       c.bytes,       c.bytes_copied,
          c.schedules, c.compiles, c.memory_used, c.memory_peak, c.seconds};
}
void reset_counters() { engine::reset_counters(); }

}  // namespace lathe
