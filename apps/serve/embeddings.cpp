// Bodies of /v1/embeddings, and their answers.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "apps/llm/base64.h"
#include "apps/serve/parameters.h"

namespace lathe::llm::serve {
namespace {

constexpr std::size_t kMostTexts = 2048;

// Four bytes a number, the low one first.
std::string packed(const std::vector<float>& vector) {
  std::string bytes;
  for (const float x : vector) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift & 0xFFU);
  }
  return base64_encoded(bytes);
}

}  // namespace

AskedVectors asked_vectors(const Json& body, const Tokenizer& tokenizer, const std::string& model,
                           std::int64_t dim) {
  const Parameters p(body);
  AskedVectors a;
  a.model = model_of(p, model);
  const Json* input = p.find("input");
  if (input == nullptr) refuse("input is missing", "input");
  const auto is_empty = [](const Json& text) { return text == "" || text == Json::array(); };
  if (is_empty(*input) || (input->is_array() && std::any_of(input->begin(), input->end(), is_empty)))
    refuse("a text of input is empty", "input");
  a.texts = texts_of(*input, tokenizer, "input");
  if (a.texts.size() > kMostTexts)
    refuse(fmt::format("{} texts, and a request has at most {}", a.texts.size(), kMostTexts), "input");
  const std::string format = p.text("encoding_format", "float");
  if (format != "float" && format != "base64")
    refuse("encoding_format is float or base64", "encoding_format");
  a.base64 = format == "base64";
  a.dimensions = p.whole("dimensions", dim);
  if (a.dimensions < 1 || a.dimensions > dim)
    refuse(fmt::format("dimensions is {}, and the model has 1 to {}", a.dimensions, dim), "dimensions");
  return a;
}

Json answer_of(const AskedVectors& asked, std::vector<std::vector<float>> vectors) {
  Json data = Json::array();
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    std::vector<float>& vector = vectors[i];
    if (static_cast<std::size_t>(asked.dimensions) < vector.size()) {
      vector.resize(static_cast<std::size_t>(asked.dimensions));
      to_unit_length(vector);
    }
    data.push_back({{"object", "embedding"},
                    {"index", i},
                    {"embedding", asked.base64 ? Json(packed(vector)) : Json(vector)}});
    tokens += asked.texts[i].size();
  }
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", asked.model},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

}  // namespace lathe::llm::serve
