// What the heuristic works with: the kernel and the options so far, and a function for each kind of kernel.
// Its rules are in heuristic.cpp, those for sums of products in heuristic_products.cpp, those for groups of
// threads in heuristic_groups.cpp and heuristic_rows.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "codegen/choose/group_tile.h"
#include "codegen/choose/kernel_facts.h"
#include "codegen/choose/lane_gain.h"
#include "codegen/choose/product_tile.h"
#include "codegen/choose/stream_options.h"
#include "codegen/codegen.h"
#include "codegen/options/option_state.h"

namespace lathe {

class Chooser {
 public:
  Chooser(Node kernel, const Compile& compile)
      : kernel_(kernel),
        compile_(compile),
        target_(compile.target),
        facts_(kernel_facts(kernel)),
        state_(kernel, compile.target) {}

  std::vector<Opt> run();
  std::vector<Opt> run_invariant();

 private:
  // An option the kernel does not take is left out: the rules below need not know every refusal. One that
  // copies a body until compiling it takes long makes half as many copies, as long as they are whole vectors:
  // what has so many instructions gains nothing from more of them.
  void add(OptOp op, int axis, std::vector<std::int64_t> arg) {
    constexpr double kLongBody = 12000;
    Opt opt{op, axis, std::move(arg)};
    const OptionState before = state_;
    try {
      for (;;) {
        state_.apply(opt);
        const double length = state_.body_length();
        if (length <= kLongBody || length <= before.body_length()) break;
        state_ = before;
        const std::int64_t least = std::max(target_.vector_bytes / facts_.element_bytes, 1);
        const bool copies = op == OptOp::UPCAST || op == OptOp::UNROLL;
        if (!copies || opt.arg[0] % 2 != 0 || opt.arg[0] < 2 * least) return;
        opt.arg[0] /= 2;
      }
      opts_.push_back(std::move(opt));
    } catch (const KernelOptError&) {
      state_ = before;
    }
  }
  bool uses(std::string_view rule) const { return !compile_.rules.disables(rule); }
  int position(std::size_t range) const { return state_.loop_position(facts_.ranges[range].range); }
  int reduce_number(std::size_t range) const {
    int number = 0;
    for (int i = 0; i < position(range); ++i)
      number += state_.axes()[static_cast<std::size_t>(i)].kind == RangeKind::Reduce;
    return number;
  }
  std::int64_t left(std::size_t range) const {  // steps of the loop that is left of it
    int at = position(range);
    return at < 0 ? 1 : std::max<std::int64_t>(state_.axes()[static_cast<std::size_t>(at)].extent.hi(), 1);
  }
  bool is_output(std::size_t r) const { return facts_.ranges[r].kind == RangeKind::Global; }
  bool is_loop(std::size_t r) const { return facts_.ranges[r].kind == RangeKind::Loop; }
  // Loops of the kernel's own: several nests one after the other work on one row.
  bool has_rows() const {
    for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
      if (is_loop(r)) return true;
    return false;
  }
  bool splittable(std::size_t r) const { return can_split(facts_.ranges[r]); }

  // walks in order
  bool walks();
  void threads_own_rows(std::size_t row, std::size_t step, bool threaded);
  void walk_together(std::size_t rows);

  // walks over memory
  bool streams();
  void widen_scales(const StreamPlan& plan);

  // sums of products
  bool blocks();
  bool takes_blocks(const KernelFacts& facts, std::size_t block) const;
  void block_rows();
  bool fragments();
  std::vector<std::int64_t> steps_left(bool reduces) const;
  bool product_threads(const ProductTile& tile);
  bool product();
  bool window_rows();
  void leave_border_out(ProductTile& tile);
  std::optional<ProductTile> with_unit(const std::optional<ProductTile>& plain);
  static double steps_of(const KernelFacts& facts);
  void nest(const ProductTile& tile, int at);
  void lanes_outside(const ProductTile& tile);
  void fetch_next(const ProductTile& tile);
  void move(int from, int to);

  // everything else on a CPU
  double gain(std::size_t r) const { return lane_gain(facts_, target_, r); }
  bool carries_tuple() const;
  std::int64_t register_row(std::int64_t extent, std::int64_t otherwise) const;
  void rows_together();
  void lanes_along(std::size_t r);
  bool may_have_lanes(std::size_t r) const;
  void elementwise_or_reduce();
  std::vector<std::size_t> output_order() const;
  void uneven_in_registers();
  static bool divides(Node index, Node range);
  std::int64_t register_copies() const;
  void unroll_small_reduces();
  std::int64_t parts_wanted(std::int64_t parts_per_core) const;
  bool threads(const std::vector<std::size_t>& order, std::int64_t parts_per_core);
  std::int64_t even_parts(std::int64_t extent, std::int64_t wanted) const;

  // targets with groups of threads
  void for_groups();
  bool group_product();
  // Options that some choice adds, or none of them where the kernel does not take them all.
  bool tried(const std::function<bool()>& choose);
  bool group_unit(const GroupTile& plain);
  // A unit on the kernel: the ranges of its rows, columns and words among the facts, and the outputs beside.
  struct UnitRanges {
    const MatrixUnit* unit = nullptr;
    std::size_t row = 0, column = 0, reduce = 0;
    double batch = 1;
  };
  std::optional<UnitRanges> take_unit(const Opt& opt, std::size_t column);
  bool panel_unit(const GroupTile& plain);
  bool joined_panel_unit();
  Node join_product();
  void group_tile(const GroupTile& tile);
  bool warp_unit(const GroupTile& plain, bool swizzled);
  int stage_factors(const UnitRanges& on, std::int64_t steps, std::int64_t layout);
  std::vector<Opt> unit_rows(const GroupTile& plain, UnitReads reads) const;
  bool group_reduce();
  bool rows_share_loads();
  bool group_rows();
  void copy_steps(std::size_t r, std::int64_t steps);
  void divide_row(std::size_t r, std::int64_t width, std::int64_t threads, bool kept);
  bool group_turn();
  void group_outputs();

  Node kernel_;
  const Compile& compile_;
  const Target& target_;
  KernelFacts facts_;
  OptionState state_;
  std::vector<Opt> opts_;
};

}  // namespace lathe
