// How a load or store of a program accesses memory: the attribute [past, rows, pitch] of both, none for an
// ordinary access.
#pragma once

#include <cstdint>

#include "ir/node.h"

namespace lathe {

struct Access {
  // From which step of the innermost loop on its lines go past the caches (a load's past L1, a store's past
  // all of them), where something else is better kept there; -1: never.
  std::int64_t past = -1;
  // So many rows of neighbours, `pitch` elements from the first of one to the first of the next.
  std::int64_t rows = 1, pitch = 0;
  bool operator==(const Access&) const = default;
};

Access access_of(Node access);
// The same load or store, done so.
Node with_access(Node access, const Access& how);

}  // namespace lathe
