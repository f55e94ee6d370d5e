// Which ops a tensor's graph is made of, before it is scheduled.
#pragma once

#include "ir/walk.h"
#include "tensor/impl.h"

namespace lathe::testing {

inline bool has(const Tensor& t, Op op) {
  Scope scope;
  for (Node n : toposort(node_of(t)))
    if (n.is(op)) return true;
  return false;
}

}  // namespace lathe::testing
