// Text compared with a checked-in file. `make golden` (UPDATE_GOLDEN) writes the file instead: review the
// diff.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/atomic_file.h"
#include "test_folders.h"

namespace lathe::test {

// `path` from the top of the repository.
inline void expect_golden(const std::string& path, const std::string& text) {
  const std::string full = std::string(LATHE_SOURCE_DIR "/") + path;
  if (std::getenv("UPDATE_GOLDEN") != nullptr) write_file_atomic(full, text);
  const std::optional<std::string> want = read_file(full);
  ASSERT_TRUE(want.has_value()) << path << " is missing: make golden writes it";
  EXPECT_EQ(text, *want) << path << " differs: if the change is meant, make golden and review the diff";
}

}  // namespace lathe::test
