// The regular expressions that tokenizer files split text with: alternatives, groups, classes with Unicode
// properties, greedy, lazy and possessive repetition, looking ahead and behind, and case-insensitive groups.
// It matches by characters, not bytes, and a long run of one class takes no stack.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace lathe::llm {

struct RegexNode;

class Regex {
 public:
  // Throws UserError that shows the place where the pattern is not understood.
  explicit Regex(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  struct Match {
    std::size_t begin = 0, end = 0;  // bytes
  };
  // All matches from left to right, none inside another, none empty.
  std::vector<Match> matches(std::string_view text) const;

 private:
  std::unique_ptr<RegexNode> root_;
};

}  // namespace lathe::llm
