// The options a kernel gets without search: a few rules (rules.def), each with its reason, as a pure function
// of the kernel and facts of the target. How a reduce is split never depends on the number of cores, so
// results do not either. Here: how rules are tried, serial scans, streams over memory, and threads.
#include <algorithm>

#include "codegen/choose/chooser.h"
#include "codegen/choose/product_threads.h"
#include "codegen/kernel/scan_reduces.h"
#include "ir/build.h"
#include "ir/ranges.h"

namespace lathe {
namespace {

// Instructions of a body beyond which compiling it takes long and more of them gain nothing.
constexpr double kLongBody = 12000;

constexpr HeuristicRule kRules[] = {
#define LATHE_RULE(rule, name, place, applies, propose, needed, reason) \
  {name, reason, RulePlace::place, needed, &Chooser::applies, &Chooser::propose},
#include "codegen/choose/rules.def"
#undef LATHE_RULE
};

}  // namespace

std::span<const HeuristicRule> heuristic_rules() { return kRules; }

bool Chooser::uses(RuleId rule) const {
  return !compile_.rules.disables(kRules[static_cast<std::size_t>(rule)].name);
}

bool Chooser::take(RuleId rule) {
  const HeuristicRule& row = kRules[static_cast<std::size_t>(rule)];
  if (!uses(rule) || !(this->*row.applies)() || !(this->*row.propose)()) return false;
  if (compile_.rules.trace != nullptr) compile_.rules.trace->applied("choose", row.name, kernel_, kernel_);
  return true;
}

std::vector<Opt> Chooser::run() {
  if (target_.reference || facts_.ranges.empty()) return {};  // REF is for checking, not for speed
  for (std::size_t i = 0; i < std::size(kRules); ++i)
    if (kRules[i].place == RulePlace::Kernel && take(static_cast<RuleId>(i))) return std::move(opts_);
  if (target_.groups) return std::move(opts_);
  parallel_ = output_order();
  for (std::size_t i = 0; i < std::size(kRules); ++i)
    if (kRules[i].place == RulePlace::Rest) take(static_cast<RuleId>(i));
  return std::move(opts_);
}

// An option that the kernel refuses is skipped, so the rules need not know every refusal. If an option makes
// so many copies of a body that compiling it takes long, the number of copies is halved while it is a
// multiple of a vector.
void Chooser::add(OptOp op, int axis, std::vector<std::int64_t> arg) {
  Opt opt{op, axis, std::move(arg)};
  const OptionState before = state_;
  while (state_.takes(opt)) {
    const double length = state_.body_length();
    if (length <= kLongBody || length <= before.body_length()) {
      opts_.push_back(std::move(opt));
      return;
    }
    state_ = before;
    const std::int64_t least = std::max(target_.vector_bytes / facts_.element_bytes, 1);
    const bool copies = op == OptOp::UPCAST || op == OptOp::UNROLL;
    if (!copies || opt.arg[0] % 2 != 0 || opt.arg[0] < 2 * least) return;
    opt.arg[0] /= 2;
  }
  state_ = before;
}

void Chooser::move(int from, int to) {
  if (from != to) add(OptOp::TILE, from, {1, to});
}

void Chooser::add_stage(int axis, Node value, std::int64_t layout) {
  const std::vector<Node> values = stageable_values(kernel_);
  add(OptOp::STAGE, axis, {std::find(values.begin(), values.end(), value) - values.begin(), layout});
}

void Chooser::become(OptionState state, KernelFacts facts, Opt opt) {
  kernel_ = state.kernel();
  facts_ = std::move(facts);
  state_ = std::move(state);
  opts_.push_back(std::move(opt));
}

std::vector<std::size_t> Chooser::output_order() const {
  std::vector<std::size_t> order;
  for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
    if (is_output(r)) order.push_back(r);
  return order;
}

// ---- serial scans

bool Chooser::one_short_reduce() const {
  return is_one_nest() && facts_.reduces == 1 && closed_ranges(facts_.reduce).size() == 1;
}

// A reduce whose steps change one output each (a Scatter), or whose outputs have one step more than the
// output before (a Scan). Lanes and threads run along other output ranges.
bool Chooser::serial_scan() {
  const std::size_t none = facts_.ranges.size();
  std::size_t row = none, output = none, step = none, lane = none;
  for (std::size_t r = 0; r < none; ++r) {
    Node range = facts_.ranges[r].range;
    if (range == closed_ranges(facts_.reduce)[0]) step = r;
    if (is_output(r) && selected_row(facts_.reduce, range)) row = r;
    if (is_output(r) && running_step(facts_.reduce, range, compile_.rules)) output = r;
  }
  const std::size_t scanned = row < none ? row : output;
  if (scanned == none) return false;
  const double outputs = facts_.extent_product(RangeKind::Global);
  const double steps = outputs / static_cast<double>(facts_.ranges[scanned].extent) *
                       static_cast<double>(facts_.ranges[step].extent);
  facts_.work = target_.reload_steps * steps + outputs;  // a step waits for what the one before it stored
  std::vector<std::size_t> others;
  for (std::size_t r = 0; r < none; ++r) {
    if (!is_output(r) || r == scanned) continue;
    others.push_back(r);
    if (may_have_lanes(r)) lane = r;
  }
  if (lane < none) lanes_along(lane);
  const bool threaded = threads(others, 4);
  if (row < none)
    threads_own_rows(row, step, threaded);
  else if (lane == none && !others.empty())
    take(RuleId::SeveralScans, others.back());
  add(OptOp::TILE, position(step), {1, position(scanned)});
  return true;
}

// If each thread owns some rows, every thread runs all steps, and the branch on whether a step is its own is
// hard to predict. This pays only with so many rows that initializing them is most of the work.
void Chooser::threads_own_rows(std::size_t row, std::size_t step, bool threaded) {
  constexpr std::int64_t kManyRows = 8;  // for a step
  if (!threaded && facts_.ranges[row].extent > kManyRows * facts_.ranges[step].extent) threads({row}, 1);
}

bool Chooser::several_scans() {
  for (std::int64_t n : {4, 2})
    if (left(about_) % n == 0 && position(about_) >= 0) {
      add(OptOp::UPCAST, position(about_), {n});
      return true;
    }
  return false;
}

// ---- streams over memory

bool Chooser::streams() {
  stream_ = choose_streams(facts_, target_);
  if (!stream_) return false;
  const StreamPlan& plan = *stream_;
  const bool turns = plan.turn > 1, reduces = facts_.ranges[plan.lane].kind == RangeKind::Reduce;
  if (reduces)
    add(OptOp::UNROLL, reduce_number(plan.lane), {plan.width});
  else
    add(OptOp::UPCAST, position(plan.lane), {plan.width});
  if (turns && reduces) add(OptOp::UNROLL, reduce_number(plan.lane), {plan.turn});
  if (plan.strip > 0) {
    threads({plan.rows}, 4);
    int at = position(plan.lane);
    if (at < 0) return true;  // the whole row is in registers
    // In equal strips.
    const std::int64_t strips = (left(plan.lane) + plan.strip - 1) / plan.strip;
    if (strips > 1) add(OptOp::TILE, at++, {(left(plan.lane) + strips - 1) / strips});
    add(OptOp::TILE, position(plan.added), {1, at});
    return true;
  }
  const int lane = stream_rows(plan);
  // The last range in registers changes first: a piece has its turn for all of it.
  if (turns && !reduces && lane >= 0 && lane < static_cast<int>(state_.axes().size()) &&
      state_.axes()[static_cast<std::size_t>(lane)].extent.hi() % plan.turn == 0)
    add(OptOp::UPCAST, lane, {plan.turn});
  widen_scales(plan);
  take(RuleId::LinesAhead);
  return true;
}

// Pieces of the outermost range, several at a time, one step of each. Returns where the lanes' loop is now.
int Chooser::stream_rows(const StreamPlan& plan) {
  threads({plan.rows}, 4);
  for (std::int64_t streams = plan.streams; streams > 1; streams /= 2) {
    if (left(plan.rows) % streams != 0) continue;
    std::int64_t piece = std::min(plan.piece, left(plan.rows) / streams);
    while (piece > 1 && left(plan.rows) % (piece * streams) != 0) --piece;
    const bool whole = piece * streams == left(plan.rows) && piece >= plan.shortest;
    if (piece * 2 < plan.piece && !whole) continue;
    const int at = position(plan.rows);
    const bool rest = left(plan.rows) > piece * streams;
    add(OptOp::TILE, at, {piece});
    add(OptOp::UPCAST, at, {streams});
    return plan.rows == plan.lane ? at + (rest ? 1 : 0) : position(plan.lane);
  }
  return position(plan.lane);
}

// The same where how the reduce is divided is decided already.
bool Chooser::streams_of_rows(const std::vector<std::size_t>& divided) {
  const std::optional<StreamPlan> plan = choose_streams(facts_, target_);
  if (!plan || plan->strip > 0 || std::find(divided.begin(), divided.end(), plan->lane) == divided.end())
    return false;
  stream_rows(*plan);
  return true;
}

bool Chooser::fetch_lines() {
  add(OptOp::PIPELINE, position(stream_->lane), {stream_->ahead});
  return true;
}

// A factor that is one for all lanes, such as the scale of a block of weights, is widened by vectors for a
// row at a time: one by one takes as long as a vector does, and then it has to be repeated.
void Chooser::widen_scales(const StreamPlan& plan) {
  int row = -1;
  for (std::size_t i = 0; i < state_.axes().size(); ++i)
    if (state_.axes()[i].kind == RangeKind::Global) row = static_cast<int>(i);
  if (row < 0 || facts_.ranges[plan.lane].kind != RangeKind::Reduce) return;
  for (Node f : facts_.factors) {
    if (!f || !f.is(Op::Cast) || !f.arg(0).is(Op::Load) || facts_.depends(f, plan.lane)) continue;
    double bytes = static_cast<double>(plan.streams * f.dtype().bytes());
    for (std::size_t r = 0; r < facts_.ranges.size(); ++r)
      if (!is_output(r) && facts_.depends(f, r)) bytes *= static_cast<double>(facts_.ranges[r].extent);
    if (bytes * 4 <= static_cast<double>(target_.l2)) add_stage(row, f, 1);
  }
}

// ---- threads

// The first output range with enough steps is divided among threads: into several parts a core, so that a
// core that is slowed down holds up little, and evenly where that is possible.
bool Chooser::threads(std::vector<std::size_t> order, std::int64_t parts_per_core) {
  parallel_ = std::move(order);
  parts_per_core_ = parts_per_core;
  divides_product_ = false;
  return take(RuleId::Threads);
}

bool Chooser::is_worth_threads() const {
  return target_.threads && target_.cores >= 2 && facts_.work >= 2 * target_.wake_steps;
}

std::int64_t Chooser::parts_wanted(std::int64_t parts_per_core) const {
  return static_cast<std::int64_t>(std::min(static_cast<double>(target_.cores * parts_per_core),
                                            std::max(2.0, facts_.work / target_.wake_steps)));
}

bool Chooser::divide_among_cores() {
  if (divides_product_) return divide_product();
  const std::int64_t wanted = parts_wanted(parts_per_core_);
  if (wanted < 2) return false;
  std::size_t chosen = facts_.ranges.size();
  std::int64_t chosen_parts = 1;
  for (std::size_t r : parallel_) {
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

std::vector<Opt> choose_options(Node kernel, const Compile& compile) {
  Scope scope;
  std::vector<Opt> options =
      compile.invariant ? Chooser(kernel, compile).run_invariant() : Chooser(kernel, compile).run();
  auto stages = [](const Opt& o) { return o.op == OptOp::STAGE; };
  auto needs_care = [&](const Opt& o) { return stages(o) || o.op == OptOp::TC; };
  if (std::none_of(options.begin(), options.end(), needs_care)) return options;
  // How large panels are shows when they are made: where they do not fit, the loops are without them.
  auto fits = [&] { return static_cast<bool>(try_options(kernel, options, compile.quiet())); };
  if (fits()) return options;
  std::erase_if(options, stages);
  if (options.empty() || options[0].op != OptOp::TC || fits()) return options;
  Target plain = compile.target;  // a unit that needs panels is no use without
  plain.units.clear();
  return choose_options(kernel, compile.with(plain));
}

}  // namespace lathe
