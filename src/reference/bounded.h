// REF with errors: what a kernel as scheduled means at some of its output positions, and how far from it a
// device that rounds as its dtypes do may end. Every float carries two bounds beside its value: `worst`,
// which no order of the roundings exceeds, and `likely`, which independent roundings stay within. Bounds are
// 0 at the kernel's loads and grow by the `error` column of ops.def, or the device's own, and the dtypes
// (docs/numerics.md).
//
// All positions run in lockstep, one lane each, or several where positions are few and reduces long; only
// what their stores need is computed, only the loads they need are read, and nothing is written.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/node.h"
#include "ir/op_error.h"
#include "reference/array.h"
#include "reference/reference.h"

namespace lathe::reference {

struct Code;

// A store to a param with its output ranges, outermost first, and their extents under the bindings.
struct StoreAxes {
  Node store;
  std::int64_t slot = 0;
  std::vector<Node> ranges;
  std::vector<std::int64_t> extents;
};
std::vector<StoreAxes> store_axes(Node kernel, const Bindings& bindings);

// Values of the output ranges of one store, by its place in store_axes.
struct Position {
  std::size_t store = 0;
  std::vector<std::int64_t> at;
};

// What the kernel means there.
struct Sample {
  std::int64_t slot = 0, element = -1;
  bool written = false;          // false: the gate is closed, the element keeps its contents
  Cell value{};                  // integers and bool exact; floats not rounded to the stored dtype
  double likely = 0, worst = 0;  // |device - value| is within these; 0: exact
  bool open = false;             // nothing can be said: an undecided index, a division across zero
};

struct BoundedOptions {
  double max_ops = 2e6;  // scalar operations over all positions; beyond it the report is incomplete
  int threads = 1;       // positions are split over so many, where they are work enough
  std::span<const OpError> native = {};  // ops that the device has instructions of its own for
};

struct BoundedReport {
  std::vector<Sample> samples;      // in the order of the positions
  std::vector<std::string> faults;  // accesses out of bounds: the kernel is wrong as scheduled
  bool index_fault = false;         // an index that the user's data named is out of range
  bool incomplete = false;          // nothing was computed
  std::string reason;               // why, in words
  // Elements that were not fetched yet (View::fetched), by slot, some of them several times. With any of them
  // the rest of the report says nothing: they count as 0.
  std::vector<std::pair<std::int64_t, std::int64_t>> missing;
  double ops = 0;
};

// A kernel that is asked for positions, maybe several times; its code is made once. The kernel's nodes must
// stay.
class BoundedKernel {
 public:
  BoundedKernel(Node kernel, const Bindings& bindings);
  ~BoundedKernel();
  BoundedKernel(const BoundedKernel&) = delete;
  BoundedKernel& operator=(const BoundedKernel&) = delete;

  const std::vector<StoreAxes>& stores() const { return stores_; }
  // About how many scalar operations one position of a store takes.
  double operations(std::size_t store) const;
  // What so many positions of a store cost together, in scalar operations (lane_split.h).
  double cost(std::size_t store, std::size_t positions) const;
  BoundedReport eval(std::span<const View> params, std::span<const Position> positions,
                     const BoundedOptions& options = {}) const;

 private:
  const Code& code(std::size_t store) const;

  const Bindings bindings_;
  std::vector<StoreAxes> stores_;
  mutable std::vector<std::unique_ptr<Code>> codes_;  // by store, where it was asked for
};

BoundedReport bounded_eval(Node kernel, std::span<const View> params, const Bindings& bindings,
                           std::span<const Position> positions, const BoundedOptions& options = {});

// BoundedKernel::operations of each store.
std::vector<double> position_costs(Node kernel, const Bindings& bindings);

}  // namespace lathe::reference
