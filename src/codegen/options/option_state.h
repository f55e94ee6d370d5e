// The effect of a list of options on a kernel's ranges: the list of axes in loop order, and for every range
// of the kernel its index as an expression over the axes. Options change only this state, so trying many is
// cheap; apply_options.cpp rewrites the kernel once at the end. The options are in take_option.cpp, the axes
// of matrix units in option_fragments.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/kernel/panel_layout.h"
#include "codegen/kernel/refusal.h"
#include "codegen/options/join_fragments.h"
#include "codegen/options/matrix_unit.h"
#include "ir/group_ops.h"
#include "ir/node.h"
#include "ir/op.h"
#include "lathe/options.h"
#include "rewrite/rewriter.h"
#include "target/target.h"

namespace lathe {

// An axis of the current list.
struct Axis {
  int origin = 0;  // the range of the kernel that it is a part of
  RangeKind kind = RangeKind::Loop;
  Node extent;          // over nodes of the kernel
  Node stand_in;        // a Range node for this axis in index expressions, until its position is final
  bool leading = true;  // whether it is the most significant part of its range
  int threads = -1;     // if several ranges share these threads: serial of the first such axis
};

// One range of the kernel as scheduled.
struct Origin {
  Node range;
  Node index;                  // an expression over the stand-ins
  std::vector<Node> gates;     // conditions under which the index is within the kernel's range
  bool whole_gated = false;    // whether the gates imply index < extent
  bool carries_tuple = false;  // whether a Fold closes it
};

// STAGE: a value, and the loop in which it is copied.
constexpr int kBeforeLoops = -1;  // the copy is made before all loops of a thread
struct StageRequest {
  Node value;       // a node of the kernel
  int axis_serial;  // see OptionState::serial_of; or kBeforeLoops
  PanelOrder order = PanelOrder::Consumer;
};

// PIPELINE: the prefetch distance of a loop in steps; on targets with groups, the number of steps its panels
// hold at a time, and how they are filled.
struct PipelineRequest {
  int axis_serial;
  std::int64_t depth;
  Filling filling = Filling::Threads;
};

class OptionState {
 public:
  // The rules are those by which options that rewrite the kernel at once simplify it; they and the target
  // outlive the state. Whoever only asks what a kernel takes has them as written.
  OptionState(Node kernel, const Target& target, const RuleChanges& rules = kRulesAsWritten);

  // Applies one more option; false if the kernel refuses it. Then refusal() says why, and the state must not
  // be used any more.
  [[nodiscard]] bool takes(const Opt& opt);
  const Refusal& refusal() const { return *refusal_; }
  // The same for an option that must fit: throws KernelOptError with the option and the reason.
  void apply(const Opt& opt);

  Node kernel() const { return kernel_; }
  const Target& target() const { return *target_; }
  const std::vector<Axis>& axes() const { return axes_; }
  const std::vector<Origin>& origins() const { return origins_; }
  const std::vector<StageRequest>& stages() const { return stages_; }
  const std::vector<PipelineRequest>& pipelines() const { return pipelines_; }
  int serial_of(std::size_t position) const { return serials_[position]; }
  // The position of the axis whose threads this axis uses: its own, or that of the axis it shares them with.
  std::size_t threads_of(std::size_t position) const;

  // The position of the outermost, or innermost, part of a range that is still a loop; -1 if there is none.
  int loop_position(Node range) const;
  int last_loop_position(Node range) const;

  // The number of copies of the most copied part of the body; the nests of a row are copied separately. Exact
  // only up to the limit of copies.
  std::int64_t copies() const;
  // The approximate number of instructions of all copies of the body.
  double body_length() const;

  // Whether TC chose a unit with fragments that belong to one thread; and the unit if threads share
  // fragments.
  bool joins_fragments() const { return fragment_axes_ > 0 && lane_axes_ == 0; }
  const MatrixUnit* shared_unit() const { return lane_axes_ > 0 ? shared_unit_ : nullptr; }
  // The fragment ranges of each product on such a unit.
  std::vector<FragmentRanges> fragment_ranges() const;

 private:
  // One function per option, and their checks: false, or nothing, if the option is refused.
  [[nodiscard]] bool refuse(const std::string& reason);
  std::nullopt_t nothing(const std::string& reason);  // the same
  bool take();
  bool choose_unit();
  bool join();
  bool upcast();
  bool unroll();
  bool local();
  bool thread();
  bool group();
  bool pad();
  bool exchange();
  bool no_locals();
  bool tile();
  bool stage();
  bool pipeline();
  std::optional<std::size_t> position(std::int64_t axis);
  std::optional<std::size_t> reduce_position(int axis);
  std::optional<std::int64_t> size_arg(std::size_t at, bool zero_is_whole);
  bool need_kind(std::size_t at, std::initializer_list<RangeKind> kinds, const char* what);
  bool need_group();
  bool need_shared_rows();
  std::size_t after_launch() const;

  // Splits axis `at`. The new axis of `size` steps is inserted at position `to`. split_low: the new axis is
  // the inner one, within a step of the old axis. split_high: it is the outer one, over parts of the old
  // axis.
  void split_low(std::size_t at, std::int64_t size, RangeKind kind, std::size_t to);
  void split_high(std::size_t at, std::int64_t size, RangeKind kind, std::size_t to);
  void split_apart(std::size_t at, std::int64_t size, std::size_t to);
  void widen(std::size_t at, std::int64_t multiple);
  void divide_among_threads(std::size_t loop, std::int64_t size, bool in_parts);
  bool are_apart(int origin, int other) const;
  bool is_loop_of(std::size_t at, Node range) const;
  void become(std::size_t at, Node index, Node gate_limit);
  void insert(std::size_t to, Axis axis);
  void drop_if_single(std::size_t at);
  Node stand_in(Node extent);
  bool fragments(const UnitKernel& unit);
  bool shares(const UnitKernel& unit);
  bool shares_in_row(const UnitKernel& unit);
  int last_serial() const { return next_serial_ - 1; }
  bool within_limits();
  bool within_fragments();

  Node kernel_;
  const Target* target_;
  const RuleChanges* rules_;
  const Opt* opt_ = nullptr;  // the current option
  std::optional<Refusal> refusal_;
  std::vector<Axis> axes_;
  std::vector<int> serials_;
  std::vector<Origin> origins_;
  std::vector<StageRequest> stages_;
  std::vector<PipelineRequest> pipelines_;
  // A set of origins that the same nodes depend on; these nodes are copied together.
  struct Together {
    std::vector<int> origins;
    double instructions = 0;  // of those nodes
  };
  std::shared_ptr<const std::vector<Together>> together_;
  std::int64_t next_stand_in_ = 0;
  int next_serial_ = 0;
  std::size_t fragment_axes_ = 0;  // number of last axes that are within a fragment of a matrix unit
  std::size_t lane_axes_ = 0;      // number of last thread axes within a fragment that threads share
  const MatrixUnit* shared_unit_ = nullptr;
  std::vector<FragmentRanges> fragments_;  // by serials of the axes
  std::int64_t fragments_held_ = 0;
  int fragment_columns_ = 0;  // origin of the columns
  bool no_locals_ = false, started_ = false;
  bool has_panels_ = false;  // whether the kernel has private memory of a thread
};

// The values that STAGE can name: the kernel's loads, then the factors of each reduce, in order of first
// visit.
std::vector<Node> stageable_values(Node kernel);

}  // namespace lathe
