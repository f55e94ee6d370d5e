// Tracks which node of a buffer refers to its current content. Written memory is a new node (a new version),
// so that an expression over it differs from one over the old content. A graph built before still refers to
// the old version, and reading it now would give the wrong value.
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
