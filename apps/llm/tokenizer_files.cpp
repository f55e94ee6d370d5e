// Two small kinds of file: WordPiece's list of pieces, and the tokenizer of llama2.c.
#include <fmt/format.h>

#include <cstring>

#include "apps/llm/token_models.h"
#include "apps/llm/tokenizer_load.h"
#include "apps/llm/tokenizer_steps.h"
#include "lathe/error.h"

namespace lathe::llm {

Parts parts_from_wordpiece(std::string_view text) {
  auto parts = std::make_shared<TokenizerParts>();
  auto vocabulary = std::make_shared<Vocabulary>();
  TokenId next = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    vocabulary->add(next++, std::string(line));
    at = end + 1;
  }
  const auto named = [&](std::string_view piece) {
    const std::optional<TokenId> id = vocabulary->find(piece);
    if (!id) throw UserError("tokenizer", fmt::format("a WordPiece vocabulary has no {}", piece));
    mark_special(*parts, *id, false);
    parts->added.push_back({.id = *id, .content = std::string(piece), .special = true});
    return *id;
  };
  const TokenId unknown = named("[UNK]");
  parts->before = {named("[CLS]")};
  parts->after = {named("[SEP]")};
  for (const char* piece : {"[PAD]", "[MASK]"})
    if (vocabulary->find(piece)) named(piece);
  fill_bert_steps(*parts);
  parts->vocabulary = vocabulary;
  parts->model = make_wordpiece(vocabulary, {.begin_prefix = {}, .unknown = unknown});
  return parts;
}

// The longest piece's length, then for each token: its score, its length, its bytes. Spaces are spaces here.
Parts parts_from_llama2c(std::string_view bytes) {
  auto parts = std::make_shared<TokenizerParts>();
  auto vocabulary = std::make_shared<Vocabulary>();
  std::vector<float> scores;
  std::size_t at = 4;
  const auto number = [&](auto& value) {
    if (bytes.size() - std::min(at, bytes.size()) < 4)
      throw UserError("tokenizer", fmt::format("the tokenizer is truncated at byte {}", bytes.size()));
    std::memcpy(&value, bytes.data() + at, 4);
    at += 4;
  };
  while (at < bytes.size()) {
    std::int32_t length = 0;
    number(scores.emplace_back());
    number(length);
    if (length < 0 || static_cast<std::size_t>(length) > bytes.size() - at)
      throw UserError("tokenizer", fmt::format("a piece at byte {} has {} bytes", at, length));
    vocabulary->add(static_cast<TokenId>(scores.size() - 1),
                    std::string(bytes.substr(at, static_cast<std::size_t>(length))));
    at += static_cast<std::size_t>(length);
  }
  if (vocabulary->size() < 3)
    throw UserError("tokenizer", "a llama2.c tokenizer has its unknown, begin and end tokens first");
  parts->vocabulary = vocabulary;
  parts->model = make_bpe(vocabulary, {.merges = merges_by_score(*vocabulary, scores),
                                       .unknown = {0, false, true},
                                       .continuing_prefix = {},
                                       .end_suffix = {}});
  parts->normalize = {prepend_text(" ")};
  parts->decode = {decode_byte_fallback(), decode_fuse(), decode_strip(" ", 1, 0)};
  parts->begin = 1;
  parts->end = 2;
  parts->before = {1};
  for (const TokenId id : {0, 1, 2}) mark_special(*parts, id, id == 2);
  return parts;
}

}  // namespace lathe::llm
