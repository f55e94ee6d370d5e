// The whole contract of a backend: a Compiler (program to binary, needs no device) and a Device (memory,
// queues, launching). Only the executor decides the order of work: it fills `after`, and a device follows it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/program.h"
#include "target/target.h"

namespace lathe {

// What a compiler made: loadable bytes, and the text they came from (shown at LATHE_DEBUG=4, saved with
// errors).
struct Binary {
  std::string entry;  // symbol to call
  std::string bytes;  // object file, cubin, or the text itself
  std::string source;
};

// Told how many of several things are done, after each.
using Counted = std::function<void(std::size_t done)>;

struct Compiler {
  virtual ~Compiler() = default;
  virtual const Target& target() const = 0;
  // Name and version of what turns text into code: part of every cache key.
  virtual std::string version() const = 0;
  // Throws CompileError carrying the source.
  virtual Binary compile(const Program& program) const = 0;
  // Several programs at once where that is quicker (one vendor-compiler run); by default one after the other.
  virtual std::vector<Binary> compile_all(std::span<const Program> programs, const Counted& told = {}) const;
};

// Memory of a device: `host` is set where the CPU can reach it directly.
struct Memory {
  std::uintptr_t handle = 0;
  std::size_t bytes = 0;
  void* host = nullptr;
};
struct Span {
  Memory memory;
  std::size_t offset = 0, bytes = 0;
};

// A point in a queue's work; value 0 has always happened. Values of one queue only grow. `queue` is a number
// that no other queue of any device of the same backend has (say, device index * queues a device + queue), so
// that virtual devices can wait for each other's work.
struct Event {
  int queue = 0;
  std::uint64_t value = 0;
};
using Queue =
    int;  // index of a queue of one device, 0 .. queues()-1; work of one queue runs in the order given

inline constexpr Queue kMainQueue = 0;  // every device has it; what asks for no other queue goes there

struct Grid {
  std::array<std::int64_t, 3> groups{1, 1, 1}, locals{1, 1, 1};
  std::int64_t threads = 1;
  std::int64_t shared_bytes = 0;
};
struct Arg {
  enum class Kind : std::uint8_t { Span, Int } kind = Kind::Int;
  Span span;
  std::int64_t value = 0;
};

struct Kernel {
  virtual ~Kernel() = default;
};

// One of several launches that are given together, and what a device remembers of such a list for the next
// time.
struct LaunchCall {
  Kernel* kernel = nullptr;
  Grid grid;
  std::span<const Arg> args;
};
struct LaunchList {
  virtual ~LaunchList() = default;
};

// Keeps imported host memory alive until the device frees it.
using Owner = std::function<void()>;

// `copy`, `launch` and `launch_all` are called by one thread at a time, the others by any thread at any time.
class Device {
 public:
  virtual ~Device() = default;
  virtual Memory alloc(std::size_t bytes) = 0;  // throws OutOfMemory
  // From now on this many bytes of it are a buffer's: for memory that is only there when it is asked for.
  virtual void begin_use(const Memory&, std::size_t) {}
  virtual Memory import(void* data, std::size_t bytes, Owner owner) = 0;  // no copy
  virtual void free(Memory memory) = 0;
  virtual std::unique_ptr<Kernel> load(const Binary& binary) = 0;
  // Memory of its own that a launch of so many parts works in, beside its buffers: that of the parts which
  // run at once. It stays for later launches, which use the same.
  virtual std::size_t scratch_bytes(const Kernel&, std::int64_t /*parts*/) const { return 0; }
  // Copies between host pointers (Memory with only `host` set) and memory of this device, or within it, or
  // from and to memory of a device it reaches. `after` holds events of this device or others of the same
  // backend; for other backends the executor waits itself.
  virtual Event copy(Queue queue, Span to, Span from, std::span<const Event> after) = 0;
  virtual Event launch(Queue queue, Kernel& kernel, const Grid& grid, std::span<const Arg> args,
                       std::span<const Event> after) = 0;
  // copy and launch may leave work that need not wait to the thread that called them, so that it runs while
  // the executor holds no lock: that thread calls this next, with the event it was given.
  virtual void run_left(Event) {}
  // Launches them one after the other as one work. `known` belongs to the list and is the device's to set:
  // null at first, and then what it was left as by the same list, whose args may have changed since.
  virtual Event launch_all(Queue queue, std::span<const LaunchCall> calls, std::unique_ptr<LaunchList>& known,
                           std::span<const Event> after);
  // Whether that costs less than launching each of them.
  virtual bool joins_launches() const { return false; }
  // Returns when the event has happened; throws DeviceError if work of that queue failed.
  virtual void wait(Event event) = 0;
  // From the start of the work of `from` to the end of the work of `to`: (e, e) is one kernel's own time.
  // Both have happened. Only work given after set_timing(true) need be timed; 0 where it was not.
  virtual double elapsed_ns(Event from, Event to) = 0;

  // What not every device has.
  virtual bool computes() const {
    return true;
  }  // false: launches do nothing, so there is nothing to compare
  virtual std::string driver() const {
    return "";
  }  // name and version of what runs kernels, beside the binary
  virtual void set_timing(bool on) { static_cast<void>(on); }
  virtual int queues() const { return 1; }
  // Whether `copy` can take spans of the other device's memory. Memory with `host` set is always reached.
  virtual bool reaches(const Device& other) const { return this == &other; }
  // Whether its name still means this device: another file may have taken a path since.
  virtual bool is_current() const { return true; }
};

}  // namespace lathe
