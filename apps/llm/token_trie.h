// The bytes of all tokens as a tree, so that the tokens that fit a grammar are found without trying each.
#pragma once

#include <vector>

#include "apps/llm/grammar.h"
#include "lathe/llm/sampling.h"
#include "lathe/llm/tokenizer.h"

namespace lathe::llm {

class TokenTrie {
 public:
  explicit TokenTrie(const Tokenizer& tokenizer);

  // The tokens all of whose bytes may follow; `ends` may follow where the text may be over.
  TokenMask fitting(Reader& reader, const Reading& reading, const std::vector<TokenId>& ends) const;
  std::string_view bytes(TokenId token) const {
    const auto at = static_cast<std::size_t>(token);
    return at < bytes_.size() ? std::string_view(bytes_[at]) : std::string_view();
  }

 private:
  struct Node {
    unsigned char byte = 0;
    std::vector<std::size_t> children;
    std::vector<TokenId> tokens;  // that end here
  };
  void collect(std::size_t node, Reader& reader, const Reading& reading, TokenMask& mask) const;

  std::vector<std::string> bytes_;
  std::vector<Node> nodes_;
};

}  // namespace lathe::llm
