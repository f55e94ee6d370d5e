#include <algorithm>
#include <numeric>
#include <queue>

#include "apps/llm/text.h"
#include "apps/llm/token_models.h"

namespace lathe::llm {

namespace {

constexpr TokenId kNoToken = -1;

std::uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

class Bpe : public TokenModel {
 public:
  Bpe(SharedVocabulary vocabulary, BpeRules rules)
      : vocabulary_(std::move(vocabulary)), rules_(std::move(rules)) {
    if (rules_.unknown.byte_fallback) byte_ids_ = vocabulary_->byte_ids();
    merges_.reserve(rules_.merges.size());
    for (const Merge& m : rules_.merges)
      merges_.emplace(pair_key(m.left, m.right), std::pair(m.rank, m.joined));
    rules_.merges.clear();
  }

  void encode(std::string_view piece, std::vector<TokenId>& out) const override {
    if (rules_.whole_pieces_first) {
      if (const std::optional<TokenId> whole = vocabulary_->find(piece)) return out.push_back(*whole);
    }
    std::vector<Symbol> symbols = split(piece);
    join(symbols);
    for (int at = symbols.empty() ? -1 : 0; at >= 0; at = symbols[static_cast<std::size_t>(at)].next)
      out.push_back(symbols[static_cast<std::size_t>(at)].id);
  }

 private:
  struct Symbol {
    TokenId id;
    int previous, next;  // -1 at the ends; a symbol that was joined to its left neighbour has id kNoToken
  };
  struct Candidate {
    std::int32_t rank;
    int left;
    TokenId left_id, right_id, joined;
    bool operator>(const Candidate& other) const {
      return std::pair(rank, left) > std::pair(other.rank, other.left);
    }
  };
  using Queue = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>;

  std::vector<Symbol> split(std::string_view piece) const {
    std::vector<Symbol> symbols;
    const auto add = [&](TokenId id) {
      const int at = static_cast<int>(symbols.size());
      if (at > 0) symbols.back().next = at;
      symbols.push_back({id, at - 1, -1});
    };
    const std::vector<std::string_view> parts = characters(piece);
    bool was_unknown = false;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::string spelled = i > 0 ? rules_.continuing_prefix : std::string();
      spelled += parts[i];
      if (i + 1 == parts.size()) spelled += rules_.end_suffix;
      const std::optional<TokenId> id = vocabulary_->find(spelled);
      const bool unknown = !id && byte_ids_.empty();
      if (id) {
        add(*id);
      } else if (!unknown) {
        for (const char byte : parts[i]) add(byte_ids_[static_cast<unsigned char>(byte)]);
      } else if (rules_.unknown.id && !(was_unknown && rules_.unknown.fuse)) {
        add(*rules_.unknown.id);
      }
      was_unknown = unknown;
    }
    return symbols;
  }

  void offer(Queue& queue, const std::vector<Symbol>& symbols, int left) const {
    if (left < 0 || symbols[static_cast<std::size_t>(left)].next < 0) return;
    const Symbol& a = symbols[static_cast<std::size_t>(left)];
    const Symbol& b = symbols[static_cast<std::size_t>(a.next)];
    const auto found = merges_.find(pair_key(a.id, b.id));
    if (found != merges_.end()) queue.push({found->second.first, left, a.id, b.id, found->second.second});
  }

  void join(std::vector<Symbol>& symbols) const {
    Queue queue;
    for (int i = 0; i < static_cast<int>(symbols.size()); ++i) offer(queue, symbols, i);
    while (!queue.empty()) {
      const Candidate best = queue.top();
      queue.pop();
      Symbol& left = symbols[static_cast<std::size_t>(best.left)];
      if (left.id != best.left_id || left.next < 0) continue;  // joined meanwhile
      Symbol& right = symbols[static_cast<std::size_t>(left.next)];
      if (right.id != best.right_id) continue;
      left.id = best.joined;
      left.next = right.next;
      right.id = kNoToken;
      if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = best.left;
      offer(queue, symbols, left.previous);
      offer(queue, symbols, best.left);
    }
  }

  SharedVocabulary vocabulary_;
  BpeRules rules_;
  std::vector<TokenId> byte_ids_;
  std::unordered_map<std::uint64_t, std::pair<std::int32_t, TokenId>> merges_;
};

class WordLevel : public TokenModel {
 public:
  WordLevel(SharedVocabulary vocabulary, std::optional<TokenId> unknown)
      : vocabulary_(std::move(vocabulary)), unknown_(unknown) {}
  void encode(std::string_view piece, std::vector<TokenId>& out) const override {
    if (const std::optional<TokenId> id = vocabulary_->find(piece)) return out.push_back(*id);
    if (unknown_) out.push_back(*unknown_);
  }

 private:
  SharedVocabulary vocabulary_;
  std::optional<TokenId> unknown_;
};

}  // namespace

std::unique_ptr<TokenModel> make_bpe(SharedVocabulary vocabulary, BpeRules rules) {
  return std::make_unique<Bpe>(std::move(vocabulary), std::move(rules));
}

std::unique_ptr<TokenModel> make_word_level(SharedVocabulary vocabulary, std::optional<TokenId> unknown) {
  return std::make_unique<WordLevel>(std::move(vocabulary), unknown);
}

std::vector<Merge> merges_by_score(const Vocabulary& vocabulary, const std::vector<float>& scores) {
  // Equal scores are equal ranks, so that the leftmost of them is joined first.
  std::vector<float> ordered = scores;
  std::sort(ordered.begin(), ordered.end(), std::greater<>());
  ordered.erase(std::unique(ordered.begin(), ordered.end()), ordered.end());
  std::vector<Merge> merges;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string& piece = vocabulary.piece(id);
    if (vocabulary.find(piece) != id) continue;
    const auto score = std::lower_bound(ordered.begin(), ordered.end(), scores[static_cast<std::size_t>(id)],
                                        std::greater<>());
    std::size_t at = 0;
    for (const std::string_view c : characters(piece)) {
      if (at > 0) {
        // Most beginnings are no token: their ends need not be looked for.
        const auto left = vocabulary.find(std::string_view(piece).substr(0, at));
        const auto right = left ? vocabulary.find(std::string_view(piece).substr(at)) : std::nullopt;
        if (right) merges.push_back({*left, *right, id, static_cast<std::int32_t>(score - ordered.begin())});
      }
      at += c.size();
    }
  }
  return merges;
}

}  // namespace lathe::llm
