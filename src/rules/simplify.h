// The rules every stage may use: index algebra, logic, integer and float identities, constant folding,
// movement of constants through reduces. `simplify` runs them all over a graph.
#pragma once

#include <span>

#include "ir/node.h"
#include "rewrite/rewriter.h"

namespace lathe {

// The tables, each also fuzzed by tests/rules.
RuleTable index_algebra();    // on Index: exact integers, no wrap-around
RuleTable compare_algebra();  // on comparisons of Index operands
RuleTable logic_algebra();    // on bool
RuleTable integer_algebra();  // on every integer dtype: only what survives wrap-around
RuleTable float_algebra();    // on floats: only what keeps NaN, infinities and signed zeros
RuleTable folding();          // constants and known bounds

const RuleSet& simplify_rules();

// The graph with all of them applied, but for what the compile changes about them.
Node simplify(Node root, const RuleChanges& changes);

}  // namespace lathe
