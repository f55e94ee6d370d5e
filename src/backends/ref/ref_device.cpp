#include "backends/ref/ref_device.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "ir/text.h"
#include "reference/machine.h"
#include "reference/program_code.h"
#include "runtime/imports.h"

namespace lathe::backends {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kTimesKept = 4096;

struct RefKernel : Kernel {
  Program program;
  reference::Code code;
};

std::byte* pointer(const Span& span) { return static_cast<std::byte*>(span.memory.host) + span.offset; }

class RefDevice : public Device {
 public:
  explicit RefDevice(int index) : queue_(index) {}

  Memory alloc(std::size_t bytes) override {
    std::size_t rounded = std::max((bytes + kAlignment - 1) / kAlignment * kAlignment, kAlignment);
    void* data = std::aligned_alloc(kAlignment, rounded);
    if (data == nullptr) throw OutOfMemory("REF", fmt::format("no {} of memory", human_bytes(bytes)));
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

  std::unique_ptr<Kernel> load(const Binary& binary) override {
    Scope scope;
    auto kernel = std::make_unique<RefKernel>();
    kernel->program = parse_program(binary.bytes);
    kernel->code = reference::code_of_program(kernel->program);
    return kernel;
  }

  Event copy(Queue, Span to, Span from, std::span<const Event>) override {
    check_internal(to.memory.host != nullptr && from.memory.host != nullptr, "REF",
                   "a copy the host cannot reach");
    auto start = now();
    std::memmove(pointer(to), pointer(from), to.bytes);
    return done(start);
  }

  Event launch(Queue, Kernel& kernel, const Grid&, std::span<const Arg> args,
               std::span<const Event>) override {
    auto start = now();
    run(static_cast<const RefKernel&>(kernel), args);
    return done(start);
  }

  bool joins_launches() const override { return true; }  // so that what joins them is tested everywhere
  void wait(Event) override {}

  double elapsed_ns(Event from, Event to) override {
    std::lock_guard lock(mutex_);
    const Times &begin = times_[from.value % kTimesKept], &end = times_[to.value % kTimesKept];
    if (begin.value != from.value || end.value != to.value) return 0;
    return static_cast<double>(end.end - begin.start);
  }

  bool reaches(const Device& other) const override {
    return dynamic_cast<const RefDevice*>(&other) != nullptr;
  }

 private:
  struct Times {
    std::uint64_t value = 0;
    std::int64_t start = 0, end = 0;
  };

  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  Event done(std::int64_t start) {
    std::lock_guard lock(mutex_);
    std::uint64_t value = ++given_;
    times_[value % kTimesKept] = {value, start, now()};
    return {queue_, value};
  }

  // Arguments are the params in order, then the variables in order.
  void run(const RefKernel& kernel, std::span<const Arg> args) {
    const Program& program = kernel.program;
    check_internal(args.size() == program.params.size() + program.variables.size(), "REF",
                   fmt::format("{} takes {} buffers and {} variables, was given {} arguments", program.name,
                               program.params.size(), program.variables.size(), args.size()));
    std::vector<reference::View> views;
    reference::Bindings bindings;
    for (std::size_t i = 0; i < program.params.size(); ++i) {
      const ProgramParam& p = program.params[i];
      auto slot = static_cast<std::size_t>(p.slot);
      if (views.size() <= slot) views.resize(slot + 1);
      auto size = static_cast<std::int64_t>(args[i].span.bytes) / p.dtype.bytes();
      views[slot] = {p.dtype, pointer(args[i].span), size, true};
    }
    for (std::size_t i = 0; i < program.variables.size(); ++i)
      bindings.emplace_back(program.variables[i]->text(), args[program.params.size() + i].value);
    // A device computes everything: no sampling, whatever the size. Each launch draws another order of
    // threads.
    reference::EvalOptions options{.seed = ++seed_, .max_ops = std::numeric_limits<double>::infinity()};
    reference::EvalReport report = reference::run_code(kernel.code, views, bindings, options);
    if (report.ok()) return;
    DeviceError error("REF", fmt::format("kernel {}: {}", program.name, report.faults[0]));
    for (std::size_t i = 1; i < report.faults.size(); ++i) error.note(report.faults[i]);
    throw std::move(error).help("LATHE_DEBUG=6 prints the program");
  }

  int queue_;
  std::mutex mutex_;  // guards times
  Imports imports_{"REF"};
  std::uint64_t given_ = 0;
  std::vector<Times> times_ = std::vector<Times>(kTimesKept);
  std::atomic<std::uint64_t> seed_{0};
};

}  // namespace

std::unique_ptr<Device> open_ref_device(int index) { return std::make_unique<RefDevice>(index); }

}  // namespace lathe::backends
