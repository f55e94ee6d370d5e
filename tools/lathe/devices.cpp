#include <fmt/format.h>

#include "lathe/dev/machine.h"
#include "lathe/dev/terminal.h"
#include "tools/lathe/commands.h"

namespace lathe::tool {
namespace {

int run() {
  std::vector<std::vector<std::string>> rows{{"device", "state", "target", "compiler", "features"}};
  const std::vector<dev::DeviceRow> devices = dev::devices();
  for (const dev::DeviceRow& d : devices)
    rows.push_back({d.name, d.unavailable.empty() ? "ready" : "not here", d.target, d.compiler, d.features});
  print_table(rows);
  for (const dev::DeviceRow& d : devices)
    if (!d.unavailable.empty()) fmt::print("{}: {}\n", d.name, d.unavailable);
  for (const dev::DeviceRow& d : devices)
    if (d.targets.size() > 1) fmt::print("{} compiles for {}\n", d.name, fmt::join(d.targets, " "));
  std::string versions;
  for (const auto& [name, version] : dev::versions()) versions += fmt::format("{} {}, ", name, version);
  versions.resize(versions.size() - 2);
  fmt::print("{}\n", dev::dim(versions));
  return 0;
}

}  // namespace

std::vector<Command> add_devices(CLI::App& app) {
  CLI::App* command = app.add_subcommand("devices", "list the devices of this build and what they use here");
  return {{command, run}};
}

}  // namespace lathe::tool
