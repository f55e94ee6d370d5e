#include "toy.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "ir/text.h"
#include "reference/reference.h"
#include "runtime/imports.h"

namespace lathe::test {
namespace {

std::atomic<int> launches{0};

// Facts: no vectors, no groups, no threads. Codegen writes plain loops for it.
Target toy_target() {
  Target t = named_target("ref");
  t.name = "toy";
  t.groups = t.threads = t.vectors = false;
  return t;
}

struct ToyCompiler : Compiler {
  Target facts = toy_target();
  const Target& target() const override { return facts; }
  std::string version() const override { return "toy 1"; }
  Binary compile(const Program& program) const override {
    std::string text = print_program(program);
    return {program.name, text, text};
  }
};

struct ToyKernel : Kernel {
  Program program;
};

class ToyDevice : public Device {
 public:
  Memory alloc(std::size_t bytes) override {
    std::lock_guard lock(mutex_);
    const std::uintptr_t handle = next_ += 2;  // odd ones are imports
    memory_[handle].resize(bytes);
    return {handle, bytes, nullptr};
  }
  // Host memory is used where it is, by faults that kernels report among others.
  Memory import(void* data, std::size_t bytes, Owner owner) override {
    return imports_.add(data, bytes, std::move(owner));
  }
  void free(Memory memory) override {
    if (Imports::has_own_handle(memory)) {
      if (Owner owner = imports_.take(memory.handle)) owner();
      return;
    }
    std::lock_guard lock(mutex_);
    memory_.erase(memory.handle);
  }
  std::unique_ptr<Kernel> load(const Binary& binary) override {
    Scope scope;
    auto kernel = std::make_unique<ToyKernel>();
    kernel->program = parse_program(binary.bytes);
    return kernel;
  }
  // Work is done before the call returns, so `after` has always happened.
  Event copy(Queue, Span to, Span from, std::span<const Event>) override {
    std::memmove(at(to), at(from), to.bytes);
    return {0, ++given_};
  }
  Event launch(Queue, Kernel& kernel, const Grid&, std::span<const Arg> args,
               std::span<const Event>) override {
    const Program& program = static_cast<ToyKernel&>(kernel).program;
    std::vector<reference::View> views(program.params.size());
    for (std::size_t i = 0; i < program.params.size(); ++i) {
      const ProgramParam& p = program.params[i];
      views[static_cast<std::size_t>(p.slot)] = {p.dtype, at(args[i].span), p.size, true};
    }
    reference::Bindings bindings;
    for (std::size_t i = 0; i < program.variables.size(); ++i)
      bindings.emplace_back(program.variables[i]->text(), args[program.params.size() + i].value);
    // All of it, however long it may be expected to take.
    reference::EvalReport report = reference::program_eval(program, views, bindings, {.max_ops = HUGE_VAL});
    if (!report.faults.empty()) throw DeviceError("TOY", report.faults[0]);
    ++launches;
    return {0, ++given_};
  }
  void wait(Event) override {}
  double elapsed_ns(Event, Event) override { return 0; }

 private:
  std::byte* at(const Span& span) {
    if (span.memory.host != nullptr) return static_cast<std::byte*>(span.memory.host) + span.offset;
    std::lock_guard lock(mutex_);
    return memory_.at(span.memory.handle).data() + span.offset;
  }

  Imports imports_{"TOY"};
  std::mutex mutex_;
  std::map<std::uintptr_t, std::vector<std::byte>> memory_;
  std::uintptr_t next_ = 0;
  std::atomic<std::uint64_t> given_{0};
};

}  // namespace

int toy_launches() { return launches; }

Backend toy_backend() {
  Backend backend;
  backend.name = "TOY";
  backend.targets = [] { return std::vector<std::string>{"toy"}; };
  backend.compiler = [](std::string_view) { return std::make_shared<ToyCompiler>(); };
  backend.open = [](int) { return std::make_unique<ToyDevice>(); };
  backend.unavailable = [] { return std::string(); };  // or the reason why not, for `lathe devices`
  return backend;
}

}  // namespace lathe::test
