// The three ways in which a piece of text becomes tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/llm/tokenizer_parts.h"

namespace lathe::llm {

using SharedVocabulary = std::shared_ptr<const Vocabulary>;

// What becomes of text that has no token: bytes, where the vocabulary has one for each, else the unknown
// token.
struct Unknown {
  std::optional<TokenId> id;
  bool fuse = false;           // neighbours become one
  bool byte_fallback = false;  // pieces <0x00> to <0xFF>
};

// Byte-pair encoding: characters are joined pair by pair, the pair of the lowest rank first, the leftmost of
// equals.
struct Merge {
  TokenId left = 0, right = 0, joined = 0;
  std::int32_t rank = 0;
};
struct BpeRules {
  std::vector<Merge> merges;
  Unknown unknown;
  bool whole_pieces_first = false;  // a piece that is a token is that token, whatever the merges say
  std::string continuing_prefix, end_suffix;  // of characters that are not the first, of the last one
};
std::unique_ptr<TokenModel> make_bpe(SharedVocabulary vocabulary, BpeRules rules);

// Merges of a vocabulary with scores instead of ranks (SentencePiece): two tokens may be joined where both
// together are one, the one of the highest score first.
std::vector<Merge> merges_by_score(const Vocabulary& vocabulary, const std::vector<float>& scores);

// A unigram model: the tokens of the highest sum of scores.
std::unique_ptr<TokenModel> make_unigram(SharedVocabulary vocabulary, std::vector<float> scores,
                                         Unknown unknown);

// WordPiece: from the left, always the longest token; those that do not begin a word have a prefix.
struct WordPieceRules {
  std::string continuing_prefix = "##", begin_prefix;
  std::size_t most_characters = 100;  // a longer word is unknown
  TokenId unknown = 0;
};
std::unique_ptr<TokenModel> make_wordpiece(SharedVocabulary vocabulary, WordPieceRules rules);

// A piece is a token or unknown.
std::unique_ptr<TokenModel> make_word_level(SharedVocabulary vocabulary, std::optional<TokenId> unknown);

}  // namespace lathe::llm
