// What a template's text becomes: tokens, then a tree. Every token and node keeps its line for errors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/llm/jinja/value.h"

namespace lathe::llm::jinja {

struct Token {
  enum class Kind : std::uint8_t {
    Text,
    StatementBegin,
    StatementEnd,
    PrintBegin,
    PrintEnd,
    Name,
    Word,
    Number,
    Operator,
    End
  };
  Kind kind;  // Word is a quoted string
  std::string text;
  int line;
};

// Text outside of tags comes with its whitespace control done, as chat templates expect it: the line break
// behind a statement and the spaces before one that begins a line are left out.
std::vector<Token> tokens_of(std::string_view source);

[[noreturn]] void refuse_at(int line, std::string_view message);

struct Expression;
using ExpressionRef = std::unique_ptr<Expression>;

struct NamedExpression {
  std::string name;  // empty: by position
  ExpressionRef value;
};

struct Expression {
  enum class Kind : std::uint8_t {
    Literal,
    Name,
    List,
    Tuple,
    Dict,        // operands: keys and values in turn
    Attribute,   // operands[0].text
    Subscript,   // operands[0][operands[1]]
    Slice,       // operands[0][operands[1]:operands[2]:operands[3]], each may be null
    Call,        // operands[0](arguments)
    Filter,      // operands[0] | text(arguments); without operands: of a block
    Test,        // operands[0] is text(arguments)
    Unary,       // text is "-", "+" or "not"
    Arithmetic,  // text is the operator
    And,
    Or,
    Compare,     // operands[0] texts[0] operands[1] texts[1] ...
    Conditional  // operands: condition, yes, no (may be null)
  };
  Kind kind;
  int line;
  std::string text;
  Value value;
  std::vector<ExpressionRef> operands;
  std::vector<NamedExpression> arguments;
  std::vector<std::string> texts;
};

struct Statement;
using Block = std::vector<Statement>;

// `name = value` of a set, a parameter of a macro.
struct Parameter {
  std::string name;
  ExpressionRef initial;  // null: none
};

struct Statement {
  enum class Kind : std::uint8_t {
    Text,
    Print,
    If,         // bodies[i] where conditions[i]; one more body is `else`
    For,        // names over conditions[0], where conditions[1] (may be null); bodies: each, none
    Set,        // names = conditions[0]; with `attribute`: names[0].attribute
    SetBlock,   // names[0] = what bodies[0] prints through the filters of conditions[0] (may be null)
    Macro,      // text(parameters) prints bodies[0]
    CallBlock,  // conditions[0] is a call that sees bodies[0] as caller(parameters)
    Filter,     // what bodies[0] prints, through conditions[0]
    With,       // parameters for bodies[0]
    Scope,      // bodies[0], printed as it is
    Break,
    Continue
  };
  Kind kind;
  int line;
  std::string text, attribute;
  std::vector<std::string> names;
  std::vector<ExpressionRef> conditions;
  std::vector<Parameter> parameters;
  std::vector<Block> bodies;
};

Block parse(std::string_view source);

}  // namespace lathe::llm::jinja
