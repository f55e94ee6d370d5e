#include "backends/cpu/cpu_device.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/cpu/loader.h"
#include "backends/cpu/queue.h"
#include "base/error.h"
#include "base/small_vector.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "runtime/imports.h"

namespace lathe::backends {
namespace {

constexpr std::size_t kAlignment = 64, kHugePage = std::size_t{2} << 20, kHugeFrom = std::size_t{2} << 20;
constexpr std::size_t kCopyPiece = std::size_t{4}
                                   << 20;  // copies are cut into pieces of this size for the pool

// Memory of one thread for kernels with large arrays inside; grows, and goes with the thread.
struct Scratch {
  char* data = nullptr;
  std::size_t bytes = 0;
  ~Scratch() { std::free(data); }
  static std::size_t rounded(std::size_t wanted) { return (wanted + kHugePage - 1) / kHugePage * kHugePage; }
  char* at_least(std::size_t wanted) {
    if (wanted <= bytes) return data;
    std::free(data);
    bytes = rounded(wanted);
    data = static_cast<char*>(std::aligned_alloc(kHugePage, bytes));
    if (data == nullptr) {
      bytes = 0;
      throw OutOfMemory("CPU", fmt::format("no {} of scratch memory for a kernel", human_bytes(wanted)));
    }
    madvise(data, bytes, MADV_HUGEPAGE);  // a wish: panels are walked over again and again
    return data;
  }
};
thread_local Scratch scratch;

char* pointer(const Span& span) { return static_cast<char*>(span.memory.host) + span.offset; }

struct LaunchArguments {
  SmallVector<void*, 16> buffers;
  SmallVector<std::int64_t, 8> variables;

  void set(std::span<const Arg> args) {
    buffers.clear();
    variables.clear();
    for (const Arg& arg : args) {
      if (arg.kind == Arg::Kind::Span)
        buffers.push_back(pointer(arg.span));
      else
        variables.push_back(arg.value);
    }
  }
};

void run_kernel(const CpuKernel& kernel, std::int64_t threads, LaunchArguments& arguments) {
  const auto run = [&](std::int64_t part) {
    char* own =
        kernel.scratch_bytes > 0 ? scratch.at_least(static_cast<std::size_t>(kernel.scratch_bytes)) : nullptr;
    kernel.function(arguments.buffers.data(), arguments.variables.data(), part, own);
  };
  if (threads == 1)
    run(0);
  else
    ThreadPool::shared().parallel_for(threads, run);
}

void copy_bytes(char* to, const char* from, std::size_t bytes) {
  bool apart = to + bytes <= from || from + bytes <= to;
  if (!apart || bytes < 2 * kCopyPiece) {
    std::memmove(to, from, bytes);
    return;
  }
  auto pieces = static_cast<std::int64_t>((bytes + kCopyPiece - 1) / kCopyPiece);
  ThreadPool::shared().parallel_for(pieces, [&](std::int64_t piece) {
    std::size_t begin = static_cast<std::size_t>(piece) * kCopyPiece;
    std::memcpy(to + begin, from + begin, std::min(kCopyPiece, bytes - begin));
  });
}

// A kernel or, where there is none, a copy.
struct Work {
  const CpuKernel* kernel = nullptr;
  std::int64_t threads = 1;
  LaunchArguments arguments;
  char* to = nullptr;
  const char* from = nullptr;
  std::size_t bytes = 0;

  void run() {
    if (kernel != nullptr)
      run_kernel(*kernel, threads, arguments);
    else
      copy_bytes(to, from, bytes);
  }
};

// Work whose turn it is, left to the thread that gave it. Value 0: none.
struct LeftWork {
  Event event;
  bool timed = false;
  Work work;
};
thread_local LeftWork left;

void run_what_is_left() {
  if (left.event.value == 0) return;
  const Event event = std::exchange(left.event, {});
  CpuQueue& line = CpuQueue::numbered(event.queue);
  const std::int64_t start = left.timed ? now_ns() : 0;
  try {
    left.work.run();
  } catch (...) {
    line.end_now(event.value, false, 0);
    throw;
  }
  line.end_now(event.value, left.timed, start);
}

// More than the machine has would only be noticed when it is touched, and then the process is killed.
bool more_than_machine(std::size_t bytes) {
  struct sysinfo machine{};
  if (sysinfo(&machine) != 0) return false;
  return bytes / machine.mem_unit >= machine.totalram + machine.totalswap;
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(int index) : first_queue_(index * kQueuesPerDevice) {}

  Memory alloc(std::size_t bytes) override {
    std::size_t alignment = bytes >= kHugeFrom ? kHugePage : kAlignment;
    if (more_than_machine(bytes)) throw out_of_memory(bytes);
    std::size_t rounded = std::max<std::size_t>((bytes + alignment - 1) / alignment * alignment, alignment);
    void* data = std::aligned_alloc(alignment, rounded);
    if (data == nullptr) throw out_of_memory(bytes);
    if (alignment == kHugePage) madvise(data, rounded, MADV_HUGEPAGE);  // a wish: refusal only costs speed
    return {reinterpret_cast<std::uintptr_t>(data), bytes, data};
  }

  Memory import(void* data, std::size_t bytes, Owner owner) override {
    return imports_.add(data, bytes, std::move(owner));
  }

  void free(Memory memory) override {
    if (!Imports::has_own_handle(memory)) {
      std::free(reinterpret_cast<void*>(memory.handle));
    } else if (Owner owner = imports_.take(memory.handle)) {
      owner();
    }
  }

  std::unique_ptr<Kernel> load(const Binary& binary) override { return load_kernel(binary); }

  std::size_t scratch_bytes(const Kernel& kernel, std::int64_t parts) const override {
    const auto wanted = static_cast<std::size_t>(static_cast<const CpuKernel&>(kernel).scratch_bytes);
    if (wanted == 0) return 0;
    const std::int64_t at_once = std::min<std::int64_t>(parts, ThreadPool::shared().threads());
    return Scratch::rounded(wanted) * static_cast<std::size_t>(std::max<std::int64_t>(at_once, 1));
  }

  Event copy(Queue queue, Span to, Span from, std::span<const Event> after) override {
    check_internal(to.memory.host != nullptr && from.memory.host != nullptr, "CPU",
                   "a copy the host cannot reach");
    return submit(queue, after, [&](Work& work) {
      work.kernel = nullptr;
      work.to = pointer(to);
      work.from = pointer(from);
      work.bytes = to.bytes;
    });
  }

  Event launch(Queue queue, Kernel& kernel, const Grid& grid, std::span<const Arg> args,
               std::span<const Event> after) override {
    return submit(queue, after, [&](Work& work) {
      work.kernel = static_cast<const CpuKernel*>(&kernel);
      work.threads = grid.threads;
      work.arguments.set(args);
    });
  }

  void run_left(Event event) override {
    if (left.event.value != 0 && left.event.value == event.value && left.event.queue == event.queue)
      run_what_is_left();
  }

  void wait(Event event) override {
    run_left(event);
    CpuQueue::numbered(event.queue).wait(event.value);
  }

  double elapsed_ns(Event from, Event to) override {
    CpuQueue::Times begin = CpuQueue::numbered(from.queue).times(from.value);
    CpuQueue::Times end = CpuQueue::numbered(to.queue).times(to.value);
    if (begin.value == 0 || end.value == 0) return 0;
    return static_cast<double>(end.end - begin.start);
  }

  void set_timing(bool on) override { timing_ = on; }
  int queues() const override { return kQueuesPerDevice; }
  bool reaches(const Device& other) const override {
    return dynamic_cast<const CpuDevice*>(&other) != nullptr;
  }

 private:
  // `fill` writes the work down where it will be run from.
  template <class Fill>
  Event submit(Queue queue, std::span<const Event> after, const Fill& fill) {
    run_what_is_left();  // whoever gave it waits for nothing, and it comes first
    const int number = first_queue_ + queue;
    CpuQueue& line = CpuQueue::numbered(number);
    const bool timed = timing_.load(std::memory_order_relaxed);
    const std::uint64_t value = line.begin_now(after);
    if (value == 0) {
      Work work;
      fill(work);
      return {number, line.push([work = std::move(work)]() mutable { work.run(); }, after, timed)};
    }
    fill(left.work);
    left.timed = timed;
    return left.event = {number, value};
  }

  static OutOfMemory out_of_memory(std::size_t bytes) {
    return OutOfMemory("CPU", fmt::format("no {} of memory", human_bytes(bytes)));
  }

  int first_queue_;
  std::atomic<bool> timing_{false};
  Imports imports_{"CPU"};
};

}  // namespace

std::unique_ptr<Device> open_cpu_device(int index) {
  if (index < 0 || index >= kCpuDevices)
    throw DeviceError("CPU", fmt::format("there is no CPU:{}", index))
        .help(fmt::format("virtual devices are CPU:0 to CPU:{}", kCpuDevices - 1));
  return std::make_unique<CpuDevice>(index);
}

}  // namespace lathe::backends
