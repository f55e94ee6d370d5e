// Access to elements in host memory by dtype, for reading constants, converting lists and printing tensors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/value.h"

namespace lathe {

Element load_element(DType dtype, const void* data, std::size_t i);
void store_element(DType dtype, void* data, std::size_t i, Element value);

// `count` elements of one dtype as another, by the rules of Cast.
void convert_elements(const void* from, DType from_dtype, void* to, DType to_dtype, std::size_t count);
void fill_elements(void* to, DType dtype, std::size_t count, Element value);

}  // namespace lathe
