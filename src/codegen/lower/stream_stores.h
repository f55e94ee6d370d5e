// Chooses streaming stores, which bypass the caches. A result larger than the last-level cache is evicted
// before it is read again, and an ordinary store first reads the line it writes, which is a third of a copy's
// traffic. Streaming stores must cover whole cache lines, in one or several instructions per line, of params
// that are larger than the last-level cache and that the program does not read.
//
//   before   Store.void (p, i, x)
//   after    Store.void [0] (p, i, x)
//
// Such a store must be aligned. The address of a param is only known at the launch, so the printed code tests
// it and uses an ordinary store if it is not a multiple of the cache line.
#pragma once

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

Program stream_stores(Program program, const Target& target);

}  // namespace lathe
