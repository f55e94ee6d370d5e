// Reads JSON value by value, the way the reader expects it: nothing is built that the reader did not ask for,
// so a long or deep text costs no memory. Numbers are whole; keys of one object differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lathe/error.h"

namespace lathe::formats {

class JsonReader {
 public:
  // `refuse` makes the error for a place in the text.
  using Refuse = std::function<UserError(std::size_t at, const std::string& why)>;
  JsonReader(std::string_view text, Refuse refuse) : text_(text), refuse_(std::move(refuse)) {}

  // Calls `entry` for every key; it must read the value.
  void object(const std::function<void(const std::string& key)>& entry);
  void array(const std::function<void()>& item);
  std::string string();
  std::int64_t integer();
  bool boolean();
  void null();
  char peek();  // the first character of the next value
  void end();   // nothing but spaces may follow

  std::size_t position() const { return at_; }
  UserError refuse(const std::string& why) const { return refuse_(at_, why); }

 private:
  void spaces();
  void expect(char c, const char* what);
  void word(std::string_view expected);
  std::uint32_t escape_digits();
  void escape(std::string& out);

  std::string_view text_;
  Refuse refuse_;
  std::size_t at_ = 0;
};

// A JSON string with its quotes.
std::string json_quoted(std::string_view text);

// Whether the text is UTF-8.
bool is_utf8(std::string_view text);

}  // namespace lathe::formats
