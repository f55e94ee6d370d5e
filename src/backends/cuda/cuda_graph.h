// A list of launches as a CUDA graph: made when the list is first seen, launched at once from then on, with
// those arguments replaced that changed since. Its kernels run one after the other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cuda/driver.h"
#include "base/small_vector.h"
#include "runtime/device.h"

namespace lathe::backends {

// A launch as the driver takes it: every argument is 8 bytes, but for descriptions of matrices, which are
// last.
struct CudaCall {
  CuFunction function = nullptr;
  unsigned groups[3] = {1, 1, 1}, locals[3] = {1, 1, 1}, shared = 0;
  SmallVector<std::uint64_t, 16> arguments;
  std::vector<CuBoxMap> maps;

  SmallVector<void*, 16> pointers() {
    SmallVector<void*, 16> out;
    for (std::uint64_t& value : arguments) out.push_back(&value);
    for (CuBoxMap& map : maps) out.push_back(&map);
    return out;
  }
};

class CudaGraph : public LaunchList {
 public:
  CudaGraph(const CudaDriver& driver, CuContext context, std::vector<CudaCall> calls);
  ~CudaGraph() override;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  // Takes over the arguments and sizes of the calls. False where they are other kernels than the graph's.
  bool update(std::span<const CudaCall> calls);
  void launch(CuStream stream) const;

 private:
  CuKernelNode node_of(CudaCall& call, SmallVector<void*, 16>& pointers) const;

  const CudaDriver& driver_;
  CuContext context_;
  std::vector<CudaCall> calls_;
  std::vector<CuGraphNode> nodes_;
  CuGraph graph_ = nullptr;
  CuGraphExec exec_ = nullptr;
};

}  // namespace lathe::backends
