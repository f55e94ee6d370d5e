#include "apps/llm/pages.h"

#include "lathe/error.h"

namespace lathe::llm {

Pages::Pages(std::int64_t count, std::int64_t tokens_per_page)
    : size_(static_cast<std::size_t>(tokens_per_page)), entries_(static_cast<std::size_t>(count)) {
  for (PageId page = 0; page < count; ++page) entry(page).idle = idle_.insert(idle_.end(), page);
}

void Pages::hold(PageId page) {
  Entry& e = entry(page);
  if (e.holders++ != 0) return;
  idle_.erase(e.idle);
  ++held_;
}

std::optional<PageId> Pages::take() {
  if (idle_.empty()) return std::nullopt;
  const PageId page = idle_.front();
  Entry& e = entry(page);
  if (e.serial != 0) known_.erase(e.key);
  e.serial = 0;
  hold(page);
  return page;
}

void Pages::release(PageId page) {
  Entry& e = entry(page);
  if (e.holders <= 0) throw InternalError("pages", "a page is released that nobody holds");
  if (--e.holders != 0) return;
  --held_;
  // What can be found again is taken last.
  e.idle = idle_.insert(e.serial != 0 ? idle_.end() : idle_.begin(), page);
}

std::vector<PageId> Pages::find(std::span<const TokenId> tokens) {
  std::vector<PageId> out;
  Serial before = 0;
  for (std::size_t at = 0; at + size_ <= tokens.size(); at += size_) {
    const auto part = tokens.subspan(at, size_);
    const auto known = known_.find({before, {part.begin(), part.end()}});
    if (known == known_.end()) break;
    hold(known->second);
    out.push_back(known->second);
    before = entry(known->second).serial;
  }
  return out;
}

void Pages::remember(std::span<const PageId> pages, std::span<const TokenId> tokens) {
  Serial before = 0;
  for (std::size_t i = 0; i < pages.size() && (i + 1) * size_ <= tokens.size(); ++i) {
    const auto part = tokens.subspan(i * size_, size_);
    const auto [at, added] = known_.try_emplace({before, {part.begin(), part.end()}}, pages[i]);
    if (added) {
      Entry& e = entry(pages[i]);
      if (e.serial != 0) known_.erase(e.key);  // what stood before it has another name by now
      e.serial = next_serial_++;
      e.key = at;
    }
    before = entry(at->second).serial;
  }
}

}  // namespace lathe::llm
