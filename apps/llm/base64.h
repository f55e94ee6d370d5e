// Base64, in which tokenizer.json keeps its binary table and clients ask for embeddings.
#pragma once

#include <string>
#include <string_view>

namespace lathe::llm {

std::string base64_decoded(std::string_view text);
std::string base64_encoded(std::string_view bytes);

}  // namespace lathe::llm
