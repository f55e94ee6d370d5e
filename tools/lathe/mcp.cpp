// `lathe mcp`: investigations for other programs, over standard input and output (docs/investigate.md).
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <list>
#include <mutex>
#include <thread>

#include "tools/lathe/commands.h"

#if LATHE_HAVE_INVESTIGATIONS
#include "apps/investigations/mcp_server.h"
#endif

namespace lathe::tool {

#if LATHE_HAVE_INVESTIGATIONS

constexpr std::size_t kAtOnce = 32;  // requests; the oldest is waited for before one more is taken

std::vector<Command> add_mcp(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "mcp", "investigations over the Model Context Protocol, on standard input and output");
  const auto root = std::make_shared<std::string>();
  command->add_option("--store", *root, "folder for records (the user's state folder)");
  const auto serve = [root] {
    namespace fs = std::filesystem;
    investigations::McpServer server(fs::read_symlink("/proc/self/exe").string(), LATHE_VERSION, *root,
                                     fs::current_path().string());
    // Each request has its own thread, so that one that waits for a result does not block a cancellation.
    std::mutex writing;
    std::list<std::jthread> threads;
    for (std::string line; std::getline(std::cin, line);) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      if (threads.size() == kAtOnce) threads.pop_front();
      threads.emplace_back([&server, &writing, line] {
        const auto answer = server.answer(line);
        if (!answer) return;
        const std::lock_guard lock(writing);
        fmt::print("{}\n", *answer);
        std::fflush(stdout);
      });
    }
    server.close();
    threads.clear();
    return 0;
  };
  return {{command, serve}};
}

#else

std::vector<Command> add_mcp(CLI::App&) { return {}; }

#endif

}  // namespace lathe::tool
