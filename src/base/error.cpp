#include "base/error.h"

namespace lathe {

namespace {

// What is quoted may be out of a file: it must neither end the text (a zero) nor tell a terminal what to do.
std::string printable(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
    if (is_control)
      out.append("\\x") += {kDigits[byte >> 4U], kDigits[byte & 0xFU]};
    else
      out += c;
  }
  return out;
}

std::string first_line(std::string_view op, std::string_view message) {
  std::string text = "lathe: ";
  if (!op.empty()) text.append(op).append(": ");
  return text.append(message);
}

}  // namespace

Error::Error(std::string_view op, std::string_view message)
    : std::runtime_error(""), op_(op), message_(printable(message)), text_(first_line(op, message_)) {}

void Error::add_line(std::string_view label, std::string_view text) {
  text_.append("\n  ").append(label).append(": ").append(printable(text));
}

void check_internal(bool ok, std::string_view where, std::string_view message) {
  if (!ok) throw InternalError(where, message);
}

}  // namespace lathe
