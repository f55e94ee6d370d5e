// Devices that exist in a test only: kernels are compiled to their names, and the device does what the test
// wants.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/registry.h"

namespace lathe::test {

struct NameCompiler : Compiler {
  Target own = named_target("x86-64-v3");
  const Target& target() const override { return own; }
  std::string version() const override { return "name 1"; }
  Binary compile(const Program& program) const override { return {program.name, program.name, program.name}; }
};

// Adds the backend unless it is there.
inline void add_named_backend(const char* name, std::function<std::unique_ptr<Device>()> open) {
  if (registry().find(name) != nullptr) return;
  Backend backend;
  backend.name = name;
  backend.targets = [] { return std::vector<std::string>{"x86-64-v3"}; };
  backend.compiler = [](std::string_view) { return std::make_shared<const NameCompiler>(); };
  backend.open = [open](int) { return open(); };
  add_backend(std::move(backend));
}

}  // namespace lathe::test
