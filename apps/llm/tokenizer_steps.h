// The steps of normalizing, splitting and decoding that tokenizer files name, each made from its parameters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/llm/text.h"
#include "apps/llm/tokenizer_parts.h"

namespace lathe::llm {

inline constexpr std::string_view kVisibleSpace = "\u2581";  // what SentencePiece writes for a space

// ---- normalizing
NormalizeStep normalize_form(NormalForm form);
NormalizeStep lowercase();
NormalizeStep strip_accents();  // marks that are alone: after NFD, for letters with accents
NormalizeStep replace_text(std::string what, std::string by);
NormalizeStep replace_matches(const std::string& pattern, std::string by);
NormalizeStep prepend_text(std::string prefix);  // not to an empty text
NormalizeStep strip_spaces(bool left, bool right);
NormalizeStep collapse_spaces();  // runs of spaces as one, none at the ends
struct BertNormalize {
  bool clean = true, split_chinese = true, strip_accents = true, lowercase = true;
};
NormalizeStep bert_normalize(BertNormalize rules);
// SentencePiece's table of replacements: a double-array trie, then the texts that what it finds becomes.
NormalizeStep character_map(std::string_view bytes);

// ---- splitting
enum class Keep : std::uint8_t { Removed, Isolated, WithPrevious, WithNext, Contiguous };  // what is split at
SplitStep split_matches(const std::string& pattern, Keep keep, bool invert = false);
SplitStep split_text(std::string what, Keep keep, bool invert = false);
SplitStep split_characters(bool (*is)(char32_t), Keep keep);
SplitStep byte_level(bool prefix_space, bool split);
SplitStep visible_spaces(std::string replacement, bool prefix, bool only_first, bool split);
bool is_punctuation(char32_t code);  // Unicode's, and all of ASCII's that is neither letter, digit nor space
extern const char* const kGpt2Pattern;

// ---- decoding
DecodeStep decode_bytes();          // the reverse of byte_level
DecodeStep decode_byte_fallback();  // <0x41> is the byte 65
DecodeStep decode_replace(std::string what, std::string by);
DecodeStep decode_fuse();
DecodeStep decode_strip(std::string what, int from_start, int from_end);
DecodeStep decode_visible_spaces(std::string replacement, bool prefix);
DecodeStep decode_wordpiece(std::string prefix, bool clean_up);
DecodeStep decode_suffix(std::string suffix);

// The characters that stand for bytes in byte-level vocabularies: 256 texts.
const std::vector<std::string>& byte_spellings();

}  // namespace lathe::llm
