#include <fmt/format.h>

#include "apps/llm/tokenizer_parts.h"
#include "lathe/error.h"

namespace lathe::llm {

namespace {
constexpr TokenId kMostTokens = 1 << 24;
}

void Vocabulary::add(TokenId id, std::string piece) {
  if (id < 0 || id >= kMostTokens) throw UserError("tokenizer", fmt::format("a token has the id {}", id));
  const auto at = static_cast<std::size_t>(id);
  if (at >= pieces_.size()) pieces_.resize(at + 1);
  // A vocabulary may spell two ids alike; the first one is found, both can be decoded.
  pieces_[at] = piece;
  ids_.emplace(std::move(piece), id);
}

std::optional<TokenId> Vocabulary::find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<TokenId> Vocabulary::byte_ids() const {
  std::vector<TokenId> ids;
  for (int byte = 0; byte < 256; ++byte) {
    const std::optional<TokenId> id = find(fmt::format("<0x{:02X}>", byte));
    if (!id) return {};
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace lathe::llm
