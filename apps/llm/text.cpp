#include "apps/llm/text.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "lathe/error.h"

namespace lathe::llm {

Character first_character(std::string_view text) {
  utf8proc_int32_t code = -1;
  const auto bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                      static_cast<utf8proc_ssize_t>(text.size()), &code);
  if (bytes <= 0 || code < 0) return {.code = 0xFFFD, .bytes = 1, .valid = false};
  return {.code = static_cast<char32_t>(code), .bytes = static_cast<int>(bytes), .valid = true};
}

std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> all;
  while (!text.empty()) {
    const auto bytes = static_cast<std::size_t>(first_character(text).bytes);
    all.push_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return all;
}

void append_utf8(std::string& text, char32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(count));
}

std::size_t unfinished_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;  // the middle of a character
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC2 ? 2 : 1;
    return byte <= 0xF4 && length > back ? back : 0;
  }
  return 0;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    if (c.valid)
      out.append(text.substr(0, static_cast<std::size_t>(c.bytes)));
    else
      append_utf8(out, 0xFFFD);
    text.remove_prefix(static_cast<std::size_t>(c.bytes));
  }
  return out;
}

bool category_matches(char32_t code, std::string_view category) {
  const std::string_view own = utf8proc_category_string(static_cast<utf8proc_int32_t>(code));
  return own.substr(0, category.size()) == category;
}

bool is_category_name(std::string_view category) {
  constexpr std::string_view kNames =
      "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co";
  if (category.empty() || category.size() > 2) return false;
  for (std::size_t at = 0; at < kNames.size(); at += 3)
    if (kNames.substr(at, category.size()) == category) return true;
  return false;
}

bool is_space(char32_t code) {
  return (code >= 9 && code <= 13) || code == 0x85 || category_matches(code, "Z");
}

bool is_word(char32_t code) {
  return category_matches(code, "L") || category_matches(code, "M") || category_matches(code, "Nd") ||
         category_matches(code, "Pc");
}

bool is_control(char32_t code) {
  return code != '\t' && code != '\n' && code != '\r' && category_matches(code, "C");
}

char32_t lower(char32_t code) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
}

std::string lower(std::string_view text) {
  std::string out;
  for (const std::string_view c : characters(text)) {
    const Character one = first_character(c);
    if (one.valid)
      append_utf8(out, lower(one.code));
    else
      out.append(c);
  }
  return out;
}

std::string normalized(std::string_view text, NormalForm form) {
  int options = UTF8PROC_STABLE;
  options |= form == NormalForm::NFC || form == NormalForm::NFKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::NFKC || form == NormalForm::NFKD) options |= UTF8PROC_COMPAT;
  const std::string valid = valid_utf8(text);
  utf8proc_uint8_t* made = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(valid.data()),
                                   static_cast<utf8proc_ssize_t>(valid.size()), &made,
                                   static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  if (length < 0) throw InternalError("tokenizer", utf8proc_errmsg(length));
  return {reinterpret_cast<const char*>(made), static_cast<std::size_t>(length)};
}

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  if (what.empty()) return std::string(text);
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t found = text.find(what, at);
    out.append(text.substr(at, found == std::string_view::npos ? found : found - at));
    if (found == std::string_view::npos) return out;
    out.append(by);
    at = found + what.size();
  }
}

}  // namespace lathe::llm
