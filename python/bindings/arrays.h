// Values of other libraries as tensors: nested lists, numpy and DLPack arrays, bytes.
#pragma once

#include "casters.h"

namespace lathe::python {

// A nested list or tuple of numbers (or of tensors and arrays, which are stacked).
Tensor from_list(nb::handle list, const TensorOptions& options);

// An array of another library: anything with DLPack or the buffer protocol. Without `share` it is copied;
// with it the tensor reads and writes the array's own memory, which must be in row-major order. None if it is
// no array.
std::optional<Tensor> from_array(nb::handle array, const TensorOptions& options, bool share);

// Whatever Tensor(...) takes.
Tensor make_tensor(nb::handle data, const TensorOptions& options);

// Drops a reference from any thread, soon.
void drop_later(PyObject* object);

}  // namespace lathe::python
