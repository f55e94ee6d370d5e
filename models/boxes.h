// Boxes as tensors (..., 4) of left, top, right and bottom: anchors, overlaps, and the best of those that
// overlap.
#pragma once

#include <span>

#include "lathe/tensor.h"

namespace lathe::models {

struct Extent {
  std::int64_t height, width;
};

// Boxes of every cell of a grid over an image, by cell, then ratio (height over width), then size: (count,
// 4).
Tensor anchors_at(const Extent& grid, const Extent& image, std::span<const double> sizes,
                  std::span<const double> ratios);
// Boxes from anchors: their centres moved by parts of their sizes, their sizes grown by exponentials.
Tensor moved(const Tensor& anchors, const Tensor& steps);
// What moved() needs to make these boxes of the anchors.
Tensor steps_between(const Tensor& anchors, const Tensor& boxes);
// Of each of a (n, 4) with each of b (m, 4): what they share over what they cover together, (n, m).
Tensor overlap(const Tensor& a, const Tensor& b);
// Which boxes stay, from the best to the worst, where one falls to a better one of its label that overlaps it
// by more than `most`: bool (n). Whether one stays is known once all better ones are: repeated until nothing
// changes.
Tensor best_of_overlapping(const Tensor& boxes, const Tensor& labels, const Tensor& valid, double most);

}  // namespace lathe::models
