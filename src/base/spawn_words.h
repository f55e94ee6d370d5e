// The arguments and the environment of a child process, in the form that posix_spawn takes.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lathe {

using EnvironmentChanges = std::vector<std::pair<std::string, std::string>>;

// This process's environment with some variables changed; an empty value takes one away.
std::vector<std::string> environment_with(const EnvironmentChanges& changes);

// The texts as a list that ends in null, which is good as long as they are.
std::vector<char*> word_pointers(std::vector<std::string>& texts);

}  // namespace lathe
