#include "verify/expected.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "base/hash.h"
#include "reference/reference.h"

namespace lathe::verify {
namespace {

using reference::Array;
using reference::Cell;
using reference::Position;
using reference::Sample;
using reference::StoreAxes;

// How many times max_ops a kernel may take of which two positions are too many.
constexpr double kPatience = 8;

double count_of(const StoreAxes& axes) {
  double total = 1;
  for (std::int64_t e : axes.extents) total *= static_cast<double>(e);
  return total;
}

Position position_at(std::size_t store, const StoreAxes& axes, std::int64_t place) {
  Position p{store, std::vector<std::int64_t>(axes.extents.size())};
  for (std::size_t d = p.at.size(); d-- > 0; place /= axes.extents[d]) p.at[d] = place % axes.extents[d];
  return p;
}

// A value of an axis: its ends, where tiles of the usual sizes begin and end, or any.
std::int64_t drawn(std::int64_t extent, std::uint64_t random) {
  constexpr std::int64_t kEdges[] = {1, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128};
  const auto any = static_cast<std::int64_t>((random >> 16) % static_cast<std::uint64_t>(extent));
  switch (random % 4) {
    case 0: return any;
    case 1:
      return extent - 1 - std::min<std::int64_t>(extent - 1, static_cast<std::int64_t>(random >> 8 & 1));
    case 2: return std::min(kEdges[(random >> 8) % std::size(kEdges)], extent - 1);
    default: return any;
  }
}

std::vector<reference::View> views_of(std::vector<Array>& arrays) {
  std::vector<reference::View> out;
  for (Array& a : arrays) out.push_back(a.view());
  return out;
}

const Array& of(std::span<const Array> arrays, const Sample& s) {
  return arrays[static_cast<std::size_t>(s.slot)];
}

}  // namespace

std::vector<Position> choose_positions(std::span<const StoreAxes> stores, std::span<const double> costs,
                                       double max_ops, std::uint64_t seed) {
  std::vector<Position> out;
  const double each = max_ops / static_cast<double>(std::max<std::size_t>(stores.size(), 1));
  for (std::size_t k = 0; k < stores.size(); ++k) {
    const double total = count_of(stores[k]), wanted = std::max(2.0, each / std::max(costs[k], 1.0));
    if (total < 1) continue;
    if (total <= wanted) {
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(total); ++i)
        out.push_back(position_at(k, stores[k], i));
      continue;
    }
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(wanted); ++i) {
      Position p{k, std::vector<std::int64_t>(stores[k].extents.size())};
      for (std::size_t d = 0; d < p.at.size(); ++d) {
        const std::int64_t extent = stores[k].extents[d];
        const std::uint64_t random =
            hash_combine(hash_combine(hash_mix(seed), static_cast<std::uint64_t>(i)), d + 17 * k);
        p.at[d] = i == 0 ? 0 : i == 1 ? extent - 1 : drawn(extent, random);
      }
      out.push_back(std::move(p));
    }
  }
  return out;
}

Expected::Expected(Node kernel, std::span<const Array> before, const reference::Bindings& bindings,
                   double max_ops, std::uint64_t seed)
    : bindings_(bindings), max_ops_(max_ops), stores_(reference::store_axes(kernel, bindings)) {
  const std::vector<double> costs = reference::position_costs(kernel, bindings);
  const std::vector<Position> positions = choose_positions(stores_, costs, max_ops, seed);
  double all = 0;
  for (const StoreAxes& axes : stores_) all += count_of(axes);
  everywhere_ = static_cast<double>(positions.size()) == all;
  std::vector<reference::View> views;
  // REF only reads: the views are not written through.
  for (const Array& a : before)
    views.push_back({a.dtype(), const_cast<std::byte*>(a.data()), a.size(), true});
  report_ = reference::bounded_eval(kernel, views, bindings, positions, {.max_ops = max_ops * kPatience});
}

Judgement Expected::judge(std::span<const Array> before, std::span<const Array> after,
                          const WithOptions& with_options) const {
  std::vector<DType> stored;
  std::vector<Cell> left, there;
  std::vector<Sample> samples;
  for (const Sample& s : report_.samples) {
    samples.push_back(s);
    stored.push_back(of(after, s).dtype());
    const bool inside = s.element >= 0 && s.element < of(after, s).size();
    if (!inside) samples.back().open = true;  // a store whose gate is closed may name any element
    left.push_back(inside ? of(after, s).cell(s.element) : Cell{});
    there.push_back(inside ? of(before, s).cell(s.element) : Cell{});
  }
  Judgement out = verify::judge(samples, stored, left, there);
  if (out.failed == 0 && out.unsure > 0) {
    settle(out, before, after, with_options);
    out.recount(samples, stored, left, there);
  }
  if (everywhere_) look_elsewhere(out, before, after);
  return out;
}

void Expected::look_elsewhere(Judgement& judgement, std::span<const Array> before,
                              std::span<const Array> after) const {
  for (const StoreAxes& axes : stores_) {
    const auto slot = static_cast<std::size_t>(axes.slot);
    std::vector<bool> named(static_cast<std::size_t>(after[slot].size()));
    for (const Sample& s : report_.samples)
      if (s.slot == axes.slot && s.element >= 0 && s.element < after[slot].size())
        named[static_cast<std::size_t>(s.element)] = true;
    const auto width = static_cast<std::size_t>(after[slot].dtype().bytes());
    for (std::size_t i = 0; i < named.size(); ++i) {
      if (named[i] ||
          std::memcmp(after[slot].data() + i * width, before[slot].data() + i * width, width) == 0)
        continue;
      if (judgement.failed++ == 0) {
        judgement.slot = axes.slot;
        judgement.worst_text = fmt::format("element {} has changed, and no store names it", i);
      }
    }
  }
}

void Expected::settle(Judgement& judgement, std::span<const Array> before, std::span<const Array> after,
                      const WithOptions& with_options) const {
  Node kernel = with_options();
  std::vector<Array> wide(before.begin(), before.end()), rounded = wide;
  reference::EvalOptions options{.seed = 1, .max_ops = max_ops_, .wide_floats = true};
  const reference::EvalReport in_float64 = reference::kernel_eval(kernel, views_of(wide), bindings_, options);
  options.wide_floats = false;
  const reference::EvalReport plain = reference::kernel_eval(kernel, views_of(rounded), bindings_, options);
  auto has = [](const reference::EvalReport& report, const Sample& s) {
    const auto slot = static_cast<std::size_t>(s.slot), element = static_cast<std::size_t>(s.element);
    return report.ok() && (!report.sampled || report.written[slot][element]);
  };
  for (std::size_t i = 0; i < judgement.verdicts.size(); ++i) {
    if (judgement.verdicts[i] != Verdict::Unsure) continue;
    const Sample& s = report_.samples[i];
    if (!has(in_float64, s) || !has(plain, s))
      judgement.verdicts[i] = Verdict::Unjudged;
    else
      judgement.verdicts[i] = is_rounding(s, of(after, s).dtype(), of(after, s).cell(s.element),
                                          of(wide, s).cell(s.element), of(rounded, s).cell(s.element))
                                  ? Verdict::Passed
                                  : Verdict::Failed;
  }
}

double Expected::relative_bound(std::int64_t slot, DType stored) const {
  const double scale = scale_of(report_.samples, slot, stored);
  double most = 0, count = 0;
  for (const Sample& s : report_.samples) {
    if (s.slot != slot || !s.written || s.open) continue;
    const double size =
        std::max(scale, stored.is_float() ? std::fabs(s.value.f) : std::fabs(static_cast<double>(s.value.i)));
    if (size > 0 && std::isfinite(size)) most = std::max(most, s.likely / size);
    count += 1;
  }
  return count > 0 ? 2 * most : HUGE_VAL;
}

}  // namespace lathe::verify
