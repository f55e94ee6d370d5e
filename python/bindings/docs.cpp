// Docstrings by name, from the table that python/generate.py makes of docs.txt and the op tables.
#include <algorithm>

#include "casters.h"

namespace lathe::python {
namespace {

struct Entry {
  std::string_view name;
  const char* text;
};
constexpr Entry kDocs[] = {
    {"", ""},
#include <docs.inc>
};

}  // namespace

const char* doc(std::string_view name) {
  const Entry* found = std::lower_bound(std::begin(kDocs), std::end(kDocs), name,
                                        [](const Entry& e, std::string_view n) { return e.name < n; });
  if (found == std::end(kDocs) || found->name != name)
    throw InternalError("docs", std::string(name) + " has no docstring in docs.txt");
  return found->text;
}

}  // namespace lathe::python
