#include "apps/llm/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "apps/llm/text.h"
#include "lathe/error.h"

namespace lathe::llm {

namespace {

constexpr int kEndless = std::numeric_limits<int>::max();
constexpr int kMostDepth = 2000;  // of repeated groups inside one match; a class repeats without depth

// One member of a class of characters: a span of codes, a category, or one of \s \w \d; or a class of its
// own.
struct ClassItem {
  enum class Kind : std::uint8_t { Span, Category, Space, Word, Digit, Nested } kind = Kind::Span;
  char32_t first = 0, last = 0;
  std::string category;
  bool negated = false;
  std::vector<ClassItem> nested;

  static ClassItem span(char32_t first, char32_t last) {
    ClassItem item;
    item.first = first;
    item.last = last;
    return item;
  }
  static ClassItem of(Kind kind, bool negated) {
    ClassItem item;
    item.kind = kind;
    item.negated = negated;
    return item;
  }
};

bool contains(const std::vector<ClassItem>& items, char32_t code);

bool contains(const ClassItem& item, char32_t code) {
  bool in = false;
  switch (item.kind) {
    case ClassItem::Kind::Span: in = item.first <= code && code <= item.last; break;
    case ClassItem::Kind::Category: in = category_matches(code, item.category); break;
    case ClassItem::Kind::Space: in = is_space(code); break;
    case ClassItem::Kind::Word: in = is_word(code); break;
    case ClassItem::Kind::Digit: in = category_matches(code, "Nd"); break;
    case ClassItem::Kind::Nested: in = contains(item.nested, code); break;
  }
  return in != item.negated;
}

bool contains(const std::vector<ClassItem>& items, char32_t code) {
  return std::any_of(items.begin(), items.end(), [&](const ClassItem& item) { return contains(item, code); });
}

}  // namespace

struct RegexNode {
  enum class Kind : std::uint8_t {
    Class,
    Sequence,
    Choice,
    Repeat,
    Ahead,
    Behind,
    Begin,
    End
  } kind = Kind::Sequence;
  enum class Greed : std::uint8_t { Greedy, Lazy, Possessive } greed = Greed::Greedy;
  bool negated = false, any_case = false;
  int least = 1, most = 1;
  std::vector<ClassItem> items;  // of a class
  std::vector<RegexNode> children;
};

namespace {

using Kind = RegexNode::Kind;
using Greed = RegexNode::Greed;

class Parser {
 public:
  explicit Parser(std::string_view pattern) : whole_(pattern), rest_(pattern) {}

  RegexNode pattern() {
    RegexNode node = choice();
    if (!rest_.empty()) refuse("an unmatched )");
    return node;
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const {
    throw UserError("tokenizer", fmt::format("the pattern \"{}\" has {} at byte {}", whole_, why,
                                             whole_.size() - rest_.size()));
  }
  static RegexNode of(Kind kind) {
    RegexNode node;
    node.kind = kind;
    return node;
  }
  bool starts(std::string_view with) const { return rest_.substr(0, with.size()) == with; }
  bool take(std::string_view what) {
    if (!starts(what)) return false;
    rest_.remove_prefix(what.size());
    return true;
  }
  char32_t next() {
    if (rest_.empty()) refuse("its end too early");
    const Character c = first_character(rest_);
    rest_.remove_prefix(static_cast<std::size_t>(c.bytes));
    return c.code;
  }

  RegexNode choice() {
    if (++depth_ > 100) refuse("too many groups in each other");
    RegexNode node = of(Kind::Choice);
    do node.children.push_back(sequence());
    while (take("|"));
    --depth_;
    return node.children.size() == 1 ? std::move(node.children[0]) : std::move(node);
  }
  RegexNode sequence() {
    RegexNode node = of(Kind::Sequence);
    while (!rest_.empty() && !starts("|") && !starts(")")) node.children.push_back(repeated(atom()));
    return node;
  }
  RegexNode repeated(RegexNode one) {
    for (;;) {
      RegexNode node = of(Kind::Repeat);
      if (take("?"))
        node.least = 0;
      else if (take("*"))
        node.least = 0, node.most = kEndless;
      else if (take("+"))
        node.most = kEndless;
      else if (!counts(node))
        return one;
      if (take("?"))
        node.greed = Greed::Lazy;
      else if (take("+"))
        node.greed = Greed::Possessive;
      node.children.push_back(std::move(one));
      one = std::move(node);
    }
  }
  // {n}, {n,}, {n,m}; anything else in braces is text.
  bool counts(RegexNode& node) {
    const std::size_t close = rest_.find('}');
    if (!starts("{") || close == std::string_view::npos) return false;
    const std::string_view inside = rest_.substr(1, close - 1);
    const std::size_t comma = inside.find(',');
    const auto number = [](std::string_view digits) -> std::optional<int> {
      if (digits.empty() || digits.size() > 4 ||
          digits.find_first_not_of("0123456789") != std::string_view::npos)
        return std::nullopt;
      return std::stoi(std::string(digits));
    };
    const std::optional<int> least = number(inside.substr(0, comma));
    if (!least) return false;
    node.least = node.most = *least;
    if (comma != std::string_view::npos) {
      const std::string_view upper = inside.substr(comma + 1);
      const std::optional<int> most = upper.empty() ? kEndless : number(upper);
      if (!most || *most < *least) return false;
      node.most = *most;
    }
    rest_.remove_prefix(close + 1);
    return true;
  }

  RegexNode atom() {
    if (take("(")) return group();
    if (take("[")) return of_class(class_items());
    if (take("^")) return of(Kind::Begin);
    if (take("$")) return of(Kind::End);
    if (take(".")) {
      ClassItem line_end = ClassItem::span('\n', '\n');
      line_end.negated = true;
      return of_class(std::move(line_end));
    }
    if (starts("*") || starts("+") || starts("?")) refuse("nothing to repeat");
    if (take("\\")) return of_class(escape());
    const char32_t code = next();
    return of_class(ClassItem::span(code, code));
  }
  RegexNode of_class(ClassItem item) const {
    RegexNode node = of(Kind::Class);
    node.any_case = any_case_;
    node.items.push_back(std::move(item));
    return node;
  }
  RegexNode group() {
    const bool outer = any_case_;
    RegexNode node;
    if (take("?=") || take("?!")) {
      node.kind = Kind::Ahead;
      node.negated = whole_[whole_.size() - rest_.size() - 1] == '!';
    } else if (take("?<=") || take("?<!")) {
      node.kind = Kind::Behind;
      node.negated = whole_[whole_.size() - rest_.size() - 1] == '!';
    } else if (take("?i:")) {
      any_case_ = true;
    } else if (take("?:")) {
    } else if (take("?>")) {  // atomic: as a possessive repetition, once
      node.kind = Kind::Repeat;
      node.greed = Greed::Possessive;
    } else if (take("?i)")) {  // from here on
      any_case_ = true;
      return node;
    } else if (starts("?")) {
      refuse("a kind of group that is not known");
    }
    node.children.push_back(choice());
    if (!take(")")) refuse("a ( without )");
    any_case_ = outer;
    return node;
  }

  ClassItem escape() {
    using ItemKind = ClassItem::Kind;
    const char32_t code = next();
    const auto literal = [](char32_t c) { return ClassItem::span(c, c); };
    switch (code) {
      case 's':
      case 'S': return ClassItem::of(ItemKind::Space, code == 'S');
      case 'w':
      case 'W': return ClassItem::of(ItemKind::Word, code == 'W');
      case 'd':
      case 'D': return ClassItem::of(ItemKind::Digit, code == 'D');
      case 'n': return literal('\n');
      case 'r': return literal('\r');
      case 't': return literal('\t');
      case 'f': return literal('\f');
      case 'v': return literal('\v');
      case 'u': return literal(hexadecimal(4));
      case 'x': return literal(take("{") ? braced() : hexadecimal(2));
      case 'p':
      case 'P': return property(code == 'P');
      default: break;
    }
    if ((code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '0' && code <= '9'))
      refuse("an escape that is not known");
    return literal(code);
  }
  ClassItem property(bool negated) {
    std::string name;
    if (take("{")) {
      if (take("^")) negated = !negated;
      while (!take("}")) append_utf8(name, next());
    } else {
      append_utf8(name, next());
    }
    if (!is_category_name(name)) refuse(fmt::format("the property {}, which is no general category,", name));
    ClassItem item = ClassItem::of(ClassItem::Kind::Category, negated);
    item.category = name;
    return item;
  }
  char32_t hexadecimal(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) value = value * 16 + digit(next());
    return value;
  }
  char32_t braced() {
    char32_t value = 0;
    while (!take("}")) {
      value = value * 16 + digit(next());
      if (value > 0x10FFFF) refuse("a code beyond Unicode");
    }
    return value;
  }
  char32_t digit(char32_t c) const {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    refuse("a code that is not hexadecimal");
  }

  // After "[": up to its "]".
  ClassItem class_items() {
    if (++depth_ > 100) refuse("too many classes in each other");
    ClassItem whole = ClassItem::of(ClassItem::Kind::Nested, take("^"));
    for (bool first = true; first || !starts("]"); first = false) {
      if (starts("&&")) refuse("an intersection of classes, which is not supported,");
      ClassItem item;
      if (take("[")) {
        item = class_items();
      } else if (take("\\")) {
        item = escape();
      } else {
        item.first = item.last = next();
      }
      const bool single = item.kind == ClassItem::Kind::Span && item.first == item.last && !item.negated;
      if (single && starts("-") && rest_.size() > 1 && rest_[1] != ']') {
        take("-");
        const bool escaped = take("\\");
        const char32_t plain = escaped ? 0 : next();
        const ClassItem end = escaped ? escape() : ClassItem::span(plain, plain);
        if (end.kind != ClassItem::Kind::Span || end.last < item.first)
          refuse("a span that ends before it begins");
        item.last = end.last;
      }
      whole.nested.push_back(std::move(item));
    }
    take("]");
    --depth_;
    return whole;
  }

  std::string_view whole_, rest_;
  bool any_case_ = false;
  int depth_ = 0;
};

// Matches by trying: each node calls `then` with every end it can have, the preferred one first, until one is
// accepted.
class Matcher {
 public:
  using Then = std::function<bool(std::size_t)>;
  explicit Matcher(std::string_view text) : text_(text) {}

  bool match(const RegexNode& node, std::size_t at, const Then& then) {
    switch (node.kind) {
      case Kind::Class: {
        const std::size_t end = one(node, at);
        return end != kNone && then(end);
      }
      case Kind::Sequence: return sequence(node, 0, at, then);
      case Kind::Choice:
        return std::any_of(node.children.begin(), node.children.end(),
                           [&](const RegexNode& child) { return match(child, at, then); });
      case Kind::Repeat: return repeat(node, at, then);
      case Kind::Ahead: return match(node.children[0], at, accept()) != node.negated && then(at);
      case Kind::Behind: return behind(node, at) != node.negated && then(at);
      case Kind::Begin: return at == 0 && then(at);
      case Kind::End: return at == text_.size() && then(at);
    }
    return false;
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  static const Then& accept() {
    static const Then yes = [](std::size_t) { return true; };
    return yes;
  }

  // The end of the one character at a place, where the class holds it.
  std::size_t one(const RegexNode& node, std::size_t at) const {
    if (at >= text_.size()) return kNone;
    const Character c = first_character(text_.substr(at));
    const bool in =
        contains(node.items, c.code) ||
        (node.any_case && (contains(node.items, lower(c.code)) || contains(node.items, upper(c.code))));
    return in ? at + static_cast<std::size_t>(c.bytes) : kNone;
  }
  static char32_t upper(char32_t code) { return code >= 'a' && code <= 'z' ? code - 'a' + 'A' : code; }

  bool sequence(const RegexNode& node, std::size_t child, std::size_t at, const Then& then) {
    if (child == node.children.size()) return then(at);
    return match(node.children[child], at,
                 [&](std::size_t end) { return sequence(node, child + 1, end, then); });
  }

  bool repeat(const RegexNode& node, std::size_t at, const Then& then) {
    if (node.children[0].kind == Kind::Class) return repeat_class(node, at, then);
    if (node.greed == Greed::Possessive) {
      std::size_t furthest = kNone;
      group(node, 0, at, [&](std::size_t end) { return furthest = end, true; });
      return furthest != kNone && then(furthest);
    }
    return group(node, 0, at, then);
  }
  // Every end of a run of one class is known at once: they are tried from the far side or from the near one.
  bool repeat_class(const RegexNode& node, std::size_t at, const Then& then) {
    std::vector<std::size_t> ends{at};
    while (static_cast<int>(ends.size()) - 1 < node.most) {
      const std::size_t end = one(node.children[0], ends.back());
      if (end == kNone) break;
      ends.push_back(end);
    }
    const auto least = static_cast<std::size_t>(node.least);
    if (ends.size() <= least) return false;
    if (node.greed == Greed::Possessive) return then(ends.back());
    if (node.greed == Greed::Lazy) return std::any_of(ends.begin() + node.least, ends.end(), then);
    for (std::size_t i = ends.size(); i-- > least;)
      if (then(ends[i])) return true;
    return false;
  }
  bool group(const RegexNode& node, int done, std::size_t at, const Then& then) {
    if (done > kMostDepth) throw UserError("tokenizer", "a group of a pattern repeats too often in one text");
    const auto more = [&] {
      return done < node.most && match(
                                     node.children[0], at,
                                     [&](std::size_t end) {
                                       return (end != at || done < node.least) &&
                                              group(node, done + 1, end, then);
                                     });
    };
    if (done < node.least) return more();
    if (node.greed == Greed::Lazy) return then(at) || more();
    return more() || then(at);
  }
  bool behind(const RegexNode& node, std::size_t at) {
    for (std::size_t begin = at + 1; begin-- > 0;)
      if (match(node.children[0], begin, [&](std::size_t end) { return end == at; })) return true;
    return false;
  }

  std::string_view text_;
};

}  // namespace

Regex::Regex(std::string_view pattern) : root_(std::make_unique<RegexNode>(Parser(pattern).pattern())) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::vector<Regex::Match> Regex::matches(std::string_view text) const {
  std::vector<Match> all;
  Matcher matcher(text);
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    matcher.match(*root_, at, [&](std::size_t found) { return end = found, true; });
    if (end > at) all.push_back({at, end});
    at = end > at ? end : at + static_cast<std::size_t>(first_character(text.substr(at)).bytes);
  }
  return all;
}

}  // namespace lathe::llm
