#include "apps/llm/base64.h"

#include <cstdint>

#include "lathe/error.h"

namespace lathe::llm {

std::string base64_decoded(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=' || c == '\n') continue;
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos)
      throw UserError("tokenizer", "a table in base64 has a character that is no digit");
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) out += static_cast<char>(bits >> (count -= 8) & 0xFF);
  }
  return out;
}

}  // namespace lathe::llm
