// What a tokenizer is made of, as its file says it. The loaders (tokenizer_json.cpp, tokenizer_gguf.cpp,
// tokenizer_files.cpp) fill this in; tokenizer.cpp runs it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lathe/llm/tokenizer.h"

namespace lathe::llm {

// A part of a text between two places where it is split.
struct Piece {
  std::string text;
  bool at_start = false;  // of the whole text
};

using NormalizeStep = std::function<std::string(std::string_view text)>;
using SplitStep = std::function<std::vector<Piece>(std::vector<Piece> pieces)>;
using DecodeStep = std::function<std::vector<std::string>(std::vector<std::string> pieces)>;

// The tokens of a tokenizer: ids and how they are spelled.
class Vocabulary {
 public:
  // Refuses an id that has a piece already, and ids that are not dense enough to be a table.
  void add(TokenId id, std::string piece);
  std::optional<TokenId> find(std::string_view piece) const;
  std::int64_t size() const { return static_cast<std::int64_t>(pieces_.size()); }
  bool has(TokenId id) const { return id >= 0 && id < size(); }
  const std::string& piece(TokenId id) const { return pieces_[static_cast<std::size_t>(id)]; }
  // The ids of <0x00> to <0xFF>, where the vocabulary has all of them.
  std::vector<TokenId> byte_ids() const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
};

// How a piece of text becomes tokens.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual void encode(std::string_view piece, std::vector<TokenId>& out) const = 0;
};

// A token that is found in the text as it is, before anything else is looked for.
struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;                        // stands for no text
  bool normalized = false;                     // looked for after normalizing, as its own normalized form
  bool take_left = false, take_right = false;  // with the spaces before or after it
  bool whole_word = false;
};

struct TokenizerParts {
  std::shared_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<TokenModel> model;
  std::vector<AddedToken> added;
  std::vector<NormalizeStep> normalize;
  std::vector<SplitStep> split;
  std::vector<DecodeStep> decode;
  std::vector<TokenId> before, after;  // what is around a text
  std::unordered_map<TokenId, bool> special;
  std::optional<TokenId> begin, end;
  std::vector<TokenId> stop;
  std::string chat_template;
};

}  // namespace lathe::llm
