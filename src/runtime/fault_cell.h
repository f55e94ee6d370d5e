// Where a launch reports an index that is outside: one int64 of host memory that the device can write, 0
// until a check fails (ir/program.h says what it holds). Every launch of a kernel with checks has a cell of
// its own, so what it reports belongs to that launch alone; nothing is copied to hear of it, and no launch
// waits for another because of it.
#pragma once

#include <cstdint>

#include "runtime/device.h"

namespace lathe {

struct OpenDevice;

class FaultCell {
 public:
  explicit FaultCell(OpenDevice& device);
  ~FaultCell();  // nothing that writes it may be running
  FaultCell(const FaultCell&) = delete;
  FaultCell& operator=(const FaultCell&) = delete;

  // A word as the host and as the device know it.
  struct Word {
    std::int64_t* host;
    Span span;
  };

  const Span& span() const { return word_.span; }  // the kernel's argument
  std::int64_t value() const;                      // what was reported, 0 for nothing

 private:
  OpenDevice& device_;
  Word word_;
};

}  // namespace lathe
