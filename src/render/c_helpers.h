// Helper functions of C-family sources, as a table: a source gets exactly those it uses, each with a dtype's
// names filled in. Placeholders: $helper what is before a function, $T the type, $U its unsigned form, $s
// the dtype's short name, $f "f" for float and nothing for double, $bits the width.
#pragma once

#include <span>
#include <string_view>

namespace lathe::render {

struct CHelper {
  std::string_view name;   // lathe_<name>_<dtype>
  std::string_view needs;  // names of helpers for the same dtype, separated by spaces
  std::string_view text;
};

// Null where there is no such helper.
const CHelper* find_c_helper(std::string_view name);
std::span<const CHelper> c_helpers();

}  // namespace lathe::render
