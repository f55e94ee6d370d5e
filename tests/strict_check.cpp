// Linked to every test program: a kernel that differs from REF is a failure there (LATHE_CHECK=strict),
// because a fallback would hide it. Runs before flags are read, and leaves a value that the caller set.
#include <cstdlib>

namespace {
[[gnu::constructor(101)]] void check_strictly() { setenv("LATHE_CHECK", "strict", 0); }
}  // namespace
