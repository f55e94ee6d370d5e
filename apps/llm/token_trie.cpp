#include "apps/llm/token_trie.h"

#include <algorithm>

namespace lathe::llm {

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : nodes_(1) {
  for (TokenId id = 0; id < tokenizer.size(); ++id) {
    bytes_.push_back(tokenizer.bytes(id));
    if (bytes_.back().empty()) continue;
    std::size_t at = 0;
    for (const char c : bytes_.back()) {
      const auto byte = static_cast<unsigned char>(c);
      const auto child = std::find_if(nodes_[at].children.begin(), nodes_[at].children.end(),
                                      [&](std::size_t n) { return nodes_[n].byte == byte; });
      if (child != nodes_[at].children.end()) {
        at = *child;
        continue;
      }
      nodes_[at].children.push_back(nodes_.size());
      at = nodes_.size();
      nodes_.push_back({byte, {}, {}});
    }
    nodes_[at].tokens.push_back(id);
  }
}

void TokenTrie::collect(std::size_t node, Reader& reader, const Reading& reading, TokenMask& mask) const {
  for (const std::size_t child : nodes_[node].children) {
    const Reading next = reader.after(reading, nodes_[child].byte);
    if (next.empty()) continue;
    for (const TokenId token : nodes_[child].tokens) mask[static_cast<std::size_t>(token)] = true;
    collect(child, reader, next, mask);
  }
}

TokenMask TokenTrie::fitting(Reader& reader, const Reading& reading, const std::vector<TokenId>& ends) const {
  TokenMask mask(bytes_.size());
  collect(0, reader, reading, mask);
  if (Reader::complete(reading))
    for (const TokenId end : ends)
      if (static_cast<std::size_t>(end) < mask.size()) mask[static_cast<std::size_t>(end)] = true;
  return mask;
}

}  // namespace lathe::llm
