#include "apps/llm/generation.h"

#include <algorithm>

namespace lathe::llm {
namespace {

constexpr std::size_t kMostMasks = 256;

JsonGrammar grammar_of(const Request& request) {
  return request.json_schema.empty() ? json_object_grammar() : json_schema_grammar(request.json_schema);
}

}  // namespace

Constraint::Constraint(const Request& request, const TokenTrie& trie, const std::vector<TokenId>& ends)
    : json_(grammar_of(request)),
      reader_(json_.grammar, json_.start),
      reading_(reader_.begin()),
      trie_(trie),
      ends_(ends) {}

const TokenMask& Constraint::allowed() {
  const auto known = masks_.find(reading_);
  if (known != masks_.end()) return known->second;
  if (masks_.size() >= kMostMasks) masks_.clear();
  return masks_.emplace(reading_, trie_.fitting(reader_, reading_, ends_)).first->second;
}

void Constraint::take(TokenId token) {
  for (const char c : trie_.bytes(token)) reading_ = reader_.after(reading_, static_cast<unsigned char>(c));
}

Generation::Generation(Request request, const Tokenizer& tokenizer, const std::vector<TokenId>& ends,
                       const TokenTrie* trie, std::int64_t context)
    : request_(std::move(request)),
      ends_(ends),
      trie_(trie),
      sampler_(request_.sampling),
      stream_(tokenizer),
      stop_(request_.stop),
      tokens_(request_.prompt),
      prompt_(tokens_.size()),
      most_(std::min(request_.max_tokens, context - static_cast<std::int64_t>(prompt_))) {
  if (request_.json_object || !request_.json_schema.empty())
    constraint_ = std::make_unique<Constraint>(request_, *trie, ends);
}

bool Generation::ends_text(TokenId token) const {
  const bool is_end = std::find(ends_.begin(), ends_.end(), token) != ends_.end();
  return is_end && (!request_.ignore_end || constraint_ != nullptr);
}

TokenReport Generation::report(const Choice& choice) const {
  const auto shown = [&](const TokenChance& c) {
    return TokenText{c.token, std::string(trie_->bytes(c.token)), c.logprob};
  };
  TokenReport out{shown(choice.chosen), {}};
  for (const TokenChance& c : choice.likeliest) out.likeliest.push_back(shown(c));
  return out;
}

Update Generation::update() const {
  Update u;
  u.prompt_tokens = static_cast<std::int64_t>(prompt_);
  u.written_tokens = written();
  return u;
}

Update Generation::take(std::span<const float> logits) {
  const Choice choice = sampler_(logits, tokens_, prompt_, constraint_ ? &constraint_->allowed() : nullptr,
                                 request_.logprobs ? request_.likeliest : 0);
  const TokenId token = choice.chosen.token;
  if (ends_text(token)) return ended(Finish::Stop);
  tokens_.push_back(token);
  if (constraint_) constraint_->take(token);

  const std::string text = stop_.push(stream_.push(token));
  const bool over = stop_.stopped() || (constraint_ && constraint_->finished());
  Update u = over ? ended(Finish::Stop) : written() >= most_ ? ended(Finish::Length) : update();
  u.text.insert(0, text);
  u.ids.push_back(token);
  if (request_.logprobs) u.tokens.push_back(report(choice));
  return u;
}

Update Generation::ended(Finish finish, const std::string& error) {
  std::string rest = stop_.push(stream_.finish());
  rest += stop_.finish();
  Update u = update();
  u.text = std::move(rest);
  u.finish = finish;
  u.error = error;
  return u;
}

}  // namespace lathe::llm
