#include <fmt/format.h>

#include "lathe/dev/machine.h"
#include "lathe/dev/terminal.h"
#include "tools/lathe/commands.h"

namespace lathe::tool {
namespace {

int show() {
  const dev::CacheInfo info = dev::cache_info();
  if (info.folder.empty())
    fmt::print("the cache is off (LATHE_CACHE)\n");
  else
    fmt::print("{}: {} entries, {}\n", info.folder, info.entries, dev::human_bytes(info.bytes));
  return 0;
}

int clear() {
  const dev::CacheInfo before = dev::cache_info();
  dev::clear_cache();
  const dev::CacheInfo after = dev::cache_info();
  fmt::print("removed {} entries, {}\n", before.entries - after.entries,
             dev::human_bytes(before.bytes - after.bytes));
  return 0;
}

}  // namespace

std::vector<Command> add_cache(CLI::App& app) {
  CLI::App* command = app.add_subcommand("cache", "the disk cache of compiled kernels");
  command->require_subcommand(1);
  CLI::App* info = command->add_subcommand("info", "print its folder and size");
  CLI::App* remove = command->add_subcommand("clear", "delete all entries");
  return {{info, show}, {remove, clear}};
}

}  // namespace lathe::tool
