// Micro-benchmarks of the graph itself: creating nodes, looking them up, traversing, simplifying. Each result
// is one operation over many nodes on one thread, the best of several rounds. Unstable: for tools and
// benchmarks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lathe::dev {

struct IrBenchRow {
  std::string name;     // "create"
  std::string meaning;  // one line for people
  std::string unit;     // what is counted: "node" or "expression"
  std::uint64_t count = 0;
  double ns = 0;      // per unit
  double target = 0;  // millions a second to reach; 0 where none is set
  double millions_per_second() const { return ns > 0 ? 1e3 / ns : 0; }
};

struct IrBenchOptions {
  std::uint64_t nodes = 1'000'000;  // size of the graphs
  int rounds = 5;                   // the fastest one is reported
};

std::vector<IrBenchRow> bench_ir(const IrBenchOptions& options = {});

// Scaling with size: ns per node of create, toposort and simplify for graphs of `from`, 10 * from, .. `to`
// nodes.
struct GrowthRow {
  std::string name;
  std::uint64_t size = 0;
  double ns = 0;
};
std::vector<GrowthRow> bench_ir_growth(std::uint64_t from, std::uint64_t to, int rounds = 3);

}  // namespace lathe::dev
