// UTF-8 and the properties of characters that tokenizers ask for. Bytes that are no UTF-8 are read one by one
// as U+FFFD, so that every text has an answer; `decoded_length` tells how many bytes were taken.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::llm {

struct Character {
  char32_t code = 0;
  int bytes = 0;       // what it takes in the text
  bool valid = false;  // false: one byte that is no UTF-8, with the code U+FFFD
};

Character first_character(std::string_view text);
std::vector<std::string_view> characters(std::string_view text);
void append_utf8(std::string& text, char32_t code);

// The bytes at the end of a text that may become a character once more bytes follow: 0 to 3.
std::size_t unfinished_bytes(std::string_view text);
// Bytes that are no UTF-8 as U+FFFD.
std::string valid_utf8(std::string_view text);

// Properties by Unicode's general category. `category_matches` takes names such as "L", "Lu", "Nd", "P".
bool category_matches(char32_t code, std::string_view category);
bool is_category_name(std::string_view category);
bool is_space(char32_t code);    // Unicode's White_Space
bool is_word(char32_t code);     // letters, marks, digits, connecting punctuation: \w
bool is_control(char32_t code);  // categories C, without tab and line ends
char32_t lower(char32_t code);
std::string lower(std::string_view text);

enum class NormalForm : std::uint8_t { NFC, NFD, NFKC, NFKD };
std::string normalized(std::string_view text, NormalForm form);

// Replaces every occurrence.
std::string replaced(std::string_view text, std::string_view what, std::string_view by);

}  // namespace lathe::llm
