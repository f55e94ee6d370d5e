// Values of a JSON object under one of several names, with what they are where none is there.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "lathe/error.h"

namespace lathe::llm {

using Json = nlohmann::json;

// Throws UserError that names the file and the place where it is no JSON.
inline Json read_json(const std::filesystem::path& file, std::string_view op) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw MissingFile(op, fmt::format("{} cannot be opened", file.string()));
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw UserError(op, fmt::format("{} is not JSON: {}", file.string(), error.what()));
  }
}

// The first of these keys that is there and not null.
inline const Json* find_any(const Json& json, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (const auto found = json.find(key); found != json.end() && !found->is_null()) return &*found;
  return nullptr;
}
// Throws Json::exception where the value is of another kind: a fraction is not an integer.
template <class T>
T value_of(const Json& json, std::initializer_list<const char*> keys, T fallback) {
  const Json* found = find_any(json, keys);
  if (found == nullptr) return fallback;
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    if (!found->is_number_integer())
      throw Json::type_error::create(302, fmt::format("{} is not an integer", *keys.begin()), found);
  return found->template get<T>();
}

}  // namespace lathe::llm
