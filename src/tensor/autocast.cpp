// Mixed precision by scopes.
#include "tensor/autocast.h"

#include <fmt/format.h>

#include "lathe/modes.h"
#include "tensor/impl.h"

namespace lathe {
namespace {

thread_local std::optional<DataType> low_dtype;

// Doubles were chosen explicitly and stay; integers are not affected.
bool gives_way(DataType dtype) { return dtype.is_float() && dtype.bitsize() <= 32; }

}  // namespace

AutocastScope::AutocastScope(std::optional<DataType> dtype) : before_(low_dtype) {
  if (dtype && !gives_way(*dtype))
    throw UserError("autocast", fmt::format("{} is not a float of at most 32 bits", dtype->name()))
        .help("bfloat16 keeps the range of 32-bit floats; float16 wants a GradScaler too");
  low_dtype = dtype;
}
AutocastScope::~AutocastScope() { low_dtype = before_; }
std::optional<DataType> AutocastScope::active() { return low_dtype; }

Tensor lowered(const Tensor& x) {
  return low_dtype && gives_way(x.dtype()) && x.dtype() != *low_dtype ? x.cast(*low_dtype) : x;
}

Tensor widened(const Tensor& x) {
  return low_dtype && gives_way(x.dtype()) && x.dtype() != dtypes::float32 ? x.cast(dtypes::float32) : x;
}

}  // namespace lathe
