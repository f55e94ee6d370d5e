#include <array>
#include <charconv>
#include <unordered_map>

#include "apps/llm/tokenizer_steps.h"

namespace lathe::llm {

namespace {

using Pieces = std::vector<std::string>;

// A step that changes each piece by itself.
template <class Change>
DecodeStep each(Change change) {
  return [change = std::move(change)](Pieces pieces) {
    for (std::size_t i = 0; i < pieces.size(); ++i)
      pieces[i] = change(std::move(pieces[i]), i, pieces.size());
    return pieces;
  };
}

std::string without_spaces_of_english(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [what, by] : kRules) text = replaced(text, what, by);
  return text;
}

}  // namespace

DecodeStep decode_bytes() {
  static const std::unordered_map<std::string_view, char> bytes = [] {
    std::unordered_map<std::string_view, char> all;
    for (std::size_t i = 0; i < 256; ++i) all.emplace(byte_spellings()[i], static_cast<char>(i));
    return all;
  }();
  return [](const Pieces& pieces) {
    std::string out;
    for (const std::string& piece : pieces) {
      std::string decoded;
      bool all = true;
      for (const std::string_view c : characters(piece)) {
        const auto found = bytes.find(c);
        all = all && found != bytes.end();
        if (all) decoded += found->second;
      }
      out += all ? decoded : piece;  // a token that is no spelling of bytes is its own text
    }
    return Pieces{std::move(out)};
  };
}

DecodeStep decode_byte_fallback() {
  return each([](std::string piece, std::size_t, std::size_t) {
    unsigned byte = 0;
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return piece;
    const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
    return error == std::errc() && end == piece.data() + 5 ? std::string(1, static_cast<char>(byte)) : piece;
  });
}

DecodeStep decode_replace(std::string what, std::string by) {
  return each([what = std::move(what), by = std::move(by)](
                  const std::string& piece, std::size_t, std::size_t) { return replaced(piece, what, by); });
}

DecodeStep decode_fuse() {
  return [](const Pieces& pieces) {
    std::string out;
    for (const std::string& piece : pieces) out += piece;
    return Pieces{std::move(out)};
  };
}

DecodeStep decode_strip(std::string what, int from_start, int from_end) {
  return each([what = std::move(what), from_start, from_end](std::string piece, std::size_t, std::size_t) {
    for (int i = 0; i < from_start && !what.empty() && piece.starts_with(what); ++i)
      piece.erase(0, what.size());
    for (int i = 0; i < from_end && !what.empty() && piece.ends_with(what); ++i)
      piece.erase(piece.size() - what.size());
    return piece;
  });
}

DecodeStep decode_visible_spaces(std::string replacement, bool prefix) {
  return each([replacement = std::move(replacement), prefix](std::string piece, std::size_t at, std::size_t) {
    if (at == 0 && prefix && piece.starts_with(replacement)) piece.erase(0, replacement.size());
    return replaced(piece, replacement, " ");
  });
}

DecodeStep decode_wordpiece(std::string prefix, bool clean_up) {
  return each([prefix = std::move(prefix), clean_up](std::string piece, std::size_t at, std::size_t) {
    if (at > 0) {
      if (piece.starts_with(prefix))
        piece.erase(0, prefix.size());
      else
        piece.insert(0, " ");
    }
    return clean_up ? without_spaces_of_english(std::move(piece)) : piece;
  });
}

DecodeStep decode_suffix(std::string suffix) {
  return each([suffix = std::move(suffix)](const std::string& piece, std::size_t at, std::size_t count) {
    return replaced(piece, suffix, at + 1 == count ? "" : " ");
  });
}

}  // namespace lathe::llm
