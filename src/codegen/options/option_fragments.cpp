// The part of OptionState that divides the ranges of a kernel on a matrix unit: into those of a fragment, and
// those of the threads that share one.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "codegen/options/matrix_unit.h"
#include "codegen/options/option_state.h"
#include "ir/range_tests.h"
#include "ir/ranges.h"

namespace lathe {

// The ranges within a fragment are last, in the order in which fragments are in memory: rows of x, words,
// columns of y. Without the instruction they are ordinary loops.
bool OptionState::fragments(const UnitKernel& unit) {
  const bool joined = unit.use == UnitUse::Instruction;
  if (joined && unit.unit->threads > 1) return shares(unit);
  const RangeKind output = joined ? RangeKind::Upcast : RangeKind::Loop,
                  reduce = joined ? RangeKind::Unroll : RangeKind::Reduce;
  auto split = [&](Node range, std::int64_t size, RangeKind kind) {
    split_low(static_cast<std::size_t>(loop_position(range)), size, kind, axes_.size());
  };
  split(unit.m, unit.unit->m, output);
  split(unit.k, unit.unit->k, reduce);
  split(unit.n, unit.unit->n, output);
  if (!joined) return true;
  fragment_axes_ = 3;
  fragments_held_ = unit.unit->most_lanes;
  fragment_columns_ = axes_.back().origin;
  return true;
}

// A fragment that a warp shares: 8 of its rows and 4 pairs of its columns are threads, next to each other in
// the warp; the rest is in registers, and is last: words of a step, halves of the rows, columns of a
// pair. One that four warps share has 16 rows for each of them, and eights of columns in registers.
bool OptionState::shares(const UnitKernel& unit) {
  if (!need_group()) return false;
  for (const auto& [range, size] :
       {std::pair(unit.m, unit.unit->m), std::pair(unit.n, unit.unit->n), std::pair(unit.k, unit.unit->k)})
    if (!range.arg(0).is_const() || range.arg(0).const_int() < size)
      return refuse(fmt::format("a range has {} steps where a fragment has {}", range.arg(0).hi(), size));
  auto split = [&](Node range, std::int64_t size, RangeKind kind) {
    const bool thread = kind == RangeKind::Local;
    split_low(static_cast<std::size_t>(loop_position(range)), size, kind,
              thread ? after_launch() : axes_.size());
    return last_serial();
  };
  FragmentRanges made;
  made.unit = unit.unit;
  made.k = split(unit.k, unit.unit->k, RangeKind::Unroll);
  made.group = split(unit.m, 8, RangeKind::Local);
  made.high = split(unit.m, 2, RangeKind::Upcast);
  const int rows = axes_.back().origin;
  const bool warps = unit.unit->reads == UnitReads::Panels;
  if (warps) {
    split_low(static_cast<std::size_t>(loop_position(unit.m)), unit.unit->m / 16, RangeKind::Local,
              after_launch() - 1);
    made.warp = last_serial();
  }
  made.low = split(unit.n, 2, RangeKind::Upcast);
  made.pair = split(unit.n, 4, RangeKind::Local);
  if (warps) made.columns = split(unit.n, unit.unit->n / 8, RangeKind::Upcast);
  lane_axes_ = warps ? 3 : 2;
  fragment_axes_ = warps ? 4 : 3;
  shared_unit_ = unit.unit;
  fragments_ = {made};
  fragments_held_ = unit.unit->most_lanes;
  fragment_columns_ = axes_.back().origin;
  check_internal(rows != fragment_columns_, "TC", "rows and columns of a fragment are one range");
  return true;
}

// Two products with the same rows, the sums of the first being the first factor of the second: every loop
// over those sums is divided as the columns of a fragment are, pairs among the same threads, the rest in
// registers.
bool OptionState::shares_in_row(const UnitKernel& unit) {
  if (!need_group()) return false;
  if (unit.m.arg(0).const_int() < unit.unit->m)
    return refuse(fmt::format("{} rows where a fragment has {}", unit.m.arg(0).const_int(), unit.unit->m));
  auto position_of = [&](Node range) { return static_cast<std::size_t>(loop_position(range)); };
  FragmentRanges rows;
  split_low(position_of(unit.m), 8, RangeKind::Local, after_launch());
  rows.group = last_serial();
  split_low(position_of(unit.m), 2, RangeKind::Upcast, axes_.size());
  rows.high = last_serial();
  split_low(position_of(unit.m), unit.unit->m / 16, RangeKind::Local, after_launch() - 1);
  rows.warp = last_serial();
  auto columns = [&](Node range, std::int64_t size, FragmentRanges& made) {
    const RangeKind kind = range_kind(range) == RangeKind::Reduce ? RangeKind::Unroll : RangeKind::Upcast;
    widen(position_of(range), size);
    split_low(position_of(range), 2, kind, axes_.size());
    made.low = last_serial();
    divide_among_threads(position_of(range), 4, false);
    made.pair = last_serial();
    split_low(position_of(range), size / 8, kind, axes_.size());
    made.columns = last_serial();
  };
  auto steps = [&](Node range, std::int64_t size) {
    split_low(position_of(range), size, RangeKind::Unroll, axes_.size());
    const int made = last_serial();
    if (int rest = loop_position(range); rest >= 0)
      split_low(static_cast<std::size_t>(rest), axes_[static_cast<std::size_t>(rest)].extent.const_int(),
                RangeKind::Unroll, axes_.size());
    return made;
  };
  fragments_.assign(unit.row.size(), rows);
  // Outputs before tiles of scores, of which several products may have the same.
  for (std::size_t i = 0; i < unit.row.size(); ++i) {
    const std::size_t at = (i + unit.scores) % unit.row.size();
    const UnitKernel::Along& along = unit.row[at];
    fragments_[at].unit = along.unit;
    std::size_t known = 0;
    while (unit.row[known].n != along.n) ++known;
    if (known < at && at < unit.scores)
      fragments_[at].low = fragments_[known].low, fragments_[at].pair = fragments_[known].pair,
      fragments_[at].columns = fragments_[known].columns;
    else
      columns(along.n, along.unit->n, fragments_[at]);
  }
  FragmentRanges other = rows;
  for (Node range : unit.beside) columns(range, unit.row[0].unit->n, other);
  for (std::size_t i = 0; i < unit.row.size(); ++i)
    fragments_[i].k = steps(unit.row[i].k, unit.row[i].unit->k);
  std::size_t threads = 0;
  for (const Axis& axis : axes_) threads += in_group(axis.kind);
  lane_axes_ = threads;
  fragment_axes_ = 0;
  for (const Axis& axis : axes_) fragment_axes_ += in_registers(axis.kind);
  shared_unit_ = unit.unit;
  fragments_held_ = 1;
  fragment_columns_ = axes_.back().origin;
  return true;
}

std::vector<FragmentRanges> OptionState::fragment_ranges() const {
  std::vector<FragmentRanges> out = fragments_;
  auto place = [&](int& at) {
    if (at < 0) return;
    for (std::size_t i = 0; i < axes_.size(); ++i)
      if (serials_[i] == at) {
        at = static_cast<int>(threads_of(i));
        return;
      }
    at = std::numeric_limits<int>::max();  // of one step: no range is left of it
  };
  for (FragmentRanges& f : out)
    for (int* at : {&f.k, &f.high, &f.low, &f.columns, &f.warp, &f.group, &f.pair}) place(*at);
  return out;
}

// The sums of all copies and what feeds them are in registers of the unit at once; a unit that reads panels
// has only the sums there.
bool OptionState::within_fragments() {
  if (fragment_axes_ == 0) return true;
  std::int64_t rows = 1, columns = 1, steps = 1;
  for (std::size_t i = 0; i + fragment_axes_ < axes_.size(); ++i) {
    const std::int64_t copies = std::max<std::int64_t>(axes_[i].extent.hi(), 1);
    if (axes_[i].kind == RangeKind::Unroll) steps *= copies;
    if (axes_[i].kind == RangeKind::Upcast) (axes_[i].origin == fragment_columns_ ? columns : rows) *= copies;
  }
  const bool from_panels = shared_unit_ != nullptr && shared_unit_->reads == UnitReads::Panels;
  const std::int64_t held = rows * columns + (from_panels ? 0 : (rows + columns) * steps);
  if (held > fragments_held_)
    return refuse(
        fmt::format("{} fragments at once are more than the {} the unit holds", held, fragments_held_));
  return true;
}

}  // namespace lathe
