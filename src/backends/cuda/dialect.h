// CUDA C as a dialect of the C printer: only what differs.
#pragma once

#include "render/c_text.h"

namespace lathe::backends {

const render::CDialect& cuda_c();

}  // namespace lathe::backends
