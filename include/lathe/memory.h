// Reports which buffers are alive, on which device, and which line of the program made them.
//
//   std::puts(lathe::memory_report().c_str());
//
//   3 buffers, 24.0 MiB
//      16.0 MiB =    1 x 16.0 MiB   CPU      train.cpp:41
//       8.0 MiB =    2 x 4.0 MiB    CPU      matmul relu
//
// A buffer is named by the line that made its tensor if that is known (from a MadeAt scope or the hook of a
// language front end), else by the tensor ops that computed it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

namespace lathe {

// A place in the user's program. Its text is made only when it is shown, so creating one should be cheap.
class ProgramPlace {
 public:
  virtual ~ProgramPlace() = default;
  virtual std::string text() const = 0;
};
using PlaceRef = std::shared_ptr<const ProgramPlace>;

// A hook called for every new tensor, on the thread that makes it; it returns the program's current place or
// null. For language front ends. A null hook turns it off.
using PlaceHook = PlaceRef (*)();
void set_place_hook(PlaceHook hook);

// The place of this thread's innermost MadeAt scope, else the hook's, else null.
PlaceRef current_place();

// While it lives, tensors made on this thread are attributed to this line.
class MadeAt {
 public:
  explicit MadeAt(std::source_location here = std::source_location::current());
  explicit MadeAt(PlaceRef place);
  explicit MadeAt(std::string text);
  ~MadeAt();
  MadeAt(const MadeAt&) = delete;
  MadeAt& operator=(const MadeAt&) = delete;

 private:
  PlaceRef outer_;
};

// While it lives, this thread computes tensors that were made at these places; error messages ask for them.
class WorkFor {
 public:
  using Places = std::vector<PlaceRef> (*)(const void* whom);  // called only when an error needs them
  WorkFor(Places places, const void* whom);
  ~WorkFor();
  WorkFor(const WorkFor&) = delete;
  WorkFor& operator=(const WorkFor&) = delete;

 private:
  friend std::vector<PlaceRef> work_places();
  Places places_;
  const void* whom_;
  const WorkFor* outer_;
};
// The places of this thread's innermost WorkFor, else the current place.
std::vector<PlaceRef> work_places();

struct LiveBuffer {
  std::int64_t id = 0;
  std::string device;
  std::size_t bytes = 0;
  std::string made;  // "train.cpp:41", or empty if not known
};
// All buffers that tensors hold, largest first.
std::vector<LiveBuffer> live_buffers();

// The same as text: one line per place and size, with the number of buffers and their total.
std::string memory_report(std::size_t most_lines = 20);

}  // namespace lathe
