// Generated inputs for checking a kernel whose real inputs test too little, such as zeros: random numbers in
// separate memory. Data that decides which elements are accessed is copied, so that every index stays in
// bounds.
#pragma once

#include <span>
#include <vector>

#include "runtime/devices.h"
#include "runtime/executor.h"
#include "schedule/schedule.h"

namespace lathe::engine {

// For each slot, whether its contents decide which elements are read and written, how often, or under which
// condition.
std::vector<bool> deciding_slots(Node kernel, std::size_t slots);

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
