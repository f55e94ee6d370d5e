// What computed buffers were computed from. A value that requires no gradient gives its expression up when it
// is realized; a gradient with respect to something behind it would be zeros, and this tells that it is not.
#pragma once

#include "ir/node.h"

namespace lathe {

// `buffer` now holds the value of `expression`, which nobody keeps.
void note_given_up(Node buffer, Node expression);

// Whether `buffer` was computed from floats in `memory`, by however many steps.
bool was_computed_from(Node buffer, Node memory);

}  // namespace lathe
