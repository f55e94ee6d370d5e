// What a list of options has done to a kernel's ranges so far, without touching the kernel: the list of axes
// in loop order, and for every range of the kernel its index as an expression over the axes. Each option
// changes only this state, so trying many options is cheap; codegen/options/apply_options.cpp rewrites the
// kernel once, at the end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/kernel/panel_layout.h"
#include "codegen/kernel/refusal.h"
#include "codegen/options/matrix_unit.h"
#include "ir/group_ops.h"
#include "ir/node.h"
#include "ir/op.h"
#include "lathe/options.h"
#include "target/target.h"

namespace lathe {

// One range of the list as it stands.
struct Axis {
  int origin = 0;  // the kernel's range it is a part of
  RangeKind kind = RangeKind::Loop;
  Node extent;          // over nodes of the kernel
  Node stand_in;        // a Range node that means this axis in index expressions until its position is final
  bool leading = true;  // the most significant part of its range
  int threads = -1;     // of an axis over threads that several ranges share: serial of the first of its axes
};

// One range of the kernel as scheduled.
struct Origin {
  Node range;
  Node index;                  // over the stand-ins
  std::vector<Node> gates;     // all must hold for the index to be one the kernel has
  bool whole_gated = false;    // the gates imply index < extent
  bool carries_tuple = false;  // a Fold closes it
};

// STAGE: a value, and the stand-in chain of the loop it is copied in.
constexpr int kBeforeLoops = -1;  // the place of a copy that is done before all loops of a thread
struct StageRequest {
  Node value;       // a node of the kernel
  int axis_serial;  // see OptionState::serial_of; or kBeforeLoops
  PanelOrder order = PanelOrder::Consumer;
};

// PIPELINE: how many steps ahead of the loop's its lines are fetched; on targets with groups, how many steps
// its panels hold at a time, and how they are filled.
struct PipelineRequest {
  int axis_serial;
  std::int64_t depth;
  Filling filling = Filling::Threads;
};

class OptionState {
 public:
  OptionState(Node kernel, const Target& target);

  // Whether the kernel takes one more option. Where it does not, refusal() says why, and the state is of no
  // further use.
  [[nodiscard]] bool takes(const Opt& opt);
  const Refusal& refusal() const { return *refusal_; }
  // The same for an option that has to fit: throws KernelOptError naming it and the reason.
  void apply(const Opt& opt);

  Node kernel() const { return kernel_; }
  const Target& target() const { return *target_; }
  const std::vector<Axis>& axes() const { return axes_; }
  const std::vector<Origin>& origins() const { return origins_; }
  const std::vector<StageRequest>& stages() const { return stages_; }
  const std::vector<PipelineRequest>& pipelines() const { return pipelines_; }
  int serial_of(std::size_t position) const { return serials_[position]; }
  // The position whose threads an axis has: its own, or that of the axis it shares them with.
  std::size_t threads_of(std::size_t position) const;

  // Where the part of a range that is still a loop stands, or -1 where none is left; of several parts the
  // outermost, or the innermost.
  int loop_position(Node range) const;
  int last_loop_position(Node range) const;

  // How often the most copied part of the body is there: the nests of a row are copied apart. Counted up to a
  // little more than options may make.
  std::int64_t copies() const;
  // About how many instructions all copies of the body are.
  double body_length() const;

  // Whether TC chose a unit of fragments, with its instruction; and that unit where a warp shares fragments.
  bool joins_fragments() const { return fragment_axes_ > 0 && lane_axes_ == 0; }
  const MatrixUnit* shared_unit() const { return lane_axes_ > 0 ? shared_unit_ : nullptr; }
  // Of each product on such a unit.
  std::vector<FragmentRanges> fragment_ranges() const;

 private:
  // One for each option, and what they ask: false, or nothing, where the option is refused.
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

  // Splits axis `at`; the new axis of `size` steps goes to position `to` of the list that then holds it. Low:
  // the new axis counts within a step of the old one. High: it counts parts of the old one.
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
  const Opt* opt_ = nullptr;  // the one that is being taken
  std::optional<Refusal> refusal_;
  std::vector<Axis> axes_;
  std::vector<int> serials_;
  std::vector<Origin> origins_;
  std::vector<StageRequest> stages_;
  std::vector<PipelineRequest> pipelines_;
  // A set of origins that some nodes depend on, which are copied together.
  struct Together {
    std::vector<int> origins;
    double instructions = 0;  // of those nodes
  };
  std::shared_ptr<const std::vector<Together>> together_;
  std::int64_t next_stand_in_ = 0;
  int next_serial_ = 0;
  std::size_t fragment_axes_ = 0;  // the last ones, within a fragment of a matrix unit
  std::size_t lane_axes_ = 0;      // the last ones over threads, within a fragment that a warp shares
  const MatrixUnit* shared_unit_ = nullptr;
  std::vector<FragmentRanges> fragments_;  // by serials of the axes
  std::int64_t fragments_held_ = 0;
  int fragment_columns_ = 0;  // origin of the columns
  bool no_locals_ = false, started_ = false;
  bool has_panels_ = false;  // memory of the kernel's own, private to a thread
};

// The values STAGE can name: the kernel's loads, then the factors of each reduce, by first visit.
std::vector<Node> stageable_values(Node kernel);

}  // namespace lathe
