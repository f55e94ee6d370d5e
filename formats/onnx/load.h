// The elements of a TensorProto as a value: from the model's own bytes, from its lists of numbers, or from a
// file beside the model, read where they lie.
#pragma once

#include "formats/onnx/model.h"
#include "lathe/onnx.h"

namespace lathe::onnx {

Value load_tensor(const TensorProto& tensor, const formats::Source& source, const std::string& device);
Value load_sparse(const SparseTensorProto& tensor, const formats::Source& source, const std::string& device);
// The number of elements, refused where it does not fit or where the file cannot hold them.
std::int64_t element_count(const TensorProto& tensor, const formats::Source& source);

}  // namespace lathe::onnx
