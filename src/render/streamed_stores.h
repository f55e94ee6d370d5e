// Stores that go past the caches. A result larger than the last cache is not there any more when someone
// reads it, and an ordinary store first reads the line it writes: a third of the traffic of a copy for
// nothing.
#pragma once

#include <vector>

#include "ir/program.h"
#include "ir/walk.h"
#include "target/cache_line.h"
#include "target/target.h"

namespace lathe::render {

struct StreamedStores {
  std::vector<std::size_t> params;  // numbers of those that are written so, in order
  NodeMap<char> stores;
};

// Stores of whole cache lines, one or several instructions a line, to params that are larger than the last
// cache and that the program does not read. Where in memory a param begins is known at the launch: whoever
// prints such a store asks then whether it is a multiple of kLineBytes, which they have to be aligned to.
StreamedStores streamed_stores(const Program& program, const Target& target);

}  // namespace lathe::render
