// A tuple reduce whose components run over different ranges: the ranges that all of them share stay outside,
// the further ranges of a component are moved inside the fold's loop, and the component becomes an array over
// them. So shared values are computed once per step, not once per position of the widest component.
//
//   before   i: d: Fold(m(i), o(i, d); k)
//   after    i: { o[d'] = init;  k: { m' = ..;  d'': o[d''] = step(m, m', o[d'']);  m = m' };  d: ..o[d].. }
#pragma once

#include "ir/node.h"

namespace lathe {

Node place_folds(Node kernel);

}  // namespace lathe
