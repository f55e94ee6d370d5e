// `lathe help`: what is said once and belongs to no command.
#include <fmt/format.h>

#include "lathe/dev/terminal.h"
#include "tools/lathe/commands.h"

namespace lathe::tool {

std::vector<Command> add_help(CLI::App& app) {
  CLI::App* help = app.add_subcommand("help", "describe environment variables, or the options of a command");
  help->require_subcommand(0, 1);
  CLI::App* flags = help->add_subcommand("flags", "the LATHE_ variables, their values and their effects");
  std::vector<Command> commands{{flags, [] {
                                   for (const auto& [name, takes, meaning] : dev::flags_help())
                                     fmt::print("{}\n",
                                                folded(fmt::format("{} ({})", meaning, takes), 21, name));
                                   return 0;
                                 }}};
  for (CLI::App* other : app.get_subcommands([](CLI::App*) { return true; })) {
    if (other == help) continue;
    CLI::App* page = help->add_subcommand(other->get_name(), "the options of lathe " + other->get_name());
    commands.push_back({page, [other] {
                          fmt::print("{}", other->help("lathe"));
                          return 0;
                        }});
  }
  commands.push_back({help, [&app] {  // last: those below it were chosen with it
                        fmt::print("{}",
                                   app.get_formatter()->make_help(&app, "lathe", CLI::AppFormatMode::Normal));
                        return 0;
                      }});
  return commands;
}

}  // namespace lathe::tool
