// Realizing tensors. Realizing a value with stores also realizes every live tensor that still reads what the
// stores overwrite; the scheduler then runs these readers first.
#pragma once

#include <memory>
#include <optional>
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

// The contents of these buffers changed: live tensors materialized in them refer to a new version, so that
// expressions over them are not taken for equal ones over what they held. With `plain_only`, tensors that
// take part in gradients keep theirs.
void rename_memory(std::span<const NodeRef> buffers, bool plain_only);

// Tensors that are expressions whose value was computed, and take no part in gradients, name the memory
// instead: who writes the expression again means another tensor.
void name_memory();

// The movement ops of `value`, which end at `memory`, over other memory.
Node over_memory(Node value, Node memory, Node other);

// For a tensor that is written again and again and read by others, never realized itself: its last store is
// always still to be done, and below it hang all that were done before, one deeper with every store. They are
// forgotten. Nothing but the tensor itself may read the last version yet.
void forget_done_versions(const Tensor& counter);

// The buffers that count the random numbers drawn, each the key of an entry (random.cpp).
NodeMap<char> stream_counters();

// While this thread's reads are watched (a function is being captured): the first storage and the first
// buffer that are not older than the watch (storage.cpp).
struct Watch {
  std::uint64_t first_storage = 0;
  std::int64_t first_buffer = 0;
};
std::optional<Watch> watch();

}  // namespace lathe
