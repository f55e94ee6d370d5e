// The loaders' shared pieces: each kind of file fills in TokenizerParts.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "apps/llm/tokenizer_parts.h"

namespace lathe::llm {

using Parts = std::shared_ptr<TokenizerParts>;

Parts parts_from_json(std::string_view text, const std::string& name);
Parts parts_from_gguf(const Object& metadata);
Parts parts_from_wordpiece(std::string_view text);                         // vocab.txt
Parts parts_from_llama2c(std::string_view bytes);                          // tokenizer.bin
Parts parts_from_gpt2(std::string_view encoder, std::string_view merges);  // encoder.json, vocab.bpe
Parts parts_from_unigram(std::string_view text, const std::string& name);  // [[piece, score], ...]

// BERT's way: words between spaces and punctuation, all in lower case without accents.
void fill_bert_steps(TokenizerParts& parts);
// Merges as lines "left right", in order of rank; pieces that are no tokens are refused.
std::vector<struct Merge> merges_from_lines(const Vocabulary& vocabulary,
                                            const std::vector<std::string>& lines);

// Marks a token as special and, where it says that a text is over, as a stop.
void mark_special(TokenizerParts& parts, TokenId id, bool stop);
bool names_an_end(std::string_view piece);  // "</s>", "<|eot_id|>", ...

}  // namespace lathe::llm
