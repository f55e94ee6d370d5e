#include "base/log.h"

#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <set>
#include <string>

#include "base/terminal.h"

namespace lathe {

void log_line(std::string_view text) {
  std::string line(text);
  if (!line.ends_with('\n')) line += '\n';
  for (std::size_t written = 0; written < line.size();) {
    const ssize_t count = write(STDERR_FILENO, line.data() + written, line.size() - written);
    if (count < 0 && errno != EINTR) return;  // the reader is gone
    if (count > 0) written += static_cast<std::size_t>(count);
  }
}

void log_note(std::string_view where, std::string_view text) {
  log_line(coloured(Colour::Dim, "lathe: " + std::string(where) + ": ") + std::string(text));
}

void log_warning_once(std::string_view where, std::string_view text) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> seen;
  {
    const std::lock_guard lock(mutex);
    if (!seen.insert(std::string(where) + ": " + std::string(text)).second) return;
  }
  log_line(coloured(Colour::Dim, "lathe: " + std::string(where) + ": ") +
           coloured(Colour::Yellow, "warning: ") + std::string(text));
}

}  // namespace lathe
