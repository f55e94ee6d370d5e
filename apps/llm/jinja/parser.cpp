// Tokens into statements. Expressions are in expressions.cpp.
#include "apps/llm/jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>

namespace lathe::llm::jinja {
namespace {

using Kind = Statement::Kind;

class StatementParser {
 public:
  explicit StatementParser(std::vector<Token> tokens) : cursor_{std::move(tokens)} {}

  Block run() {
    Block block = body({});
    return block;
  }

 private:
  // Statements up to one of these words, which is left to the caller behind its StatementBegin.
  Block body(std::initializer_list<std::string_view> ends) {
    const Depth depth(cursor_);
    Block block;
    while (true) {
      const Token token = cursor_.peek();
      switch (token.kind) {
        case Token::Kind::Text:
          cursor_.next();
          block.push_back(make(Kind::Text, token.line));
          block.back().text = token.text;
          break;
        case Token::Kind::PrintBegin:
          cursor_.next();
          block.push_back(make(Kind::Print, token.line));
          block.back().conditions.push_back(parse_tuple(cursor_));
          cursor_.expect(Token::Kind::PrintEnd);
          break;
        case Token::Kind::StatementBegin: {
          cursor_.next();
          const std::string& word = cursor_.peek().text;
          if (cursor_.peek().kind == Token::Kind::Name &&
              std::find(ends.begin(), ends.end(), word) != ends.end())
            return block;
          statement(block);
          break;
        }
        default:
          if (ends.size() != 0)
            refuse_at(token.line,
                      fmt::format("the template ends where '{{% {} %}}' is needed", *(ends.end() - 1)));
          return block;
      }
    }
  }

  static Statement make(Kind kind, int line) { return {kind, line, "", "", {}, {}, {}, {}}; }

  void end_tag() { cursor_.expect(Token::Kind::StatementEnd); }
  void end_word(std::string_view word) {
    cursor_.expect_name(word);
    end_tag();
  }

  void statement(Block& block) {
    const Token word = cursor_.expect(Token::Kind::Name);
    Statement s = make(Kind::Text, word.line);
    if (word.text == "if")
      conditional(s);
    else if (word.text == "for")
      loop(s);
    else if (word.text == "set")
      assignment(s);
    else if (word.text == "macro")
      macro(s);
    else if (word.text == "call")
      call_block(s);
    else if (word.text == "filter")
      filter_block(s);
    else if (word.text == "with")
      with(s);
    else if (word.text == "generation")
      scope(s);
    else if (word.text == "break" || word.text == "continue")
      leave(s, word);
    else
      unknown(word);
    block.push_back(std::move(s));
  }

  [[noreturn]] static void unknown(const Token& word) {
    for (const std::string_view known :
         {"extends", "block", "include", "import", "from", "do", "autoescape", "trans"})
      if (word.text == known)
        refuse_at(word.line, fmt::format("'{}' is not supported in chat templates", word.text));
    refuse_at(word.line, fmt::format("unknown statement '{}'", word.text));
  }

  void conditional(Statement& s) {
    s.kind = Kind::If;
    s.conditions.push_back(parse_tuple(cursor_));
    end_tag();
    while (true) {
      s.bodies.push_back(body({"elif", "else", "endif"}));
      if (cursor_.skip_name("elif")) {
        if (s.bodies.size() > s.conditions.size()) refuse_at(s.line, "elif after else");
        s.conditions.push_back(parse_tuple(cursor_));
        end_tag();
      } else if (cursor_.skip_name("else")) {
        end_tag();
        s.bodies.push_back(body({"endif"}));
        return end_word("endif");
      } else {
        return end_word("endif");
      }
    }
  }

  void loop(Statement& s) {
    s.kind = Kind::For;
    s.names = targets();
    cursor_.expect_name("in");
    s.conditions.push_back(parse_tuple(cursor_, false));
    s.conditions.push_back(cursor_.skip_name("if") ? parse_expression(cursor_) : nullptr);
    if (cursor_.peek_name("recursive"))
      refuse_at(s.line, "a recursive loop is not supported in chat templates");
    end_tag();
    ++loops_;
    s.bodies.push_back(body({"else", "endfor"}));
    --loops_;
    if (cursor_.skip_name("else")) {
      end_tag();
      s.bodies.push_back(body({"endfor"}));
    }
    end_word("endfor");
  }

  std::vector<std::string> targets() {
    const bool round = cursor_.skip("(");
    std::vector<std::string> names;
    do names.push_back(cursor_.expect(Token::Kind::Name).text);
    while (cursor_.skip(",") && cursor_.peek().kind == Token::Kind::Name && !cursor_.peek_name("in"));
    if (round) cursor_.expect_operator(")");
    return names;
  }

  void assignment(Statement& s) {
    s.kind = Kind::Set;
    s.names = targets();
    if (s.names.size() == 1 && cursor_.skip(".")) s.attribute = cursor_.expect(Token::Kind::Name).text;
    if (cursor_.skip("=")) {
      s.conditions.push_back(parse_tuple(cursor_));
      return end_tag();
    }
    if (s.names.size() != 1) refuse_at(s.line, "a block can be set to one name");
    s.kind = Kind::SetBlock;
    s.conditions.push_back(cursor_.peek_operator("|") ? parse_filters(cursor_) : nullptr);
    end_tag();
    s.bodies.push_back(body({"endset"}));
    end_word("endset");
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> all;
    cursor_.expect_operator("(");
    while (!cursor_.skip(")")) {
      if (!all.empty()) cursor_.expect_operator(",");
      if (cursor_.skip(")")) break;
      Parameter p{cursor_.expect(Token::Kind::Name).text, nullptr};
      if (cursor_.skip("=")) p.initial = parse_expression(cursor_);
      all.push_back(std::move(p));
    }
    return all;
  }

  // A body in which no loop of the outside can be left.
  Block closed_body(std::string_view end) {
    const int outer = std::exchange(loops_, 0);
    Block block = body({end});
    loops_ = outer;
    end_word(end);
    return block;
  }

  void macro(Statement& s) {
    s.kind = Kind::Macro;
    s.text = cursor_.expect(Token::Kind::Name).text;
    s.parameters = parameters();
    end_tag();
    s.bodies.push_back(closed_body("endmacro"));
  }

  void call_block(Statement& s) {
    s.kind = Kind::CallBlock;
    if (cursor_.peek_operator("(")) s.parameters = parameters();
    s.conditions.push_back(parse_expression(cursor_));
    if (s.conditions[0]->kind != Expression::Kind::Call)
      refuse_at(s.line, "'call' needs the call of a macro");
    end_tag();
    s.bodies.push_back(closed_body("endcall"));
  }

  void filter_block(Statement& s) {
    s.kind = Kind::Filter;
    s.conditions.push_back(parse_filters(cursor_));
    end_tag();
    s.bodies.push_back(body({"endfilter"}));
    end_word("endfilter");
  }

  void with(Statement& s) {
    s.kind = Kind::With;
    while (cursor_.peek().kind == Token::Kind::Name) {
      Parameter p{cursor_.next().text, nullptr};
      cursor_.expect_operator("=");
      p.initial = parse_expression(cursor_);
      s.parameters.push_back(std::move(p));
      if (!cursor_.skip(",")) break;
    }
    end_tag();
    s.bodies.push_back(body({"endwith"}));
    end_word("endwith");
  }

  // Marks what the assistant said, for training; it is printed as if it stood alone.
  void scope(Statement& s) {
    s.kind = Kind::Scope;
    end_tag();
    s.bodies.push_back(body({"endgeneration"}));
    end_word("endgeneration");
  }

  void leave(Statement& s, const Token& word) {
    if (loops_ == 0) refuse_at(word.line, fmt::format("'{}' outside of a loop", word.text));
    s.kind = word.text == "break" ? Kind::Break : Kind::Continue;
    end_tag();
  }

  Cursor cursor_;
  int loops_ = 0;
};

}  // namespace

Block parse(std::string_view source) { return StatementParser(tokens_of(source)).run(); }

}  // namespace lathe::llm::jinja
