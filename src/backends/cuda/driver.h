// The CUDA driver, loaded at run time: its functions as a table, its refusals as errors in words. The
// declarations are our own, from the driver's documented C interface, so no CUDA header is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lathe::backends {

using CuDevice = int;
using CuPointer = unsigned long long;
using CuContext = struct CuContextTag*;
using CuModule = struct CuModuleTag*;
using CuFunction = struct CuFunctionTag*;
using CuStream = struct CuStreamTag*;
using CuEvent = struct CuEventTag*;
using CuGraph = struct CuGraphTag*;
using CuGraphNode = struct CuGraphNodeTag*;
using CuGraphExec = struct CuGraphExecTag*;

// A kernel of a graph, as the driver lays it out (CUDA_KERNEL_NODE_PARAMS_v2).
struct CuKernelNode {
  CuFunction function = nullptr;
  unsigned groups[3] = {1, 1, 1}, locals[3] = {1, 1, 1}, shared = 0;
  void** arguments = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;  // instead of the function
  CuContext context = nullptr;
};

// The driver's description of a matrix that bulk copies take boxes of (CUtensorMap).
struct alignas(64) CuBoxMap {
  std::uint64_t words[16] = {};
  bool operator==(const CuBoxMap&) const = default;
};
// CU_TENSOR_MAP_DATA_TYPE_UINT8, UINT16 and UINT32, of elements of so many bytes.
inline constexpr int cu_elements(std::int64_t bytes) { return bytes == 1 ? 0 : bytes == 2 ? 1 : 2; }
inline constexpr int kCuSwizzle128 = 3,
                     kCuLines256 = 3;  // rows of 128 bytes exchanged; fetched into L2 by 256

inline constexpr int kCuSuccess = 0, kCuOutOfMemory = 2, kCuNotReady = 600;
inline constexpr unsigned kCuStreamNonBlocking = 1, kCuEventNoTiming = 2, kCuHostMapped = 2;
enum class CuAttribute : int { MultiprocessorCount = 16, L2Bytes = 38, ComputeMajor = 75, ComputeMinor = 76 };
enum class CuFunctionAttribute : int { MostDynamicShared = 8 };
// A kernel may be launched with so much shared memory without being asked to take more.
inline constexpr std::int64_t kCuPlainShared = 48 * 1024;

// clang-format off
//                   name                    symbol in libcuda               parameters
#define LATHE_CUDA_FUNCTIONS(X)                                                                                          \
  X(init,                   cuInit,                      (unsigned flags))                                               \
  X(driver_version,         cuDriverGetVersion,          (int* version))                                                 \
  X(device_count,           cuDeviceGetCount,            (int* count))                                                   \
  X(device_get,             cuDeviceGet,                 (CuDevice* device, int ordinal))                                \
  X(device_name,            cuDeviceGetName,             (char* name, int length, CuDevice device))                      \
  X(device_attribute,       cuDeviceGetAttribute,        (int* value, int attribute, CuDevice device))                   \
  X(device_memory,          cuDeviceTotalMem_v2,         (std::size_t* bytes, CuDevice device))                          \
  X(context_retain,         cuDevicePrimaryCtxRetain,    (CuContext* context, CuDevice device))                          \
  X(context_set,            cuCtxSetCurrent,             (CuContext context))                                            \
  X(memory_alloc,           cuMemAlloc_v2,               (CuPointer* pointer, std::size_t bytes))                        \
  X(memory_free,            cuMemFree_v2,                (CuPointer pointer))                                            \
  X(memory_info,            cuMemGetInfo_v2,             (std::size_t* free, std::size_t* total))                        \
  X(host_register,          cuMemHostRegister_v2,        (void* data, std::size_t bytes, unsigned flags))                \
  X(host_unregister,        cuMemHostUnregister,         (void* data))                                                   \
  X(host_pointer,           cuMemHostGetDevicePointer_v2, (CuPointer* pointer, void* data, unsigned flags))              \
  X(copy_to_device,         cuMemcpyHtoDAsync_v2,        (CuPointer to, const void* from, std::size_t bytes, CuStream stream)) \
  X(copy_to_host,           cuMemcpyDtoHAsync_v2,        (void* to, CuPointer from, std::size_t bytes, CuStream stream)) \
  X(copy_on_device,         cuMemcpyDtoDAsync_v2,        (CuPointer to, CuPointer from, std::size_t bytes, CuStream stream)) \
  X(read_now,               cuMemcpyDtoH_v2,             (void* to, CuPointer from, std::size_t bytes))                  \
  X(module_load,            cuModuleLoadData,            (CuModule* module, const void* image))                          \
  X(module_unload,          cuModuleUnload,              (CuModule module))                                              \
  X(module_function,        cuModuleGetFunction,         (CuFunction* function, CuModule module, const char* name))      \
  X(module_global,          cuModuleGetGlobal_v2,        (CuPointer* pointer, std::size_t* bytes, CuModule module, const char* name)) \
  X(map_boxes,              cuTensorMapEncodeTiled,      (CuBoxMap* map, int element, unsigned axes, void* address, const std::uint64_t* sizes, \
                                                          const std::uint64_t* strides, const unsigned* box, const unsigned* steps, \
                                                          int interleave, int swizzle, int promotion, int fill))         \
  X(function_attribute,     cuFuncSetAttribute,          (CuFunction function, int attribute, int value))                \
  X(stream_create,          cuStreamCreate,              (CuStream* stream, unsigned flags))                             \
  X(stream_wait,            cuStreamWaitEvent,           (CuStream stream, CuEvent event, unsigned flags))               \
  X(stream_synchronize,     cuStreamSynchronize,         (CuStream stream))                                              \
  X(event_create,           cuEventCreate,               (CuEvent* event, unsigned flags))                               \
  X(event_record,           cuEventRecord,               (CuEvent event, CuStream stream))                               \
  X(event_query,            cuEventQuery,                (CuEvent event))                                                \
  X(event_synchronize,      cuEventSynchronize,          (CuEvent event))                                                \
  X(event_elapsed,          cuEventElapsedTime,          (float* milliseconds, CuEvent from, CuEvent to))                \
  X(launch,                 cuLaunchKernel,              (CuFunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, \
                                                          unsigned bz, unsigned shared, CuStream stream, void** arguments, void** extra)) \
  X(graph_create,           cuGraphCreate,               (CuGraph* graph, unsigned flags))                               \
  X(graph_destroy,          cuGraphDestroy,              (CuGraph graph))                                                \
  X(graph_add_kernel,       cuGraphAddKernelNode_v2,     (CuGraphNode* node, CuGraph graph, const CuGraphNode* after, std::size_t count, \
                                                          const CuKernelNode* kernel))                                   \
  X(graph_instantiate,      cuGraphInstantiateWithFlags, (CuGraphExec* exec, CuGraph graph, unsigned long long flags))   \
  X(graph_set_kernel,       cuGraphExecKernelNodeSetParams_v2, (CuGraphExec exec, CuGraphNode node, const CuKernelNode* kernel)) \
  X(graph_launch,           cuGraphLaunch,               (CuGraphExec exec, CuStream stream))                            \
  X(graph_exec_destroy,     cuGraphExecDestroy,          (CuGraphExec exec))                                             \
  X(error_name,             cuGetErrorName,              (int code, const char** text))                                  \
  X(error_text,             cuGetErrorString,            (int code, const char** text))
// clang-format on

struct CudaDriver {
#define LATHE_CUDA_MEMBER(name, symbol, parameters) int(*name) parameters = nullptr;
  LATHE_CUDA_FUNCTIONS(LATHE_CUDA_MEMBER)
#undef LATHE_CUDA_MEMBER

  int gpus = 0;     // how many there are
  int version = 0;  // 13000 for CUDA 13.0

  // The driver of this process, loaded and initialised on first use; null where there is none or no GPU, and
  // then why_missing says so.
  static const CudaDriver* get();
  static const std::string& why_missing();

  // "out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2)".
  std::string words(int code) const;
  // Throws DeviceError naming what was tried where the code is not success.
  void check(int code, std::string_view doing) const;
  int attribute(CuDevice device, CuAttribute which) const;
};

// "sm_90a" for the GPU with this ordinal.
std::string architecture_of(const CudaDriver& driver, int ordinal);

}  // namespace lathe::backends
