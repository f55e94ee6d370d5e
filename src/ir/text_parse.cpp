#include <bit>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <unordered_map>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/text.h"
#include "ir/wellformed.h"

namespace lathe {
namespace {

bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// One line, read from left to right. Every refusal names the line and what was expected at that place.
class Line {
 public:
  Line(std::string_view text, int number) : text_(text), number_(number) { skip(); }

  [[noreturn]] void refuse(std::string_view what) const {
    throw UserError("parse", fmt::format("line {}, column {}: {}", number_, at_ + 1, what))
        .note(fmt::format("the line reads: {}", text_));
  }

  bool done() const { return at_ >= text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }

  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    skip();
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse(fmt::format("expected '{}', found {}", c, found()));
  }
  void expect_end() {
    if (!done()) refuse(fmt::format("expected the end of the line, found {}", found()));
  }

  std::string_view word(std::string_view expected) {
    std::size_t from = at_;
    while (at_ < text_.size() && is_word_char(text_[at_])) ++at_;
    if (at_ == from) refuse(fmt::format("expected {}, found {}", expected, found()));
    std::string_view w = text_.substr(from, at_ - from);
    skip();
    return w;
  }
  bool take_word(std::string_view w) {
    if (!text_.substr(at_).starts_with(w)) return false;
    if (at_ + w.size() < text_.size() && is_word_char(text_[at_ + w.size()])) return false;
    at_ += w.size();
    skip();
    return true;
  }

  // Everything up to a blank, a comma or a bracket.
  std::string_view token(std::string_view expected) {
    std::size_t from = at_;
    while (at_ < text_.size() && std::string_view(" ,()[]\t").find(text_[at_]) == std::string_view::npos)
      ++at_;
    if (at_ == from) refuse(fmt::format("expected {}, found {}", expected, found()));
    std::string_view t = text_.substr(from, at_ - from);
    skip();
    return t;
  }

  std::int64_t integer() {
    std::size_t start = at_;
    std::string_view t = token("an integer");
    if (std::optional<std::int64_t> v = as_integer(t)) return *v;
    at_ = start;
    refuse(fmt::format("expected an integer, found '{}'", t));
  }

  double real() {
    std::size_t start = at_;
    std::string t(token("a number"));
    if (t == "nan") return std::bit_cast<double>(0x7ff8000000000000ull);
    if (t.starts_with("nan:0x")) {
      std::uint64_t bits = 0;
      auto [end, error] = std::from_chars(t.data() + 6, t.data() + t.size(), bits, 16);
      if (error == std::errc() && end == t.data() + t.size()) return std::bit_cast<double>(bits);
    } else {
      char* end = nullptr;
      double v = std::strtod(t.c_str(), &end);
      if (end == t.c_str() + t.size()) return v;
    }
    at_ = start;
    refuse(fmt::format("expected a number, found '{}'", t));
  }

  std::string quoted() {
    std::string out;
    if (peek() != '"') refuse(fmt::format("expected a text in quotes, found {}", found()));
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] != '\\') {
        out += text_[at_];
        continue;
      }
      if (++at_ >= text_.size()) break;
      if (text_[at_] == 'n')
        out += '\n';
      else if (text_[at_] == 'x') {
        unsigned v = 0;
        if (at_ + 2 >= text_.size()) break;
        auto [end, error] = std::from_chars(text_.data() + at_ + 1, text_.data() + at_ + 3, v, 16);
        if (error != std::errc() || end != text_.data() + at_ + 3)
          refuse("expected two hexadecimal digits after \\x");
        out += static_cast<char>(v);
        at_ += 2;
      } else
        out += text_[at_];
    }
    if (at_ >= text_.size()) refuse("the text has no closing quote");
    ++at_;
    skip();
    return out;
  }

  static std::optional<std::int64_t> as_integer(std::string_view t) {
    std::int64_t v = 0;
    auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), v);
    if (error != std::errc() || end != t.data() + t.size()) return std::nullopt;
    return v;
  }

 private:
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  std::string found() const {
    return done() ? "the end of the line"
                  : fmt::format("'{}'", text_.substr(at_, std::min<std::size_t>(12, text_.size() - at_)));
  }

  std::string_view text_;
  int number_;
  std::size_t at_ = 0;
};

std::optional<Space> parse_space(std::string_view text) {
  for (int i = 0; i < 5; ++i)
    if (name(static_cast<Space>(i)) == text) return static_cast<Space>(i);
  return std::nullopt;
}

class Parser {
 public:
  Node definition(Line& line) {
    line.expect('%');
    std::string name(line.word("a node's name after %"));
    line.expect('=');
    std::string_view op_name = line.word("an op");
    std::optional<Op> op = parse_op(op_name);
    if (!op) line.refuse(fmt::format("'{}' is not an op", op_name));
    line.expect('.');
    std::string_view dtype_name = line.word("a dtype");
    std::optional<DType> dtype = parse_dtype(dtype_name);
    if (!dtype) line.refuse(fmt::format("'{}' is not a dtype", dtype_name));
    AttrData data;
    Attr attr = attribute(line, *op, *dtype, data);
    std::vector<Node> args;
    line.expect('(');
    while (!line.take(')')) {
      args.push_back(reference(line));
      if (line.peek() != ')') line.expect(',');
    }
    line.expect_end();
    if (std::string fault = node_fault(*op, *dtype, args, attr); !fault.empty()) line.refuse(fault);
    Node node = intern(*op, *dtype, args, attr);
    if (!nodes_.emplace(name, node).second) line.refuse(fmt::format("%{} is defined twice", name));
    return node;
  }

  Node reference(Line& line) {
    line.expect('%');
    std::string name(line.word("a node's name after %"));
    auto it = nodes_.find(name);
    if (it == nodes_.end()) line.refuse(fmt::format("%{} is not defined above", name));
    return it->second;
  }

 private:
  static std::int64_t named_or_number(Line& line, Op op, std::size_t place) {
    std::string_view t = line.token("a number or a name");
    if (std::optional<std::int64_t> v = Line::as_integer(t)) return *v;
    using enum AttrForm::Named;
    const AttrForm::Named named = info(op).attribute.named;
    if (named == OpAt0 && place == 0)
      if (std::optional<Op> known = parse_op(t)) return static_cast<std::int64_t>(*known);
    if (named == KindAt1 && place == 1)
      if (std::optional<RangeKind> kind = parse_range_kind(t)) return static_cast<std::int64_t>(*kind);
    if (named == SpaceAt2 && place == 2)
      if (std::optional<Space> space = parse_space(t)) return static_cast<std::int64_t>(*space);
    line.refuse(fmt::format("expected an integer, found '{}'", t));
  }

  static Attr attribute(Line& line, Op op, DType dtype, AttrData& data) {
    if (line.peek() == '(') return {};
    bool has_text = line.peek() == '"';
    if (has_text) data.text = line.quoted();
    if (line.take('[')) {
      while (!line.take(']')) {
        data.ints.push_back(named_or_number(line, op, data.ints.size()));
        if (line.peek() != ']') line.expect(',');
      }
      return Attr::of(data);
    }
    if (has_text) return Attr::of(data);
    if (op == Op::Const && dtype.is_float()) return Attr::of(line.real());
    return Attr::of(named_or_number(line, op, 0));
  }

  std::unordered_map<std::string, Node> nodes_;
};

// Calls `use` with each line that says something.
template <class Use>
void each_line(std::string_view text, Use use) {
  int number = 0;
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line[first] == '#') continue;
    Line reader(line, number);
    use(reader);
  }
}

NodeRef size_or_one(Parser& parser, Line& line) {
  if (line.take('1')) return NodeRef();
  return parser.reference(line);
}

ProgramParam parse_param(Line& line) {
  ProgramParam p;
  p.slot = line.integer();
  std::string_view dtype = line.word("a dtype");
  std::optional<DType> d = parse_dtype(dtype);
  if (!d) line.refuse(fmt::format("'{}' is not a dtype", dtype));
  p.dtype = *d;
  p.size = line.integer();
  std::string_view use = line.token("r or -, then w or -");
  if (use.size() != 2 || (use[0] != 'r' && use[0] != '-') || (use[1] != 'w' && use[1] != '-'))
    line.refuse(fmt::format("expected rw, r-, -w or --, found '{}'", use));
  p.reads = use[0] == 'r';
  p.writes = use[1] == 'w';
  return p;
}

void program_line(Program& program, Parser& parser, Line& line) {
  if (line.take_word("program"))
    program.name = line.quoted();
  else if (line.take_word("param"))
    program.params.push_back(parse_param(line));
  else if (line.take_word("check")) {
    std::string op = line.quoted();
    program.checks.push_back({std::move(op), line.integer()});
  } else if (line.take_word("variables"))
    while (!line.done()) program.variables.push_back(parser.reference(line));
  else if (line.take_word("groups"))
    for (NodeRef& n : program.groups) n = size_or_one(parser, line);
  else if (line.take_word("locals"))
    for (NodeRef& n : program.locals) n = size_or_one(parser, line);
  else if (line.take_word("threads"))
    program.threads = size_or_one(parser, line);
  else if (line.take_word("counts")) {
    program.shared_bytes = line.integer();
    program.flops = line.real();
    program.bytes = line.real();
  } else if (line.take_word("let"))
    parser.definition(line);
  else if (line.take_word("run"))
    program.code.push_back(parser.reference(line));
  else
    program.code.push_back(parser.definition(line));
  line.expect_end();
}

}  // namespace

std::vector<Node> parse_nodes(std::string_view text) {
  Parser parser;
  std::vector<Node> nodes;
  each_line(text, [&](Line& line) { nodes.push_back(parser.definition(line)); });
  return nodes;
}

Node parse_graph(std::string_view text) {
  std::vector<Node> nodes = parse_nodes(text);
  if (nodes.empty()) throw UserError("parse", "the text has no node");
  return nodes.back();
}

Program parse_program(std::string_view text) {
  Parser parser;
  Program program;
  each_line(text, [&](Line& line) { program_line(program, parser, line); });
  return program;
}

}  // namespace lathe
