// placeholder until the server is there
#include "tools/lathe/commands.h"
namespace lathe::tool {
std::vector<Command> add_mcp(CLI::App&) { return {}; }
}  // namespace lathe::tool
