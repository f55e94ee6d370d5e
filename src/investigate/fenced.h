// Memory of a device with a fence on both sides, which a kernel must leave as it is: so a write outside of a
// buffer is seen and hurts nobody.
#pragma once

#include <cstddef>

#include "reference/array.h"
#include "runtime/executor.h"

namespace lathe::investigate {

class Fenced {
 public:
  Fenced(OpenDevice& device, std::size_t bytes);
  ~Fenced();
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  Place place() const;
  void fill(const reference::Array& array);
  // False where the fence was written over.
  bool read(reference::Array& array) const;

 private:
  Span whole() const;

  OpenDevice& device_;
  std::size_t bytes_;
  Memory memory_;
};

}  // namespace lathe::investigate
