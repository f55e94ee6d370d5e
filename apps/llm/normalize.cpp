#include <cstring>

#include "apps/llm/regex.h"
#include "apps/llm/tokenizer_steps.h"
#include "lathe/error.h"

namespace lathe::llm {

namespace {

// The text with every character replaced by what `map` appends for it; bytes that are no UTF-8 stay.
template <class Map>
std::string mapped(std::string_view text, const Map& map) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character c = first_character(text);
    const auto bytes = static_cast<std::size_t>(c.bytes);
    if (c.valid)
      map(c.code, text.substr(0, bytes), out);
    else
      out.append(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return out;
}

bool is_chinese(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kBlocks[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  for (const auto& [first, last] : kBlocks)
    if (first <= c && c <= last) return true;
  return false;
}

std::string without_controls(std::string_view text) {
  return mapped(text, [](char32_t code, std::string_view spelled, std::string& out) {
    if (code == 0 || code == 0xFFFD || is_control(code)) return;
    if (is_space(code))
      out += ' ';
    else
      out += spelled;
  });
}

std::string spaced_chinese(std::string_view text) {
  return mapped(text, [](char32_t code, std::string_view spelled, std::string& out) {
    if (is_chinese(code))
      out.append(" ").append(spelled).append(" ");
    else
      out += spelled;
  });
}

std::string without_marks(std::string_view text) {
  return mapped(text, [](char32_t code, std::string_view spelled, std::string& out) {
    if (!category_matches(code, "Mn")) out += spelled;
  });
}

// The longest beginning of a text that a SentencePiece table replaces. A unit of the trie has its label in
// the low byte, a flag for a value below it in bit 8, and the distance to its children in the upper bits, 8
// bits further where bit 9 is set.
class CharacterMap {
 public:
  explicit CharacterMap(std::string_view bytes) {
    std::uint32_t size = 0;
    if (bytes.size() >= 4) std::memcpy(&size, bytes.data(), 4);
    if (bytes.size() < 4 || size % 4 != 0 || size > bytes.size() - 4)
      throw UserError("tokenizer", "the table of characters to replace is damaged");
    trie_.resize(size / 4);
    if (size > 0) std::memcpy(trie_.data(), bytes.data() + 4, size);
    texts_ = bytes.substr(4 + size);
  }

  std::string operator()(std::string_view text) const {
    std::string out;
    while (!text.empty()) {
      std::size_t length = 0, value = 0;
      find(text, length, value);
      if (length > 0) {
        out += texts_.c_str() + value;  // up to the next zero byte
      } else {
        length = static_cast<std::size_t>(first_character(text).bytes);
        out += text.substr(0, length);
      }
      text.remove_prefix(length);
    }
    return out;
  }

 private:
  static std::uint32_t distance(std::uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }

  void find(std::string_view text, std::size_t& length, std::size_t& value) const {
    if (trie_.empty()) return;
    std::size_t node = distance(trie_[0]);
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      node ^= byte;
      if (byte == 0 || node >= trie_.size()) return;
      const std::uint32_t unit = trie_[node];
      if ((unit & ((1U << 31) | 0xFF)) != byte) return;
      node ^= distance(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (node >= trie_.size()) return;
      const std::uint32_t found = trie_[node] & ((1U << 31) - 1);
      if (found < texts_.size()) length = i + 1, value = found;
    }
  }

  std::vector<std::uint32_t> trie_;
  std::string texts_;
};

}  // namespace

NormalizeStep normalize_form(NormalForm form) {
  return [form](std::string_view text) { return normalized(text, form); };
}

NormalizeStep lowercase() {
  return [](std::string_view text) { return lower(text); };
}

NormalizeStep strip_accents() { return without_marks; }

NormalizeStep replace_text(std::string what, std::string by) {
  return [what = std::move(what), by = std::move(by)](std::string_view text) {
    return replaced(text, what, by);
  };
}

NormalizeStep replace_matches(const std::string& pattern, std::string by) {
  return [regex = std::make_shared<Regex>(pattern), by = std::move(by)](std::string_view text) {
    std::string out;
    std::size_t at = 0;
    for (const Regex::Match& m : regex->matches(text)) {
      out.append(text.substr(at, m.begin - at)).append(by);
      at = m.end;
    }
    return out.append(text.substr(at));
  };
}

NormalizeStep prepend_text(std::string prefix) {
  return [prefix = std::move(prefix)](std::string_view text) {
    return text.empty() ? std::string() : prefix + std::string(text);
  };
}

NormalizeStep strip_spaces(bool left, bool right) {
  return [left, right](std::string_view text) {
    const std::vector<std::string_view> all = characters(text);
    std::size_t begin = 0, end = all.size();
    while (left && begin < end && is_space(first_character(all[begin]).code)) ++begin;
    while (right && end > begin && is_space(first_character(all[end - 1]).code)) --end;
    std::string out;
    for (; begin < end; ++begin) out += all[begin];
    return out;
  };
}

NormalizeStep collapse_spaces() {
  return [](std::string_view text) {
    std::string out;
    for (const char c : text)
      if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
    if (!out.empty() && out.back() == ' ') out.pop_back();
    return out;
  };
}

NormalizeStep bert_normalize(BertNormalize rules) {
  return [rules](std::string_view text) {
    std::string out(text);
    if (rules.clean) out = without_controls(out);
    if (rules.split_chinese) out = spaced_chinese(out);
    if (rules.strip_accents) out = without_marks(normalized(out, NormalForm::NFD));
    if (rules.lowercase) out = lower(out);
    return out;
  };
}

NormalizeStep character_map(std::string_view bytes) {
  return [map = std::make_shared<CharacterMap>(bytes)](std::string_view text) { return (*map)(text); };
}

}  // namespace lathe::llm
