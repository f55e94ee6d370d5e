// Text into tokens. Between tags everything is text; inside of one, names, numbers, strings and operators.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "apps/llm/jinja/syntax.h"

namespace lathe::llm::jinja {
namespace {

constexpr std::string_view kBlanks = " \t\n\r\f\v";

bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0U | (code >> 6U));
    out += static_cast<char>(0x80U | (code & 0x3fU));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0U | (code >> 12U));
    out += static_cast<char>(0x80U | ((code >> 6U) & 0x3fU));
    out += static_cast<char>(0x80U | (code & 0x3fU));
  } else {
    out += static_cast<char>(0xf0U | (code >> 18U));
    out += static_cast<char>(0x80U | ((code >> 12U) & 0x3fU));
    out += static_cast<char>(0x80U | ((code >> 6U) & 0x3fU));
    out += static_cast<char>(0x80U | (code & 0x3fU));
  }
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const std::size_t tag = next_tag();
      text(tag);
      if (tag == source_.size()) break;
      if (source_[tag + 1] == '#')
        comment();
      else if (source_[tag + 1] == '%')
        statement();
      else
        print();
    }
    tokens_.push_back({Token::Kind::End, "", line_});
    return std::move(tokens_);
  }

 private:
  std::size_t next_tag() const {
    for (std::size_t i = at_; i + 1 < source_.size(); ++i)
      if (source_[i] == '{' && (source_[i + 1] == '%' || source_[i + 1] == '{' || source_[i + 1] == '#'))
        return i;
    return source_.size();
  }

  char sign_at(std::size_t at) const { return at < source_.size() ? source_[at] : '\0'; }

  void advance(std::size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  void text(std::size_t end) {
    std::string_view piece = std::string_view(source_).substr(at_, end - at_);
    const char sign = sign_at(end + 2);
    if (end < source_.size() && sign == '-') {
      const std::size_t last = piece.find_last_not_of(kBlanks);
      piece = piece.substr(0, last == std::string_view::npos ? 0 : last + 1);
    } else if (end < source_.size() && sign != '+' && source_[end + 1] != '{') {
      // Spaces between the beginning of a line and a statement or comment.
      const std::size_t line_break = piece.rfind('\n');
      const std::size_t begin = line_break == std::string_view::npos ? 0 : line_break + 1;
      const bool whole_line = line_break != std::string_view::npos || at_ == 0 || source_[at_ - 1] == '\n';
      if (whole_line && piece.find_first_not_of(" \t\f\v", begin) == std::string_view::npos)
        piece = piece.substr(0, begin);
    }
    if (!piece.empty()) tokens_.push_back({Token::Kind::Text, std::string(piece), line_});
    advance(end);
  }

  // Behind the end of a tag: `-` takes all blanks, a statement or comment one line break.
  void behind_tag(char sign, bool takes_break) {
    if (sign == '-') {
      std::size_t to = at_;
      while (to < source_.size() && kBlanks.find(source_[to]) != std::string_view::npos) ++to;
      advance(to);
    } else if (takes_break && sign != '+' && sign_at(at_) == '\n') {
      advance(at_ + 1);
    }
  }

  void comment() {
    const std::size_t end = source_.find("#}", at_ + 2);
    if (end == std::string::npos) refuse_at(line_, "a comment has no end: '#}' is missing");
    const char sign = end > at_ + 2 ? source_[end - 1] : '\0';
    advance(end + 2);
    behind_tag(sign == '-' || sign == '+' ? sign : '\0', true);
  }

  void open_tag(Token::Kind kind) {
    tokens_.push_back({kind, "", line_});
    advance(at_ + 2);
    if (sign_at(at_) == '-' || sign_at(at_) == '+') advance(at_ + 1);
  }

  void statement() {
    const std::size_t first = tokens_.size();
    open_tag(Token::Kind::StatementBegin);
    const char sign = inside('%');
    tokens_.push_back({Token::Kind::StatementEnd, "", line_});
    behind_tag(sign, true);
    if (tokens_.size() == first + 3 && tokens_[first + 1].text == "raw") {
      tokens_.resize(first);
      raw();
    }
  }

  void print() {
    open_tag(Token::Kind::PrintBegin);
    const char sign = inside('}');
    tokens_.push_back({Token::Kind::PrintEnd, "", line_});
    behind_tag(sign, false);
  }

  void raw() {
    for (std::size_t end = source_.find("{%", at_); end != std::string::npos;
         end = source_.find("{%", end + 2)) {
      std::size_t word = end + 2;
      if (sign_at(word) == '-' || sign_at(word) == '+') ++word;
      word = source_.find_first_not_of(kBlanks, word);
      if (word == std::string::npos || source_.compare(word, 6, "endraw") != 0) continue;
      std::size_t close = source_.find_first_not_of(kBlanks, word + 6);
      if (close == std::string::npos) break;
      const char sign = source_[close] == '-' || source_[close] == '+' ? source_[close++] : '\0';
      if (source_.compare(close, 2, "%}") != 0) continue;
      text(end);
      advance(close + 2);
      behind_tag(sign, true);
      return;
    }
    refuse_at(line_, "raw has no end: '{% endraw %}' is missing");
  }

  // The tokens of a tag up to its end, `last` and a bracket; gives the sign before them.
  char inside(char last) {
    const int begin = line_;
    std::string open;  // brackets that are not closed
    while (true) {
      const std::size_t next = std::min(source_.find_first_not_of(kBlanks, at_), source_.size());
      advance(next);
      if (at_ >= source_.size()) refuse_at(begin, fmt::format("a tag has no end: '{}}}' is missing", last));
      const char c = source_[at_];
      if (open.empty()) {
        const bool has_sign =
            (c == '-' || (c == '+' && last == '%')) && sign_at(at_ + 1) == last && sign_at(at_ + 2) == '}';
        if (has_sign || (c == last && sign_at(at_ + 1) == '}')) {
          advance(at_ + (has_sign ? 3 : 2));
          return has_sign ? c : '\0';
        }
      }
      if (is_name_start(c))
        name();
      else if (is_digit(c))
        number();
      else if (c == '\'' || c == '"')
        word(c);
      else
        operation(open);
    }
  }

  void push(Token::Kind kind, std::string text, std::size_t end) {
    tokens_.push_back({kind, std::move(text), line_});
    advance(end);
  }

  void name() {
    std::size_t end = at_;
    while (end < source_.size() && (is_name_start(source_[end]) || is_digit(source_[end]))) ++end;
    push(Token::Kind::Name, source_.substr(at_, end - at_), end);
  }

  void number() {
    std::size_t end = at_;
    const auto digits = [&] {
      while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) ++end;
    };
    digits();
    if (sign_at(end) == '.' && is_digit(sign_at(end + 1))) {
      ++end;
      digits();
    }
    if (sign_at(end) == 'e' || sign_at(end) == 'E') {
      const std::size_t exponent = end + (sign_at(end + 1) == '-' || sign_at(end + 1) == '+' ? 2 : 1);
      if (is_digit(sign_at(exponent))) {
        end = exponent;
        digits();
      }
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    push(Token::Kind::Number, text, end);
  }

  void word(char quote) {
    std::string out;
    std::size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] != '\\') {
        out += source_[i];
        continue;
      }
      if (++i >= source_.size()) break;
      i = escape(i, out);
    }
    if (i >= source_.size()) refuse_at(line_, fmt::format("a string has no end: {} is missing", quote));
    push(Token::Kind::Word, out, i + 1);
  }

  // The escape whose letter is at i; gives the place of its last character.
  std::size_t escape(std::size_t i, std::string& out) {
    const char c = source_[i];
    constexpr std::string_view kLetters = "ntrabfv\\'\"", kMeanings = "\n\t\r\a\b\f\v\\'\"";
    if (const std::size_t known = kLetters.find(c); known != std::string_view::npos) {
      out += kMeanings[known];
      return i;
    }
    if (c == '\n') return i;
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits == 0) {
      (out += '\\') += c;
      return i;
    }
    std::uint32_t code = 0;
    for (std::size_t k = 1; k <= digits; ++k) {
      const char digit = sign_at(i + k);
      if (std::isxdigit(static_cast<unsigned char>(digit)) == 0)
        refuse_at(line_, "an escape in a string is cut short");
      code =
          code * 16 + static_cast<std::uint32_t>(is_digit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      refuse_at(line_, "an escape in a string is not a character");
    append_utf8(out, code);
    return i + digits;
  }

  void operation(std::string& open) {
    const std::string_view two = std::string_view(source_).substr(at_, 2);
    for (const std::string_view known : {"==", "!=", "<=", ">=", "//", "**"})
      if (two == known) return push(Token::Kind::Operator, std::string(two), at_ + 2);
    const char c = source_[at_];
    constexpr std::string_view kOpen = "([{", kClose = ")]}";
    if (kOpen.find(c) != std::string_view::npos) {
      open += c;
    } else if (const std::size_t close = kClose.find(c); close != std::string_view::npos) {
      if (open.empty() || open.back() != kOpen[close]) refuse_at(line_, fmt::format("unexpected '{}'", c));
      open.pop_back();
    } else if (std::string_view("+-*/%~<>=.,:|").find(c) == std::string_view::npos) {
      refuse_at(line_, fmt::format("unexpected character '{}'", c));
    }
    push(Token::Kind::Operator, std::string(1, c), at_ + 1);
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

void refuse_at(int line, std::string_view message) {
  throw UserError("chat template", fmt::format("line {}: {}", line, message));
}

std::vector<Token> tokens_of(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r')
      text += source[i];
    else if (i + 1 >= source.size() || source[i + 1] != '\n')
      text += '\n';
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();  // the file's own last line break
  return Lexer(std::move(text)).run();
}

}  // namespace lathe::llm::jinja
