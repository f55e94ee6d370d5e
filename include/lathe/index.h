// The indices of x[...]: integers, slices, a new axis, an ellipsis, and tensors of integers or bools
// (advanced indexing, with numpy's meaning).
#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "lathe/variable.h"

namespace lathe {

class Tensor;

// An optional end of a slice: Slice{{}, 3} is [:3].
class SliceEnd {
 public:
  SliceEnd() = default;
  template <std::integral T>
  SliceEnd(T at) : at_(at), given_(true) {}                // NOLINT
  SliceEnd(Size at) : at_(std::move(at)), given_(true) {}  // NOLINT
  explicit operator bool() const { return given_; }
  const Size& operator*() const { return at_; }
  const Size* operator->() const { return &at_; }

 private:
  Size at_;
  bool given_ = false;
};

// start:stop:step, each optional; negative numbers count from the end.
struct Slice {
  SliceEnd start = {}, stop = {};
  std::int64_t step = 1;
};

struct NewAxis {};
struct Ellipsis {};
inline constexpr NewAxis kNewAxis{};
inline constexpr Ellipsis kEllipsis{};

class Index {
 public:
  enum class Kind : std::uint8_t { Int, Slice, NewAxis, Ellipsis, Tensor };

  Index(bool) = delete;  // neither a position nor a tensor: a mask is Tensor(true)
  template <std::integral T>
  Index(T i) : kind_(Kind::Int), slice_{Size(i), {}, 1} {}          // NOLINT
  Index(Size i) : kind_(Kind::Int), slice_{std::move(i), {}, 1} {}  // NOLINT
  Index(Slice s) : kind_(Kind::Slice), slice_(std::move(s)) {}      // NOLINT
  Index(NewAxis) : kind_(Kind::NewAxis) {}                          // NOLINT
  Index(Ellipsis) : kind_(Kind::Ellipsis) {}                        // NOLINT
  Index(const Tensor& t);                                           // NOLINT

  Kind kind() const { return kind_; }
  const Size& position() const { return *slice_.start; }
  const Slice& slice() const { return slice_; }
  const Tensor& tensor() const { return *tensor_; }

 private:
  Kind kind_;
  Slice slice_;
  std::shared_ptr<const Tensor> tensor_;  // shared because Tensor is incomplete here
};

}  // namespace lathe
