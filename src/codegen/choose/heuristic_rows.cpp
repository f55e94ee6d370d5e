// Rows on targets with groups of threads: one group, or a part of one, works through a row. Every loop of the
// row is divided among the same threads in the same way, and where a thread's share fits its registers no
// loop is left: what several loops read or compute is then loaded and computed once.
#include <algorithm>
#include <map>
#include <optional>

#include "codegen/choose/chooser.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace lathe {
namespace {

// Elements of a row that a thread keeps in registers, of one or two inputs and of more; those it takes in a
// turn of a loop where it keeps none.
constexpr std::int64_t kOwnElements = 32, kOwnOfSeveral = 16, kTurn = 16;
// A warp reads a word each at a time: rows are no shorter than that.
constexpr std::int64_t kWordBytes = 4;
// Rows this short are one thread's.
constexpr std::int64_t kThreadsRow = 16;
// Threads of a group that has several rows; the largest group, of which a multiprocessor has room for two.
constexpr std::int64_t kRowsGroup = 128, kLargestGroup = 512;
// Outputs that give every thread of a large chip one.
constexpr double kManyOutputs = 4096;

std::int64_t power_above(std::int64_t n) {
  std::int64_t p = 1;
  while (p < n) p *= 2;
  return p;
}

// The loops of a row, one set for each nest: ranges that something depends on together.
std::vector<std::vector<std::size_t>> nests_of(const KernelFacts& facts, Node kernel) {
  std::vector<std::size_t> nest(facts.ranges.size());
  for (std::size_t r = 0; r < nest.size(); ++r) nest[r] = r;
  for (Node n : toposort(kernel)) {
    std::size_t first = nest.size();
    for (std::size_t r = 0; r < nest.size(); ++r) {
      if (facts.ranges[r].kind == RangeKind::Global || !facts.depends(n, r)) continue;
      if (first == nest.size()) first = nest[r];
      const std::size_t joined = nest[r];
      for (std::size_t& other : nest)
        if (other == joined) other = first;
    }
  }
  std::map<std::size_t, std::vector<std::size_t>> sets;
  for (std::size_t r = 0; r < nest.size(); ++r)
    if (facts.ranges[r].kind != RangeKind::Global) sets[nest[r]].push_back(r);
  std::vector<std::vector<std::size_t>> out;
  for (auto& [key, set] : sets) out.push_back(std::move(set));
  return out;
}

// What the threads of a group divide of a row: of each nest the range along which neighbours lie side by
// side.
struct RowLoops {
  std::vector<std::size_t> shared;
  std::int64_t row = 0, longest = 0;  // the most steps of a nest, and of a range that is shared
};

// Nothing where a range's extent depends on another's step.
std::optional<RowLoops> loops_of_row(const std::vector<std::vector<std::size_t>>& nests,
                                     const KernelFacts& facts, const Target& target) {
  RowLoops loops;
  auto rank = [&](std::size_t r) { return std::pair(lane_gain(facts, target, r), facts.ranges[r].extent); };
  for (const std::vector<std::size_t>& nest : nests) {
    std::size_t best = nest[0];
    std::int64_t steps = 1;
    for (std::size_t r : nest) {
      if (facts.ranges[r].ragged) return std::nullopt;
      steps *= facts.ranges[r].extent;
      if (rank(r) > rank(best)) best = r;
    }
    loops.shared.push_back(best);
    loops.row = std::max(loops.row, steps);
    loops.longest = std::max(loops.longest, facts.ranges[best].extent);
  }
  return loops;
}

// What moves along the shared ranges: bytes of the narrowest elements, and how many memories are read.
struct RowReads {
  int narrowest;
  std::size_t inputs;
};
RowReads reads_of_row(const std::vector<std::size_t>& shared, const KernelFacts& facts, int most_bytes) {
  int narrowest = most_bytes;
  std::vector<Node> inputs;
  for (const AccessFacts& a : facts.accesses) {
    if (std::none_of(shared.begin(), shared.end(), [&](std::size_t r) { return a.strides[r] == 1; }))
      continue;
    narrowest = std::min(narrowest, (a.is_store ? a.node.arg(2) : a.node).dtype().bytes());
    Node memory = base_memory(a.node.arg(0));
    if (!a.is_store && std::find(inputs.begin(), inputs.end(), memory) == inputs.end())
      inputs.push_back(memory);
  }
  return {narrowest, inputs.size()};
}

}  // namespace

bool Chooser::group_rows() {
  if (carries_tuple()) return false;
  const std::vector<std::vector<std::size_t>> nests = nests_of(facts_, kernel_);
  if (nests.size() < 2 && !has_rows()) return false;  // one reduce
  const std::optional<RowLoops> loops = loops_of_row(nests, facts_, target_);
  if (!loops || loops->longest <= kThreadsRow) return false;
  // Reduces one after the other without loops below them may as well run across memory.
  double best_output = 0;
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (is_output(r) && splittable(r)) best_output = std::max(best_output, gain(r));
  for (std::size_t r : loops->shared)
    if (!has_rows() && gain(r) <= best_output && facts_.extent_product(RangeKind::Global) >= kManyOutputs)
      return false;

  const RowReads reads = reads_of_row(loops->shared, facts_, target_.max_load_bytes);
  // Alike in all loops, so that a thread has the same elements in each.
  std::int64_t width = std::min<std::int64_t>(wide_access(reads.narrowest), 8);
  for (std::size_t r : loops->shared)
    while (width > 1 && (!splittable(r) || facts_.ranges[r].extent % width != 0)) width /= 2;
  const std::int64_t own = reads.inputs > 2 ? kOwnOfSeveral : kOwnElements,
                     pieces = power_above((loops->longest + width - 1) / width),
                     line = std::max<std::int64_t>(target_.warp * kWordBytes / (width * reads.narrowest), 1),
                     threads = std::min(
                         {std::max(power_above((loops->row + own - 1) / own), line), pieces, kLargestGroup});
  const bool kept = (loops->row + threads - 1) / threads <= own;
  // The threads of a row are last: they are neighbours, and read neighbours.
  const std::int64_t rows = kRowsGroup / threads;
  for (std::size_t r = facts_.ranges.size(); r-- > 0 && rows > 1;)
    if (is_output(r) && splittable(r) && position(r) >= 0 && left(r) % rows == 0) {
      add(OptOp::LOCAL, position(r), {rows});
      break;
    }
  for (std::size_t i = 0; i < nests.size(); ++i) {
    divide_row(loops->shared[i], width, threads, kept);
    for (std::size_t r : nests[i])
      if (kept && r != loops->shared[i]) copy_steps(r, 0);
  }
  return true;
}

// Steps of a loop or reduce at once, in registers; 0: all of them.
void Chooser::copy_steps(std::size_t r, std::int64_t steps) {
  if (position(r) < 0) return;
  if (is_loop(r))
    add(OptOp::UPCAST, position(r), {steps});
  else
    add(OptOp::UNROLL, reduce_number(r), {steps});
}

void Chooser::divide_row(std::size_t r, std::int64_t width, std::int64_t threads, bool kept) {
  if (width > 1) copy_steps(r, width);
  if (position(r) >= 0) {
    if (is_loop(r))
      add(OptOp::LOCAL, position(r), {threads});
    else
      add(OptOp::GROUP, reduce_number(r), {threads});
  }
  if (kept) return copy_steps(r, 0);
  std::int64_t turn = splittable(r) ? std::max<std::int64_t>(kTurn / width, 1) : 1;
  while (left(r) % turn != 0) turn /= 2;
  if (turn > 1) copy_steps(r, turn);
}

}  // namespace lathe
