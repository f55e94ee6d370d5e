// The state of the heuristic: the kernel, the options so far and what its rules (rules.def) have found, with
// the functions that the rules name. Conditions are const; proposals add options. They are defined in
// heuristic.cpp (scans, streams and threads), heuristic_lanes.cpp, heuristic_products.cpp, and for groups of
// threads in heuristic_groups.cpp and heuristic_rows.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/choose/group_tile.h"
#include "codegen/choose/kernel_facts.h"
#include "codegen/choose/lane_gain.h"
#include "codegen/choose/product_tile.h"
#include "codegen/choose/score_lanes.h"
#include "codegen/choose/stream_options.h"
#include "codegen/codegen.h"
#include "codegen/options/option_state.h"

namespace lathe {

enum class RuleId : std::uint8_t {
#define LATHE_RULE(rule, ...) rule,
#include "codegen/choose/rules.def"
#undef LATHE_RULE
};

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

  // ---- conditions of rules
  bool always() const { return true; }
  bool has_groups() const { return target_.groups; }
  bool is_one_nest() const { return !target_.groups && !has_rows(); }
  bool is_group_nest() const { return target_.groups && !has_rows(); }
  bool one_short_reduce() const;
  bool has_units() const { return !target_.units.empty(); }
  bool has_vector_units() const { return is_one_nest() && has_units(); }
  bool has_tuple_rows() const { return has_rows() && carries_tuple(); }
  bool has_score_lanes() const { return scores_.has_value(); }
  bool is_worth_threads() const;
  bool about_splits() const { return splittable(about_); }
  bool stream_is_far() const { return stream_->ahead > 0 && position(stream_->lane) >= 0; }
  bool tile_packs() const { return tile_->panel || tile_->stage[0] || tile_->stage[1]; }
  bool tile_may_pack() const { return uses(RuleId::ProductPanels); }
  bool tile_reads_in_place() const { return !tile_->panel && !tile_->lanes_reduce; }
  bool tile_is_far() const { return tile_->from_memory && position(tile_->lane_range) >= 0; }
  bool fills_in_loop() const { return fill_loop_ >= 0; }
  bool fills_in_bulk() const { return fills_in_loop() && target_.bulk_copies && uses(RuleId::AsyncCopies); }
  bool fills_by_roles() const { return fills_in_bulk() && uses(RuleId::BulkCopies) && roles_pay_; }

  // ---- proposals of rules
  bool serial_scan();
  bool several_scans();
  bool streams();
  bool fetch_lines();
  bool divide_among_cores();

  bool score_lanes();
  bool lanes();
  bool several_vectors();
  bool rows_together();
  bool uneven_in_registers();
  bool unroll_small_reduces();
  bool stage_scores();

  bool blocks();
  bool fragments();
  bool window_rows();
  bool product();
  bool on_vector_unit();
  bool leave_border_out();
  bool pack_factors();
  bool lanes_outside();
  bool fetch_strip();

  bool group_product();
  bool joined_unit();
  bool joined_tile();
  bool group_turn();
  bool in_other_kernels() { return false; }  // done when kernels are made (lay_out_factors.h, split_sum.h)
  bool group_unit();
  bool panel_unit() {
    return try_unit([&] { return panel_tile(); });
  }
  bool swizzled_unit() {
    return try_unit([&] { return warp_unit(true); });
  }
  bool pair_steps();
  bool fill_ahead();
  bool fill_in_bulk();
  bool fill_by_roles();
  bool order_groups();
  bool group_fold();
  bool group_rows();
  bool group_reduce();
  bool outputs_together();
  bool widen_access();
  bool group_outputs();
  void share_reduce(double owners, std::int64_t group);

 private:
  bool uses(RuleId rule) const;
  // Runs a rule unless it is disabled or does not apply; whether it proposed something. `about` is a range
  // that the rule is about.
  bool take(RuleId rule);
  bool take(RuleId rule, std::size_t about) {
    about_ = about;
    return take(rule);
  }
  void add(OptOp op, int axis, std::vector<std::int64_t> arg);
  void move(int from, int to);
  // Adds the option STAGE for a value of the kernel.
  void add_stage(int axis, Node value, std::int64_t layout);
  // Continues with the kernel on a matrix unit, which has other facts.
  void become(OptionState state, KernelFacts facts, Opt opt);

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
  // Whether the kernel has loops: several nests in sequence that work on one row.
  bool has_rows() const {
    for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
      if (is_loop(r)) return true;
    return false;
  }
  bool splittable(std::size_t r) const { return can_split(facts_.ranges[r]); }
  bool carries_tuple() const;
  std::vector<std::size_t> output_order() const;

  // scans, streams and threads
  void threads_own_rows(std::size_t row, std::size_t step, bool threaded);
  int stream_rows(const StreamPlan& plan);
  bool streams_of_rows(const std::vector<std::size_t>& divided);
  void widen_scales(const StreamPlan& plan);
  bool threads(std::vector<std::size_t> order, std::int64_t parts_per_core);
  std::int64_t parts_wanted(std::int64_t parts_per_core) const;
  std::int64_t even_parts(std::int64_t extent, std::int64_t wanted) const;

  // lanes
  double gain(std::size_t r) const { return lane_gain(facts_, target_, r); }
  bool may_have_lanes(std::size_t r) const;
  std::int64_t register_row(std::int64_t extent, std::int64_t otherwise) const;
  void lanes_along(std::size_t r);
  static bool divides(Node index, Node range);
  std::int64_t register_copies() const;
  std::vector<std::size_t> divided_reduces(std::int64_t parts) const;

  // sums of products
  const std::optional<ProductTile>& priced_tile();
  bool takes_blocks(const KernelFacts& facts, std::size_t block) const;
  using BlockParts = std::vector<std::pair<std::size_t, std::int64_t>>;  // ranges, and how much of each
  void block_rows(const BlockParts& parts);
  BlockParts block_parts(const KernelFacts& facts, std::size_t block) const;
  void block_tiles(const BlockParts& parts);
  bool divide_blocks(const BlockParts& parts);
  static bool is_word(const KernelFacts& facts, std::size_t r);
  std::vector<std::int64_t> steps_left(bool reduces) const;
  void product_threads();
  bool divide_product();
  static double steps_of(const KernelFacts& facts);
  void nest();
  void stage_along_reduce();

  // groups of threads
  Node join_product();
  void divide_group_tile();
  struct UnitRanges {  // a unit's rows, columns and words among the facts, and the outputs beside
    const MatrixUnit* unit = nullptr;
    std::size_t row = 0, column = 0, reduce = 0;
    double batch = 1;
  };
  // Runs `choose`; if the kernel does not accept the complete list of options, restores the state and returns
  // false.
  template <class Choose>
  bool try_unit(Choose choose) {
    const Chooser before = *this;
    if (choose() && takes(before.kernel_)) return true;
    restore(before);
    return false;
  }
  bool takes(Node kernel) const;
  void restore(const Chooser& before);
  std::vector<Opt> unit_rows(UnitReads reads) const;
  std::optional<UnitRanges> take_unit(const Opt& opt);
  bool panel_tile();
  bool paired_unit(const UnitKernel& unit, const Opt& opt, std::int64_t groups, std::int64_t slots);
  bool warp_unit(bool swizzled);
  int stage_factors(const UnitRanges& on, std::int64_t steps, std::int64_t layout);
  std::int64_t wide_access(int bytes);  // number of elements of this size in one wide access
  void copy_steps(std::size_t r, std::int64_t steps);
  void divide_row(std::size_t r, std::int64_t width, std::int64_t threads, bool kept);

  Node kernel_;
  const Compile& compile_;
  const Target& target_;
  KernelFacts facts_;
  OptionState state_;
  std::vector<Opt> opts_;

  // What rules have found.
  std::size_t about_ = 0;                                   // the range that the current rule is about
  std::int64_t vectors_ = 1;                                // most vectors along it
  std::int64_t width_ = 1;                                  // elements of a thread in one access
  int access_bytes_ = 1;                                    // bytes of one of these elements
  std::optional<StreamPlan> stream_;                        // of a streaming kernel
  std::optional<ScoreLanes> scores_;                        // of attention
  bool has_priced_ = false;                                 // whether tile_ was computed (it may be empty)
  std::optional<ProductTile> tile_;                         // of a product
  std::vector<std::size_t> parallel_;                       // ranges to divide among the cores, in order
  std::int64_t parts_per_core_ = 4;                         // parts of these ranges per core
  bool divides_product_ = false;                            // divide the tile's ranges instead
  std::optional<GroupTile> group_tile_;                     // of a product computed by a group
  int fill_loop_ = -1;                                      // the loop whose steps fill panels
  std::int64_t fill_slots_ = 1;                             // number of panels it fills in turn
  bool roles_pay_ = false;                                  // whether separate warps should fill them
  std::size_t rows_of_groups_ = 0, columns_of_groups_ = 0;  // ranges whose tiles are launched
  int pair_reduce_ = 0;                                     // the reduce whose steps are taken in pairs
};

}  // namespace lathe
