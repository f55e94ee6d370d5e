#include "backends/cuda/cuda_graph.h"

#include <algorithm>

namespace lathe::backends {

CudaGraph::CudaGraph(const CudaDriver& driver, CuContext context, std::vector<CudaCall> calls)
    : driver_(driver), context_(context), calls_(std::move(calls)) {
  driver_.check(driver_.graph_create(&graph_, 0), "making a graph");
  for (CudaCall& call : calls_) {
    SmallVector<void*, 16> pointers;
    const CuKernelNode kernel = node_of(call, pointers);
    CuGraphNode node = nullptr;
    const CuGraphNode* before = nodes_.empty() ? nullptr : &nodes_.back();
    driver_.check(driver_.graph_add_kernel(&node, graph_, before, nodes_.empty() ? 0 : 1, &kernel),
                  "adding a kernel to a graph");
    nodes_.push_back(node);
  }
  driver_.check(driver_.graph_instantiate(&exec_, graph_, 0), "making a graph ready");
}

CudaGraph::~CudaGraph() {
  if (driver_.context_set(context_) != kCuSuccess) return;  // fails only when all is over
  if (exec_ != nullptr) driver_.graph_exec_destroy(exec_);
  if (graph_ != nullptr) driver_.graph_destroy(graph_);
}

CuKernelNode CudaGraph::node_of(CudaCall& call, SmallVector<void*, 16>& pointers) const {
  pointers = call.pointers();
  CuKernelNode node;
  node.function = call.function;
  std::copy(call.groups, call.groups + 3, node.groups);
  std::copy(call.locals, call.locals + 3, node.locals);
  node.shared = call.shared;
  node.arguments = pointers.data();
  return node;
}

bool CudaGraph::update(std::span<const CudaCall> calls) {
  if (calls.size() != calls_.size()) return false;
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (calls[i].function != calls_[i].function) return false;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const CudaCall &now = calls[i], &then = calls_[i];
    if (std::equal(now.arguments.begin(), now.arguments.end(), then.arguments.begin(),
                   then.arguments.end()) &&
        now.maps == then.maps && std::equal(now.groups, now.groups + 3, then.groups) &&
        std::equal(now.locals, now.locals + 3, then.locals) && now.shared == then.shared)
      continue;
    calls_[i] = now;
    SmallVector<void*, 16> pointers;
    const CuKernelNode kernel = node_of(calls_[i], pointers);
    driver_.check(driver_.graph_set_kernel(exec_, nodes_[i], &kernel), "changing a kernel of a graph");
  }
  return true;
}

void CudaGraph::launch(CuStream stream) const {
  driver_.check(driver_.graph_launch(exec_, stream), "launching a graph");
}

}  // namespace lathe::backends
