// The kernels a graph becomes, as text: for comparing two runs, two orders of construction, two commits.
// Nothing is compiled by a vendor's compiler, so no target needs to be there.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/node.h"
#include "lathe/tensor.h"

namespace lathe::test {

// Targets that kernels are compared for.
inline constexpr const char* kReplayTargets[] = {"x86-64-v3", "x86-64-v4", "sm_90a"};

// Each distinct kernel once, in order of first use: its name, how often it is used, its options and its
// source.
std::string kernels_of(const std::vector<Tensor>& wanted, std::string_view target);

// The same kernels as scheduled.
std::vector<NodeRef> scheduled_kernels(const std::vector<Tensor>& wanted, std::string_view target);

// The graphs that are compared: the nets of models/ at full size and the op suite in float32.
struct ReplayGraph {
  std::string name;
  std::function<std::vector<Tensor>()> build;
};
std::vector<ReplayGraph> replay_graphs();
// The op suite alone, in a float dtype with its gradients or in an integer one.
std::vector<ReplayGraph> op_graphs(DataType dtype);

}  // namespace lathe::test
