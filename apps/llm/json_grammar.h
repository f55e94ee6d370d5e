// Grammars of JSON texts: any object, or what a JSON schema describes. The words of a schema that a grammar
// cannot keep ("pattern", "minimum") are refused, never ignored.
#pragma once

#include <string_view>

#include "apps/llm/grammar.h"

namespace lathe::llm {

struct JsonGrammar {
  Grammar grammar;
  std::size_t start = 0;
};

JsonGrammar json_object_grammar();
// Throws UserError naming what is wrong with the schema or not supported in it.
JsonGrammar json_schema_grammar(std::string_view schema);

}  // namespace lathe::llm
