// One sequence on its way from prompt to text: what it chose so far, and what of its text is certain.
#pragma once

#include <memory>
#include <optional>

#include "apps/llm/json_grammar.h"
#include "apps/llm/token_trie.h"
#include "lathe/llm/engine.h"
#include "lathe/llm/stop_text.h"

namespace lathe::llm {

// A grammar and where the text is in it.
class Constraint {
 public:
  Constraint(const Request& request, const TokenTrie& trie, const std::vector<TokenId>& ends);
  const TokenMask& allowed();
  void take(TokenId token);
  bool finished() const { return Reader::finished(reading_); }

 private:
  JsonGrammar json_;
  Reader reader_;
  Reading reading_;
  const TokenTrie& trie_;
  const std::vector<TokenId>& ends_;
  std::map<Reading, TokenMask> masks_;  // few places are stood at again and again
};

class Generation {
 public:
  // `trie` is there where the request is constrained or wants the bytes of tokens.
  Generation(Request request, const Tokenizer& tokenizer, const std::vector<TokenId>& ends,
             const TokenTrie* trie, std::int64_t context);

  // Chooses a token by the logits behind the sequence; gives what became certain by it.
  Update take(std::span<const float> logits);
  Update ended(Finish finish, const std::string& error = "");

  const std::vector<TokenId>& tokens() const { return tokens_; }  // prompt and all that was written
  std::size_t prompt() const { return prompt_; }
  std::int64_t written() const { return static_cast<std::int64_t>(tokens_.size() - prompt_); }

 private:
  bool ends_text(TokenId token) const;
  TokenReport report(const Choice& choice) const;
  Update update() const;

  Request request_;
  const std::vector<TokenId>& ends_;
  const TokenTrie* trie_;
  Sampler sampler_;
  TokenStream stream_;
  StopText stop_;
  std::unique_ptr<Constraint> constraint_;  // its parts point at one another
  std::vector<TokenId> tokens_;
  std::size_t prompt_;
  std::int64_t most_;
};

}  // namespace lathe::llm
