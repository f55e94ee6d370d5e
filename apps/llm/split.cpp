#include "apps/llm/regex.h"
#include "apps/llm/tokenizer_steps.h"

namespace lathe::llm {

namespace {

using Spans = std::vector<Regex::Match>;

// The places in a text where a separator was found, and the text between them, joined as `keep` says.
std::vector<Piece> cut(const Piece& piece, const Spans& separators, Keep keep) {
  struct Part {
    std::size_t begin, end;
    bool separator;
  };
  std::vector<Part> parts;
  std::size_t at = 0;
  const auto add = [&](std::size_t begin, std::size_t end, bool separator) {
    if (begin == end) return;
    Part* last = parts.empty() ? nullptr : &parts.back();
    const bool joins = last != nullptr && ((keep == Keep::Contiguous && separator && last->separator) ||
                                           (keep == Keep::WithPrevious && separator && !last->separator) ||
                                           (keep == Keep::WithNext && !separator && last->separator));
    if (joins)
      last->end = end, last->separator = separator;
    else
      parts.push_back({begin, end, separator});
  };
  for (const Regex::Match& m : separators) {
    add(at, m.begin, false);
    add(m.begin, m.end, true);
    at = m.end;
  }
  add(at, piece.text.size(), false);
  std::vector<Piece> out;
  for (const Part& part : parts)
    if (!part.separator || keep != Keep::Removed)
      out.push_back(
          {piece.text.substr(part.begin, part.end - part.begin), piece.at_start && part.begin == 0});
  return out;
}

Spans inverted(const Spans& spans, std::size_t size) {
  Spans out;
  std::size_t at = 0;
  for (const Regex::Match& m : spans) {
    if (m.begin > at) out.push_back({at, m.begin});
    at = m.end;
  }
  if (at < size) out.push_back({at, size});
  return out;
}

// A step that cuts every piece at what `find` finds in it.
template <class Find>
SplitStep cutting(Find find, Keep keep, bool invert) {
  return [find = std::move(find), keep, invert](const std::vector<Piece>& pieces) {
    std::vector<Piece> out;
    for (const Piece& piece : pieces) {
      Spans spans = find(piece.text);
      if (invert) spans = inverted(spans, piece.text.size());
      for (Piece& part : cut(piece, spans, keep)) out.push_back(std::move(part));
    }
    return out;
  };
}

std::string spelled_bytes(std::string_view text) {
  std::string out;
  for (const char byte : text) out += byte_spellings()[static_cast<unsigned char>(byte)];
  return out;
}

}  // namespace

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

bool is_punctuation(char32_t code) {
  const bool ascii = (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
                     (code >= 123 && code <= 126);
  return ascii || category_matches(code, "P");
}

const std::vector<std::string>& byte_spellings() {
  // Bytes that print as they are stand for themselves; the others are the characters from 256 on.
  static const std::vector<std::string> table = [] {
    std::vector<std::string> all;
    char32_t next = 256;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      append_utf8(all.emplace_back(), prints ? byte : next++);
    }
    return all;
  }();
  return table;
}

SplitStep split_matches(const std::string& pattern, Keep keep, bool invert) {
  const auto regex = std::make_shared<Regex>(pattern);
  return cutting([regex](std::string_view text) { return regex->matches(text); }, keep, invert);
}

SplitStep split_text(std::string what, Keep keep, bool invert) {
  const auto find = [what = std::move(what)](std::string_view text) {
    Spans spans;
    for (std::size_t at = 0; !what.empty() && (at = text.find(what, at)) != std::string_view::npos;
         at += what.size())
      spans.push_back({at, at + what.size()});
    return spans;
  };
  return cutting(find, keep, invert);
}

SplitStep split_characters(bool (*is)(char32_t), Keep keep) {
  const auto find = [is](std::string_view text) {
    Spans spans;
    std::size_t at = 0;
    for (const std::string_view c : characters(text)) {
      if (is(first_character(c).code)) spans.push_back({at, at + c.size()});
      at += c.size();
    }
    return spans;
  };
  return cutting(find, keep, false);
}

SplitStep byte_level(bool prefix_space, bool split) {
  SplitStep words = split ? split_matches(kGpt2Pattern, Keep::Isolated) : SplitStep();
  return [prefix_space, words](std::vector<Piece> pieces) {
    for (Piece& piece : pieces)
      if (prefix_space && !piece.text.empty() && piece.text[0] != ' ') piece.text.insert(0, " ");
    if (words) pieces = words(std::move(pieces));
    for (Piece& piece : pieces) piece.text = spelled_bytes(piece.text);
    return pieces;
  };
}

SplitStep visible_spaces(std::string replacement, bool prefix, bool only_first, bool split) {
  SplitStep words = split ? split_text(replacement, Keep::WithNext) : SplitStep();
  return [replacement = std::move(replacement), prefix, only_first, words](std::vector<Piece> pieces) {
    for (Piece& piece : pieces) {
      piece.text = replaced(piece.text, " ", replacement);
      const bool wanted = prefix && (!only_first || piece.at_start);
      if (wanted && !piece.text.starts_with(replacement)) piece.text.insert(0, replacement);
    }
    return words ? words(std::move(pieces)) : pieces;
  };
}

}  // namespace lathe::llm
