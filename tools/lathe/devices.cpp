#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "lathe/dev/machine.h"
#include "lathe/dev/terminal.h"
#include "tools/lathe/commands.h"

namespace lathe::tool {
namespace {

// Columns of a table of texts.
std::size_t width_of(const std::vector<std::vector<std::string>>& rows) {
  std::size_t total = 0;
  for (std::size_t column = 0; column < rows[0].size(); ++column) {
    std::size_t width = 0;
    for (const auto& row : rows) width = std::max(width, row[column].size());
    total += width + 2;
  }
  return total - 2;
}

int run() {
  std::vector<std::vector<std::string>> rows{{"device", "state", "target", "compiler", "features"}};
  const std::vector<dev::DeviceRow> devices = dev::devices();
  for (const dev::DeviceRow& d : devices)
    rows.push_back(
        {d.name, d.unavailable.empty() ? "ready" : "unavailable", d.target, d.compiler, d.features});
  // What does not fit beside the names is below: first the features, then the compilers.
  std::vector<std::function<std::string(const dev::DeviceRow&)>> below;
  for (auto text : {&dev::DeviceRow::features, &dev::DeviceRow::compiler})
    if (width_of(rows) > kColumns) {
      for (auto& row : rows) row.pop_back();
      below.insert(below.begin(), [text](const dev::DeviceRow& d) { return d.*text; });
    }
  print_table(rows);
  for (const auto& text : below)
    for (const dev::DeviceRow& d : devices)
      if (!text(d).empty()) fmt::print("{}\n", folded(fmt::format("{}: {}", d.name, text(d)), 2));
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
  CLI::App* command =
      app.add_subcommand("devices", "list the devices of this build and what they use on this machine");
  return {{command, run}};
}

}  // namespace lathe::tool
