// The options a kernel gets without search: a few rules, each with its reason, as a pure function of the
// kernel and facts of the target. How a reduce is split never depends on the number of cores, so results do
// not either.
#include <algorithm>

#include "codegen/choose/chooser.h"
#include "codegen/choose/product_threads.h"
#include "codegen/choose/score_lanes.h"
#include "codegen/kernel/lanes.h"
#include "codegen/kernel/walk_in_order.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {
namespace {

// Below this many scalar steps, waking a thread costs more than it saves.
constexpr double kWorthThreads = 1 << 16;
constexpr double kWorkPerPart = 1 << 15;
// Rows of attention at a time.
constexpr std::int64_t kRowsTogether = 4;
// A step of a walk waits for what the one before it stored.
constexpr double kWalkStep = 4;
// Reduces without a loop may copy their body this often.
constexpr std::int64_t kMostCopies = 16 * kSmallReduce;

// clang-format off
constexpr HeuristicRule kRules[] = {
    {"walk-in-order",        "steps that change one row each are walked in order, each row in memory"},
    {"product-tile",         "a sum of products computes a tile of outputs that stays in registers"},
    {"product-panels",       "its operands are copied into panels that lie as the tile reads them, in blocks the caches hold"},
    {"border-steps",         "a convolution's steps in its border are left out, where a row of the picture fits the registers"},
    {"product-order",        "without panels, one step of lanes of a large factor serves all rows before the next is read"},
    {"pipeline",             "what comes from memory is fetched a strip ahead of the products, or a few lines ahead of a walk"},
    {"matrix-unit",          "products of bf16 and bytes use the target's dot-product instructions"},
    {"streams",              "a kernel that walks once over much memory takes several pieces of it at a time"},
    {"window-rows",          "neighbouring rows of windows are taken together, so that each row of a picture is read once for them"},
    {"lanes",                "the range with the most contiguous accesses becomes vectors"},
    {"several-vectors",      "several vectors at a time, so that one addition need not wait for the one before"},
    {"score-lanes",          "attention's scores have lanes along the keys, which lie side by side in a panel that all rows share"},
    {"rows-together",        "neighbouring rows of a tuple reduce share the loads of keys and values"},
    {"unroll-small-reduces", "a short reduce, such as a window's, has no loop"},
    {"uneven-in-registers",  "a short output range that an index divides is taken at once, with constants for its steps"},
    {"threads",              "the first output range with enough steps is divided among the cores"},
    {"group-product",        "a group of threads computes a tile of outputs in registers, from panels it fills together"},
    {"panel-pairs",          "on a matrix unit of a warp, panels hold two turns of its loop, whose steps are interleaved"},
    {"swizzled-panels",      "on a matrix unit of a warp, whole matrices are read from panels that hold the numbers in swizzled rows"},
    {"laid-out-factors",     "factors of large products are stored once more as rows of neighbours, where a matrix unit reads such panels"},
    {"split-products",       "long sums of products with few outputs are taken in parts, so that all cores are busy"},
    {"joined-sides",         "pixels and the places of windows are rows, columns and steps of one such product"},
    {"panel-products",       "a matrix unit of four warps reads such panels itself, where the target has one"},
    {"async-copies",         "such panels are filled some steps ahead by copies that no thread waits for meanwhile"},
    {"group-reduce",         "the threads of a group share a reduce where its steps are neighbours in memory, or outputs are few"},
    {"group-turn",           "a copy that turns rows into columns reads and writes whole rows, through a panel of the group"},
    {"group-rows",           "the threads of a group share every loop over a row, each with the same elements in all of them"},
    {"wide-access",          "neighbouring elements of a thread make one wide access"},
};
// clang-format on

}  // namespace

std::vector<Opt> Chooser::run() {
  if (target_.kind == TargetKind::Ref || facts_.ranges.empty())
    return {};  // REF is for checking, not for speed
  if (target_.groups) {
    for_groups();
  } else {
    if (has_rows() || (!walks() && !blocks() && !streams() && !product())) elementwise_or_reduce();
  }
  return std::move(opts_);
}

// ---- walks in order

// A reduce whose steps change one output each (a Scatter), or of which each output has one step more than
// the one before (a Scan). Lanes and threads run along other output ranges.
bool Chooser::walks() {
  if (!uses("walk-in-order") || facts_.reduces != 1 || closed_ranges(facts_.reduce).size() != 1) return false;
  const std::size_t none = facts_.ranges.size();
  std::size_t row = none, output = none, step = none, lane = none;
  for (std::size_t r = 0; r < none; ++r) {
    Node range = facts_.ranges[r].range;
    if (range == closed_ranges(facts_.reduce)[0]) step = r;
    if (is_output(r) && selected_row(facts_.reduce, range)) row = r;
    if (is_output(r) && running_step(facts_.reduce, range, compile_.rules)) output = r;
  }
  const std::size_t walked = row < none ? row : output;
  if (walked == none) return false;
  const double outputs = facts_.extent_product(RangeKind::Global);
  const double walk = outputs / static_cast<double>(facts_.ranges[walked].extent) *
                      static_cast<double>(facts_.ranges[step].extent);
  facts_.work = kWalkStep * walk + outputs;
  std::vector<std::size_t> others;
  for (std::size_t r = 0; r < none; ++r) {
    if (!is_output(r) || r == walked) continue;
    others.push_back(r);
    if (may_have_lanes(r)) lane = r;
  }
  if (lane < none) lanes_along(lane);
  const bool threaded = threads(others, 4);
  if (row < none)
    threads_own_rows(row, step, threaded);
  else if (lane == none && !others.empty())
    walk_together(others.back());
  add(OptOp::TILE, position(step), {1, position(walked)});
  return true;
}

// Threads with rows of their own all walk all steps, and whether a step is theirs is hard to foresee: only
// where there are so many rows that setting them is most of the work.
void Chooser::threads_own_rows(std::size_t row, std::size_t step, bool threaded) {
  constexpr std::int64_t kManyRows = 8;  // for a step
  if (!threaded && facts_.ranges[row].extent > kManyRows * facts_.ranges[step].extent) threads({row}, 1);
}

// Several running values at a time, so that one addition need not wait for the one before.
void Chooser::walk_together(std::size_t rows) {
  if (!uses("several-vectors") || !splittable(rows)) return;
  for (std::int64_t n : {4, 2})
    if (left(rows) % n == 0 && position(rows) >= 0) return add(OptOp::UPCAST, position(rows), {n});
}

// ---- walks over memory

bool Chooser::streams() {
  std::optional<StreamPlan> plan;
  if (uses("streams")) plan = choose_streams(facts_, target_);
  if (!plan) return false;
  const bool turns = plan->turn > 1, reduces = facts_.ranges[plan->lane].kind == RangeKind::Reduce;
  if (reduces)
    add(OptOp::UNROLL, reduce_number(plan->lane), {plan->width});
  else
    add(OptOp::UPCAST, position(plan->lane), {plan->width});
  if (turns && reduces) add(OptOp::UNROLL, reduce_number(plan->lane), {plan->turn});
  threads({plan->rows}, 4);
  if (plan->strip > 0) {
    int at = position(plan->lane);
    if (at < 0) return true;  // the whole row is in registers
    // In equal strips.
    const std::int64_t strips = (left(plan->lane) + plan->strip - 1) / plan->strip;
    if (strips > 1) add(OptOp::TILE, at++, {(left(plan->lane) + strips - 1) / strips});
    add(OptOp::TILE, position(plan->added), {1, at});
    return true;
  }
  int lane = position(plan->lane);
  // Pieces of the range, several at a time, one step of each.
  for (std::int64_t streams = plan->streams; streams > 1; streams /= 2) {
    if (left(plan->rows) % streams != 0) continue;
    std::int64_t piece = std::min(plan->piece, left(plan->rows) / streams);
    while (piece > 1 && left(plan->rows) % (piece * streams) != 0) --piece;
    if (piece * 2 < plan->piece) continue;
    const int at = position(plan->rows);
    const bool rest = left(plan->rows) > piece * streams;
    add(OptOp::TILE, at, {piece});
    add(OptOp::UPCAST, at, {streams});
    lane = plan->rows == plan->lane ? at + (rest ? 1 : 0) : position(plan->lane);
    break;
  }
  // The last range in registers changes first: a piece has its turn for all of it.
  if (turns && !reduces && lane >= 0 && lane < static_cast<int>(state_.axes().size()) &&
      state_.axes()[static_cast<std::size_t>(lane)].extent.hi() % plan->turn == 0)
    add(OptOp::UPCAST, lane, {plan->turn});
  widen_scales(*plan);
  if (uses("pipeline") && plan->ahead > 0 && position(plan->lane) >= 0)
    add(OptOp::PIPELINE, position(plan->lane), {plan->ahead});
  return true;
}

// A factor that is one for all lanes, such as the scale of a block of weights, is widened by vectors for a
// row at a time: one by one takes as long as a vector does, and then it has to be repeated.
void Chooser::widen_scales(const StreamPlan& plan) {
  int row = -1;
  for (std::size_t i = 0; i < state_.axes().size(); ++i)
    if (state_.axes()[i].kind == RangeKind::Global) row = static_cast<int>(i);
  if (row < 0 || facts_.ranges[plan.lane].kind != RangeKind::Reduce) return;
  const std::vector<Node> values = stage_values(kernel_);
  for (Node f : facts_.factors) {
    if (!f || !f.is(Op::Cast) || !f.arg(0).is(Op::Load) || facts_.depends(f, plan.lane)) continue;
    double bytes = static_cast<double>(plan.streams * f.dtype().bytes());
    for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
      if (!is_output(r) && facts_.depends(f, r)) bytes *= static_cast<double>(facts_.ranges[r].extent);
    if (bytes * 4 <= static_cast<double>(target_.l2))
      add(OptOp::STAGE, row, {std::find(values.begin(), values.end(), f) - values.begin(), 1});
  }
}

// ---- everything else on a CPU

bool Chooser::carries_tuple() const {
  return std::any_of(facts_.ranges.begin(), facts_.ranges.end(),
                     [](const RangeFacts& r) { return r.carries_tuple; });
}

// A short row of whole vectors is held in registers all at once.
std::int64_t Chooser::register_row(std::int64_t extent, std::int64_t otherwise) const {
  const std::int64_t lanes = std::max(target_.vector_bytes / facts_.element_bytes, 1);
  return extent % lanes == 0 && extent / lanes <= target_.vector_registers / 4 ? extent : otherwise;
}

// Neighbouring rows of a tuple reduce read the same keys and values: a few at a time share the loads.
void Chooser::rows_together() {
  if (!uses("rows-together")) return;
  for (std::size_t r = facts_.ranges.size(); r-- > 0;) {
    if (!is_output(r)) continue;
    // The last few of a long axis may be done for nothing.
    const std::int64_t extent = facts_.ranges[r].extent;
    if (splittable(r) && (extent % kRowsTogether == 0 || extent > 8 * kRowsTogether))
      add(OptOp::UPCAST, position(r), {kRowsTogether});
    else if (splittable(r) && extent % 2 == 0)
      add(OptOp::UPCAST, position(r), {2});
    return;
  }
}

// Lanes along a range, some whole vectors of them. A reduce along the lanes gets four accumulators, so that
// one addition need not wait for the one before.
void Chooser::lanes_along(std::size_t r) {
  if (!uses("lanes")) return;
  std::int64_t most = !uses("several-vectors")                              ? 1
                      : (is_output(r) && facts_.reduces == 0) || is_loop(r) ? 2
                                                                            : 4;
  // A short row has no loop.
  const std::int64_t row = 4 * std::max(target_.vector_bytes / facts_.element_bytes, 1);
  if (most == 2 && facts_.ranges[r].extent <= row) most = 4;
  // What sorts lanes has to be unrolled beside them, and under a mask they are not sorted.
  bool evenly = false;
  std::optional<std::size_t> short_range;
  for (const AccessFacts& a : facts_.accesses)
    if (sorts_lanes(facts_, target_, a, r)) {
      evenly = true;
      if (!short_range) short_range = range_between(facts_, target_, a, r);
    }
  if (evenly) {
    std::int64_t copies = std::max(target_.vector_bytes / facts_.element_bytes, 1);
    for (const RangeFacts& range : facts_.ranges)
      if (range.kind == RangeKind::Reduce && range.extent <= kSmallReduce) copies *= range.extent;
    while (most > 1 && most * copies > kMostCopies) most /= 2;
  }
  std::int64_t w = lane_width(target_, facts_.ranges[r].extent, facts_.element_bytes, most);
  std::int64_t even = w;
  while (evenly && facts_.ranges[r].extent % even != 0) even /= 2;
  if (even * 4 >= w) w = even;  // else a mask costs less than so few lanes
  if (carries_tuple() && !is_output(r)) w = register_row(facts_.ranges[r].extent, w);
  if (w > 1 && facts_.ranges[r].kind != RangeKind::Reduce)
    add(OptOp::UPCAST, position(r), {w});
  else if (w > 1)
    add(OptOp::UNROLL, reduce_number(r), {w});
  if (short_range && w > 1) add(OptOp::UPCAST, position(*short_range), {0});
}

bool Chooser::may_have_lanes(std::size_t r) const {
  const RangeFacts& range = facts_.ranges[r];
  bool fits = is_output(r) || is_loop(r) || (range.kind == RangeKind::Reduce && !range.carries_tuple);
  return splittable(r) && fits && gain(r) > 0;
}

void Chooser::elementwise_or_reduce() {
  std::size_t lane = facts_.ranges.size();
  double best = 0;
  std::optional<ScoreLanes> scores;
  if (has_rows() && carries_tuple() && uses("lanes") && uses("score-lanes"))
    scores = choose_score_lanes(kernel_, facts_, target_, kRowsTogether);
  if (scores) lane = scores->keys;
  // Lanes also divide the arithmetic.
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (!scores && may_have_lanes(r)) {
      const double g = gain(r) * static_cast<double>(
                                     lane_width(target_, facts_.ranges[r].extent, facts_.element_bytes, 1));
      if (g >= best) best = g, lane = r;
    }
  if (scores)
    add(OptOp::UPCAST, position(lane), {scores->width});
  else if (lane < facts_.ranges.size())
    lanes_along(lane);
  if (lane < facts_.ranges.size() && (has_rows() || facts_.reduces > 1)) {
    // The other nests of a row have lanes of their own, and so have reduces one after the other.
    std::vector<std::size_t> taken{lane};
    std::vector<Node> nodes = toposort(kernel_);
    for (std::size_t r = 0; r < facts_.ranges.size(); ++r) {
      bool free = r != lane && !is_output(r) && may_have_lanes(r);
      for (std::size_t t : taken)
        for (std::size_t i = 0; free && i < nodes.size(); ++i)
          free = !(facts_.depends(nodes[i], r) && facts_.depends(nodes[i], t));
      if (!free) continue;
      lanes_along(r);
      taken.push_back(r);
    }
  }
  if (has_rows() && carries_tuple()) rows_together();
  uneven_in_registers();
  unroll_small_reduces();
  threads(output_order(), 4);
  if (!scores) return;
  const std::vector<Node> values = stage_values(kernel_);
  const int at = position(scores->rows);
  add(OptOp::STAGE, at > 0 ? at - 1 : kBeforeLoops,
      {std::find(values.begin(), values.end(), scores->factor) - values.begin(), 0});
}

std::vector<std::size_t> Chooser::output_order() const {
  std::vector<std::size_t> order;
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (is_output(r)) order.push_back(r);
  return order;
}

// A short output range that an index divides (a residue): its steps are copies with constants instead.
void Chooser::uneven_in_registers() {
  if (!uses("uneven-in-registers")) return;
  std::int64_t copies = register_copies();
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r) {
    if (!is_output(r) || !splittable(r) || facts_.ranges[r].extent > kSmallReduce || position(r) < 0)
      continue;
    const bool divided =
        std::any_of(facts_.accesses.begin(), facts_.accesses.end(), [&](const AccessFacts& a) {
          return a.strides[r] == kUneven && divides(a.node.arg(1), facts_.ranges[r].range);
        });
    if (!divided || copies * facts_.ranges[r].extent > kMostCopies) continue;
    add(OptOp::UPCAST, position(r), {0});
    copies = register_copies();
  }
}

// Whether the index is made of positions alone and divides one that moves with the range.
bool Chooser::divides(Node index, Node range) {
  bool divided = false;
  for (Node n : toposort(index)) {
    if (n.is(Op::Load)) return false;
    divided |= (n.is(Op::FloorDiv) || n.is(Op::FloorMod)) && depends_on(n, range);
  }
  return divided;
}

std::int64_t Chooser::register_copies() const {
  std::int64_t copies = 1;
  for (const Axis& axis : state_.axes())
    if (axis.kind == RangeKind::Upcast || axis.kind == RangeKind::Unroll) copies *= axis.extent.hi();
  return copies;
}

void Chooser::unroll_small_reduces() {
  if (!uses("unroll-small-reduces")) return;
  std::int64_t copies = register_copies();
  for (std::size_t r = facts_.ranges.size(); r-- > 0;) {
    const RangeFacts& range = facts_.ranges[r];
    if (range.kind != RangeKind::Reduce || range.carries_tuple || !splittable(r) || position(r) < 0) continue;
    copies *= left(r);
    if (left(r) > kSmallReduce || copies > kMostCopies) return;
    add(OptOp::UNROLL, reduce_number(r), {0});
  }
}

// The first output range with enough steps is divided among threads: into several parts a core, so that a
// core that is slowed down holds up little, and evenly where that is possible.
std::int64_t Chooser::parts_wanted(std::int64_t parts_per_core) const {
  if (!uses("threads") || !target_.threads || target_.cores < 2 || facts_.work < kWorthThreads) return 1;
  return static_cast<std::int64_t>(std::min(static_cast<double>(target_.cores * parts_per_core),
                                            std::max(2.0, facts_.work / kWorkPerPart)));
}

bool Chooser::threads(const std::vector<std::size_t>& order, std::int64_t parts_per_core) {
  const std::int64_t wanted = parts_wanted(parts_per_core);
  if (wanted < 2) return false;
  std::size_t chosen = facts_.ranges.size();
  std::int64_t chosen_parts = 1;
  for (std::size_t r : order) {
    if (position(r) < 0 || !facts_.ranges[r].constant) continue;
    std::int64_t parts = even_parts(left(r), wanted);
    if (parts > chosen_parts) chosen = r, chosen_parts = parts;
    if (parts * 2 >= wanted) break;
  }
  if (chosen == facts_.ranges.size()) return false;
  add(OptOp::THREAD, position(chosen), {chosen_parts});
  return true;
}

// Into how many parts: those that are done first; of equals the most.
std::int64_t Chooser::even_parts(std::int64_t extent, std::int64_t wanted) const {
  std::int64_t best = 1;
  double shortest = static_cast<double>(extent);
  for (std::int64_t parts = 2; parts <= std::min(extent, wanted); ++parts) {
    const double time = parts_steps(extent, parts, target_.cores);
    if (time <= shortest) best = parts, shortest = time;
  }
  return best;
}

std::span<const HeuristicRule> heuristic_rules() { return kRules; }

std::vector<Opt> choose_options(Node kernel, const Compile& compile) {
  Scope scope;
  if (compile.invariant) return Chooser(kernel, compile).run_invariant();
  std::vector<Opt> options = Chooser(kernel, compile).run();
  auto stages = [](const Opt& o) { return o.op == OptOp::STAGE; };
  auto needs_care = [&](const Opt& o) { return stages(o) || o.op == OptOp::TC; };
  if (std::none_of(options.begin(), options.end(), needs_care)) return options;
  // How large panels are shows when they are made: where they do not fit, the loops stand without them.
  auto fits = [&] {
    try {
      apply_options(kernel, options, compile.quiet());
      return true;
    } catch (const KernelOptError&) {
      return false;
    }
  };
  if (fits()) return options;
  std::erase_if(options, stages);
  if (options.empty() || options[0].op != OptOp::TC || fits()) return options;
  Target plain = compile.target;  // a unit that needs panels is no use without
  plain.units.clear();
  return choose_options(kernel, compile.with(plain));
}

}  // namespace lathe
