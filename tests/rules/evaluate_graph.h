// A tiny evaluator of scalar graphs for the rule tests: leaves get values from a map, everything else comes
// from the `value` column. Shares nothing with rewriting.
#pragma once

#include "ir/build.h"
#include "ir/value.h"
#include "ir/walk.h"

namespace lathe::test {

inline Element evaluate_graph(Node root, const NodeMap<Element>& leaves) {
  NodeMap<Element> values;
  for (Node n : toposort(root)) {
    Element v;
    if (const Element* leaf = leaves.find(n))
      v = *leaf;
    else if (n.is_const())
      v = element_of(n);
    else if (n.arg_count() == 0)
      continue;  // a param below a leaf
    else if (n.is(Op::Cast))
      v = convert(n.dtype(), n.arg(0).dtype(), values[n.arg(0)]);
    else {
      Element a[3];
      for (std::size_t i = 0; i < n.arg_count(); ++i) a[i] = values[n.arg(i)];
      v = evaluate(n.op(), n.arg(n.arg_count() - 1).dtype(), a[0], a[1], a[2]);
    }
    values[n] = v;
  }
  return values[root];
}

}  // namespace lathe::test
