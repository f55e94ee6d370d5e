#include "base/cache_folder.h"

#include <cstdlib>

#include "base/env.h"

namespace lathe {

std::string cache_folder() {
  const std::string& flag = flag_text(Flag::Cache);
  if (flag == "off" || flag == "0") return "";
  if (!flag.empty()) return flag;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return std::string(cache) + "/lathe";
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : std::string(home) + "/.cache/lathe";
}

}  // namespace lathe
