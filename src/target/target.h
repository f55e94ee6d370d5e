// Facts about a device as plain data. Heuristics, legalising rules and printers read them; nothing asks
// "which chip is this". A target has a name (`x86-64-v3`, `sm_90a`, `ref`) under which golden files and NULL
// compile for it, and a key that holds every fact, which is part of every cache key.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dtype.h"
#include "ir/op_error.h"

namespace lathe {

// How fast one core computes and is fed, from which choices are priced. Only ratios count, so the unit of
// time is the row's own: a cycle in tables, a nanosecond where a probe measured it. A row that says nothing
// has those of a plain CPU with AVX2.
struct CoreRates {
  double arithmetic = 64;  // bytes of float32 vectors multiplied and added
  // Bytes read in their order from each. Of targets with groups L1 is the memory that a group shares.
  double l1 = 64, l2 = 32, l3 = 25.6, memory = 8;
};

// More of the same for targets with groups of threads.
struct GroupRates {
  double busy_threads = 0;  // of a core: so many hide what one of them waits for
  // In the time of a fragment's product on a unit of one warp: reading a word of a panel, copying a row of a
  // fragment into one.
  double fragment_word = 0, fragment_row = 0;
  // A unit that reads panels itself: words it multiplies in a cycle, cycles a step takes beside; bytes that
  // come to a core in a cycle while all cores copy in bulk, and cycles that a copy is under way.
  double panel_words = 0, panel_step = 0, bulk_bytes = 0, copy_cycles = 0;
  // Of the whole chip, in a second: products on such a unit and on others, bytes that copies move; and
  // seconds of a launch.
  double panel_products = 0, other_products = 0, moved_bytes = 0, launch_seconds = 0;
};

struct Target {
  std::string name;
  // It has every op as the IR means it, for comparing others with: nothing is decomposed for it or tuned.
  bool reference = false;
  std::string features;  // for the code generator: "+avx2,+fma,..." on a CPU
  std::string cpu;       // LLVM CPU name or empty
  std::string triple;    // of the code generator, or empty

  // What a kernel may use.
  bool vectors = false;  // vector values in programs (LLVM, GNU C); else expansion unrolls and groups loads
  bool groups = false;   // groups of threads with shared memory and barriers
  bool threads = false;  // THREAD: parts run by a pool
  bool fma = false;      // fused multiply-add is native
  int vector_bytes = 0;  // width of a vector register
  int vector_registers = 0;
  int max_load_bytes = 16;  // widest load or store of one instruction where `vectors` is false
  // Instructions on vectors that not every machine has.
  bool small_masks = false;      // masks for lanes of 8 and 16 bits
  bool strided_lanes = false;    // reads or writes lanes of 32 bits or more wherever they lie, under a mask
  int table_lanes = 0;           // floats that one picks from by an index in each of so many lanes; 0: none
  bool scales = false;           // x * 2^n and rounding to an integer, of 4 to 16 floats
  bool rounds_products = false;  // float32 to bfloat16, numbers below the smallest normal one taken for zero
  // Integers, which some machines have of 32 bits alone, or divide slowly (codegen/decompose).
  bool wide_integers = true;  // of 64 bits; else they are pairs of 32-bit words
  bool divides_constants =
      true;  // its compiler turns a division by a constant into a multiplication; else we do
  int cores = 1;
  std::int64_t l1 = 0, l2 = 0, l3 = 0;  // data cache sizes in bytes
  int l1_ways = 8, l2_ways = 8;         // lines with the same lower bits of their addresses that each holds
  CoreRates rates;
  std::string rates_from;  // "" those of the row, else where this machine's come from
  // Independent sums that keep the multiply-add units busy: their latency of 4 cycles times two of them, on
  // all CPUs with AVX2 or more (uops.info).
  int sums_in_flight = 8;
  // Long walks over memory that a core's prefetchers follow well at once, and lines of each that are
  // prefetched where the prefetchers fall behind: measured on AMD Zen 4 (docs/benchmarks.md).
  int prefetch_streams = 4, prefetch_lines = 4;
  double reload_steps = 4;      // cycles until a load sees what was just stored (store forwarding)
  double wake_steps = 1 << 15;  // scalar steps that a core takes while it wakes a sleeping thread, some 10 us
  int max_buffers = 0;          // per kernel; 0 = no limit
  std::int64_t max_group = 1;   // threads a group
  std::int64_t max_locals[3] = {1, 1, 1};
  std::int64_t max_groups[3] = {1, 1, 1};
  std::int64_t shared_bytes = 0;  // of a group; on a CPU, scratch of one part
  // Of targets with groups: threads that take each step together, 32-bit registers of a thread at most, and
  // what the groups that are at work on one core (multiprocessor) have together.
  int warp = 1, thread_registers = 0;
  int shared_banks = 0;  // words of 4 bytes of a group's memory that are read in one cycle
  GroupRates group_rates;
  bool async_copies = false;  // from memory to that of a group, while its threads go on
  bool bulk_copies = false;   // of whole boxes of a matrix, which arrive at barriers
  std::int64_t core_threads = 0, core_registers = 0, core_shared_bytes = 0;
  std::vector<Scalar> emulated;  // dtypes without native arithmetic (stored, computed in float)
  std::vector<Scalar>
      converted;  // small floats with instructions to and from float32 (else integer operations)

  std::vector<OpError> native;     // functions of float32 that it has an instruction for
  std::vector<std::string> units;  // matrix units by name (target/matrix_units.h), best first

  // Whether one thread does much in little time, so that steps taken in order beat a sort: where threads are
  // many and slow, in groups, it is the other way round.
  bool has_fast_threads() const { return !groups; }

  bool emulates(DType dtype) const;
  // Whether lanes of this dtype are read and written wherever they lie by one instruction.
  bool gathers(DType dtype) const { return strided_lanes && dtype.bits() >= 32; }
  bool has_native(Op op) const;
  std::string key() const;  // every fact, as text
};

// Targets that are known by name on any machine: "ref", "x86-64-v3", "x86-64-v4", "sm_90a", ...
Target named_target(std::string_view name);
std::vector<std::string> target_names();

}  // namespace lathe
