// REF's code: kernels and programs become a flat list of steps over numbered registers (one cell per lane),
// with loops as jumps. kernel_code.h and program_code.h make it, machine.h runs it. A step runs once per
// iteration of exactly the loops around it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ir/node.h"
#include "reference/scalar.h"

namespace lathe::reference {

inline constexpr std::uint32_t kNoRegister = 0xffffffffu;

enum class Act : std::uint8_t {
  Scalar,    // dst = fn(a, b, c), lane by lane
  Convert,   // dst = a as another dtype
  Bits,      // dst = the bits of a as another dtype
  Copy,      // dst = a, `lanes` cells
  Splat,     // every lane of dst = a
  HReduce,   // dst = all `lanes` of a combined by fn
  Pack,      // a word of dst = the neighbouring parts from a on; `jump` parts of dtype `from`, `lanes` words
  Dot,       // dst = products of the packed words a and b added to c
  GroupDot,  // the same, of which each thread of a warp has its share: all threads of the group meet for it
  Matrices,  // dst = words of matrices whose rows the threads of a warp name by a; all threads meet for it
  PanelDot,  // dst = c + products of panels at a in memory and at b in memory `id`; all threads meet for it
  Exchange,  // dst = a of the thread whose number differs in bits `jump`; all threads meet for it
  WaitProducts,   // dst = a, a PanelDot's result: its panels may change from here on
  CopyAsync,      // memory[a] = memory `id` [c] where dst, else 0, for all `lanes` where b; done at a wait
  CommitCopies,   // ends a batch of them
  WaitCopies,     // all but the last `jump` batches are done
  ProxyFence,     // what the thread wrote may be read by a PanelDot after the next barrier
  BeginArrivals,  // the barrier a of memory begins
  ArriveBytes,    // an arrival at it, with bytes to come
  AwaitArrivals,  // until a phase with parity b has ended
  BulkCopy,     // memory[a] = a box of memory `id` at column b and row c, to arrive at barrier dst of `jump`
  Load,         // dst = memory[a] where gate b
  Store,        // memory[a] = c where gate b
  PrivateLoad,  // the same on memory that lives in registers
  PrivateStore,
  LoopBegin,  // dst counts 0..a-1; jump is the distance to the LoopEnd
  LoopEnd,    // jump is the distance back to the LoopBegin
  If,         // skips `jump` steps where a is false
  Barrier,
  ThreadsBegin,  // runs the steps up to ThreadsEnd once for each thread of a group; jump is the distance
  ThreadsEnd,
  Forget,     // the memory holds nothing any more
  ReduceEnd,  // a holds all of a reduce: where errors are carried, those of its roundings are added
  Halt,
};

struct Step {
  Act act = Act::Halt;
  bool shuffled = false;  // LoopBegin: iterations have no order
  std::int16_t sample_dim =
      -1;                // LoopBegin: which of the nest's output axes, outermost 0; -1: always run whole
  bool first = false;    // Load: of the contents before the kernel ran
  bool carries = false;  // Scalar and Copy: dst is a running value of the loop, a reduce's or a fold's
  bool wide = false;     // Dot: floats are summed in float64
  bool checks = false;   // Scalar: a negative dst where c is an index outside, of which the report tells
  Op op = Op::Where;     // Scalar and HReduce
  DType dtype;           // of their operands, of the second for Where
  std::uint16_t lanes = 1, index_lanes = 1, gate_lanes = 1;
  std::uint32_t dst = kNoRegister, a = kNoRegister, b = kNoRegister, c = kNoRegister;
  std::uint32_t memory = 0;  // of Load and Store; of LoopBegin: the first of kLoopState registers
  std::int32_t jump = 0;
  ScalarFn fn = nullptr;
  DType from, to;             // Convert and Bits
  std::int64_t id = -1;       // LoopBegin: iterations of an axis with an id are agents of their own
  std::int64_t estimate = 1;  // LoopBegin: iterations expected at most
  double combinations = 1;    // LoopBegin of sample_dim 0: positions of the whole nest
  Node node;                  // for messages
};

// Registers a loop keeps for itself: counter, iterations, multiplier, offset, and the agent around it.
inline constexpr std::uint32_t kLoopState = 5;

struct MemorySlot {
  enum class Kind : std::uint8_t { Param, Group, Private } kind = Kind::Param;
  DType dtype;            // of the memory; vectors count as so many elements
  std::int64_t size = 0;  // scalar elements
  std::int64_t slot = 0;  // Param
  std::uint32_t base =
      0;  // Private: registers [base, base + size) hold values, the next `size` say which are set
  bool reads = false, writes = false;
  bool reads_first = false;    // Param: some loads mean the contents before the kernel ran
  bool is_fault_cell = false;  // Param: all threads write it, and any of them may win
  std::string name;            // for messages
};

struct ThreadDims {
  std::vector<std::uint32_t> index, extent;  // registers, outermost first
};

struct Code {
  std::vector<Step> steps;
  std::uint32_t registers = 0;
  std::vector<std::pair<std::uint32_t, Cell>> constants;
  std::vector<std::pair<std::uint32_t, std::string>> variables;
  std::vector<MemorySlot> memories;
  std::vector<ThreadDims> threads;
  bool has_fences = false;               // a program, in which fences are where they are needed
  std::vector<std::uint32_t> positions;  // of code_of_store: registers of the output ranges, outermost first

  std::uint32_t take(std::uint32_t count) {
    std::uint32_t first = registers;
    registers += count;
    return first;
  }
};

}  // namespace lathe::reference
