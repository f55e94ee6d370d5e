#include "apps/llm/grammar.h"

#include <algorithm>

namespace lathe::llm {

std::size_t Grammar::add_rule() {
  rules_.emplace_back();
  return rules_.size() - 1;
}

Symbol Grammar::bytes(const ByteSet& set) {
  const auto known = std::find(sets_.begin(), sets_.end(), set);
  if (known != sets_.end()) return {false, static_cast<std::size_t>(known - sets_.begin())};
  sets_.push_back(set);
  return {false, sets_.size() - 1};
}

Symbol Grammar::range(unsigned char first, unsigned char last) {
  ByteSet set;
  for (unsigned b = first; b <= last; ++b) set.set(b);
  return bytes(set);
}

Sequence Grammar::text(std::string_view text) {
  Sequence out;
  for (const char c : text)
    out.push_back(range(static_cast<unsigned char>(c), static_cast<unsigned char>(c)));
  return out;
}

const Place* Reader::place(const Sequence* sequence, std::size_t at, const Place* below) {
  if (at == sequence->size()) return below;  // over: nothing to come back to
  auto [entry, added] = known_.try_emplace({sequence, at, below}, nullptr);
  if (added) entry->second = &places_.emplace_back(Place{sequence, at, below});
  return entry->second;
}

// Replaces a place before a rule by the places in its alternatives, until all are before bytes.
void Reader::open(const Place* top, std::set<const Place*>& out) {
  if (top == nullptr) {
    out.insert(nullptr);
    return;
  }
  const Symbol symbol = (*top->sequence)[top->at];
  if (!symbol.is_rule) {
    out.insert(top);
    return;
  }
  const Place* after = place(top->sequence, top->at + 1, top->below);
  for (const Sequence& alternative : grammar_.alternatives(symbol.index))
    open(place(&alternative, 0, after), out);
}

Reading Reader::begin() {
  root_ = {Grammar::rule(start_)};
  std::set<const Place*> out;
  open(place(&root_, 0, nullptr), out);
  return {out.begin(), out.end()};
}

Reading Reader::after(const Reading& reading, unsigned char byte) {
  std::set<const Place*> out;
  for (const Place* top : reading)
    if (top != nullptr && grammar_.set((*top->sequence)[top->at].index)[byte])
      open(place(top->sequence, top->at + 1, top->below), out);
  return {out.begin(), out.end()};
}

bool Reader::complete(const Reading& reading) {
  return std::find(reading.begin(), reading.end(), nullptr) != reading.end();
}
bool Reader::finished(const Reading& reading) { return reading.size() == 1 && reading[0] == nullptr; }

}  // namespace lathe::llm
