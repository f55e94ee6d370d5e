// Compile-time benchmark: how long a graph takes from tensors to machine code, by stage, on one thread,
// without caches and without running anything. Times are CPU time of the calling thread. Unstable: for tools
// and benchmarks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/tensor.h"

namespace lathe::dev {

struct KernelReport {
  std::string name, options;
  std::uint64_t uses = 0, instructions = 0;
  double lower_ms = 0, compile_ms = 0;
};

struct CompileReport {
  std::string name;
  std::uint64_t kernels = 0, unique_kernels = 0;
  std::uint64_t nodes = 0;         // in the tensor graph
  std::uint64_t instructions = 0;  // in all programs
  double tensor_ms = 0;            // building the graph, gradients included
  double schedule_ms = 0;          // kernels, their order and the memory plan
  double codegen_ms = 0;           // options, proofs, expansion and lowering of each unique kernel
  double linearize_ms = 0;         // into lists of instructions
  double compile_ms = 0;           // into machine code; not part of the total
  double total_ms() const { return tensor_ms + schedule_ms + codegen_ms + linearize_ms; }
  std::vector<std::pair<std::string, double>> passes;  // codegen by pass, in ms
  std::vector<KernelReport> by_kernel;                 // unique kernels, in order of first use
};

struct CompileOptions {
  std::string device = "CPU";
  bool machine_code = true;  // off: compile_ms stays 0
};

// Builds the tensors and compiles what realizing them would run.
CompileReport bench_compile(const std::string& name, const std::function<std::vector<Tensor>()>& build,
                            const CompileOptions& options = {});

// Does what realizing the tensors would do before the first launch, using the caches: the start-up time of a
// program. Returns the number of kernels.
std::uint64_t prepare_to_run(const std::vector<Tensor>& tensors);

}  // namespace lathe::dev
