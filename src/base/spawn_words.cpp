#include "base/spawn_words.h"

#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace lathe {

std::vector<std::string> environment_with(const EnvironmentChanges& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool changed = std::any_of(changes.begin(), changes.end(), [&](const auto& change) {
      return text.substr(0, text.find('=')) == change.first;
    });
    if (!changed) all.emplace_back(text);
  }
  for (const auto& [name, value] : changes)
    if (!value.empty()) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> word_pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace lathe
