#include "models/boxes.h"

#include <cmath>

namespace lathe::models {
namespace {

struct Corners {
  Tensor low, high;  // (..., 2): left and top, right and bottom
  explicit Corners(const Tensor& boxes)
      : low(boxes.getitem({kEllipsis, Slice{0, 2}})), high(boxes.getitem({kEllipsis, Slice{2, 4}})) {}
  Tensor size() const { return high - low; }
  Tensor centre() const { return low + size() / 2; }
};

}  // namespace

Tensor anchors_at(const Extent& grid, const Extent& image, std::span<const double> sizes,
                  std::span<const double> ratios) {
  std::vector<float> corners;
  for (const double ratio : ratios)
    for (const double size : sizes) {
      const double high = size * std::sqrt(ratio), wide = size / std::sqrt(ratio);
      for (const double x : {-wide / 2, -high / 2, wide / 2, high / 2})
        corners.push_back(static_cast<float>(std::nearbyint(x)));
    }
  const auto shapes = static_cast<std::int64_t>(corners.size() / 4);
  const auto steps = [&](std::int64_t count, std::int64_t step, const Shape& shape) {
    return (Tensor::arange(count).to_float() * step).reshape(shape).expand({grid.height, grid.width, 1, 1});
  };
  const Tensor y = steps(grid.height, image.height / grid.height, {grid.height, 1, 1, 1}),
               x = steps(grid.width, image.width / grid.width, {1, grid.width, 1, 1});
  return (Tensor::cat({x, y, x, y}, -1) + Tensor(corners, {shapes, 4})).reshape({-1, 4});
}

Tensor moved(const Tensor& anchors, const Tensor& steps) {
  static const double kLargestStep = std::log(1000.0 / 16);  // of a width or height
  const Corners from(anchors), step(steps);  // the steps of the centre, and of the logarithm of the size
  const Tensor centre = from.centre() + step.low * from.size();
  const Tensor half = step.high.clamp(std::nullopt, kLargestStep).exp() * from.size() / 2;
  return (centre - half).cat(centre + half, -1);
}

Tensor steps_between(const Tensor& anchors, const Tensor& boxes) {
  const Corners from(anchors), to(boxes);
  return ((to.centre() - from.centre()) / from.size()).cat((to.size() / from.size()).log(), -1);
}

Tensor overlap(const Tensor& a, const Tensor& b) {
  const Corners one(a.unsqueeze(1)), other(b.unsqueeze(0));
  const Tensor shared =
      (one.high.minimum(other.high) - one.low.maximum(other.low)).clamp(0, std::nullopt).prod({-1});
  return shared / (one.size().prod({-1}) + other.size().prod({-1}) - shared).clamp(1e-9, std::nullopt);
}

Tensor best_of_overlapping(const Tensor& boxes, const Tensor& labels, const Tensor& valid, double most) {
  constexpr int kRounds = 8;  // between two looks
  const Tensor place = Tensor::arange(boxes.size(0), {.device = boxes.device()});
  const Tensor beats = (overlap(boxes, boxes) > most) & labels.unsqueeze(1).eq(labels.unsqueeze(0)) &
                       (place.unsqueeze(0) < place.unsqueeze(1));
  for (Tensor kept = valid;;) {
    Tensor before;
    for (int round = 0; round < kRounds; ++round) {
      before = kept;
      kept = valid & (beats & kept.unsqueeze(0)).any({1}).logical_not();
    }
    Tensor::realize_all(std::vector<Tensor>{kept, before});
    if (kept.eq(before).all().item() != 0) return kept;
  }
}

}  // namespace lathe::models
