// Stores that go past the caches. A result larger than the last cache is not there any more when someone
// reads it, and an ordinary store first reads the line it writes: a third of the traffic of a copy for
// nothing. They are stores of whole cache lines, in one or several instructions per line, to params that are
// larger than the last cache and that the program does not read.
//
//   before   Store.void (p, i, x)
//   after    Store.void [0] (p, i, x)
//
// Such a store has to be aligned. Where in memory a param begins is known at the launch: what prints one asks
// then, and stores as usual where it is no multiple of a line.
#pragma once

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

Program stream_stores(Program program, const Target& target);

}  // namespace lathe
