// Who holds which page of the key-value cache, and which full pages hold the beginning of what text: a prompt
// that begins as an earlier one did takes over its pages. Pages nobody holds stay findable until their memory
// is needed, those least lately used first.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lathe/llm/model.h"

namespace lathe::llm {

class Pages {
 public:
  Pages(std::int64_t count, std::int64_t tokens_per_page);

  // A page of one's own, or nothing where all are held.
  std::optional<PageId> take();
  void release(PageId page);

  // The pages that hold the beginning of these tokens, each now held once more.
  std::vector<PageId> find(std::span<const TokenId> tokens);
  // Says what a full page holds: the tokens of all pages up to it. It may turn out that another page holds
  // the same already; the page stays its holder's all the same.
  void remember(std::span<const PageId> pages, std::span<const TokenId> tokens);

  std::int64_t count() const { return static_cast<std::int64_t>(entries_.size()); }
  std::int64_t held() const { return held_; }  // by at least one sequence
  std::int64_t remembered() const { return static_cast<std::int64_t>(known_.size()); }

 private:
  // A text is named by the serial number of the text before it and the tokens of its last page. Serial
  // numbers are never used again, so a name outlives no page that it was made from.
  using Serial = std::int64_t;
  using Key = std::pair<Serial, std::vector<TokenId>>;
  struct Entry {
    int holders = 0;
    Serial serial = 0;  // of the text that it holds; 0: not remembered
    std::map<Key, PageId>::iterator key;
    std::list<PageId>::iterator idle;  // where nobody holds it
  };
  Entry& entry(PageId page) { return entries_[static_cast<std::size_t>(page)]; }
  void hold(PageId page);

  std::size_t size_;  // tokens of a page
  std::vector<Entry> entries_;
  std::list<PageId> idle_;  // the next to be taken first
  std::map<Key, PageId> known_;
  Serial next_serial_ = 1;
  std::int64_t held_ = 0;
};

}  // namespace lathe::llm
