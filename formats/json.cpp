#include "formats/json.h"

#include <fmt/format.h>

#include <charconv>
#include <unordered_set>

#include "formats/source.h"

namespace lathe::formats {
namespace {

void append_utf8(std::string& out, std::uint32_t c) {
  auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xe0 | c >> 12);
    } else {
      put(0xf0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3f));
    }
    put(0x80 | (c >> 6 & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

}  // namespace

void JsonReader::spaces() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
    ++at_;
}

char JsonReader::peek() {
  spaces();
  if (at_ >= text_.size()) throw refuse("the text ends where a value is expected");
  return text_[at_];
}

void JsonReader::expect(char c, const char* what) {
  spaces();
  if (at_ >= text_.size()) throw refuse(fmt::format("the text ends where {} is expected", what));
  if (text_[at_] != c)
    throw refuse(fmt::format("\"{}\" is where {} is expected", shown(text_.substr(at_, 1)), what));
  ++at_;
}

void JsonReader::word(std::string_view expected) {
  spaces();
  if (text_.substr(at_, expected.size()) != expected)
    throw refuse(fmt::format("\"{}\" is where {} is expected", shown(text_.substr(at_, 1)), expected));
  at_ += expected.size();
}

void JsonReader::object(const std::function<void(const std::string& key)>& entry) {
  expect('{', "an object");
  if (peek() == '}') {
    ++at_;
    return;
  }
  std::unordered_set<std::string> seen;
  for (;;) {
    spaces();
    const std::size_t begin = at_;
    std::string key = string();
    if (!seen.insert(key).second) {
      at_ = begin;
      throw refuse(fmt::format("the key \"{}\" occurs twice", shown(key)));
    }
    expect(':', "a colon");
    entry(key);
    if (peek() != ',') break;
    ++at_;
  }
  expect('}', "a comma or the end of the object");
}

void JsonReader::array(const std::function<void()>& item) {
  expect('[', "an array");
  if (peek() == ']') {
    ++at_;
    return;
  }
  for (;;) {
    item();
    if (peek() != ',') break;
    ++at_;
  }
  expect(']', "a comma or the end of the array");
}

std::uint32_t JsonReader::escape_digits() {
  std::uint32_t value = 0;
  if (at_ + 4 > text_.size()) throw refuse("the text ends inside an escape");
  const char* end = text_.data() + at_ + 4;
  if (auto [stop, error] = std::from_chars(text_.data() + at_, end, value, 16);
      error != std::errc() || stop != end)
    throw refuse("an escape needs four hexadecimal digits");
  at_ += 4;
  return value;
}

void JsonReader::escape(std::string& out) {
  constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  if (at_ >= text_.size()) throw refuse("the text ends inside an escape");
  const char letter = text_[at_++];
  if (const std::size_t which = kLetters.find(letter); which != std::string_view::npos) {
    out.push_back(kMeanings[which]);
    return;
  }
  if (letter != 'u') throw refuse(fmt::format("there is no escape \"{}\"", shown({&letter, 1})));
  std::uint32_t c = escape_digits();
  if (c >= 0xd800 && c < 0xdc00 && text_.substr(at_, 2) == "\\u") {  // the first half of a pair
    at_ += 2;
    const std::uint32_t low = escape_digits();
    if (low < 0xdc00 || low >= 0xe000) throw refuse("an escaped pair has no second half");
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  } else if (c >= 0xd800 && c < 0xe000) {
    throw refuse("an escaped surrogate has no partner");
  }
  append_utf8(out, c);
}

std::string JsonReader::string() {
  expect('"', "a string");
  std::string out;
  const std::size_t begin = at_;
  for (;;) {
    if (at_ >= text_.size()) throw refuse("the text ends inside a string");
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) < 0x20) throw refuse("a string holds a control character");
    ++at_;
    if (c == '"') break;
    if (c == '\\')
      escape(out);
    else
      out.push_back(c);
  }
  if (!is_utf8(out)) {
    at_ = begin;
    throw refuse("a string is not UTF-8");
  }
  return out;
}

std::int64_t JsonReader::integer() {
  spaces();
  std::int64_t value = 0;
  const char* begin = text_.data() + at_;
  const char* end = text_.data() + text_.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error == std::errc::result_out_of_range) throw refuse("a number does not fit 64 bits");
  if (error != std::errc() || (stop != end && (*stop == '.' || *stop == 'e' || *stop == 'E')))
    throw refuse(fmt::format("\"{}\" is where an integer is expected", shown(text_.substr(at_, 12))));
  const bool negative = *begin == '-';
  if (begin[negative ? 1 : 0] == '0' && stop - begin > (negative ? 2 : 1))
    throw refuse("a number begins with 0");
  at_ += static_cast<std::size_t>(stop - begin);
  return value;
}

bool JsonReader::boolean() {
  const bool value = peek() == 't';
  word(value ? "true" : "false");
  return value;
}

void JsonReader::null() { word("null"); }

void JsonReader::end() {
  spaces();
  if (at_ != text_.size()) throw refuse("something follows the end of the text");
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (byte < 0x20)
      out += fmt::format("\\u{:04x}", byte);
    else
      out += c;
  }
  return out + "\"";
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t length = first < 0x80       ? 1
                               : first >> 5 == 6  ? 2
                               : first >> 4 == 14 ? 3
                               : first >> 3 == 30 ? 4
                                                  : 0;
    if (length == 0 || i + length > text.size()) return false;
    std::uint32_t c = length == 1 ? first : first & (0x7fU >> length);
    for (std::size_t j = 1; j < length; ++j) {
      const auto more = static_cast<unsigned char>(text[i + j]);
      if (more >> 6 != 2) return false;
      c = c << 6 | (more & 0x3f);
    }
    constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < kLeast[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return false;
    i += length;
  }
  return true;
}

}  // namespace lathe::formats
