// Tokenizers: text to token ids and back. A tokenizer has five parts: normalization, splitting into pieces,
// the model that turns a piece into tokens (byte-pair merges, a unigram language model, WordPiece), the
// special tokens added around a text, and decoding. Tokenizer files describe these parts as data, and the
// loaders below read the common formats into them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/object.h"

namespace lathe::llm {

using TokenId = std::int32_t;

struct TokenizerParts;  // apps/llm/tokenizer_parts.h

struct EncodeOptions {
  bool add_special = true;    // add the special tokens around a text, such as the one for its beginning
  bool parse_special = true;  // read "<|end|>" in the text as that token, not as plain text
};

class Tokenizer {
 public:
  // Loads tokenizer.json, a GGUF file, WordPiece's vocab.txt, llama2.c's tokenizer.bin or a JSON list of
  // unigram pieces with scores; or a folder with tokenizer.json, or with encoder.json and vocab.bpe.
  static Tokenizer load(const std::filesystem::path& file);
  static Tokenizer from_json(std::string_view text, const std::string& name = "tokenizer.json");
  static Tokenizer from_gguf(const Object& metadata);  // the keys "tokenizer.ggml.*"
  explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}

  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;
  // The text of the tokens. Invalid UTF-8 becomes U+FFFD. `skip_special` omits special tokens.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  // The bytes that a token appends to a text, possibly part of a character; empty for special tokens.
  std::string bytes(TokenId id) const;

  std::int64_t size() const;                   // ids are 0 to size - 1
  const std::string& piece(TokenId id) const;  // as it is in the file
  std::optional<TokenId> find(std::string_view piece) const;
  bool is_special(TokenId id) const;
  std::optional<TokenId> begin_id() const, end_id() const;
  const std::vector<TokenId>& stop_ids() const;  // tokens that end generation
  const std::string& chat_template() const;      // empty if the file has none

  const TokenizerParts& parts() const { return *parts_; }

 private:
  std::shared_ptr<const TokenizerParts> parts_;
};

// Decodes tokens one at a time: each call returns the new complete characters.
class TokenStream {
 public:
  explicit TokenStream(Tokenizer tokenizer, bool skip_special = true)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}
  std::string push(TokenId id);
  std::string finish();  // the rest; incomplete characters become U+FFFD

 private:
  std::string advance(bool last);

  Tokenizer tokenizer_;
  bool skip_special_;
  std::vector<TokenId> window_;  // tokens whose text is not complete, after the tokens it depends on
  std::size_t context_ = 0;      // number of tokens at its start whose text was returned
};

}  // namespace lathe::llm
