#include "reference/bounded.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "reference/kernel_code.h"
#include "reference/lane_machine.h"
#include "reference/lane_split.h"
#include "reference/tensor_eval.h"

namespace lathe::reference {
namespace {

bool is_known(Node extent) {
  const std::vector<Node> below = toposort(extent);
  return std::none_of(below.begin(), below.end(), [](Node n) { return n.is(Op::Load) || n.is(Op::Range); });
}

void find_stores(Node effect, std::vector<Node>& ranges, std::vector<StoreAxes>& out) {
  if (effect.is(Op::End)) {
    const std::size_t before = ranges.size();
    const std::span<const Node> closed = closed_ranges(effect);
    ranges.insert(ranges.end(), closed.begin(), closed.end());
    find_stores(effect.arg(0), ranges, out);
    ranges.resize(before);
  } else if (effect.is(Op::Sink)) {
    for (Node e : effect.args()) find_stores(e, ranges, out);
  } else if (effect.is(Op::Store)) {
    Node memory = base_memory(effect.arg(0));
    if (!memory.is(Op::Param)) return;
    StoreAxes axes;
    axes.store = effect;
    axes.slot = param_slot(memory);
    axes.ranges = ranges;
    std::sort(axes.ranges.begin(), axes.ranges.end(),
              [](Node a, Node b) { return range_id(a) < range_id(b); });
    out.push_back(std::move(axes));
  }
}

// As many lanes as run together: enough that the steps cost more than going from one to the next, few enough
// that their registers stay in the nearest caches.
constexpr std::size_t kLanes = 128;
// Elements of the kernel's own memory, which every lane has for itself.
constexpr std::int64_t kPanelElements = 1 << 20;

std::size_t lanes_of(const Code& code) {
  std::int64_t elements = 1;
  for (const MemorySlot& m : code.memories)
    if (m.kind == MemorySlot::Kind::Private) elements += m.size;
  return std::clamp<std::size_t>(static_cast<std::size_t>(kPanelElements / elements), 1, kLanes);
}

void add(BoundedReport& to, const BoundedReport& part) {
  to.faults.insert(to.faults.end(), part.faults.begin(), part.faults.end());
  to.index_fault = to.index_fault || part.index_fault;
  to.incomplete = to.incomplete || part.incomplete;
  if (to.reason.empty()) to.reason = part.reason;
  to.missing.insert(to.missing.end(), part.missing.begin(), part.missing.end());
  to.ops += part.ops;
}

// Operations that are worth another thread.
constexpr double kOpsOfThread = 1.5e4;

// The positions of one store.
void evaluate(const Code& code, std::span<const View> params, const Bindings& bindings,
              std::span<const Position* const> positions, std::span<Sample* const> out,
              const BoundedOptions& options, BoundedReport& report) {
  const double cost = lane_cost(code) * static_cast<double>(positions.size()),
               left = options.max_ops - report.ops;
  report.reason = lane_refusal(code);
  if (report.reason.empty() && cost > left)
    report.reason = fmt::format("it takes about {:.2g} operations, {:.2g} are allowed", cost, left);
  report.incomplete = !report.reason.empty();
  if (report.incomplete) return;
  const std::size_t lanes = lanes_of(code);
  const double threads = std::clamp(cost / kOpsOfThread, 1.0, static_cast<double>(options.threads));
  const auto fair =
      static_cast<std::size_t>(std::ceil(static_cast<double>(positions.size()) / std::floor(threads)));
  const std::size_t together = std::min(lanes, fair), parts = (positions.size() + together - 1) / together;
  std::vector<BoundedReport> reports(parts);
  auto run = [&](std::int64_t part) {
    const std::size_t first = static_cast<std::size_t>(part) * together;
    const std::size_t n = std::min(together, positions.size() - first);
    BoundedReport& own = reports[static_cast<std::size_t>(part)];
    const std::vector<Sample> samples =
        run_lanes(code, params, bindings, positions.subspan(first, n), lanes, options.native, left, own);
    for (std::size_t i = 0; i < samples.size(); ++i) *out[first + i] = samples[i];
  };
  if (parts > 1 && options.threads > 1)
    ThreadPool::shared().parallel_for(static_cast<std::int64_t>(parts), run, options.threads);
  else
    for (std::size_t part = 0; part < parts; ++part) run(static_cast<std::int64_t>(part));
  for (const BoundedReport& part : reports) add(report, part);
}

}  // namespace

std::vector<StoreAxes> store_axes(Node kernel, const Bindings& bindings) {
  std::vector<StoreAxes> out;
  std::vector<Node> ranges;
  find_stores(kernel, ranges, out);
  for (StoreAxes& axes : out)
    for (Node r : axes.ranges)
      axes.extents.push_back(is_known(r.arg(0)) ? index_value(r.arg(0), bindings) : r.arg(0).hi());
  return out;
}

BoundedKernel::BoundedKernel(Node kernel, const Bindings& bindings) : bindings_(bindings) {
  const Scope scope;
  stores_ = store_axes(kernel, bindings);
  codes_.resize(stores_.size());
}
BoundedKernel::~BoundedKernel() = default;

const Code& BoundedKernel::code(std::size_t store) const {
  std::unique_ptr<Code>& made = codes_[store];
  if (made == nullptr) {
    const Scope scope;
    made = std::make_unique<Code>(code_of_store(stores_[store].store, stores_[store].ranges));
  }
  return *made;
}

double BoundedKernel::operations(std::size_t store) const { return lane_cost(code(store)); }

double BoundedKernel::cost(std::size_t store, std::size_t positions) const {
  const Code& of = code(store);
  return lockstep_cost(of, split_lanes(of, positions, lanes_of(of)), positions);
}

BoundedReport BoundedKernel::eval(std::span<const View> params, std::span<const Position> positions,
                                  const BoundedOptions& options) const {
  const Scope scope;
  BoundedReport report;
  report.samples.resize(positions.size());
  for (std::size_t k = 0; k < stores_.size() && !report.incomplete; ++k) {
    std::vector<const Position*> here;
    std::vector<Sample*> places;
    for (std::size_t p = 0; p < positions.size(); ++p)
      if (positions[p].store == k) {
        if (positions[p].at.size() != stores_[k].ranges.size())
          throw InternalError("reference", fmt::format("a position of {} indices for a store of {} ranges",
                                                       positions[p].at.size(), stores_[k].ranges.size()));
        here.push_back(&positions[p]);
        places.push_back(&report.samples[p]);
      }
    if (!here.empty()) evaluate(code(k), params, bindings_, here, places, options, report);
  }
  if (report.incomplete) report.samples.clear();
  return report;
}

BoundedReport bounded_eval(Node kernel, std::span<const View> params, const Bindings& bindings,
                           std::span<const Position> positions, const BoundedOptions& options) {
  return BoundedKernel(kernel, bindings).eval(params, positions, options);
}

std::vector<double> position_costs(Node kernel, const Bindings& bindings) {
  const BoundedKernel bounded(kernel, bindings);
  std::vector<double> out;
  for (std::size_t k = 0; k < bounded.stores().size(); ++k) out.push_back(bounded.operations(k));
  return out;
}

}  // namespace lathe::reference
