// A tuple reduce whose components run over different ranges: what all of them share stays outside, the
// further ranges of a component stand below the fold's loop, and the component is an array over them. So what
// the components share is computed once a step, not once for each position of the widest component.
//
//   before   i: d: Fold(m(i), o(i, d); k)
//   after    i: { o[d'] = init;  k: { m' = ..;  d'': o[d''] = step(m, m', o[d'']);  m = m' };  d: .. o[d] ..
//   }
#pragma once

#include "ir/node.h"

namespace lathe {

Node place_folds(Node kernel);

}  // namespace lathe
