#include "reference/bounded.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ir/build.h"
#include "ir/ranges.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "reference/kernel_code.h"
#include "reference/lane_machine.h"
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
  to.ops += part.ops;
}

// The positions of one store.
void evaluate(const StoreAxes& axes, std::span<const View> params, const Bindings& bindings,
              std::span<const Position* const> positions, std::span<Sample* const> out,
              const BoundedOptions& options, BoundedReport& report) {
  const Code code = code_of_store(axes.store, axes.ranges);
  const double cost = lane_cost(code) * static_cast<double>(positions.size()),
               left = options.max_ops - report.ops;
  report.reason = lane_refusal(code);
  if (report.reason.empty() && cost > left)
    report.reason = fmt::format("it takes about {:.2g} operations, {:.2g} are allowed", cost, left);
  report.incomplete = !report.reason.empty();
  if (report.incomplete) return;
  const std::size_t lanes = lanes_of(code), parts = (positions.size() + lanes - 1) / lanes;
  std::vector<BoundedReport> reports(parts);
  auto run = [&](std::int64_t part) {
    const std::size_t first = static_cast<std::size_t>(part) * lanes;
    const std::size_t n = std::min(lanes, positions.size() - first);
    BoundedReport& own = reports[static_cast<std::size_t>(part)];
    const std::vector<Sample> samples =
        run_lanes(code, params, bindings, positions.subspan(first, n), options.native, left, own);
    for (std::size_t i = 0; i < samples.size(); ++i) *out[first + i] = samples[i];
  };
  if (options.threads > 1)
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

BoundedReport bounded_eval(Node kernel, std::span<const View> params, const Bindings& bindings,
                           std::span<const Position> positions, const BoundedOptions& options) {
  Scope scope;
  BoundedReport report;
  report.samples.resize(positions.size());
  const std::vector<StoreAxes> stores = store_axes(kernel, bindings);
  for (std::size_t k = 0; k < stores.size() && !report.incomplete; ++k) {
    std::vector<const Position*> here;
    std::vector<Sample*> places;
    for (std::size_t p = 0; p < positions.size(); ++p)
      if (positions[p].store == k) {
        if (positions[p].at.size() != stores[k].ranges.size())
          throw InternalError("reference", fmt::format("a position of {} indices for a store of {} ranges",
                                                       positions[p].at.size(), stores[k].ranges.size()));
        here.push_back(&positions[p]);
        places.push_back(&report.samples[p]);
      }
    if (!here.empty()) evaluate(stores[k], params, bindings, here, places, options, report);
  }
  if (report.incomplete) report.samples.clear();
  return report;
}

std::vector<double> position_costs(Node kernel, const Bindings& bindings) {
  Scope scope;
  std::vector<double> out;
  for (const StoreAxes& axes : store_axes(kernel, bindings))
    out.push_back(lane_cost(code_of_store(axes.store, axes.ranges)));
  return out;
}

}  // namespace lathe::reference
