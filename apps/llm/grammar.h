// A grammar over bytes, and where a text is in it: what constrained decoding asks "may this byte
// follow?". Rules are lists of alternatives, alternatives are sequences of byte sets and rules. Where several
// readings are open a state holds all of them; each is a stack of places, shared between states.
#pragma once

#include <bitset>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace lathe::llm {

using ByteSet = std::bitset<256>;

struct Symbol {
  bool is_rule = false;
  std::size_t index = 0;  // of a rule or a byte set
};
using Sequence = std::vector<Symbol>;

class Grammar {
 public:
  std::size_t add_rule();  // without alternatives, it fits nothing
  // No rule may begin with itself, also by way of others.
  void add(std::size_t rule, Sequence alternative) { rules_[rule].push_back(std::move(alternative)); }
  static Symbol rule(std::size_t index) { return {true, index}; }
  Symbol bytes(const ByteSet& set);
  Symbol range(unsigned char first, unsigned char last);
  Sequence text(std::string_view bytes);  // exactly these

  const std::vector<Sequence>& alternatives(std::size_t rule) const { return rules_[rule]; }
  const ByteSet& set(std::size_t index) const { return sets_[index]; }

 private:
  std::vector<std::vector<Sequence>> rules_;
  std::vector<ByteSet> sets_;
};

// A place in a sequence; below it, where to go on when the sequence is over.
struct Place {
  const Sequence* sequence;
  std::size_t at;
  const Place* below;
};

// All readings that are open, each standing at a byte set; null is one that is complete.
using Reading = std::vector<const Place*>;

class Reader {
 public:
  Reader(const Grammar& grammar, std::size_t start) : grammar_(grammar), start_(start) {}

  Reading begin();
  Reading after(const Reading& reading, unsigned char byte);  // empty: the byte does not fit
  static bool complete(const Reading& reading);               // may end here
  static bool finished(const Reading& reading);               // must end here

 private:
  const Place* place(const Sequence* sequence, std::size_t at, const Place* below);
  void open(const Place* top, std::set<const Place*>& out);

  const Grammar& grammar_;
  std::size_t start_;
  Sequence root_;
  std::deque<Place> places_;  // their addresses stay
  std::map<std::tuple<const Sequence*, std::size_t, const Place*>, const Place*> known_;
};

}  // namespace lathe::llm
