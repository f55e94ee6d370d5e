#include "reference/bounded.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
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

void mark_incomplete(BoundedReport& report, std::string why) {
  report.incomplete = true;
  if (report.reason.empty()) report.reason = std::move(why);
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
  double left = options.max_ops;
  for (std::size_t k = 0; k < stores.size() && !report.incomplete; ++k) {
    std::vector<const Position*> here;
    std::vector<std::size_t> places;
    for (std::size_t p = 0; p < positions.size(); ++p)
      if (positions[p].store == k) {
        if (positions[p].at.size() != stores[k].ranges.size())
          throw InternalError("reference", fmt::format("a position of {} indices for a store of {} ranges",
                                                       positions[p].at.size(), stores[k].ranges.size()));
        here.push_back(&positions[p]);
        places.push_back(p);
      }
    if (here.empty()) continue;
    const Code code = code_of_store(stores[k].store, stores[k].ranges);
    if (std::string why = lane_refusal(code); !why.empty()) {
      mark_incomplete(report, std::move(why));
      break;
    }
    const double cost = lane_cost(code) * static_cast<double>(here.size());
    if (cost > left) {
      mark_incomplete(report,
                      fmt::format("it takes about {:.2g} operations, {:.2g} are allowed", cost, left));
      break;
    }
    std::vector<Sample> samples = run_lanes(code, params, bindings, here, left, report);
    left = options.max_ops - report.ops;
    for (std::size_t i = 0; i < samples.size(); ++i) report.samples[places[i]] = samples[i];
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
