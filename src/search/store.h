// The store of tuned options, shared by all processes of a user: one small entry per kernel, keyed by
// everything the result depends on. An entry is a file that is complete or absent and has a checksum, so a
// process may be killed at any time (engine/disk_cache.h). It is separate from the cache of compiled kernels,
// which is limited in size, because the results of a search are expensive to find again.
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
