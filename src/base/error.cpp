#include "base/error.h"

namespace lathe {

namespace {

std::string first_line(std::string_view op, std::string_view message) {
  std::string text = "lathe: ";
  if (!op.empty()) text.append(op).append(": ");
  return text.append(message);
}

}  // namespace

Error::Error(std::string_view op, std::string_view message)
    : std::runtime_error(""), op_(op), message_(message), text_(first_line(op, message)) {}

void Error::add_line(std::string_view label, std::string_view text) {
  text_.append("\n  ").append(label).append(": ").append(text);
}

void check_internal(bool ok, std::string_view where, std::string_view message) {
  if (!ok) throw InternalError(where, message);
}

}  // namespace lathe
