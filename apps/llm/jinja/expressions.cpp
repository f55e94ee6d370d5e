// Tokens into expressions, weakest operator first: condition, or, and, not, comparisons, + and -, ~,
// products, powers, signs; then what is behind a value: attributes, calls, filters, tests.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "apps/llm/jinja/parser.h"

namespace lathe::llm::jinja {

namespace {

using Kind = Expression::Kind;

std::string shown(const Token& token) {
  switch (token.kind) {
    case Token::Kind::End: return "the end of the template";
    case Token::Kind::StatementEnd: return "'%}'";
    case Token::Kind::PrintEnd: return "'}}'";
    case Token::Kind::Text: return "text";
    default: return fmt::format("'{}'", token.text);
  }
}

ExpressionRef make(Kind kind, int line, std::string text = "") {
  return std::make_unique<Expression>(Expression{kind, line, std::move(text), {}, {}, {}, {}});
}

ExpressionRef joined(Kind kind, std::string text, ExpressionRef a, ExpressionRef b) {
  ExpressionRef e = make(kind, a->line, std::move(text));
  e->operands.push_back(std::move(a));
  e->operands.push_back(std::move(b));
  return e;
}

ExpressionRef literal(int line, Value value) {
  ExpressionRef e = make(Kind::Literal, line);
  e->value = std::move(value);
  return e;
}

class ExpressionParser {
 public:
  explicit ExpressionParser(Cursor& cursor) : cursor_(cursor) {}

  ExpressionRef condition(bool conditional) {
    const Depth depth(cursor_);
    ExpressionRef e = alternatives();
    while (conditional && cursor_.skip_name("if")) {
      ExpressionRef whole = make(Kind::Conditional, e->line);
      whole->operands.push_back(alternatives());
      whole->operands.push_back(std::move(e));
      whole->operands.push_back(cursor_.skip_name("else") ? condition(true) : nullptr);
      e = std::move(whole);
    }
    return e;
  }

  ExpressionRef tuple(bool conditional) {
    ExpressionRef first = condition(conditional);
    if (!cursor_.peek_operator(",")) return first;
    ExpressionRef all = make(Kind::Tuple, first->line);
    all->operands.push_back(std::move(first));
    while (cursor_.skip(",")) {
      if (ends_tuple()) break;
      all->operands.push_back(condition(conditional));
    }
    return all;
  }

  ExpressionRef filters() {
    cursor_.skip("|");
    ExpressionRef e = filter(nullptr);
    while (cursor_.skip("|")) e = filter(std::move(e));
    return e;
  }

 private:
  bool ends_tuple() const {
    const Token& t = cursor_.peek();
    return t.kind == Token::Kind::StatementEnd || t.kind == Token::Kind::PrintEnd ||
           cursor_.peek_operator(")") || cursor_.peek_name("in") || cursor_.peek_operator("=");
  }

  ExpressionRef alternatives() {
    ExpressionRef e = conjunction();
    while (cursor_.skip_name("or")) e = joined(Kind::Or, "or", std::move(e), conjunction());
    return e;
  }

  ExpressionRef conjunction() {
    ExpressionRef e = negation();
    while (cursor_.skip_name("and")) e = joined(Kind::And, "and", std::move(e), negation());
    return e;
  }

  ExpressionRef negation() {
    if (!cursor_.peek_name("not")) return comparison();
    const Depth depth(cursor_);
    ExpressionRef e = make(Kind::Unary, cursor_.next().line, "not");
    e->operands.push_back(negation());
    return e;
  }

  std::string comparison_word() {
    for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"})
      if (cursor_.skip(op)) return std::string(op);
    if (cursor_.skip_name("in")) return "in";
    if (cursor_.peek_name("not") && cursor_.peek(1).kind == Token::Kind::Name &&
        cursor_.peek(1).text == "in") {
      cursor_.next();
      cursor_.next();
      return "not in";
    }
    return "";
  }

  ExpressionRef comparison() {
    ExpressionRef first = sum();
    std::string op = comparison_word();
    if (op.empty()) return first;
    ExpressionRef e = make(Kind::Compare, first->line);
    e->operands.push_back(std::move(first));
    for (; !op.empty(); op = comparison_word()) {
      e->texts.push_back(op);
      e->operands.push_back(sum());
    }
    return e;
  }

  template <class Operand>
  ExpressionRef chain(std::initializer_list<std::string_view> ops, Operand operand) {
    ExpressionRef e = operand();
    while (true) {
      const auto op =
          std::find_if(ops.begin(), ops.end(), [&](std::string_view o) { return cursor_.skip(o); });
      if (op == ops.end()) return e;
      e = joined(Kind::Arithmetic, std::string(*op), std::move(e), operand());
    }
  }

  ExpressionRef sum() {
    return chain({"+", "-"}, [&] { return concatenation(); });
  }
  ExpressionRef concatenation() {
    return chain({"~"}, [&] { return product(); });
  }
  ExpressionRef product() {
    return chain({"*", "/", "//", "%"}, [&] { return power(); });
  }
  ExpressionRef power() {
    return chain({"**"}, [&] { return sign(true); });
  }

  ExpressionRef sign(bool with_filters) {
    const Depth depth(cursor_);
    ExpressionRef e;
    if (cursor_.peek_operator("-") || cursor_.peek_operator("+")) {
      const Token op = cursor_.next();
      e = make(Kind::Unary, op.line, op.text);
      e->operands.push_back(sign(false));
    } else {
      e = primary();
    }
    e = behind(std::move(e));
    return with_filters ? filters_and_tests(std::move(e)) : std::move(e);
  }

  ExpressionRef primary() {
    const Token t = cursor_.next();
    switch (t.kind) {
      case Token::Kind::Name: return name(t);
      case Token::Kind::Word: {
        std::string text = t.text;
        while (cursor_.peek().kind == Token::Kind::Word) text += cursor_.next().text;
        return literal(t.line, text);
      }
      case Token::Kind::Number: return number(t);
      case Token::Kind::Operator:
        if (t.text == "(") return round(t);
        if (t.text == "[") return list(t);
        if (t.text == "{") return dict(t);
        break;
      default: break;
    }
    refuse_at(t.line, fmt::format("a value is needed before {}", shown(t)));
  }

  static ExpressionRef name(const Token& t) {
    if (t.text == "true" || t.text == "True") return literal(t.line, true);
    if (t.text == "false" || t.text == "False") return literal(t.line, false);
    if (t.text == "none" || t.text == "None") return literal(t.line, None{});
    return make(Kind::Name, t.line, t.text);
  }

  static ExpressionRef number(const Token& t) {
    const char *begin = t.text.data(), *end = begin + t.text.size();
    if (t.text.find_first_of(".eE") != std::string::npos) {
      double v = 0;
      if (std::from_chars(begin, end, v).ec == std::errc()) return literal(t.line, v);
    } else {
      std::int64_t v = 0;
      if (std::from_chars(begin, end, v).ec == std::errc()) return literal(t.line, v);
    }
    refuse_at(t.line, fmt::format("the number {} is out of range", t.text));
  }

  ExpressionRef round(const Token& t) {
    if (cursor_.skip(")")) return make(Kind::Tuple, t.line);
    ExpressionRef e = tuple(true);
    cursor_.expect_operator(")");
    return e;
  }

  ExpressionRef list(const Token& t) {
    ExpressionRef e = make(Kind::List, t.line);
    while (!cursor_.skip("]")) {
      if (!e->operands.empty()) cursor_.expect_operator(",");
      if (cursor_.skip("]")) break;
      e->operands.push_back(condition(true));
    }
    return e;
  }

  ExpressionRef dict(const Token& t) {
    ExpressionRef e = make(Kind::Dict, t.line);
    while (!cursor_.skip("}")) {
      if (!e->operands.empty()) cursor_.expect_operator(",");
      if (cursor_.skip("}")) break;
      e->operands.push_back(condition(true));
      cursor_.expect_operator(":");
      e->operands.push_back(condition(true));
    }
    return e;
  }

  // Attributes, subscripts and calls.
  ExpressionRef behind(ExpressionRef e) {
    while (true) {
      if (cursor_.skip(".")) {
        const Token t = cursor_.next();
        if (t.kind == Token::Kind::Number) {
          e = joined(Kind::Subscript, "", std::move(e), number(t));
          continue;
        }
        if (t.kind != Token::Kind::Name)
          refuse_at(t.line, fmt::format("a name is needed before {}", shown(t)));
        ExpressionRef attribute = make(Kind::Attribute, t.line, t.text);
        attribute->operands.push_back(std::move(e));
        e = std::move(attribute);
      } else if (cursor_.skip("[")) {
        e = subscript(std::move(e));
      } else if (cursor_.peek_operator("(")) {
        ExpressionRef call = make(Kind::Call, cursor_.peek().line);
        call->arguments = arguments();
        call->operands.push_back(std::move(e));
        e = std::move(call);
      } else {
        return e;
      }
    }
  }

  ExpressionRef subscript(ExpressionRef of) {
    const int line = of->line;
    std::vector<ExpressionRef> parts(1);
    while (!cursor_.skip("]")) {
      if (cursor_.skip(":"))
        parts.emplace_back();
      else if (parts.back() == nullptr)
        parts.back() = tuple(true);
      else
        cursor_.expect_operator("]");
    }
    if (parts.size() > 3 || (parts.size() == 1 && parts[0] == nullptr))
      refuse_at(line, "a subscript is one value or a slice");
    if (parts.size() == 1) return joined(Kind::Subscript, "", std::move(of), std::move(parts[0]));
    ExpressionRef e = make(Kind::Slice, line);
    parts.resize(3);
    e->operands.push_back(std::move(of));
    for (ExpressionRef& part : parts) e->operands.push_back(std::move(part));
    return e;
  }

  std::vector<NamedExpression> arguments() {
    std::vector<NamedExpression> all;
    cursor_.expect_operator("(");
    while (!cursor_.skip(")")) {
      if (!all.empty()) cursor_.expect_operator(",");
      if (cursor_.skip(")")) break;
      if (cursor_.peek_operator("*") || cursor_.peek_operator("**"))
        refuse_at(cursor_.peek().line, "'*' before an argument is not supported in chat templates");
      const bool named = cursor_.peek().kind == Token::Kind::Name &&
                         cursor_.peek(1).kind == Token::Kind::Operator && cursor_.peek(1).text == "=";
      NamedExpression a;
      if (named) {
        a.name = cursor_.next().text;
        cursor_.next();
      } else if (!all.empty() && !all.back().name.empty()) {
        refuse_at(cursor_.peek().line, "a positional argument follows a keyword argument");
      }
      a.value = condition(true);
      all.push_back(std::move(a));
    }
    return all;
  }

  ExpressionRef filters_and_tests(ExpressionRef e) {
    while (true) {
      if (cursor_.skip("|"))
        e = filter(std::move(e));
      else if (cursor_.peek_name("is"))
        e = test(std::move(e));
      else if (cursor_.peek_operator("("))
        e = behind(std::move(e));
      else
        return e;
    }
  }

  ExpressionRef filter(ExpressionRef of) {
    const Token t = cursor_.expect(Token::Kind::Name);
    ExpressionRef e = make(Kind::Filter, t.line, t.text);
    if (of != nullptr) e->operands.push_back(std::move(of));
    if (cursor_.peek_operator("(")) e->arguments = arguments();
    return e;
  }

  ExpressionRef test(ExpressionRef of) {
    const int line = cursor_.next().line;
    const bool negated = cursor_.skip_name("not");
    ExpressionRef e = make(Kind::Test, line, cursor_.expect(Token::Kind::Name).text);
    e->operands.push_back(std::move(of));
    if (cursor_.peek_operator("(")) {
      e->arguments = arguments();
    } else if (begins_value()) {
      e->arguments.push_back({"", behind(primary())});
    }
    if (!negated) return e;
    ExpressionRef whole = make(Kind::Unary, line, "not");
    whole->operands.push_back(std::move(e));
    return whole;
  }

  // Whether a test's one argument follows without brackets: `x is divisibleby 3`.
  bool begins_value() const {
    const Token& t = cursor_.peek();
    if (t.kind == Token::Kind::Name)
      return t.text != "else" && t.text != "or" && t.text != "and" && t.text != "is" && t.text != "if" &&
             t.text != "in" && t.text != "not";
    return t.kind == Token::Kind::Word || t.kind == Token::Kind::Number || cursor_.peek_operator("[") ||
           cursor_.peek_operator("{");
  }

  Cursor& cursor_;
};

}  // namespace

Token Cursor::expect(Token::Kind kind) {
  constexpr std::string_view kWords[] = {"text",   "'{%'",     "'%}'",     "'{{'", "'}}'",
                                         "a name", "a string", "a number", "",     ""};
  if (peek().kind != kind)
    refuse_at(peek().line,
              fmt::format("{} is needed before {}", kWords[static_cast<int>(kind)], shown(peek())));
  return next();
}

void Cursor::expect_operator(std::string_view text) {
  if (!skip(text)) refuse_at(peek().line, fmt::format("'{}' is needed before {}", text, shown(peek())));
}

void Cursor::expect_name(std::string_view text) {
  if (!skip_name(text)) refuse_at(peek().line, fmt::format("'{}' is needed before {}", text, shown(peek())));
}

ExpressionRef parse_expression(Cursor& cursor, bool conditional) {
  return ExpressionParser(cursor).condition(conditional);
}
ExpressionRef parse_tuple(Cursor& cursor, bool conditional) {
  return ExpressionParser(cursor).tuple(conditional);
}
ExpressionRef parse_filters(Cursor& cursor) { return ExpressionParser(cursor).filters(); }

}  // namespace lathe::llm::jinja
