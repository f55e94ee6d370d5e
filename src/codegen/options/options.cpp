#include "lathe/options.h"

#include <array>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

namespace lathe {
namespace {

constexpr std::array<std::string_view, 14> kNames = {"TC",    "UPCAST",   "UNROLL",   "LOCAL", "THREAD",
                                                     "GROUP", "GROUPTOP", "PADTO",    "SWAP",  "NOLOCALS",
                                                     "TILE",  "STAGE",    "PIPELINE", "JOIN"};

// Reads "NAME(axis, arg...)" items one after the other.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool done() {
    skip_space();
    return at_ == text_.size();
  }

  Opt option() {
    Opt opt{op_name(), 0, {}};
    expect('(');
    std::vector<std::int64_t> numbers;
    skip_space();
    while (at_ < text_.size() && text_[at_] != ')') {
      numbers.push_back(number());
      skip_space();
      if (at_ < text_.size() && text_[at_] == ',') ++at_;
      skip_space();
    }
    expect(')');
    if (!numbers.empty()) {
      opt.axis = static_cast<int>(numbers[0]);
      opt.arg.assign(numbers.begin() + 1, numbers.end());
    }
    return opt;
  }

 private:
  OptOp op_name() {
    skip_space();
    std::size_t begin = at_;
    while (at_ < text_.size() && std::isupper(static_cast<unsigned char>(text_[at_]))) ++at_;
    std::string_view word = text_.substr(begin, at_ - begin);
    for (std::size_t i = 0; i < kNames.size(); ++i)
      if (kNames[i] == word) return static_cast<OptOp>(i);
    KernelOptError error("options", fmt::format("'{}' is not an option, at column {}", word, begin + 1));
    if (auto near = nearest_word(word, kNames)) error.help(fmt::format("did you mean {}?", *near));
    throw error;
  }
  std::int64_t number() {
    std::int64_t value = 0;
    auto [end, code] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (code != std::errc())
      throw KernelOptError("options",
                           fmt::format("a number was expected at column {} of '{}'", at_ + 1, text_));
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  void expect(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c)
      throw KernelOptError("options",
                           fmt::format("'{}' was expected at column {} of '{}'", c, at_ + 1, text_));
    ++at_;
  }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::string_view name(OptOp op) { return kNames[static_cast<std::size_t>(op)]; }

std::string to_string(std::span<const Opt> opts) {
  std::string out;
  for (const Opt& opt : opts) {
    if (!out.empty()) out += ' ';
    out += fmt::format("{}({}", name(opt.op), opt.axis);
    for (std::int64_t a : opt.arg) out += fmt::format(", {}", a);
    out += ')';
  }
  return out;
}

std::vector<Opt> parse_opts(std::string_view text) {
  std::vector<Opt> opts;
  for (Reader reader(text); !reader.done();) opts.push_back(reader.option());
  return opts;
}

}  // namespace lathe
