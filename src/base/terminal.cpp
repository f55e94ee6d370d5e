#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace lathe {

namespace {

// The escape code of each Colour, in the order of the enum.
constexpr const char* kCodes[] = {"0", "1", "2", "31", "32", "33", "34", "35", "36"};

bool has_text(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value;
}

}  // namespace

bool stderr_is_terminal() {
  static const bool answer = isatty(STDERR_FILENO) == 1;
  return answer;
}

bool locale_is_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (!has_text(variable)) continue;
    const std::string_view value = std::getenv(variable);
    return value.find("UTF-8") != value.npos || value.find("utf8") != value.npos;
  }
  return false;
}

int terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

std::string coloured(Colour colour, std::string_view text, bool colours) {
  if (!colours || colour == Colour::Plain) return std::string(text);
  return std::string("\033[") + kCodes[static_cast<int>(colour)] + "m" + std::string(text) + "\033[0m";
}

std::string coloured(Colour colour, std::string_view text) {
  static const bool colours = stderr_is_terminal() && !has_text("NO_COLOR");
  return coloured(colour, text, colours);
}

}  // namespace lathe
