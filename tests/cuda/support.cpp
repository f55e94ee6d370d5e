#include "cuda/support.h"

#include <random>

#include "base/error.h"
#include "ir/build.h"
#include "reference/tensor_eval.h"

namespace lathe::test {

std::shared_ptr<const Compiler> cuda_compiler() {
  const backends::CudaDriver* driver = backends::CudaDriver::get();
  static auto compiler = backends::make_cuda_compiler(named_target(
      driver != nullptr && backends::architecture_of(*driver, 0) != "sm_90a" ? "sm_80" : "sm_90a"));
  return compiler;
}

namespace {
std::int64_t size_of(const NodeRef& size) { return size ? reference::index_value(size, bindings()) : 1; }
}  // namespace

const reference::Bindings& bindings() {
  static const reference::Bindings values = {{"n", 5}};
  return values;
}

void run_on(Device& device, const Program& program, const Binary& binary,
            std::span<reference::Array> arrays) {
  std::unique_ptr<Kernel> kernel = device.load(binary);
  std::vector<Memory> memories;
  std::vector<Arg> args;
  std::vector<Event> copied;
  auto whole = [](Memory memory, std::size_t bytes) { return Span{memory, 0, bytes}; };
  auto host = [](reference::Array& array) { return Memory{0, array.byte_count(), array.data()}; };
  for (reference::Array& array : arrays) {
    Memory memory = device.alloc(array.byte_count());
    copied.push_back(
        device.copy(0, whole(memory, array.byte_count()), whole(host(array), array.byte_count()), {}));
    memories.push_back(memory);
    args.push_back({Arg::Kind::Span, whole(memory, array.byte_count()), 0});
  }
  for (const NodeRef& v : program.variables)
    args.push_back({Arg::Kind::Int, {}, reference::index_value(v, bindings())});
  Grid grid;
  for (std::size_t i = 0; i < 3; ++i) {
    grid.groups[i] = size_of(program.groups[i]);
    grid.locals[i] = size_of(program.locals[i]);
  }
  grid.shared_bytes = program.shared_bytes;
  Event ran = device.launch(0, *kernel, grid, args, copied);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    Event back = device.copy(1, whole(host(arrays[i]), arrays[i].byte_count()),
                             whole(memories[i], arrays[i].byte_count()), {&ran, 1});
    device.wait(back);
    device.free(memories[i]);
  }
}

std::vector<reference::Array> arrays_for(const Program& program, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<reference::Array> out;
  for (const ProgramParam& p : program.params) {
    reference::Array array(p.dtype, p.size);
    for (std::int64_t i = 0; i < p.size; ++i) {
      auto v = static_cast<std::int64_t>(random() % 9) - (p.dtype.is_float() ? 4 : 0);
      array.set(i, element_of(number(p.dtype, static_cast<double>(v))));
    }
    out.push_back(std::move(array));
  }
  return out;
}

}  // namespace lathe::test
