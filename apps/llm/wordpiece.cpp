#include "apps/llm/text.h"
#include "apps/llm/token_models.h"

namespace lathe::llm {

namespace {

class WordPiece : public TokenModel {
 public:
  WordPiece(SharedVocabulary vocabulary, WordPieceRules rules)
      : vocabulary_(std::move(vocabulary)), rules_(std::move(rules)) {
    for (TokenId id = 0; id < vocabulary_->size(); ++id)
      longest_ = std::max(longest_, vocabulary_->piece(id).size());
  }

  void encode(std::string_view piece, std::vector<TokenId>& out) const override {
    if (piece.empty()) return;
    const std::vector<std::string_view> parts = characters(piece);
    const std::size_t begin = out.size();
    if (parts.size() > rules_.most_characters) return out.push_back(rules_.unknown);
    for (std::size_t at = 0; at < parts.size();) {
      const std::size_t end = longest(parts, at, out);
      if (end == at) {  // one part without a token makes the whole word unknown
        out.resize(begin);
        return out.push_back(rules_.unknown);
      }
      at = end;
    }
  }

 private:
  // Adds the longest token that begins at a character, and returns the character after it.
  std::size_t longest(const std::vector<std::string_view>& parts, std::size_t at,
                      std::vector<TokenId>& out) const {
    std::string spelled = at == 0 ? rules_.begin_prefix : rules_.continuing_prefix;
    std::size_t end = at;
    std::optional<TokenId> best;
    for (std::size_t i = at; i < parts.size() && spelled.size() < longest_; ++i) {
      spelled += parts[i];
      if (const std::optional<TokenId> id = vocabulary_->find(spelled)) best = id, end = i + 1;
    }
    if (best) out.push_back(*best);
    return end;
  }

  SharedVocabulary vocabulary_;
  WordPieceRules rules_;
  std::size_t longest_ = 0;
};

}  // namespace

std::unique_ptr<TokenModel> make_wordpiece(SharedVocabulary vocabulary, WordPieceRules rules) {
  return std::make_unique<WordPiece>(std::move(vocabulary), std::move(rules));
}

}  // namespace lathe::llm
