// The one place that decides whether a value is stored or computed again. Costs are in rough units of one
// scalar operation on one element; only their ratios matter.
#pragma once

#include <cstdint>

#include "ir/node.h"
#include "ir/walk.h"

namespace lathe {

// What computing one element costs from the nearest values that are certainly in memory (buffers, reduces).
struct ElementCost {
  float operations = 0;  // weighted scalar operations
  float loads = 0;       // elements read
};

// Costs of every node of an order (operands first). What has several users and is expensive is stored where
// two kernels want it, so for its users it counts as a load: else an expensive value would make everything
// computed from it expensive as well, and all of that would be stored beside it.
NodeMap<ElementCost> element_costs(std::span<const Node> order, const NodeMap<int>& uses, bool invariant);

// How a value is used: by one kernel at one position a `use`.
struct Usage {
  double evaluations = 0;        // over all uses, how often an element would be computed
  double elements = 0;           // of the value
  double kernel_work = 0;        // iterations of the innermost loops of the kernels that use it
  double reduce_extent = 1;      // of a Reduce: elements combined into one
  bool in_foreign_loop = false;  // a Reduce used inside another reduce's loop that it cannot join
  bool joins = false;            // a Reduce that would join the reduce that uses it
  bool beside_product = false;   // a sum of products beside another one, or itself elsewhere, in one kernel
  double kernel_outputs = 0;     // smallest number of outputs of a kernel that uses it
  bool invariant = false;        // decide by what one row costs, however many rows there are
};

// Whether to store the value (else every use computes it).
bool worth_storing(Node node, const ElementCost& cost, const Usage& usage);

// What a node adds to the length of a kernel that computes it.
double kernel_weight(Node node);

// Whether a kernel is long enough that what it still needs, where that is itself work, is stored by others:
// compilers take more than linear time over a long kernel, chains cut into equal pieces are compiled once,
// and beside so much arithmetic a store costs little.
bool is_long_kernel(double weight);
bool worth_cutting(const ElementCost& cost);

// A reduce that a kernel could compute once for each of its rows: for all steps of the loops inside.
struct RowUsage {
  double evaluations = 0;     // rows, over all uses in the kernel
  double elements = 0;        // of the reduce's result
  double reduce_extent = 1;   // elements combined into one
  double row_bytes = 0;       // of them
  double parallel_steps = 1;  // of the ranges that stay parallel
  double turns = 0;           // of the innermost loops that use it, all rows together
  bool side_by_side = true;   // a row's elements are neighbours
  bool invariant = false;     // as in Usage
};

// Whether to compute the reduce in that kernel, in a loop of its own above the loops that use it.
bool worth_a_row(const RowUsage& usage);

// Whether to compute a value once for a row, into memory of the kernel's own of `panel_bytes`, where it would
// otherwise be computed `evaluations` times.
bool worth_staging(const ElementCost& cost, double evaluations, double elements, double panel_bytes);

// A sum of products of two values that are each used again along other axes: a matrix product, a convolution.
// Tiles of both are kept close by, which is done for one such sum in a kernel.
bool is_product_sum(Node node);

// Whether one thread may compute the node serially along an axis, with its results in memory: a separate
// kernel.
inline bool is_sequential(Node n) { return n.is(Op::Scatter) || n.is(Op::Scan); }

// A reduce with few outputs and many inputs runs in parts: the number of parts for an axis of `extent`, or 0
// to leave it whole. Depends on extents alone, so results do not depend on the machine.
std::int64_t reduce_parts(std::int64_t outputs, std::int64_t inputs, std::int64_t extent);

// A reduce of whole rows onto each other (column sums of a large matrix) reads memory in its order only where
// it is the outer loop, and then it is what threads must divide: the number of parts for an axis of `extent`,
// or 0.
std::int64_t column_parts(std::int64_t outputs, double input_bytes, std::int64_t extent);

// ---- how scans, scatters and sorts are computed (schedule/expand_scans.h). A device with few fast threads
// computes them serially. With many slow threads it is faster to do more work in parallel.

// The number of parts to cut a serial computation of `steps` steps into, if there are `others` like it:
// enough parts for the threads, but none too short to be worth starting. Depends only on extents, so results
// do not depend on the machine.
std::int64_t serial_parts(double others, std::int64_t steps);

// The number of pieces of a scan of `steps` steps, each of which is one serial scan.
std::int64_t scan_pieces(double others, std::int64_t steps);
// If a scan is not serial: the elements per window, whose sum is computed separately for each of them.
inline constexpr std::int64_t kScanWindow = 64;

// Values of a batch, each with the number of the row it belongs to.
struct RowCounts {
  double batch = 1, rows = 1, values = 1;
  double width = 1;    // contiguous values in a row
  bool known = false;  // none of the sizes is symbolic
};
enum class RowWay : std::uint8_t {
  Serial,   // one thread combines each value with its row in turn
  Lists,    // the row numbers are sorted once, and each row combines its own list in order
  Compare,  // every value is compared with every row
};
RowWay row_way(const RowCounts& counts, bool fast_threads);
// The number of serial scatters; their outputs are combined at the end.
std::int64_t scatter_parts(const RowCounts& counts);

enum class SortWay : std::uint8_t {
  Blocks,  // only blocks of the row that can hold what is kept are sorted
  Digits,  // radix sort, the lowest digit first, with serial scans along the row
  Merge,   // runs are merged pairwise
};
SortWay sort_way(std::int64_t n, std::int64_t keep, bool fast_threads);
// The best length of these blocks.
std::int64_t sort_block(std::int64_t n, std::int64_t keep);

// From how many bytes on weights of attention are computed again where they are needed instead of being
// stored (rebuilt_weights.h). Storing them takes four times as much, for scores and gradients too; computing
// them again takes twice the time on a CPU, where tiles of a product have more rows than a fold works on at
// once.
inline constexpr double kRebuiltBytes = 1 << 28;

// What would become of a kernel and a step with one store over the same output ranges as one kernel.
struct Joining {
  double moved = 0;            // bytes the step reads and writes by itself
  double saved = 0;            // those it need not read once it is part of the kernel
  double written = 0;          // bytes of its result
  int buffers = 0;             // of both together
  double weight = 0;           // of both together
  int reduces_before = 0;      // of the kernel
  int reduces_added = 0;       // of the step
  int apart = 0;               // how many kernels earlier the step would run
  bool shares = false;         // both read some element
  bool follows = false;        // the step reads what the kernel writes
  bool inside_reduce = false;  // and does so inside a reduce
  bool same_loops = false;     // every reduce of the step runs over the ranges of one of the kernel's
};
bool worth_joining(const Joining& joining);

}  // namespace lathe
