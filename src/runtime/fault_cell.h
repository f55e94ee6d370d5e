// Where kernels report an index that is outside: one int64 of host memory that the device can write, 0 until
// a check fails (ir/program.h says what it holds). A kernel that is loaded on a device has one cell there,
// for all its launches; so nothing is copied to hear of a fault, and no launch waits for another because of
// it.
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
  // What was reported since the last call, 0 for nothing.
  std::int64_t take();

 private:
  OpenDevice& device_;
  Word word_;
};

}  // namespace lathe
