// Programs written by hand, run on the CPU device by either compiler, for the tests of this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/compilers.h"
#include "backends/cpu/cpu_device.h"
#include "backends/cpu/host.h"
#include "ir/build.h"
#include "ir/program.h"
#include "runtime/registry.h"

namespace lathe::test {

using Bytes = std::vector<std::byte>;

// Lists instructions while a program is built. Loops nest by open/close.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(std::string name) { program_.name = std::move(name); }

  Node buffer(DType dtype, std::int64_t size);
  Node variable(std::string_view name, std::int64_t min, std::int64_t max);
  Node loop(Node extent, DType dtype = dtypes::Int64);
  void close();  // the innermost loop or if
  void when(Node condition);
  // Lists what the node needs and is not listed yet, then the node.
  Node add(Node node);
  Program take() { return std::move(program_); }

 private:
  Program program_;
  std::vector<std::vector<Node>> scopes_{1};
  std::vector<Node> open_;
  std::int64_t next_range_ = 0;
};

// The backend of this name: CPU, NULL or DISK. Devices can be opened by name after it was asked for.
const Backend& backend(const char* name);

std::shared_ptr<const Compiler> llvm_compiler();  // null in a build without LLVM
std::shared_ptr<const Compiler> c_compiler();
// Those this build has, LLVM first. What both must do is tested on each.
std::vector<std::shared_ptr<const Compiler>> compilers();

#define SKIP_WITHOUT_LLVM() \
  if (!llvm_compiler()) GTEST_SKIP() << "this build has no LLVM module"

// Runs a compiled program over buffers (read and written in place).
void run(const Binary& binary, std::span<Bytes> buffers, std::span<const std::int64_t> variables = {},
         std::int64_t threads = 1);

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}
template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

// One element of memory as ir/value.h holds it, and back.
Element read_element(DType dtype, const std::byte* from);
void write_element(DType dtype, Element value, std::byte* to);
Bytes elements(DType dtype, std::span<const Element> values);

// Bit for bit, but every NaN equals every other.
bool same(DType dtype, Element a, Element b);
std::string text_of(DType dtype, Element value);

// Values at the edges of a dtype; all values of 8-bit types where `all`, and of 16-bit floats.
std::vector<Element> edge_values(DType dtype);
std::vector<Element> all_values(DType dtype);

std::vector<DType> value_dtypes();  // all but void and index

}  // namespace lathe::test
