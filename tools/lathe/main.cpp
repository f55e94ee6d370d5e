// `lathe`: the command line. Parses, refuses what it does not know with the nearest word that it does, and
// runs one command.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <exception>

#include "lathe/dev/interrupt.h"
#include "lathe/dev/terminal.h"
#include "lathe/error.h"
#include "tools/lathe/commands.h"

namespace lathe::tool {
namespace {

constexpr int kWrongUse = 2;

std::vector<std::string> after_dashes;

// Takes a command that is investigated off the words: neither its options nor its `--` are for our parser.
int cut_at_dashes(int argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "investigate") return argc;
  char** end = argv + argc;
  char** dashes =
      std::find_if(argv + 2, end, [](const char* word) { return std::string_view(word) == "--"; });
  if (dashes != end) after_dashes.assign(dashes + 1, end);
  return static_cast<int>(dashes - argv);
}

// The innermost sub-command that was given: what an error is about.
CLI::App* chosen(CLI::App& app) {
  CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  return at;
}

std::vector<std::string> known_words(CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; }))
    words.push_back(sub->get_name());
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  return words;
}

// The first word that nothing takes: what the user most likely misspelt.
std::string unknown_word(CLI::App& app) {
  const std::vector<std::string> rest = app.remaining(true);
  return rest.empty() ? "" : rest.front();
}

// What is wrong where every word is known.
std::string complaint(CLI::App& app, const CLI::ParseError& error) {
  if (error.get_name() == "RequiredError") {
    for (const CLI::Option* option : app.get_options())
      if (option->get_required() && option->count() == 0) {
        std::string text = option->get_description();
        std::replace(text.begin(), text.end(), '\n', ' ');
        return fmt::format("{} is needed: {}", option->get_name(), text);
      }
    std::vector<std::string> names;
    for (const CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; }))
      names.push_back(sub->get_name());
    return fmt::format("a command is needed: {}", fmt::join(names, ", "));
  }
  return error.what();
}

int refuse(CLI::App& app, const CLI::ParseError& error) {
  CLI::App* at = chosen(app);
  std::string path = at->get_name();
  for (const CLI::App* up = at->get_parent(); up != nullptr; up = up->get_parent())
    path = up->get_name() + " " + path;
  const std::string word = unknown_word(app);
  if (word.empty()) {
    fmt::print(stderr, "{}: {}\n", path, complaint(*at, error));
  } else {
    fmt::print(stderr, "{}: unknown {} {}\n", path, word.rfind("-", 0) == 0 ? "option" : "word", word);
    const std::vector<std::string> known = known_words(*at);
    const std::string plain = word.substr(0, word.find('='));
    if (const auto meant = dev::nearest_word(plain, known))
      fmt::print(stderr, "  help: did you mean {}?\n", *meant);
  }
  fmt::print(stderr, "  help: {} --help lists what there is\n", path);
  return kWrongUse;
}

int main(int argc, char** argv) {
  CLI::App app{"Lathe: a tensor compiler and deep-learning stack", "lathe"};
  app.footer("lathe help flags lists the environment variables (LATHE_...)");
  app.set_version_flag("--version", "lathe " LATHE_VERSION);
  app.require_subcommand(1);
  std::vector<Command> commands;
  for (auto add : {add_demo, add_devices, add_bench, add_tune, add_inspect, add_quantize, add_run, add_chat,
                   add_serve, add_investigate, add_mcp, add_cache, add_faults, add_fuzz, add_help})
    for (Command& command : add(app)) commands.push_back(std::move(command));
  fold_help(app);
  try {
    app.parse(cut_at_dashes(argc, argv), argv);
  } catch (const CLI::Success& help) {  // --help, --version
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return refuse(app, error);
  }
  dev::stop_compiles_on_interrupt();
  try {
    dev::check_flags();
    for (const Command& command : commands)
      if (command.app->parsed()) return command.run();
  } catch (const UserError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return dev::was_interrupted() ? dev::kInterruptedStatus : kWrongUse;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace

const std::vector<std::string>& words_after_dashes() { return after_dashes; }

}  // namespace lathe::tool

int main(int argc, char** argv) { return lathe::tool::main(argc, argv); }
