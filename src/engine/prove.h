// Proves before lowering that every access of a kernel is in bounds, and guards the accesses where it cannot.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ir/node.h"
#include "lathe/options.h"
#include "pipeline/compile.h"

namespace lathe::engine {

// How accesses were shown to stay inside their memory.
struct ProofCounts {
  std::uint64_t by_interval = 0, by_solver = 0, guarded = 0;
};

// The kernel to lower in its stead; counts are added to. Throws InternalError where an access leaves its
// memory whatever the variables are. With LATHE_VERIFY the kernel with its options is proved too.
Node prove_accesses(Node kernel, std::span<const Opt> options, const std::string& name,
                    const Compile& compile, ProofCounts& counts);

}  // namespace lathe::engine
