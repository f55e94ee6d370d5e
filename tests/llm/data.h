// Real tokenizers and models: the folder beside the checkout, or LATHE_TEST_DATA. Where it is absent a test
// that needs it skips.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "test_folders.h"

namespace lathe::tests {

inline std::filesystem::path test_data() {
  const char* set = std::getenv("LATHE_TEST_DATA");
  return set != nullptr ? std::filesystem::path(set)
                        : std::filesystem::path(LATHE_SOURCE_DIR).parent_path() / "shared" / "data";
}

inline std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

#define LATHE_NEEDS_DATA(path)                                      \
  if (!std::filesystem::exists(lathe::tests::test_data() / (path))) \
  GTEST_SKIP() << (lathe::tests::test_data() / (path))              \
               << " is not here; LATHE_TEST_DATA names the folder that holds it"

}  // namespace lathe::tests
