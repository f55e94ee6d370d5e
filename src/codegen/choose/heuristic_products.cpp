// The rules for sums of products: blocks of small integers, tile units, and tiles of registers with panels.
#include <cmath>
#include <limits>

#include "codegen/choose/border_steps.h"
#include "codegen/choose/chooser.h"
#include "codegen/choose/product_threads.h"
#include "codegen/choose/window_rows.h"
#include "codegen/kernel/lanes.h"
#include "codegen/options/matrix_unit.h"
#include "ir/ranges.h"
#include "ir/walk.h"

namespace lathe {

// Products of small integers with a scale for each block of them: a lane takes a block, so that its sum is
// complete before it is converted and scaled, and no lanes have to be added before the row's end. The other
// factor is the same for all rows and lies as the lanes want it in a panel.
bool Chooser::blocks() {
  for (std::size_t block = 0; block < facts_.ranges.size() && target_.vector_bytes > 4; ++block) {
    if (facts_.ranges[block].kind != RangeKind::Reduce || !splittable(block)) continue;
    std::optional<Opt> opt = matrix_unit_option(kernel_, facts_.ranges[block].range, target_, false);
    if (!opt) continue;
    OptionState state(kernel_, target_);
    state.apply(*opt);
    KernelFacts facts = kernel_facts(state.kernel());
    const BlockParts parts = block_parts(facts, block);
    if (parts.empty() || !takes_blocks(facts, block)) continue;
    become(std::move(state), std::move(facts), *std::move(opt));
    const std::vector<std::size_t> outputs = output_order();
    if (std::any_of(outputs.begin(), outputs.end(),
                    [&](std::size_t r) { return facts_.depends(facts_.factors[1], r); })) {
      block_tiles(parts);
    } else {
      divide_blocks(parts);
      block_rows(parts);
    }
    return true;
  }
  return false;
}

// Whether a range is steps of words whose sum is an integer: the others have a scale for each step.
bool Chooser::is_word(const KernelFacts& facts, std::size_t r) {
  const auto closed = closed_ranges(facts.reduce);
  return std::find(closed.begin(), closed.end(), facts.ranges[r].range) != closed.end();
}

// In how many parts the sum over blocks is taken. In an invariant compile those are every so many-th of all
// blocks, counted over all ranges with a scale: they may be one range in one batch and several in another,
// where the numbers are not stored first. Empty where no vector is filled.
Chooser::BlockParts Chooser::block_parts(const KernelFacts& facts, std::size_t block) const {
  constexpr std::int64_t kFewest = 4;
  std::vector<std::size_t> scaled{block};
  if (compile_.invariant) {
    scaled.clear();
    for (std::size_t r = 0; r < facts.ranges.size(); ++r)
      if (facts.ranges[r].kind == RangeKind::Reduce && !is_word(facts, r)) scaled.push_back(r);
  }
  std::int64_t all = 1, lanes = target_.vector_bytes / 4;
  for (std::size_t r : scaled) {
    if (!can_split(facts.ranges[r])) return {};
    all *= facts.ranges[r].extent;
  }
  while (lanes > kFewest && all % lanes != 0) lanes /= 2;
  if (all % lanes != 0) return {};
  BlockParts out;
  for (std::size_t i = scaled.size(); i-- > 0 && lanes > 1;) {
    const std::int64_t here = std::min(lanes, facts.ranges[scaled[i]].extent);
    if (lanes % here != 0 || facts.ranges[scaled[i]].extent % here != 0) return {};
    out.emplace_back(scaled[i], here);
    lanes /= here;
  }
  std::reverse(out.begin(), out.end());  // the last one changes first
  return out;
}

// Words have no loop, and parts of the sum are lanes. False where so many copies are not made.
bool Chooser::divide_blocks(const BlockParts& parts) {
  for (std::size_t r = facts_.ranges.size(); r-- > 0;)
    if (is_word(facts_, r) && left(r) > 1) add(OptOp::UNROLL, reduce_number(r), {0});
  bool all = true;
  for (const auto& [range, size] : parts) {
    const std::int64_t steps = left(range);
    add(OptOp::UNROLL, reduce_number(range), {size});
    all &= left(range) * size == steps;
  }
  return all;
}

// Whether a block is few words, and lanes find theirs near each other.
bool Chooser::takes_blocks(const KernelFacts& facts, std::size_t block) const {
  constexpr std::int64_t kMostWords = 16;        // of a block: they have no loop
  constexpr std::int64_t kMostBytesApart = 256;  // from lane to lane: a few lines of each page
  std::int64_t words = 1;
  double panel = 4;
  for (std::size_t r = 0; r < facts.ranges.size(); ++r) {
    if (is_word(facts, r)) words *= facts.ranges[r].extent;
    if (facts.ranges[r].kind == RangeKind::Reduce) panel *= static_cast<double>(facts.ranges[r].extent);
  }
  if (words > kMostWords || panel * 4 > static_cast<double>(target_.l2)) return false;
  const std::vector<Node> first = toposort(facts.factors[0]);
  return std::all_of(facts.accesses.begin(), facts.accesses.end(), [&](const AccessFacts& a) {
    if (std::find(first.begin(), first.end(), a.node) == first.end()) return true;
    const std::int64_t bytes = a.strides[block] * a.node.dtype().bytes();
    return a.strides[block] > 0 && !a.gated && bytes <= kMostBytesApart;
  });
}

// Of a vector: two walks over rows. Its panel is filled once for a thread's rows, or for many. Short ranges
// beside the blocks, such as the halves of bytes, have no loop: what steps of the last one share is then read
// once, and where it lies is known. Two rows share vectors of the panel as long as registers hold them.
void Chooser::block_rows(const BlockParts& parts) {
  constexpr std::int64_t kRows = 2, kMany = 128, kMostCopies = 2;
  std::int64_t copies = 1;
  for (std::size_t r = facts_.ranges.size(); r-- > 0;) {
    const RangeFacts& range = facts_.ranges[r];
    if (range.kind != RangeKind::Reduce || is_word(facts_, r) || position(r) < 0 || !splittable(r)) continue;
    if (left(r) != range.extent || copies * left(r) > kMostCopies) continue;
    copies *= left(r);
    add(OptOp::UNROLL, reduce_number(r), {0});
  }
  std::int64_t lanes = 1, shared = 1;  // numbers of the panel that a step reads, then vectors
  for (const auto& [range, size] : parts) lanes = std::max(lanes, size);
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (facts_.ranges[r].kind == RangeKind::Reduce) shared *= facts_.ranges[r].extent / left(r);
  shared /= lanes;
  const std::int64_t most = shared <= target_.vector_registers / 2 ? kRows : 1;
  const std::vector<std::size_t> outputs = output_order();
  std::size_t row = facts_.ranges.size();
  const bool threaded = threads(outputs, 4);
  for (std::size_t r : outputs)
    if (position(r) >= 0 && (row == facts_.ranges.size() || left(r) > left(row))) row = r;
  bool outside = threaded;
  if (row < facts_.ranges.size()) {
    const std::int64_t rows = left(row), together = rows % most == 0 ? most : 1;
    std::int64_t piece = rows / together;
    if (!threaded && piece > kMany)
      for (piece = kMany; rows % (piece * together) != 0 && piece > kMany / 2;) --piece;
    outside |= piece * together < rows;
    const int at = position(row);
    if (piece > 1 && piece < rows) add(OptOp::TILE, at, {piece});
    if (together > 1) add(OptOp::UPCAST, at, {together});
  }
  if (outside) add_stage(0, facts_.factors[1], 0);
}

// Of a matrix: few rows of the larger factor, decoded into a panel, for all rows of the other one that L2
// holds, some of them in registers at a time.
void Chooser::block_tiles(const BlockParts& parts) {
  const std::size_t none = facts_.ranges.size();
  std::size_t side[2] = {none, none};  // the longest output range of each factor
  for (std::size_t r : output_order())
    for (int i = 0; i < 2; ++i)
      if (facts_.depends(facts_.factors[i], r) && !facts_.depends(facts_.factors[1 - i], r) &&
          splittable(r) && (side[i] == none || left(r) > left(side[i])))
        side[i] = r;
  if (side[0] == none || side[1] == none) {
    divide_blocks(parts);
    threads(output_order(), 4);
    return;
  }
  const int large = left(side[0]) >= left(side[1]) ? 0 : 1;
  const std::size_t rows = side[large], others = side[1 - large];
  double bytes = 4;  // of a row of words
  for (std::size_t r = 0; r < none; ++r)
    if (facts_.ranges[r].kind == RangeKind::Reduce) bytes *= static_cast<double>(facts_.ranges[r].extent);
  threads({rows, others}, 4);
  constexpr std::int64_t kRows = 2;
  const auto fits = static_cast<std::int64_t>(static_cast<double>(target_.l2) / 4 / bytes);
  const Chooser before = *this;
  for (std::int64_t together = target_.vector_registers >= 32 ? 8 : 4; together > 0; together /= 2) {
    int at = !state_.axes().empty() && state_.axes()[0].kind == RangeKind::Thread ? 1 : 0;
    const std::int64_t most = std::max(fits / together * together, together);
    if (position(others) >= 0 && left(others) > most) add(OptOp::TILE, position(others), {most, at++});
    const int outside = at > 0 ? at - 1 : kBeforeLoops;
    if (position(rows) >= 0) {
      move(position(rows), at);
      add(OptOp::UPCAST, at, {std::min(left(rows), kRows)});
    }
    const int inner = state_.last_loop_position(facts_.ranges[others].range);
    const std::int64_t here = inner < 0 ? 1 : state_.axes()[static_cast<std::size_t>(inner)].extent.hi();
    if (here > 1) add(OptOp::UPCAST, inner, {std::min(here, together)});
    // Last, so that lanes lie side by side in panels.
    if (!divide_blocks(parts) && together > 1) {
      restore(before);
      continue;
    }
    add_stage(outside, facts_.factors[1 - large], 0);
    // Decoded once where several steps read it.
    if (here > together && position(rows) >= 0) add_stage(position(rows), facts_.factors[large], 0);
    return;
  }
}

// A unit of fragments does many times what a vector does, so it is taken wherever its fragments are filled
// to a fair share: two by two of them in registers, both factors packed.
bool Chooser::fragments() {
  constexpr double kFilled = 0.25;
  for (std::size_t lane = facts_.ranges.size(); lane-- > 0;) {
    if (!is_output(lane)) continue;
    std::optional<Opt> opt = matrix_unit_option(kernel_, facts_.ranges[lane].range, target_, true);
    if (!opt) continue;
    const UnitKernel unit = use_matrix_unit(kernel_, *opt, target_).value();
    std::size_t row = 0;
    while (facts_.ranges[row].range != unit.m) ++row;
    auto filled = [](Node range, int size) {
      const auto extent = static_cast<double>(range.arg(0).const_int());
      return extent / (std::ceil(extent / size) * size);
    };
    if (filled(unit.m, unit.unit->m) * filled(unit.n, unit.unit->n) * filled(unit.k, unit.unit->k) < kFilled)
      continue;
    OptionState state(kernel_, target_);
    state.apply(*opt);
    KernelFacts facts = kernel_facts(state.kernel());
    if (!facts.reduce || !facts.reduce.arg(0).is(Op::Dot))
      continue;  // the kernel's main work is another reduce
    become(std::move(state), std::move(facts), *std::move(opt));
    std::vector<std::int64_t> taken(facts_.ranges.size(), 1);
    taken[row] = unit.unit->m, taken[lane] = unit.unit->n;
    // Products of one fragment of columns follow each other: what is read past L1 is then read
    // half a step apart, not twice in a row.
    for (std::size_t r : {lane, row})
      if (left(r) > 1) {
        add(OptOp::UPCAST, position(r), {2});
        taken[r] *= 2;
      }
    tile_ = fragment_tile(facts_, target_, lane, row, steps_left(true), taken);
    product_threads();
    nest();
    return true;
  }
  return false;
}

std::vector<std::int64_t> Chooser::steps_left(bool reduces) const {
  std::vector<std::int64_t> steps(facts_.ranges.size(), reduces ? 1 : 0);
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if ((is_output(r) || reduces) && position(r) >= 0 && facts_.ranges[r].constant) steps[r] = left(r);
  return steps;
}

void Chooser::product_threads() {
  divides_product_ = true;
  take(RuleId::Threads);
}

bool Chooser::divide_product() {
  const std::int64_t wanted = parts_wanted(tile_->panel ? 2 : 4);
  if (wanted < 2) return false;
  ThreadParts chosen = choose_product_threads(facts_, target_, *tile_, steps_left(false), wanted);
  if (chosen.parts > 1) add(OptOp::THREAD, position(chosen.range), {chosen.parts});
  return chosen.parts > 1;
}

const std::optional<ProductTile>& Chooser::priced_tile() {
  if (!has_priced_) tile_ = choose_product_tile(facts_, target_);
  has_priced_ = true;
  return tile_;
}

bool Chooser::product() {
  priced_tile();
  take(RuleId::MatrixUnit);
  // One product at a time also waits for the sum before.
  double scalar_cost = 2.0 * static_cast<double>(target_.vector_bytes / std::max(facts_.element_bytes, 1));
  if (!tile_ || tile_->cost >= scalar_cost) return false;  // no better than one product at a time
  // Of several sums that are equally long each has lanes of its own.
  if (tile_->lanes_reduce && facts_.as_long > 1) return false;
  take(RuleId::BorderSteps);
  for (auto [range, size] : tile_->rows) add(OptOp::UPCAST, position(range), {size});
  if (tile_->lanes_reduce)
    add(OptOp::UNROLL, reduce_number(tile_->lane_range), {tile_->width});
  else
    add(OptOp::UPCAST, position(tile_->lane_range), {tile_->width});
  if (tile_->lanes_reduce) take(RuleId::ProductPanels);
  product_threads();
  if (!tile_->lanes_reduce) take(RuleId::ProductPanels);
  take(RuleId::ProductOrder);
  return true;
}

bool Chooser::pack_factors() {
  if (tile_->lanes_reduce)
    stage_along_reduce();
  else
    nest();
  return true;
}

// Some steps of the lanes at a time.
void Chooser::stage_along_reduce() {
  int at = position(tile_->lane_range);
  if (at >= 0 && tile_->reduce_steps < left(tile_->lane_range)) add(OptOp::TILE, at, {tile_->reduce_steps});
  for (int i = 0; i < 2; ++i)
    if (tile_->stage[i]) add_stage(std::max(at, 0), facts_.factors[i], 0);
}

// Windows that share nothing but their images.
bool Chooser::window_rows() {
  if (!priced_tile() || !tile_->rows.empty()) return false;
  const std::optional<WindowRows> plan = choose_window_rows(facts_, target_);
  if (!plan) return false;
  add(OptOp::UPCAST, position(plan->row), {plan->rows});
  add(OptOp::UPCAST, position(plan->lane), {plan->width});
  add(OptOp::UNROLL, reduce_number(plan->window), {0});
  if (plan->across) add(OptOp::UNROLL, reduce_number(*plan->across), {0});
  threads(output_order(), 4);
  return true;
}

// The window's steps come before the lanes in the panel, so that the lanes are contiguous.
bool Chooser::leave_border_out() {
  const std::optional<BorderSteps> border = choose_border_steps(facts_, target_, *tile_);
  if (!border) return false;
  add(OptOp::UNROLL, reduce_number(border->window), {0});
  tile_->rows = {{border->row, facts_.ranges[border->row].extent}};
  tile_->width = border->width;
  tile_->other_panel = false;
  tile_->lane_steps = tile_->reduce_steps = std::numeric_limits<std::int64_t>::max();
  return true;
}

// The tile on a matrix unit, where its words pay: a step of it does several products.
bool Chooser::on_vector_unit() {
  const std::optional<ProductTile> plain = tile_;
  std::size_t lane = facts_.ranges.size();
  if (plain && !plain->lanes_reduce) lane = plain->lane_range;
  for (std::size_t r = 0; r < facts_.ranges.size() && lane == facts_.ranges.size(); ++r)
    if (is_output(r) && matrix_unit_option(kernel_, facts_.ranges[r].range, target_, false)) lane = r;
  if (lane == facts_.ranges.size()) return false;
  // Which factor is the vector is known once the tile is: then the unit takes it that way round.
  for (int round = 0; round < 2; ++round) {
    std::optional<Opt> opt = matrix_unit_option(kernel_, facts_.ranges[lane].range, target_, false);
    if (!opt) return false;
    OptionState state(kernel_, target_);
    state.apply(*opt);
    KernelFacts facts = kernel_facts(state.kernel());
    std::optional<ProductTile> tile = choose_product_tile(facts, target_);
    const double products = facts_.reduce ? steps_of(facts_) / steps_of(facts) : 1;
    if (!tile || tile->lanes_reduce || (plain && tile->cost / products >= plain->cost)) return false;
    if (tile->lane_range != lane && round == 0) {
      lane = tile->lane_range;
      continue;
    }
    become(std::move(state), std::move(facts), *std::move(opt));
    tile_ = std::move(tile);
    return true;
  }
  return false;
}

double Chooser::steps_of(const KernelFacts& facts) {
  double n = 1;
  for (const RangeFacts& r : facts.ranges) n *= static_cast<double>(r.extent);
  return n;
}

// The loops of a product in blocks, outermost first: what moves the vector factor beside the lanes, blocks
// of lanes, blocks of the reduce, [its panel], blocks of rows, [the other panel], lanes, rows, reduce.
void Chooser::nest() {
  const ProductTile& tile = *tile_;
  Node f = facts_.factors[tile.factor], g = facts_.factors[1 - tile.factor];
  int at = state_.axes().empty() || state_.axes()[0].kind != RangeKind::Thread ? 0 : 1;
  auto place = [&](std::size_t r) {
    if (position(r) >= 0) move(position(r), at++);
  };
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (is_output(r) && r != tile.lane_range && facts_.depends(f, r)) place(r);
  auto block = [&](std::size_t r, std::int64_t steps) {
    if (position(r) < 0 || steps >= left(r)) return;
    std::size_t before = opts_.size();
    // Even blocks of what is left here: a part of a thread is no multiple of a block of the whole.
    std::int64_t blocks = (left(r) + steps - 1) / steps;
    add(OptOp::TILE, position(r), {(left(r) + blocks - 1) / blocks, at});
    at += opts_.size() > before;
  };
  auto outside = [&] { return at > 0 ? at - 1 : kBeforeLoops; };
  auto stage_other = [&] { add_stage(outside(), g, tile.fragments ? 0 : 1); };
  if (tile.other_panel && tile.other_first) stage_other();
  block(tile.lane_range, tile.lane_steps);
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (facts_.ranges[r].kind == RangeKind::Reduce && facts_.depends(facts_.reduce.arg(0), r)) {
      block(r, tile.reduce_steps);
      break;
    }
  add_stage(outside(), f, 0);
  if (tile.other_panel) {
    for (std::size_t r : tile.outside) place(r);
    if (tile.tiled > 0) block(tile.tiled - 1, tile.tile);
    if (!tile.other_first) stage_other();
  }
  // Within a block.
  const int lanes = state_.last_loop_position(facts_.ranges[tile.lane_range].range);
  if (lanes >= at) move(lanes, at);
  if (tile.lane_steps == 1) take(RuleId::Pipeline);
}

// Without panels: where the vector factor does not fit L2, one step of lanes of it serves all rows before the
// next one is read. The other factor is read again instead, which is as much less as a step of lanes is wider
// than one of rows.
bool Chooser::lanes_outside() {
  const std::size_t lane = tile_->lane_range;
  Node f = facts_.factors[tile_->factor];
  double bytes = facts_.reduce.dtype().bytes();
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (facts_.depends(f, r) && (!is_output(r) || r == lane))
      bytes *= static_cast<double>(facts_.ranges[r].extent);
  if (position(lane) < 0 || bytes <= static_cast<double>(target_.l2)) return false;
  int first = position(lane);
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (is_output(r) && !facts_.depends(f, r) && position(r) >= 0) first = std::min(first, position(r));
  move(position(lane), first);
  take(RuleId::Pipeline);
  return true;
}

// Products do not wait for memory while they work on what is there.
bool Chooser::fetch_strip() {
  add(OptOp::PIPELINE, position(tile_->lane_range), {1});
  return true;
}

}  // namespace lathe
