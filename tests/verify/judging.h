// What the tests of judging share: kernels run by some "device" and judged at all positions.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ir/build.h"
#include "ir/walk.h"
#include "reference/bounded.h"
#include "reference/reference.h"
#include "verify/judge.h"

namespace lathe::test {

// Every position of every store.
inline std::vector<reference::Position> all_positions(Node kernel, const reference::Bindings& bindings) {
  std::vector<reference::Position> out;
  const std::vector<reference::StoreAxes> stores = reference::store_axes(kernel, bindings);
  for (std::size_t k = 0; k < stores.size(); ++k) {
    std::int64_t total = 1;
    for (std::int64_t e : stores[k].extents) total *= e;
    for (std::int64_t i = 0; i < total; ++i) {
      reference::Position p{k, std::vector<std::int64_t>(stores[k].extents.size())};
      std::int64_t rest = i;
      for (std::size_t d = p.at.size(); d-- > 0;) {
        p.at[d] = rest % stores[k].extents[d];
        rest /= stores[k].extents[d];
      }
      out.push_back(std::move(p));
    }
  }
  return out;
}

// Contents for the params of a kernel: floats of a normal distribution, integers small enough to be a length
// or an index.
inline std::vector<reference::Array> random_contents(Node kernel, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<reference::Array> arrays;
  for (Node n : toposort(kernel)) {
    if (!n.is(Op::Param)) continue;
    const auto slot = static_cast<std::size_t>(param_slot(n));
    if (arrays.size() <= slot) arrays.resize(slot + 1);
    std::vector<double> values(static_cast<std::size_t>(memory_size(n)));
    for (double& v : values)
      v = n.dtype().is_float()         ? normal(random)
          : n.dtype() == dtypes::Int32 ? static_cast<double>(random() % 7)
          : n.dtype().is_unsigned()    ? static_cast<double>(random() % 17)
                                       : static_cast<double>(random() % 17) - 8;
    arrays[slot] = reference::Array::of(n.dtype(), values);
  }
  return arrays;
}

inline std::vector<reference::View> views_of(std::vector<reference::Array>& arrays) {
  std::vector<reference::View> out;
  for (reference::Array& a : arrays) out.push_back(a.view());
  return out;
}

// What REF says about a kernel on some contents, and the judging of arrays that a device left.
class Judged {
 public:
  Judged(Node kernel, std::vector<reference::Array> contents, const reference::Bindings& bindings = {})
      : before_(std::move(contents)) {
    const std::vector<reference::Position> positions = all_positions(kernel, bindings);
    const std::vector<reference::View> views = views_of(before_);
    report_ = reference::bounded_eval(kernel, views, bindings, positions, {.max_ops = 1e12});
    for (const reference::Sample& s : report_.samples) stored_.push_back(array(before_, s).dtype());
  }
  const reference::BoundedReport& report() const { return report_; }
  const std::vector<reference::Array>& before() const { return before_; }

  verify::Judgement operator()(const std::vector<reference::Array>& after) const {
    std::vector<reference::Cell> device, before;
    for (const reference::Sample& s : report_.samples) {
      device.push_back(array(after, s).cell(s.element));
      before.push_back(array(before_, s).cell(s.element));
    }
    return verify::judge(report_.samples, stored_, device, before);
  }
  DType stored(std::size_t sample) const { return stored_[sample]; }

 private:
  static const reference::Array& array(const std::vector<reference::Array>& arrays,
                                       const reference::Sample& s) {
    return arrays[static_cast<std::size_t>(s.slot)];
  }
  std::vector<reference::Array> before_;
  reference::BoundedReport report_;
  std::vector<DType> stored_;
};

}  // namespace lathe::test
