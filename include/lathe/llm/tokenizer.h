// From text to token ids and back. Tokenizers differ in five ways: how text is normalized, where it is split,
// how a piece becomes tokens (byte-pair merges, a unigram language model, WordPiece), what is put around it,
// and how tokens become text again. A tokenizer file says each of them as data; the loaders below read the
// usual kinds of file into the same five parts.
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
  bool add_special = true;    // what the tokenizer puts around a text: a token for its beginning, for example
  bool parse_special = true;  // whether "<|end|>" in the text is that token, or five pieces of plain text
};

class Tokenizer {
 public:
  // Chosen by what the file is: tokenizer.json, a GGUF file, WordPiece's vocab.txt, llama2.c's tokenizer.bin,
  // a JSON list of unigram pieces with their scores; or a folder that holds tokenizer.json, or encoder.json
  // beside vocab.bpe.
  static Tokenizer load(const std::filesystem::path& file);
  static Tokenizer from_json(std::string_view text, const std::string& name = "tokenizer.json");
  static Tokenizer from_gguf(const Object& metadata);  // the keys "tokenizer.ggml.*"
  explicit Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}

  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;
  // Bytes that are no text become U+FFFD. `skip_special` leaves out tokens that stand for no text.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  // What a token adds behind other text, which need not be whole characters; nothing for special tokens.
  std::string bytes(TokenId id) const;

  std::int64_t size() const;                   // ids are 0 to size - 1
  const std::string& piece(TokenId id) const;  // as the file spells it
  std::optional<TokenId> find(std::string_view piece) const;
  bool is_special(TokenId id) const;
  std::optional<TokenId> begin_id() const, end_id() const;
  const std::vector<TokenId>& stop_ids() const;  // tokens after which a model has nothing more to say
  const std::string& chat_template() const;      // empty where the file has none

  const TokenizerParts& parts() const { return *parts_; }

 private:
  std::shared_ptr<const TokenizerParts> parts_;
};

// Text of tokens that come one at a time: each call returns what has become certain, never a part of a
// character.
class TokenStream {
 public:
  explicit TokenStream(Tokenizer tokenizer, bool skip_special = true)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}
  std::string push(TokenId id);
  std::string finish();  // what is left; bytes that became no character are U+FFFD

 private:
  std::string advance(bool last);

  Tokenizer tokenizer_;
  bool skip_special_;
  std::vector<TokenId> window_;  // the tokens whose text is not all out, behind the ones it depends on
  std::size_t context_ = 0;      // of the window, tokens whose text is out
};

}  // namespace lathe::llm
