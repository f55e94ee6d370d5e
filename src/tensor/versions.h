// Which names of a buffer stand for what it holds now. Memory that was written has another name from then on,
// so that an expression over it is not taken for an equal one over what it held before; a graph that was
// built before still has the old name, and reading it would give something else than it says.
#pragma once

#include "ir/node.h"

namespace lathe {

// A name for what the buffer holds: an After, already marked as done, whose effect is an empty buffer: its id
// is identity and not structure, so the order of operands is the same for every version. Where it was
// written, `was` is the store, and only names of that version are valid any more; else the buffer has one
// more name.
Node new_version_name(Node buffer, Node was, bool written);

// The version this After makes was just stored.
void note_written(Node memory);

// Whether a Buffer, or an After that was done, names something that was overwritten since.
bool is_overwritten(Node memory);

}  // namespace lathe
