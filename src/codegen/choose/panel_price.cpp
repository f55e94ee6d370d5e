#include "codegen/choose/panel_price.h"

#include <algorithm>
#include <cmath>

namespace lathe {

std::int64_t even_block(std::int64_t extent, double most) {
  if (most >= static_cast<double>(extent)) return extent;
  auto largest = std::max<std::int64_t>(static_cast<std::int64_t>(most), 1);
  std::int64_t blocks = (extent + largest - 1) / largest, size = (extent + blocks - 1) / blocks;
  for (std::int64_t n = largest; n * 2 > size; --n)
    if (extent % n == 0) return n;
  return size;
}

double source_elements(const std::vector<PanelAxis>& axes, const NodeMap<double>& extents) {
  double n = 1;
  for (const PanelAxis& axis : axes) {
    double reach = 1;
    for (std::size_t i = 0; i < axis.ranges.size(); ++i)
      reach += std::abs(static_cast<double>(axis.weights[i])) * (*extents.find(axis.ranges[i]) - 1);
    n *= reach;
  }
  return n;
}

}  // namespace lathe
