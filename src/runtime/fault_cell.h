// The cell in which a launch reports an index out of bounds: an int64 of host memory that the device can
// write, 0 until a check fails (ir/program.h defines its content). Every launch of a kernel with checks has
// its own cell, so a report belongs to one launch; nothing is copied to read it, and no launch waits for
// another because of it.
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
