// What memory is held, on which device, and which line of the program made it.
//
//   std::puts(lathe::memory_report().c_str());
//
//   3 buffers, 24.0 MiB
//      16.0 MiB =    1 x 16.0 MiB   CPU      train.cpp:41
//       8.0 MiB =    2 x 4.0 MiB    CPU      matmul relu
//
// A buffer is named by the line that made its tensor where somebody says it (a MadeAt scope, or the hook of a
// language front end), else by the tensor ops it is the result of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

namespace lathe {

// A place in the user's program. It is put into words only when it is shown, so making one should cost
// little.
class ProgramPlace {
 public:
  virtual ~ProgramPlace() = default;
  virtual std::string text() const = 0;
};
using PlaceRef = std::shared_ptr<const ProgramPlace>;

// Asked for every tensor that is made, on the thread that makes it: where is the program now? For language
// front ends; null turns it off, and a hook may return null.
using PlaceHook = PlaceRef (*)();
void set_place_hook(PlaceHook hook);

// The place of the innermost MadeAt scope of this thread, else what the hook says, else null.
PlaceRef current_place();

// Tensors made on this thread while it lives belong to this line.
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

// What this thread computes while it lives is for tensors that belong to these lines; they are asked for
// where something goes wrong.
class WorkFor {
 public:
  using Places = std::vector<PlaceRef> (*)(const void* whom);
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
// Those of the innermost WorkFor of this thread, else the current place.
std::vector<PlaceRef> work_places();

struct LiveBuffer {
  std::int64_t id = 0;
  std::string device;
  std::size_t bytes = 0;
  std::string made;  // "train.cpp:41", or empty if nobody said
};
// All memory that tensors hold, largest first.
std::vector<LiveBuffer> live_buffers();

// The same for people: one line per place and size, with the number of buffers and the sum.
std::string memory_report(std::size_t most_lines = 20);

}  // namespace lathe
