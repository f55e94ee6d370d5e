#include "lathe/llm/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/llm/text.h"
#include "apps/llm/tokenizer_parts.h"
#include "lathe/error.h"

namespace lathe::llm {

namespace {

std::string normalize(const TokenizerParts& parts, std::string_view text) {
  std::string out(text);
  for (const NormalizeStep& step : parts.normalize) out = step(out);
  return out;
}

bool at_word_edges(std::string_view text, std::size_t begin, std::size_t end) {
  const auto word_before = [&] {
    std::size_t at = begin;
    while (at > 0 && (static_cast<unsigned char>(text[at - 1]) & 0xC0) == 0x80) --at;
    return begin > 0 && is_word(first_character(text.substr(at > 0 ? at - 1 : 0)).code);
  };
  return !word_before() && (end == text.size() || !is_word(first_character(text.substr(end)).code));
}

// A part of a text: an added token, or plain text to be looked at further.
struct Part {
  const AddedToken* token = nullptr;
  std::string_view text;
  bool at_start = false;
};

// Looks for added tokens from the left, at each place the longest.
class AddedTokens {
 public:
  AddedTokens(const TokenizerParts& parts, bool normalized, bool special) {
    for (const AddedToken& token : parts.added) {
      if (token.normalized != normalized || (token.special && !special)) continue;
      std::string content = normalized ? normalize(parts, token.content) : token.content;
      if (!content.empty()) entries_.push_back({std::move(content), &token});
    }
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.content.size() > b.content.size(); });
    for (const Entry& entry : entries_) begins_[static_cast<unsigned char>(entry.content[0])] = true;
  }

  std::vector<Part> split(std::string_view text, bool at_start) const {
    std::vector<Part> parts;
    std::size_t begin = 0;
    const auto plain = [&](std::size_t end) {
      if (end > begin) parts.push_back({nullptr, text.substr(begin, end - begin), at_start && begin == 0});
    };
    for (std::size_t at = 0; at < text.size();) {
      const Entry* entry = begins_[static_cast<unsigned char>(text[at])] ? find(text, at) : nullptr;
      if (entry == nullptr) {
        ++at;
        continue;
      }
      std::size_t end = at + entry->content.size(), left = at;
      while (entry->token->take_left && left > begin && text[left - 1] == ' ') --left;
      while (entry->token->take_right && end < text.size() && text[end] == ' ') ++end;
      plain(left);
      parts.push_back({entry->token, {}, false});
      begin = at = end;
    }
    plain(text.size());
    return parts;
  }

 private:
  struct Entry {
    std::string content;
    const AddedToken* token;
  };
  const Entry* find(std::string_view text, std::size_t at) const {
    for (const Entry& entry : entries_)
      if (text.substr(at).starts_with(entry.content) &&
          (!entry.token->whole_word || at_word_edges(text, at, at + entry.content.size())))
        return &entry;
    return nullptr;
  }
  std::vector<Entry> entries_;
  bool begins_[256] = {};
};

void encode_plain(const TokenizerParts& parts, std::string_view text, bool at_start,
                  std::vector<TokenId>& out) {
  std::vector<Piece> pieces{{std::string(text), at_start}};
  for (const SplitStep& step : parts.split) pieces = step(std::move(pieces));
  for (const Piece& piece : pieces)
    if (!piece.text.empty()) parts.model->encode(piece.text, out);
}

std::string decode_raw(const TokenizerParts& parts, std::span<const TokenId> ids, bool skip_special) {
  std::vector<std::string> pieces;
  for (const TokenId id : ids) {
    if (!parts.vocabulary->has(id))
      throw UserError("decode",
                      fmt::format("{} is not a token: ids are 0 to {}", id, parts.vocabulary->size() - 1));
    if (!skip_special || !parts.special.contains(id)) pieces.push_back(parts.vocabulary->piece(id));
  }
  for (const DecodeStep& step : parts.decode) pieces = step(std::move(pieces));
  std::string out;
  for (const std::string& piece : pieces) out += piece;
  return out;
}

}  // namespace

std::vector<TokenId> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  const TokenizerParts& parts = *parts_;
  std::vector<TokenId> out;
  if (options.add_special) out = parts.before;
  const AddedTokens raw(parts, false, options.parse_special), normalized(parts, true, options.parse_special);
  for (const Part& part : raw.split(text, true)) {
    if (part.token != nullptr) {
      out.push_back(part.token->id);
      continue;
    }
    const std::string clean = normalize(parts, part.text);
    for (const Part& inner : normalized.split(clean, part.at_start)) {
      if (inner.token != nullptr)
        out.push_back(inner.token->id);
      else
        encode_plain(parts, inner.text, inner.at_start, out);
    }
  }
  if (options.add_special) out.insert(out.end(), parts.after.begin(), parts.after.end());
  return out;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  return valid_utf8(decode_raw(*parts_, ids, skip_special));
}

std::string Tokenizer::bytes(TokenId id) const {
  const TokenizerParts& parts = *parts_;
  // Behind some token that is text, because a first one may lose its leading space.
  TokenId before = parts.vocabulary->find("a").value_or(0);
  while (parts.special.contains(before) && parts.vocabulary->has(before + 1)) ++before;
  const TokenId both[] = {before, id};
  const std::string alone = decode_raw(parts, std::span(both).first(1), true);
  const std::string together = decode_raw(parts, both, true);
  return together.size() > alone.size() ? together.substr(alone.size()) : "";
}

std::int64_t Tokenizer::size() const { return parts_->vocabulary->size(); }

const std::string& Tokenizer::piece(TokenId id) const {
  if (!parts_->vocabulary->has(id))
    throw UserError("piece", fmt::format("{} is not a token: ids are 0 to {}", id, size() - 1));
  return parts_->vocabulary->piece(id);
}

std::optional<TokenId> Tokenizer::find(std::string_view piece) const {
  return parts_->vocabulary->find(piece);
}
bool Tokenizer::is_special(TokenId id) const { return parts_->special.contains(id); }
std::optional<TokenId> Tokenizer::begin_id() const { return parts_->begin; }
std::optional<TokenId> Tokenizer::end_id() const { return parts_->end; }
const std::vector<TokenId>& Tokenizer::stop_ids() const { return parts_->stop; }
const std::string& Tokenizer::chat_template() const { return parts_->chat_template; }

// Decoding may treat the first token otherwise than the rest (a leading space), so new text is what the
// window's text has beyond the text of its context.
std::string TokenStream::advance(bool last) {
  const TokenizerParts& parts = tokenizer_.parts();
  const std::span<const TokenId> all(window_);
  const std::string before = decode_raw(parts, all.first(context_), skip_special_);
  const std::string now = decode_raw(parts, all, skip_special_);
  if (now.size() <= before.size() || (!last && unfinished_bytes(now) > 0)) return "";
  const std::string fresh = now.substr(before.size());
  window_.erase(window_.begin(), window_.begin() + static_cast<std::ptrdiff_t>(context_));
  context_ = window_.size();
  return valid_utf8(fresh);
}

std::string TokenStream::push(TokenId id) {
  window_.push_back(id);
  return advance(false);
}

std::string TokenStream::finish() {
  std::string rest = advance(true);
  window_.clear();
  context_ = 0;
  return rest;
}

}  // namespace lathe::llm
