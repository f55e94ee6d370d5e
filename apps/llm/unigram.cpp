#include <algorithm>
#include <limits>

#include "apps/llm/text.h"
#include "apps/llm/token_models.h"

namespace lathe::llm {

namespace {

constexpr float kUnknownPenalty = 10;  // how much worse than the worst token a character without one is

class Unigram : public TokenModel {
 public:
  Unigram(SharedVocabulary vocabulary, std::vector<float> scores, Unknown unknown)
      : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)), unknown_(unknown) {
    if (unknown_.byte_fallback) byte_ids_ = vocabulary_->byte_ids();
    float worst = 0;
    for (TokenId id = 0; id < vocabulary_->size(); ++id) {
      if (vocabulary_->piece(id).empty() || vocabulary_->find(vocabulary_->piece(id)) != id ||
          id == unknown_.id)
        continue;
      sorted_.push_back(id);
      worst = std::min(worst, scores_[static_cast<std::size_t>(id)]);
    }
    unknown_score_ = worst - kUnknownPenalty;
    std::sort(sorted_.begin(), sorted_.end(),
              [&](TokenId a, TokenId b) { return vocabulary_->piece(a) < vocabulary_->piece(b); });
  }

  void encode(std::string_view piece, std::vector<TokenId>& out) const override {
    // best[i]: the best tokens of the first i bytes, by the last of them.
    std::vector<Step> best(piece.size() + 1);
    best[0].score = 0;
    for (std::size_t at = 0; at < piece.size();) {
      const auto bytes = static_cast<std::size_t>(first_character(piece.substr(at)).bytes);
      bool single = false;
      for_each_prefix(piece.substr(at), [&](TokenId id, std::size_t length) {
        single = single || length == bytes;
        relax(best, at, at + length, id, scores_[static_cast<std::size_t>(id)]);
      });
      if (!single) relax(best, at, at + bytes, kUnknown, unknown_score_);
      at += bytes;
    }
    write(piece, best, out);
  }

 private:
  static constexpr TokenId kUnknown = -1;
  struct Step {
    double score = -std::numeric_limits<double>::infinity();
    std::size_t from = 0;
    TokenId id = kUnknown;
  };

  static void relax(std::vector<Step>& best, std::size_t from, std::size_t to, TokenId id, float score) {
    const double sum = best[from].score + static_cast<double>(score);
    if (sum > best[to].score) best[to] = {sum, from, id};
  }

  // Every token that the text begins with: each further byte narrows a span of the sorted tokens.
  template <class Visit>
  void for_each_prefix(std::string_view text, const Visit& visit) const {
    auto first = sorted_.begin(), last = sorted_.end();
    for (std::size_t depth = 0; depth < text.size() && first != last; ++depth) {
      const auto byte_at = [&](TokenId id) {
        return static_cast<int>(static_cast<unsigned char>(vocabulary_->piece(id)[depth]));
      };
      const int byte = static_cast<unsigned char>(text[depth]);
      first = std::partition_point(first, last, [&](TokenId id) {
        return vocabulary_->piece(id).size() <= depth || byte_at(id) < byte;
      });
      last = std::partition_point(first, last, [&](TokenId id) { return byte_at(id) <= byte; });
      if (first != last && vocabulary_->piece(*first).size() == depth + 1) visit(*first, depth + 1);
    }
  }

  void write(std::string_view piece, const std::vector<Step>& best, std::vector<TokenId>& out) const {
    std::vector<std::pair<std::size_t, std::size_t>> spans;
    for (std::size_t at = piece.size(); at > 0; at = best[at].from) spans.emplace_back(best[at].from, at);
    std::reverse(spans.begin(), spans.end());
    bool was_unknown = false;
    for (const auto& [begin, end] : spans) {
      const TokenId id = best[end].id;
      const bool unknown = id == kUnknown && byte_ids_.empty();
      if (id != kUnknown) {
        out.push_back(id);
      } else if (!unknown) {
        for (const char byte : piece.substr(begin, end - begin))
          out.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
      } else if (unknown_.id && !(was_unknown && unknown_.fuse)) {
        out.push_back(*unknown_.id);
      }
      was_unknown = unknown;
    }
  }

  SharedVocabulary vocabulary_;
  std::vector<float> scores_;
  Unknown unknown_;
  std::vector<TokenId> byte_ids_, sorted_;
  float unknown_score_ = 0;
};

}  // namespace

std::unique_ptr<TokenModel> make_unigram(SharedVocabulary vocabulary, std::vector<float> scores,
                                         Unknown unknown) {
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), unknown);
}

}  // namespace lathe::llm
