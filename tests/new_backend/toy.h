// A whole backend in one file, the worked example of docs/adding-a-backend.md: memory that the host cannot
// reach, a compiler that writes the program's text form, a device that interprets it.
#pragma once

#include "runtime/registry.h"

namespace lathe::test {

// The row that a folder under src/backends would register.
Backend toy_backend();

// Kernels launched on toy devices so far.
int toy_launches();

}  // namespace lathe::test
