// A place in the tokens, and the parser of expressions that statements use.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/llm/jinja/syntax.h"

namespace lathe::llm::jinja {

class Cursor {
 public:
  explicit Cursor(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }

  bool peek_operator(std::string_view text) const { return is(Token::Kind::Operator, text); }
  bool peek_name(std::string_view text) const { return is(Token::Kind::Name, text); }
  bool skip(std::string_view text) { return peek_operator(text) && (next(), true); }
  bool skip_name(std::string_view text) { return peek_name(text) && (next(), true); }
  Token expect(Token::Kind kind);
  void expect_operator(std::string_view text);
  void expect_name(std::string_view text);

  int depth = 0;  // of the tree below this place

 private:
  bool is(Token::Kind kind, std::string_view text) const {
    return peek().kind == kind && peek().text == text;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

// Trees are walked by recursion, so a template cannot make one of any depth.
class Depth {
 public:
  explicit Depth(Cursor& cursor) : cursor_(cursor) {
    if (++cursor_.depth > 200) refuse_at(cursor_.peek().line, "the template is nested too deeply");
  }
  ~Depth() { --cursor_.depth; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  Cursor& cursor_;
};

ExpressionRef parse_expression(Cursor& cursor, bool conditional = true);
// Several with commas between them are a tuple.
ExpressionRef parse_tuple(Cursor& cursor, bool conditional = true);
// "name | name(...)" or "| name": filters of what a block prints.
ExpressionRef parse_filters(Cursor& cursor);

}  // namespace lathe::llm::jinja
