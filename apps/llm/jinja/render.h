// Runs a parsed template over its variables.
#pragma once

#include <string>

#include "apps/llm/jinja/syntax.h"

namespace lathe::llm::jinja {

std::string render(const Block& block, const Entries& globals);

}  // namespace lathe::llm::jinja
