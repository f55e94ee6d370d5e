// What searches found, for all processes of a user: one small entry for each kernel, found by everything the
// answer depends on. An entry is a file that is whole or absent and carries a checksum, so a process may be
// killed at any moment (engine/disk_cache.h). It has a folder of its own beside the compiled kernels, which
// are dropped when they grow too many; what took a search to find is not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/kernels.h"
#include "lathe/options.h"
#include "runtime/devices.h"

namespace lathe::search {

struct Tuned {
  std::vector<Opt> options;
  bool is_default = false;  // nothing better was found
  double default_ns = 0, best_ns = 0;
  double seconds = 0;  // spent on the search
};

// The kernel, the chip with all its facts, the version of the code generator and of the machine's compiler,
// and the flags that change what is generated.
std::string store_key(Node kernel, const OpenDevice& device);

// Where there is no cache (LATHE_CACHE=off), for this process only.
std::optional<Tuned> find_tuned(const std::string& key);
void keep_tuned(const std::string& key, const Tuned& tuned);
// The folder the entries are in, or empty.
std::string store_folder();

}  // namespace lathe::search
