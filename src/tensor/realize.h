// Computing tensors. Realising a value that holds stores also realises every live tensor that still reads
// what the stores overwrite: the scheduler then puts those readers first.
#pragma once

#include <memory>
#include <vector>

#include "tensor/impl.h"

namespace lathe {

// The oldest live storage; the rest follow by `after`. Under storage_mutex.
Storage* first_live_storage();

// The Buffer, or the After over one, that a value is a view of; null where it is computed.
Node memory_of(Node value);

// The handle's chain over another base.
Node apply_view(const std::shared_ptr<const ViewStep>& view, Node base);

// Computes the values of these storages.
void realize_storages(const std::vector<std::shared_ptr<Storage>>& wanted);

// The movement ops of `value`, which end at `memory`, over other memory.
Node over_memory(Node value, Node memory, Node other);

}  // namespace lathe
