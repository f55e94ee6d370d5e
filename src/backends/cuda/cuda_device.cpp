#include "backends/cuda/cuda_device.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "backends/cuda/cuda_graph.h"
#include "backends/cuda/cuda_queue.h"
#include "backends/cuda/driver.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/small_vector.h"
#include "base/text.h"
#include "render/box_maps.h"
#include "runtime/imports.h"

namespace lathe::backends {
namespace {

// A loaded cubin. Kernels that were compiled in one unit share it.
class LoadedModule {
 public:
  LoadedModule(const CudaDriver& driver, CuContext context, const std::string& image)
      : driver_(driver), context_(context) {
    driver_.check(driver_.module_load(&module_, image.data()), "loading a compiled kernel");
  }
  ~LoadedModule() {
    if (driver_.context_set(context_) == kCuSuccess)
      driver_.module_unload(module_);  // fails only when all is over
  }
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  CuFunction function(const std::string& name) const {
    CuFunction out = nullptr;
    driver_.check(driver_.module_function(&out, module_, name.c_str()), "looking up kernel " + name);
    return out;
  }
  // The matrices that a kernel takes boxes of (render/box_maps.h).
  std::vector<render::BoxMap> box_maps(const std::string& kernel) const {
    CuPointer pointer = 0;
    std::size_t bytes = 0;
    const std::string name = kernel + std::string(render::kBoxMaps);
    if (driver_.module_global(&pointer, &bytes, module_, name.c_str()) != kCuSuccess) return {};
    std::vector<std::int64_t> numbers(bytes / sizeof(std::int64_t));
    driver_.check(driver_.read_now(numbers.data(), pointer, numbers.size() * sizeof(std::int64_t)),
                  "reading the matrices of kernel " + kernel);
    std::vector<render::BoxMap> maps(static_cast<std::size_t>(numbers[0]));
    std::memcpy(maps.data(), numbers.data() + 1, maps.size() * sizeof(render::BoxMap));
    return maps;
  }

 private:
  const CudaDriver& driver_;
  CuContext context_;
  CuModule module_ = nullptr;
};

struct CudaKernel : Kernel {
  std::shared_ptr<LoadedModule> module;
  CuFunction function = nullptr;
  std::string name;
  std::atomic<std::int64_t> shared_limit{kCuPlainShared};  // with how much shared memory it may be launched
  // The matrices it takes boxes of, and what the driver made of each for the address of the last launch.
  struct Boxes {
    render::BoxMap matrix;
    std::uint64_t address = 0;
    CuBoxMap made;
  };
  std::vector<Boxes> boxes;
};

// A list of launches that the driver makes no graph of.
struct NoGraph : LaunchList {};

// One GPU, shared by its virtual devices: its context and the modules that are loaded there.
struct Gpu {
  CuContext context = nullptr;
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<LoadedModule>> modules;  // by hash of the cubin
};

Gpu& gpu_numbered(const CudaDriver& driver, int ordinal) {
  static std::mutex mutex;
  static auto* all = new std::map<int, std::unique_ptr<Gpu>>;  // never destroyed, as the driver may end first
  std::lock_guard lock(mutex);
  auto& gpu = (*all)[ordinal];
  if (gpu) return *gpu;
  CuDevice device = 0;
  driver.check(driver.device_get(&device, ordinal), "opening the GPU");
  auto fresh = std::make_unique<Gpu>();
  driver.check(driver.context_retain(&fresh->context, device), "making a context");
  gpu = std::move(fresh);
  return *gpu;
}

class CudaDevice : public Device {
 public:
  CudaDevice(const CudaDriver& driver, int index, int ordinal)
      : driver_(driver), gpu_(gpu_numbered(driver, ordinal)), first_queue_(index * kCudaQueues) {
    enter();
    for (int q = 0; q < kCudaQueues; ++q) CudaQueue::make(first_queue_ + q, driver_, gpu_.context);
  }

  Memory alloc(std::size_t bytes) override {
    enter();
    CuPointer pointer = 0;
    int code = driver_.memory_alloc(&pointer, std::max<std::size_t>(bytes, 1));
    if (code == kCuOutOfMemory) {
      std::size_t left = 0, total = 0;
      driver_.memory_info(&left, &total);
      throw OutOfMemory("CUDA", fmt::format("no {} of memory", human_bytes(bytes)))
          .note(fmt::format("{} of the GPU's {} are free", human_bytes(left), human_bytes(total)));
    }
    driver_.check(code, fmt::format("allocating {}", human_bytes(bytes)));
    return {static_cast<std::uintptr_t>(pointer), bytes, nullptr};
  }

  // The host's pages are pinned and read over the bus where they are.
  Memory import(void* data, std::size_t bytes, Owner owner) override {
    enter();
    driver_.check(driver_.host_register(data, bytes, kCuHostMapped), "pinning memory of the host");
    CuPointer pointer = 0;
    if (int code = driver_.host_pointer(&pointer, data, 0); code != kCuSuccess) {
      driver_.host_unregister(data);
      driver_.check(code, "mapping memory of the host");
    }
    imports_.add(static_cast<std::uintptr_t>(pointer), std::move(owner));
    return {static_cast<std::uintptr_t>(pointer), bytes, data};
  }

  void free(Memory memory) override {
    enter();
    if (memory.host == nullptr) {
      driver_.check(driver_.memory_free(memory.handle), "freeing memory");
      return;
    }
    const Owner owner = imports_.take(memory.handle);
    driver_.check(driver_.host_unregister(memory.host), "unpinning memory of the host");
    if (owner) owner();
  }

  std::unique_ptr<Kernel> load(const Binary& binary) override {
    enter();
    auto kernel = std::make_unique<CudaKernel>();
    kernel->module = module_of(binary.bytes);
    kernel->function = kernel->module->function(binary.entry);
    kernel->name = binary.entry;
    for (const render::BoxMap& matrix : kernel->module->box_maps(binary.entry))
      kernel->boxes.push_back({matrix, 0, {}});
    return kernel;
  }

  Event copy(Queue queue, Span to, Span from, std::span<const Event> after) override {
    enter();
    return submit(queue, after, [&](CuStream stream) {
      if (to.bytes == 0) return;
      void* host_to = to.memory.host == nullptr ? nullptr : static_cast<char*>(to.memory.host) + to.offset;
      const void* host_from =
          from.memory.host == nullptr ? nullptr : static_cast<const char*>(from.memory.host) + from.offset;
      CuPointer device_to = to.memory.handle + to.offset, device_from = from.memory.handle + from.offset;
      if (host_to != nullptr && host_from != nullptr) {
        driver_.check(driver_.stream_synchronize(stream), "waiting for a stream");
        std::memmove(host_to, host_from, to.bytes);
      } else if (host_from != nullptr) {
        driver_.check(driver_.copy_to_device(device_to, host_from, to.bytes, stream), "copying to the GPU");
      } else if (host_to != nullptr) {
        driver_.check(driver_.copy_to_host(host_to, device_from, to.bytes, stream), "copying from the GPU");
      } else {
        driver_.check(driver_.copy_on_device(device_to, device_from, to.bytes, stream), "copying on the GPU");
      }
    });
  }

  Event launch(Queue queue, Kernel& kernel, const Grid& grid, std::span<const Arg> args,
               std::span<const Event> after) override {
    enter();
    const bool empty = is_empty(grid);
    CudaCall call = empty ? CudaCall() : call_of(kernel, grid, args);
    return submit(queue, after, [&](CuStream stream) {
      if (!empty) launch_one(call, static_cast<CudaKernel&>(kernel).name, stream);
    });
  }

  // Where the driver makes no graph of a list, its kernels are launched one by one from then on.
  Event launch_all(Queue queue, std::span<const LaunchCall> calls, std::unique_ptr<LaunchList>& known,
                   std::span<const Event> after) override {
    enter();
    std::vector<CudaCall> list;
    for (const LaunchCall& call : calls)
      if (!is_empty(call.grid)) list.push_back(call_of(*call.kernel, call.grid, call.args));
    const bool refused = dynamic_cast<NoGraph*>(known.get()) != nullptr;
    auto* graph = refused ? nullptr : static_cast<CudaGraph*>(known.get());
    if (!refused && (graph == nullptr || !graph->update(list))) {
      try {
        auto made = std::make_unique<CudaGraph>(driver_, gpu_.context, list);
        graph = made.get();
        known = std::move(made);
      } catch (const DeviceError& error) {
        graph = nullptr;
        known = std::make_unique<NoGraph>();
        log_warning_once("CUDA",
                         fmt::format("{} kernels are launched one by one: {}", list.size(), error.what()));
      }
    }
    return submit(queue, after, [&](CuStream stream) {
      if (graph != nullptr) return graph->launch(stream);
      for (CudaCall& call : list) launch_one(call, "of a list", stream);
    });
  }
  bool joins_launches() const override { return true; }

  void wait(Event event) override {
    if (event.value == 0) return;
    enter();
    CudaQueue::numbered(event.queue).wait(event.value);
  }
  std::string driver() const override { return fmt::format("CUDA driver {}", driver_.version); }
  double elapsed_ns(Event from, Event to) override {
    enter();
    return CudaQueue::elapsed_ns(from, to);
  }
  void set_timing(bool on) override { timing_ = on; }
  int queues() const override { return kCudaQueues; }
  bool reaches(const Device& other) const override {
    return dynamic_cast<const CudaDevice*>(&other) != nullptr;
  }

 private:
  // The driver keeps a current context per thread, and any thread may call.
  void enter() const { driver_.check(driver_.context_set(gpu_.context), "entering the GPU's context"); }

  static bool is_empty(const Grid& grid) {
    bool empty = false;
    for (int i = 0; i < 3; ++i) empty |= grid.groups[i] == 0 || grid.locals[i] == 0;
    return empty;
  }

  CudaCall call_of(Kernel& kernel, const Grid& grid, std::span<const Arg> args) {
    auto& code = static_cast<CudaKernel&>(kernel);
    CudaCall call;
    call.function = code.function;
    call.shared = static_cast<unsigned>(grid.shared_bytes);
    for (std::size_t i = 0; i < 3; ++i) {
      call.groups[i] = static_cast<unsigned>(grid.groups[i]);
      call.locals[i] = static_cast<unsigned>(grid.locals[i]);
    }
    for (const Arg& arg : args) {
      if (arg.kind == Arg::Kind::Span) check_reachable(arg.span.memory, code.name, call.arguments.size());
      call.arguments.push_back(arg.kind == Arg::Kind::Span ? arg.span.memory.handle + arg.span.offset
                                                           : static_cast<std::uint64_t>(arg.value));
    }
    for (CudaKernel::Boxes& boxes : code.boxes) call.maps.push_back(map_of(boxes, call, code.name));
    if (grid.shared_bytes > code.shared_limit.load(std::memory_order_relaxed)) {
      driver_.check(
          driver_.function_attribute(code.function, static_cast<int>(CuFunctionAttribute::MostDynamicShared),
                                     static_cast<int>(grid.shared_bytes)),
          fmt::format("asking for {} of shared memory for kernel {}",
                      human_bytes(static_cast<std::uint64_t>(grid.shared_bytes)), code.name));
      code.shared_limit.store(grid.shared_bytes, std::memory_order_relaxed);
    }
    return call;
  }

  // Launches come from one thread at a time, so that nothing guards what is kept.
  const CuBoxMap& map_of(CudaKernel::Boxes& boxes, const CudaCall& call, const std::string& name) {
    const render::BoxMap& m = boxes.matrix;
    const std::uint64_t address = call.arguments[static_cast<std::size_t>(m.argument)];
    if (boxes.address == address) return boxes.made;
    const std::uint64_t sizes[] = {static_cast<std::uint64_t>(m.columns), static_cast<std::uint64_t>(m.rows)},
                        strides[] = {static_cast<std::uint64_t>(m.pitch * m.element)};
    const unsigned box[] = {static_cast<unsigned>(m.box_columns), static_cast<unsigned>(m.box_rows)},
                   steps[] = {1, 1};
    driver_.check(driver_.map_boxes(&boxes.made, cu_elements(m.element), 2, reinterpret_cast<void*>(address),
                                    sizes, strides, box, steps, 0, kCuSwizzle128, kCuLines256, 0),
                  fmt::format("describing argument {} of kernel {}, {} x {} elements at {:#x}", m.argument,
                              name, m.rows, m.columns, address));
    boxes.address = address;
    return boxes.made;
  }

  void launch_one(CudaCall& call, const std::string& name, CuStream stream) {
    SmallVector<void*, 16> pointers = call.pointers();
    const unsigned *groups = call.groups, *locals = call.locals;
    int result = driver_.launch(call.function, groups[0], groups[1], groups[2], locals[0], locals[1],
                                locals[2], call.shared, stream, pointers.data(), nullptr);
    driver_.check(result, fmt::format("launching kernel {} with {} x {} x {} groups of {} x {} x {}", name,
                                      groups[0], groups[1], groups[2], locals[0], locals[1], locals[2]));
  }

  // A pointer of the host would fault inside the kernel, and the context would be lost with it.
  void check_reachable(const Memory& memory, const std::string& kernel, std::size_t position) {
    if (memory.host == nullptr) return;
    if (!imports_.contains(memory.handle))
      throw DeviceError(
          "CUDA", fmt::format("argument {} of kernel {} is memory of another device", position, kernel));
  }

  template <class Work>
  Event submit(Queue queue, std::span<const Event> after, Work work) {
    return CudaQueue::numbered(first_queue_ + queue)
        .submit(after, timing_.load(std::memory_order_relaxed), work);
  }

  std::shared_ptr<LoadedModule> module_of(const std::string& image) {
    std::uint64_t key = hash_string(image);
    std::lock_guard lock(gpu_.mutex);
    std::weak_ptr<LoadedModule>& kept = gpu_.modules[key];
    std::shared_ptr<LoadedModule> module = kept.lock();
    if (!module) {
      module = std::make_shared<LoadedModule>(driver_, gpu_.context, image);
      kept = module;
    }
    return module;
  }

  const CudaDriver& driver_;
  Gpu& gpu_;
  int first_queue_;
  std::atomic<bool> timing_{false};
  Imports imports_{"CUDA"};
};

}  // namespace

std::unique_ptr<Device> open_cuda_device(int index) {
  const CudaDriver* driver = CudaDriver::get();
  if (driver == nullptr)
    throw DeviceError("CUDA", CudaDriver::why_missing()).help("`lathe devices` lists what can be used");
  int devices = std::max(kCudaDevices, driver->gpus);
  if (index < 0 || index >= devices)
    throw DeviceError("CUDA", fmt::format("there is no CUDA:{}", index))
        .help(fmt::format("devices are CUDA:0 to CUDA:{}", devices - 1));
  return std::make_unique<CudaDevice>(*driver, index, index % driver->gpus);
}

}  // namespace lathe::backends
