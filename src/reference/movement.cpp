#include "reference/movement.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/small_vector.h"
#include "ir/text.h"
#include "ir/value.h"

namespace lathe::reference {

std::int64_t product(std::span<const std::int64_t> sizes) {
  std::int64_t n = 1;
  for (std::int64_t s : sizes) n *= s;
  return n;
}

MovementMap::MovementMap(Node node, std::vector<std::int64_t> from, std::vector<std::int64_t> to,
                         std::span<const std::int64_t> operands)
    : op_(node.op()), same_(false), from_(std::move(from)), to_(std::move(to)) {
  switch (op_) {
    case Op::Reshape:
      same_ = true;
      if (product(from_) != product(to_))
        throw InternalError("reference",
                            fmt::format("a reshape from {} to {} elements", product(from_), product(to_)));
      break;
    case Op::Expand: break;
    case Op::Pad:
    case Op::Shrink: {
      std::int64_t sign = op_ == Op::Pad ? -1 : 1;
      for (std::size_t i = 0; i < from_.size(); ++i) shift_.push_back(sign * operands[i]);
      break;
    }
    case Op::Permute:
    case Op::Flip:
    case Op::Skew:
    case Op::Unskew: axes_.assign(node.ints().begin(), node.ints().end()); break;
    default: throw InternalError("reference", "no movement: " + print_node(node));
  }
}

std::int64_t MovementMap::one(std::int64_t place) const {
  SmallVector<std::int64_t, 32> at(to_.size()), in(from_.size());
  for (std::size_t i = to_.size(); i-- > 0;) {
    at[i] = place % to_[i];
    place /= to_[i];
  }
  if (op_ == Op::Expand) {
    if (from_.empty()) return 0;
    for (std::size_t i = 0; i < from_.size(); ++i) in[i] = from_[i] == 1 ? 0 : at[i];
  } else if (op_ == Op::Permute) {
    for (std::size_t i = 0; i < from_.size(); ++i) in[static_cast<std::size_t>(axes_[i])] = at[i];
  } else {
    for (std::size_t i = 0; i < from_.size(); ++i) in[i] = at[i] + (shift_.empty() ? 0 : shift_[i]);
    if (op_ == Op::Flip)
      for (std::int64_t a : axes_) {
        const auto axis = static_cast<std::size_t>(a);
        in[axis] = from_[axis] - 1 - at[axis];
      }
    if (op_ == Op::Skew || op_ == Op::Unskew) {
      const auto n = static_cast<std::size_t>(axes_[0]), k = static_cast<std::size_t>(axes_[1]);
      const std::int64_t distance = at[n] - at[k] * axes_[3];
      if (op_ == Op::Skew)
        in[n] = at[n] * axes_[2] + at[k] * axes_[3];
      else if (value::floor_mod(distance, axes_[2]) != 0)
        return -1;
      else
        in[n] = value::floor_div(distance, axes_[2]);
    }
  }
  std::int64_t flat = 0;
  for (std::size_t i = 0; i < from_.size(); ++i) {
    if (in[i] < 0 || in[i] >= from_[i]) {
      if (op_ == Op::Pad || op_ == Op::Unskew) return -1;
      throw InternalError("reference", fmt::format("{} reads position {} of an axis of size {}",
                                                   info(op_).name, in[i], from_[i]));
    }
    flat = flat * from_[i] + in[i];
  }
  return flat;
}

void MovementMap::map(std::span<const std::int64_t> places, std::int64_t* out) const {
  for (std::size_t i = 0; i < places.size(); ++i)
    out[i] = same_ || places[i] < 0 ? places[i] : one(places[i]);
}

}  // namespace lathe::reference
