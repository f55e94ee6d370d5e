// Applying an option list: the options change an OptionState, the kernel is rewritten once over the final
// ranges, and what some of them need beside that is a step each.
#include <algorithm>

#include "codegen/codegen.h"
#include "codegen/kernel/fuse_multiply_add.h"
#include "codegen/kernel/substitute.h"
#include "codegen/options/group_reduce.h"
#include "codegen/options/join_fragments.h"
#include "codegen/options/kernel_work.h"
#include "codegen/options/matrix_unit.h"
#include "codegen/options/option_ranges.h"
#include "codegen/options/paired_unit.h"
#include "codegen/options/peel_steps.h"
#include "codegen/options/place_accumulators.h"
#include "codegen/options/place_folds.h"
#include "codegen/options/prefetch_tiles.h"
#include "codegen/options/private_panels.h"
#include "codegen/options/skip_steps.h"
#include "codegen/options/skip_tiles.h"
#include "codegen/options/stage.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "rules/simplify.h"

namespace lathe {
namespace {

using Work = KernelWork;

bool has_single_ranges(const OptionState& state) {
  const std::vector<Axis>& axes = state.axes();
  return std::any_of(axes.begin(), axes.end(), [](const Axis& a) { return a.extent.is_const_int(1); });
}

// Whether the kernel as scheduled works on rows: several nests, one after the other, inside the same loops.
bool has_rows(Node kernel) {
  std::vector<Node> order = toposort(kernel);
  return std::any_of(order.begin(), order.end(), [](Node n) {
    return n.is(Op::Define) || (n.is(Op::Range) && range_kind(n) == RangeKind::Loop);
  });
}

int position_of(const OptionState& state, int serial) {
  int position = -1;
  for (std::size_t i = 0; i < state.axes().size(); ++i)
    if (state.serial_of(i) == serial) position = static_cast<int>(i);
  return position;
}

// How many steps of a loop have their panels at the same time, and how they come there, where copies into
// them are asynchronous.
void pipeline_panel(const OptionState& state, int serial, Staging& staging) {
  if (!state.target().groups) return;
  for (const PipelineRequest& request : state.pipelines())
    if (request.axis_serial == serial) {
      staging.slots = std::max(staging.slots, request.depth);
      staging.filling = std::max(staging.filling, request.filling);
    }
}

void take_options(Work& work) {
  work.scheduled = work.kernel;
  OptionState& state = work.state.emplace(work.kernel, work.compile.target, work.compile.rules);
  for (const Opt& opt : work.opts)
    if (!state.takes(opt)) {
      work.refusal = state.refusal();
      return;
    }
  work.kernel = state.kernel();
  work.divided = !work.opts.empty() || has_single_ranges(state);
  if (!work.divided) return;
  OptionRanges made = option_ranges(state, work.compile.rules);
  work.kernel = made.kernel;
  work.places = std::move(made.places);
  for (std::size_t i = 0; i < made.staged.size(); ++i) {
    const StageRequest& request = state.stages()[i];
    work.stages.push_back({made.staged[i], position_of(state, request.axis_serial), request.order});
    pipeline_panel(state, request.axis_serial, work.stages.back());
  }
}

void stage(Work& work) {
  if (!work.divided) return;
  // What is skipped shows in the gates of loads, which panels do not have. Threads of a group wait for each
  // other inside these loops, so there all of them take every step; tiles are skipped by all of them.
  if (!work.compile.target.groups) work.skipped = skipped_steps(work.kernel);
  for (const auto& [tile, shorter] : skipped_tiles(work.kernel)) work.skipped.try_emplace(tile, shorter);
  work.become(stage_values(work.kernel, work.stages, work.places, work.compile.target));
}

void join_all_shares(Work& work) {
  if (work.state->shared_unit() == nullptr) return;
  for (const FragmentRanges& at : work.state->fragment_ranges()) {
    work.become(join_shares(work.kernel, at, work.compile.rules));
    if (work.refusal) return;
  }
}

void prefetch(Work& work) {
  if (work.compile.target.groups) return;  // there PIPELINE is the number of panels
  std::vector<Pipelined> loops;
  for (const PipelineRequest& request : work.state->pipelines())
    loops.push_back({position_of(*work.state, request.axis_serial), request.depth});
  work.kernel = prefetch_tiles(work.kernel, loops);
}

constexpr bool kOptional = true;

// The steps that apply a list of options to a scheduled kernel, in order.
// clang-format off
constexpr StepRow<Work> kOptionSteps[] = {
    // First, because options change index expressions, and with them the order of operands.
    {"fuse_product_pairs", "chooses which of two added products is fused with the sum",
     [](Work& w) {
       if (w.compile.target.fma && !w.compile.invariant) w.kernel = fuse_product_pairs(w.kernel);
     }, has_ranges, kOptional},
    {"option_ranges", "the options' splits of ranges are applied, with gates where a split is uneven",
     take_options, takes_options},
    {"stage_values", "STAGE: the tile of a value that a loop body uses is copied into a panel before it",
     stage, takes_options},
    {"skip_steps", "steps of a sum that only add zeros, and masked tiles of attention, are skipped",
     [](Work& w) { if (!w.skipped.empty()) w.kernel = substitute(w.kernel, w.skipped); }, takes_options, kOptional},
    {"place_folds", "components of a tuple reduce that have more ranges become arrays inside its loop",
     [](Work& w) { w.kernel = place_folds(w.kernel); }, takes_options},
    {"private_panels", "register copies of a loop body get separate panels",
     [](Work& w) { w.become(private_panels(w.kernel, w.compile.target)); }, takes_options},
    // The nests of a row share their outer loops: there reduces run innermost, whatever the order says.
    {"place_accumulators", "sums of reduces outside of output ranges are kept in memory",
     [](Work& w) { if (!has_rows(w.scheduled)) w.kernel = place_accumulators(w.kernel, w.compile); },
     takes_options, kOptional},
    {"prefetch_tiles", "PIPELINE: data that later steps of a loop read is prefetched",
     prefetch, takes_options, kOptional},
    {"split_offsets", "TC: sums of products with offsets become differences of sums",
     [](Work& w) { w.kernel = split_offsets(w.kernel); }, takes_options},
    {"join_fragments", "TC: sums over fragments in panels become products of fragments",
     [](Work& w) { w.become(join_fragments(w.kernel, w.compile.target, w.state->joins_fragments())); }, takes_options},
    {"join_shares", "TC: the same for fragments shared by the threads of a warp",
     join_all_shares, takes_options},
    {"share_panels", "private memory indexed by thread holds only the elements of its thread",
     [](Work& w) { if (w.state->shared_unit() != nullptr) w.kernel = share_panels(w.kernel); }, takes_options},
    {"peel_last_steps", "the last, partial step of a reduce is peeled off its loop",
     [](Work& w) {
       const Target& target = w.compile.target;
       if (target.vectors && !target.groups) w.kernel = peel_last_steps(w.kernel, w.compile.rules);
     }, takes_options, kOptional},
    // Before expansion, so that the copies of a register tile share one barrier.
    {"group_reduce", "reduces over the threads of a group use shared memory and barriers",
     [](Work& w) { w.kernel = group_reduce(w.kernel); }, has_ranges},
    {"simplify", "index algebra, logic and constant folding",
     [](Work& w) { w.kernel = simplify(w.kernel, w.compile.rules); }, has_ranges, kOptional},
};
// clang-format on

}  // namespace

std::span<const StepRow<KernelWork>> option_rows() { return kOptionSteps; }

OrRefusal<Node> try_options(Node kernel, std::span<const Opt> opts, const Compile& compile) {
  return with_blame(compile, [&](const Compile& context) -> OrRefusal<Node> {
    KernelWork work(kernel, opts, context);
    run_steps(option_rows(), work);
    if (work.refusal) return *work.refusal;
    return work.kernel;
  });
}

Node apply_options(Node kernel, std::span<const Opt> opts, const Compile& compile) {
  return try_options(kernel, opts, compile).value();
}

}  // namespace lathe
