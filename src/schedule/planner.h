// The planner makes kernels of a tensor graph in two traversals. The first, from the outputs to the inputs,
// decides which values are stored (and so where kernels begin) and at which positions every other value is
// computed. The second, from the inputs to the outputs, builds the kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/small_vector.h"
#include "ir/node.h"
#include "ir/walk.h"
#include "rewrite/rewriter.h"
#include "schedule/cost.h"
#include "schedule/index_map.h"
#include "schedule/nest.h"
#include "schedule/rebuilt_weights.h"
#include "schedule/running_maximum.h"
#include "schedule/schedule.h"

namespace lathe {

// A kernel (or copy) being planned.
struct PlannedStep {
  Node root;                           // the stored value, or a Store effect, or a Copy
  Node buffer;                         // written
  std::vector<Node> written;           // of an effect: the memory versions it replaces
  std::vector<Node> reads;             // versions read: Buffer, After, or stored values
  Node sink;                           // kernel form over Buffers; null for a copy
  Node source;                         // of a copy: the buffer copied from
  std::int64_t source_offset = 0;      // bytes
  std::vector<Node> ops;               // what was computed in it, for names
  std::vector<Node> kept;              // further values that it computes and stores for other steps
  std::optional<RunningMaximum> fold;  // what it computes a tile at a time
  double weight = 0;                   // of what it computes (kernel_weight)
};

struct Plan {
  std::vector<PlannedStep> steps;
  NodeMap<Node> stored;  // value, copy or version -> its buffer
  // Values to store and plan again with: versions read beside a newer one, values that read what they
  // overwrite.
  std::vector<Node> must_store;
};

class Planner {
 public:
  Planner(std::span<const Node> targets, const NodeMap<char>& forced, const ScheduleOptions& options,
          const Compile& compile);
  Plan run();

 private:
  // A value needed by one kernel at one position.
  struct Request {
    int step;
    Position at;
    Node loops;                              // a Dims node: the loops around it, outermost first
    bool in_sum;                             // used by a sum through movement alone, so a sum can join it
    bool in_reduce;                          // inside some reduce's loop
    SmallVector<std::uint32_t, 3> children;  // requests of the operands, in order
    SmallVector<Node, 4> ranges;             // of a Reduce
    Node value;
    bool row = false;     // of a Reduce: computed above the loops that use it
    bool staged = false;  // read from the panel that the node's last request fills
    bool fills = false;   // fills it
    int fold = -1;        // of a Reduce: computed as that fold
  };
  // A sum weighted by a softmax, or a part of one, computed in one pass.
  struct Fold {
    SoftmaxSum sum;
    RunningMaximum parts;
    Node inside;  // whether a position is within the axis, or null where tiles end with it
  };
  // Where the loops of one are.
  struct FoldPlace {
    SoftmaxSum sum;
    std::size_t axis = 0;  // of what is reduced
    Node extent;
    SmallVector<Node, 8> outside;  // ranges of its rows
    std::int64_t further = 1;      // outputs of a row
    Nest nest;
  };
  // The kernel being planned, beside what becomes of it.
  struct Work {
    Position at;                    // of the root
    Nest nest;                      // of its output ranges
    Node product;                   // the sum of products it computes, or null
    bool folds = false;             // carries a tuple: sums of products may be in it
    SmallVector<Node, 2> rows;      // reduces computed above some of the output ranges
    std::vector<Node> kept_stores;  // effects, beside the root's
    struct RowRanges {
      Node outside, extents;  // Dims nodes
      int depth;
      SmallVector<Node, 4> ranges;
    };
    std::vector<RowRanges> row_ranges;  // shared by reduces that can run in one loop
  };

  bool is_root(Node node) const;
  bool decide_store(Node node, const std::vector<Request>& requests);
  bool is_cut(Node node, const std::vector<Request>& requests) const;
  bool plan_row(Node node);
  bool plan_panel(Node node);
  bool plan_fold(Node node, std::uint32_t index);
  bool plan_rebuilt(Node node);
  std::optional<SoftmaxSum> fold_of(Node node) const;
  std::optional<FoldPlace> fold_place(Node node, const Request& r);
  static bool fits_unit(FoldPlace& place, std::span<const Node> outputs);
  static Position term_at(const FoldPlace& place, const Request& r, Node j, Node valid);
  Position score_at(const FoldPlace& place, Position at);
  std::span<const Node> row_ranges(Node node, int step, Node outside);
  void start(int step, const Position& at);
  Node buffer_for(Node node) const;
  Work& work(int step) { return work_[static_cast<std::size_t>(step)]; }
  Node nested(Node loops, int step) const;
  std::string home_of(Node node) const;
  bool has_device(Node node) const;
  bool is_placement(Node node) const;
  bool in_reach(Node node, const Request& r, Node buffer) const;
  void visit(Node node);
  std::uint32_t request(Node node, int step, const Position& at, Node loops, bool in_sum, bool in_reduce);
  void expand(Node node, std::uint32_t index);
  int new_step(Node root, Node buffer);
  Node new_range(Node extent, RangeKind kind);
  Position root_position(std::span<const Node> shape);
  void plan_copy(Node copy);
  void plan_launch(Node launch);
  void expand_take(Node node, Request& r);
  void expand_ragged(Node node, Request& r);
  void expand_in_order(Node node, Request& r);
  Node stand_in(Node node, const Position& at);
  Node value_of(Node node, const Request& r);
  void fill_panel(Node node);
  Node fold_value(Node node, const Request& r);
  void keep(Node node, const Request& r);
  Node take_value(Node node, const Request& r, std::span<const Node> args);
  Node ragged_value(Node node, const Request& r, std::span<const Node> args);
  Node in_order_value(Node node, const Request& r, std::span<const Node> args);
  void finish(Node node);
  Node read(Node version, Node buffer, const Request& r);
  void finish_store(int step, Node value, std::span<const Node> shape, const Position& at, Node target);
  void check_hazards();
  void narrow_stores();

  std::span<const Node> targets_;
  const NodeMap<char>& forced_;
  std::string default_device_;
  Rows rows_;
  bool folds_on_groups_;
  bool invariant_;
  std::vector<Node> order_;
  NodeMap<Node> device_sources_;
  NodeMap<ElementCost> costs_;
  NodeMap<std::vector<Request>> requests_;
  NodeMap<int> step_of_;  // stored value, effect or copy -> step
  NodeMap<char> needed_in_memory_;
  std::vector<Work> work_;     // by step
  NodeMap<int> reduce_depth_;  // reduces below one another
  NodeMap<int> kept_in_;       // reduce -> the step that computes it as a row and stores it for others
  NodeMap<int> uses_;          // users of each node
  NodeMap<Node> last_user_;    // one of them
  NodeMap<char> compared_;     // values that must have the same bits wherever they are used
  std::vector<Fold> folds_;
  double rebuilt_bytes_;
  RebuiltWeights rebuilt_;
  NodeMap<Node> stand_ins_;  // value whose elements are positions -> the memory its loads pretend to read
  Plan plan_;
  Rewriter rewriter_;
  std::int64_t next_range_ = 0, next_panel_ = 0;
};

// Whether reading the node is reading memory: a buffer or a version of one.
bool is_memory(Node node);

// The memory version a Store's view is on.
Node view_memory(Node view);

}  // namespace lathe
