// A kernel as a file for people and tools: its name, the options it was made with and where they came from,
// its graph and its source. LATHE_SAVE writes these, and so does a search for a candidate that failed.
#pragma once

#include <string>

#include "ir/node.h"
#include "lathe/options.h"

namespace lathe::search {

struct KernelText {
  std::string name, options_from, source;  // the source is empty where the file has none
  std::vector<Opt> options;
  NodeRef kernel;
};

// Throws UserError naming the file and what is missing in it.
KernelText read_kernel_file(const std::string& path);
// The same of what such a file holds; `name` is what errors call it.
KernelText read_kernel_text(const std::string& text, const std::string& name);

}  // namespace lathe::search
