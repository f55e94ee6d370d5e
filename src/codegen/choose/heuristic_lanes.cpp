// The rules for everything else on a target without groups of threads: which range becomes vectors, how many
// of them, and what has no loop.
#include <algorithm>

#include "codegen/choose/chooser.h"
#include "ir/build.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {
namespace {

// Rows of attention at a time.
constexpr std::int64_t kRowsTogether = 4;
// Reduces without a loop may copy their body this often.
constexpr std::int64_t kMostCopies = 16 * kSmallReduce;

}  // namespace

bool Chooser::carries_tuple() const {
  return std::any_of(facts_.ranges.begin(), facts_.ranges.end(),
                     [](const RangeFacts& r) { return r.carries_tuple; });
}

// A short row of whole vectors is held in registers all at once.
std::int64_t Chooser::register_row(std::int64_t extent, std::int64_t otherwise) const {
  const std::int64_t lanes = std::max(target_.vector_bytes / facts_.element_bytes, 1);
  return extent % lanes == 0 && extent / lanes <= target_.vector_registers / 4 ? extent : otherwise;
}

bool Chooser::may_have_lanes(std::size_t r) const {
  const RangeFacts& range = facts_.ranges[r];
  bool fits = is_output(r) || is_loop(r) || (range.kind == RangeKind::Reduce && !range.carries_tuple);
  return splittable(r) && fits && gain(r) > 0;
}

bool Chooser::several_vectors() {
  vectors_ = (is_output(about_) && facts_.reduces == 0) || is_loop(about_) ? 2 : 4;
  return true;
}

// Lanes along a range, some whole vectors of them. A reduce along the lanes gets four accumulators, so that
// one addition need not wait for the one before.
void Chooser::lanes_along(std::size_t r) {
  if (!uses(RuleId::Lanes)) return;
  vectors_ = 1;
  take(RuleId::SeveralVectors, r);
  std::int64_t most = vectors_;
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

bool Chooser::score_lanes() {
  if (!uses(RuleId::Lanes)) return false;
  scores_ = choose_score_lanes(kernel_, facts_, target_, kRowsTogether);
  if (!scores_) return false;
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (scores_->has_loop(r)) add(OptOp::UPCAST, position(r), {scores_->width});
  return true;
}

bool Chooser::stage_scores() {
  const int at = position(scores_->rows);
  for (const ScoreLanes::Product& p : scores_->products)
    add_stage(at > 0 ? at - 1 : kBeforeLoops, p.factor, 0);
  return true;
}

bool Chooser::lanes() {
  std::size_t lane = facts_.ranges.size();
  double best = 0;
  // Lanes also divide the arithmetic.
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (!scores_ && may_have_lanes(r)) {
      const double g = gain(r) * static_cast<double>(
                                     lane_width(target_, facts_.ranges[r].extent, facts_.element_bytes, 1));
      if (g >= best) best = g, lane = r;
    }
  std::vector<std::size_t> taken;
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (scores_ && scores_->has_loop(r)) taken.push_back(lane = r);
  if (!scores_ && lane < facts_.ranges.size()) lanes_along(lane);
  if (lane == facts_.ranges.size()) return false;
  if (!has_rows() && facts_.reduces < 2) return true;
  // The other nests of a row have lanes of their own, and so have reduces one after the other.
  if (!scores_) taken.push_back(lane);
  std::vector<Node> nodes = toposort(kernel_);
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r) {
    bool free = std::find(taken.begin(), taken.end(), r) == taken.end() && !is_output(r) && may_have_lanes(r);
    // What a fold depends on, no single component of it need.
    for (std::size_t t : taken)
      for (std::size_t i = 0; free && i < nodes.size(); ++i)
        free = nodes[i].is(Op::Fold) || !(facts_.depends(nodes[i], r) && facts_.depends(nodes[i], t));
    if (!free) continue;
    lanes_along(r);
    taken.push_back(r);
  }
  return true;
}

// Neighbouring rows of a tuple reduce read the same keys and values: a few at a time share the loads.
bool Chooser::rows_together() {
  for (std::size_t r = facts_.ranges.size(); r-- > 0;) {
    if (!is_output(r)) continue;
    // The last few of a long axis may be done for nothing.
    const std::int64_t extent = facts_.ranges[r].extent;
    if (splittable(r) && (extent % kRowsTogether == 0 || extent > 8 * kRowsTogether))
      add(OptOp::UPCAST, position(r), {kRowsTogether});
    else if (splittable(r) && extent % 2 == 0)
      add(OptOp::UPCAST, position(r), {2});
    return true;
  }
  return false;
}

// A short output range that an index divides (a residue): its steps are copies with constants instead.
bool Chooser::uneven_in_registers() {
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
  return true;
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
    if (in_registers(axis.kind)) copies *= axis.extent.hi();
  return copies;
}

bool Chooser::unroll_small_reduces() {
  std::int64_t copies = register_copies();
  for (std::size_t r = facts_.ranges.size(); r-- > 0;) {
    const RangeFacts& range = facts_.ranges[r];
    if (range.kind != RangeKind::Reduce || range.carries_tuple || !splittable(r) || position(r) < 0) continue;
    copies *= left(r);
    if (left(r) > kSmallReduce || copies > kMostCopies) break;
    add(OptOp::UNROLL, reduce_number(r), {0});
  }
  return true;
}

}  // namespace lathe
