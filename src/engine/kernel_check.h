// The result of a kernel's first-use check, stored with its binary, so that a kernel is checked only once and
// not once per process.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "engine/size_kinds.h"

namespace lathe::engine {

// How LATHE_CHECK asks for kernels to be compared with REF.
enum class CheckMode : std::uint8_t {
  Off,
  First,   // until each kernel has passed
  All,     // at every launch
  Strict,  // as First, and a kernel that differs is an error: for tests, where a fallback would hide it
};
CheckMode check_mode();

// How far the check of one kind of sizes (size_kinds.h) has come.
struct SizeCheck {
  std::uint32_t next = 0;  // sampled positions that passed so far
  bool settled = false;    // nothing is left to look at
  // In this process.
  std::uint32_t checks = 0;
  std::uint32_t weak = 0;  // of them: all samples were alike
  bool left = false;       // not tried again
  double need = 0;         // what the next check must have been earned, in the units of first_use.cpp
};

struct CheckRecord {
  std::map<std::uint64_t, SizeCheck> sizes;  // by kind; of a kernel without variables the only one is 0
  std::string unchecked;                     // why it was not compared, where it could not be
  std::string replaced;  // the options of the kernel it stands for, which computed something else

  // Of a kernel without variables: nothing is left to check.
  bool settled() const;
};

// As text that is packed with the binary. What another version of the checker wrote, or one that saw another
// driver, is as good as nothing; the rest of what a kernel depends on is in its key.
std::string to_text(const CheckRecord& record, std::string_view driver);
std::optional<CheckRecord> parse_check_record(std::string_view text, std::string_view driver);

struct KernelCheck {
  // All that a launch of a kernel that passed looks at; a kernel with variables stays due, for other sizes.
  std::atomic<bool> due{true};
  std::atomic<bool> replaced{false};  // another kernel runs in its stead
  std::atomic<double> need{0};        // of a kernel without variables: SizeCheck::need
  // Of one with variables: what its kinds of sizes follow from, once that is worked out.
  std::atomic<bool> has_splits{false};
  SizeSplits splits;

  std::mutex mutex;  // of what follows, held through a check
  CheckRecord record;
  bool compared = false;   // some samples agreed, in this process
  std::mutex sizes_mutex;  // of record.sizes too, which launches look at while another is checked
};

// Kernels by how they fared, since the process began: `compared` have samples that agreed, `passed` have
// nothing left to look at.
struct CheckCounts {
  std::uint64_t compared = 0, passed = 0, weak = 0, unchecked = 0, replaced = 0;
  double seconds = 0;  // of the threads that launched them, without the launches
};
CheckCounts check_counts();

}  // namespace lathe::engine
