// Launches consecutive kernels of a repeated computation as one list where that is cheaper than launching
// each of them (a CUDA graph). A kernel that is checked, timed, or reports out-of-bounds indices is launched
// separately.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "engine/launch.h"

namespace lathe::engine {

// What devices remember of the lists of one computation.
struct KnownLaunches {
  std::mutex mutex;  // held by the run that uses them; others launch one by one
  std::uint64_t runs = 0;
  std::vector<std::unique_ptr<LaunchList>> lists;
};

class JoinedLaunches {
 public:
  explicit JoinedLaunches(KnownLaunches& known);

  // Takes a kernel into the list; false where it is to be launched by itself, once the list has been.
  template <class PlaceAt>
  bool take(const Step& step, const MadeKernel& made, OpenDevice& device, const ReadyKernel& kernel,
            const Grid& grid, Bindings bindings, const PlaceAt& place_at) {
    if (!device.device->joins_launches() || !may_join(step, made)) return false;
    if (device_ != nullptr && device_ != &device) submit();
    device_ = &device;
    launches_.push_back(std::make_unique<Launch>(step, device, kernel, grid, bindings, place_at));
    made_.push_back(&made);
    if (is_full()) submit();
    return true;
  }
  // Gives what was taken to the device.
  void submit();

 private:
  bool may_join(const Step& step, const MadeKernel& made) const;
  bool is_full() const;

  KnownLaunches& known_;
  std::unique_lock<std::mutex> lock_;
  bool repeated_ = false;
  std::string_view alone_;  // why every kernel is launched by itself, or ""
  std::size_t next_ = 0;    // of the known lists
  OpenDevice* device_ = nullptr;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::vector<const MadeKernel*> made_;
};

}  // namespace lathe::engine
