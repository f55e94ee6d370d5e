#include <fmt/format.h>

#include <algorithm>

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
  std::size_t before = 0;  // columns ahead of the features, which alone may be long
  for (std::size_t column = 0; column + 1 < rows[0].size(); ++column) {
    std::size_t width = 0;
    for (const auto& row : rows) width = std::max(width, row[column].size());
    before += width + 2;
  }
  bool fits = true;
  for (const auto& row : rows) fits = fits && before + row.back().size() <= kColumns;
  if (!fits)
    for (auto& row : rows) row.pop_back();
  print_table(rows);
  if (!fits)
    for (const dev::DeviceRow& d : devices)
      if (!d.features.empty()) fmt::print("{}\n", folded(fmt::format("{}: {}", d.name, d.features), 2));
  for (const dev::DeviceRow& d : devices)
    if (!d.unavailable.empty()) fmt::print("{}\n", folded(fmt::format("{}: {}", d.name, d.unavailable), 2));
  for (const dev::DeviceRow& d : devices)
    if (d.targets.size() > 1)
      fmt::print("{}\n", folded(fmt::format("{} compiles for {}", d.name, fmt::join(d.targets, " ")), 2));
  std::string versions;
  for (const auto& [name, version] : dev::versions()) versions += fmt::format("{} {}, ", name, version);
  versions.resize(versions.size() - 2);
  fmt::print("{}\n", dev::dim(folded(versions, 2)));
  return 0;
}

}  // namespace

std::vector<Command> add_devices(CLI::App& app) {
  CLI::App* command = app.add_subcommand("devices", "list the devices of this build and what they use here");
  return {{command, run}};
}

}  // namespace lathe::tool
