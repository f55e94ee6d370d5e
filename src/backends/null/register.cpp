// NULL: compiles for any target of any other backend and runs nothing. `NULL:x86-64-v4` is what counts
// kernels and times compiles without the machine being there. Its memory is nothing, so asking for a value is
// an error.
#include <atomic>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "runtime/imports.h"
#include "runtime/registry.h"

namespace lathe::backends {
namespace {

struct NullKernel : Kernel {};

class NullDevice : public Device {
 public:
  Memory alloc(std::size_t bytes) override { return {next_.fetch_add(2), bytes, nullptr}; }
  Memory import(void*, std::size_t bytes, Owner owner) override {
    return imports_.add(nullptr, bytes, std::move(owner));
  }
  void free(Memory memory) override {
    if (!Imports::has_own_handle(memory)) return;
    if (Owner owner = imports_.take(memory.handle)) owner();
  }
  std::unique_ptr<Kernel> load(const Binary&) override { return std::make_unique<NullKernel>(); }
  Event copy(Queue, Span to, Span, std::span<const Event>) override {
    if (to.memory.host != nullptr)
      throw DeviceError("NULL", "the device runs nothing, so there are no values to copy")
          .help("run on CPU or REF to get numbers");
    return {0, ++value_};
  }
  Event launch(Queue, Kernel&, const Grid&, std::span<const Arg>, std::span<const Event>) override {
    return {0, ++value_};
  }
  void wait(Event) override {}
  double elapsed_ns(Event, Event) override { return 0; }
  bool computes() const override { return false; }
  bool reaches(const Device& other) const override {
    return dynamic_cast<const NullDevice*>(&other) != nullptr;
  }

 private:
  std::atomic<std::uintptr_t> next_{2};  // even: the odd ones are lent memory's
  Imports imports_{"NULL"};
  std::atomic<std::uint64_t> value_{0};
};

// Targets of all backends, each once, in registry order.
std::vector<std::string> all_targets() {
  std::vector<std::string> out;
  for (const Backend& backend : registry().all()) {
    if (backend.name == "NULL" || !backend.targets) continue;
    for (std::string& target : backend.targets())
      if (std::find(out.begin(), out.end(), target) == out.end()) out.push_back(std::move(target));
  }
  return out;
}

// The first backend that knows the target compiles for it; "" is what the CPU would use here.
std::shared_ptr<const Compiler> compiler_for(std::string_view target) {
  if (target.empty()) {
    const Backend* cpu = registry().find("CPU");
    if (cpu != nullptr) return cpu->compiler("");
  }
  for (const Backend& backend : registry().all()) {
    if (backend.name == "NULL" || !backend.targets || !backend.compiler) continue;
    std::vector<std::string> names = backend.targets();
    if (std::find(names.begin(), names.end(), target) != names.end()) return backend.compiler(target);
  }
  throw UserError("NULL", fmt::format("no backend compiles for '{}'", target))
      .help(fmt::format("targets are {}", fmt::join(all_targets(), ", ")));
}

}  // namespace

void register_null_backend(Registry& registry);

void register_null_backend(Registry& registry) {
  Backend backend;
  backend.name = "NULL";
  backend.targets = all_targets;
  backend.compiler = compiler_for;
  backend.open = [](int) { return std::make_unique<NullDevice>(); };
  backend.unavailable = [] { return std::string(); };
  registry.add(std::move(backend));
}

}  // namespace lathe::backends
