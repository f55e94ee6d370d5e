// Computing tensors. Realising a value that holds stores also realises every live tensor that still reads
// what the stores overwrite: the scheduler then puts those readers first.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tensor/impl.h"

namespace lathe {

// The oldest live storage; the rest follow by `after`. Under storage_mutex.
Storage* first_live_storage();

// The Buffer, or the After over one, that a value is a view of; null where it is computed.
Node memory_of(Node value);

// The buffer a value that was computed is read from; null where it must be computed.
Node buffer_held(Node value);

// A handle's chain, from the base on.
std::vector<const ViewStep*> steps_of(const std::shared_ptr<const ViewStep>& view);
// The handle's chain over another base.
Node apply_view(const std::shared_ptr<const ViewStep>& view, Node base);

// Computes the values of these storages.
void realize_storages(const std::vector<std::shared_ptr<Storage>>& wanted);

// These buffers hold something else than before: live tensors at rest in them name a new version, so that
// expressions over them are not taken for equal ones over what they held. With `plain_only`, tensors that
// take part in gradients keep theirs.
void rename_memory(std::span<const NodeRef> buffers, bool plain_only);

// The movement ops of `value`, which end at `memory`, over other memory.
Node over_memory(Node value, Node memory, Node other);

// For a tensor that is written again and again and read by others, never realized itself: its last store is
// always still to be done, and below it hang all that were done before, one deeper with every store. They are
// forgotten. Nothing but the tensor itself may read the last version yet.
void forget_done_versions(const Tensor& counter);

}  // namespace lathe
