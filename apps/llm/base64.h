// Base64, in which tokenizer.json keeps its binary table.
#pragma once

#include <string>
#include <string_view>

namespace lathe::llm {

std::string base64_decoded(std::string_view text);

}  // namespace lathe::llm
