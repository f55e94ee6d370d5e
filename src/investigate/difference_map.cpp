#include "investigate/difference_map.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>

namespace lathe::investigate {
namespace {

constexpr std::int64_t kMostCells = 64;  // in a direction

double off_by(const reference::Sample& sample, DType dtype, reference::Cell left) {
  if (!dtype.is_float()) return static_cast<double>(left.i) - static_cast<double>(sample.value.i);
  const double want = sample.value.f;
  if (left.f == want || (std::isnan(left.f) && std::isnan(want))) return 0;
  return left.f - want;
}

}  // namespace

Rows difference_map(Node kernel, const reference::Bindings& bindings,
                    std::span<const reference::Sample> samples, std::int64_t slot,
                    const reference::Array& after) {
  std::int64_t width = 0;
  for (const reference::StoreAxes& axes : reference::store_axes(kernel, bindings))
    if (axes.slot == slot) width = axes.extents.empty() ? 1 : axes.extents.back();
  if (width <= 0 || after.size() == 0) return {};
  const std::int64_t height = (after.size() + width - 1) / width;
  const std::int64_t down = std::min(height, kMostCells), across = std::min(width, kMostCells);
  Rows rows(static_cast<std::size_t>(down), std::vector<double>(static_cast<std::size_t>(across), 0));
  for (const reference::Sample& sample : samples) {
    if (sample.slot != slot || sample.open || !sample.written) continue;
    if (sample.element < 0 || sample.element >= after.size()) continue;
    const std::int64_t y = sample.element / width, x = sample.element % width;
    double& cell =
        rows[static_cast<std::size_t>(y * down / height)][static_cast<std::size_t>(x * across / width)];
    const double off = off_by(sample, after.dtype(), after.cell(sample.element));
    if (std::isnan(off) || std::fabs(off) > std::fabs(cell)) cell = off;
  }
  return rows;
}

std::string to_word(const Rows& rows) {
  std::string word;
  for (const std::vector<double>& row : rows) {
    for (const double v : row) word += fmt::format("{:.6g},", v);
    word += ";";
  }
  return word;
}

Rows rows_of_word(const std::string& word) {
  Rows rows;
  for (std::size_t at = 0; at < word.size();) {
    std::vector<double>& row = rows.emplace_back();
    while (at < word.size() && word[at] != ';') {
      row.push_back(std::strtod(word.c_str() + at, nullptr));
      at = std::min(word.find(',', at), word.size() - 1) + 1;
    }
    ++at;
  }
  return rows;
}

}  // namespace lathe::investigate
