// Inputs for a kernel whose real ones say too little, such as zeros: random numbers in memory of their own.
// What decides which elements are read or written is copied, so that every index stays inside.
#pragma once

#include <span>
#include <vector>

#include "runtime/devices.h"
#include "runtime/executor.h"
#include "schedule/schedule.h"

namespace lathe::engine {

class MadeUp {
 public:
  MadeUp(const Step& step, OpenDevice& device, std::span<const Place> real);
  ~MadeUp();
  MadeUp(const MadeUp&) = delete;
  MadeUp& operator=(const MadeUp&) = delete;

  bool fits() const { return fits_; }  // false: too much memory, and there are no places
  std::span<const Place> places() const { return places_; }

 private:
  void fill(Node buffer, const Place& place, bool as_real, const Place& real, std::size_t slot) const;

  OpenDevice& device_;
  bool fits_ = true;
  std::vector<Place> places_;
};

}  // namespace lathe::engine
