// What the rows of `lathe bench cpu` should give, by plain loops in double over a sample of the outputs: the
// judge that owes nothing to Lathe or to any peer.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/lathe/bench_cpu.h"

namespace lathe::tool {
namespace {

// The inputs of a row as numbers.
class Inputs {
 public:
  Inputs(const CpuRow& row, const std::string& folder) : specs_(inputs_of(row)) {
    for (std::size_t i = 0; i < specs_.size(); ++i) files_.emplace_back(fmt::format("{}/in{}", folder, i));
  }
  double at(std::size_t input, std::int64_t place) const {
    const std::byte* data = files_[input].data();
    const auto i = static_cast<std::size_t>(place);
    const std::string& dtype = specs_[input].dtype;
    if (dtype == "f32" || dtype == "tf32") return reinterpret_cast<const float*>(data)[i];
    if (dtype == "e4m3") return fp8_to_float(reinterpret_cast<const std::uint8_t*>(data)[i]);
    if (dtype == "bf16") return bfloat_to_float(reinterpret_cast<const std::uint16_t*>(data)[i]);
    if (dtype == "f16") return half_to_float(reinterpret_cast<const std::uint16_t*>(data)[i]);
    return dtype == "s8" ? reinterpret_cast<const std::int8_t*>(data)[i]
                         : reinterpret_cast<const std::uint8_t*>(data)[i];
  }

 private:
  std::vector<RowInput> specs_;
  std::vector<MappedFile> files_;
};

using Formula = double (*)(const CpuRow& row, const Inputs& in, std::int64_t place);

double gemm(const CpuRow& row, const Inputs& in, std::int64_t place) {
  const std::int64_t m = row.sizes[1], n = row.sizes[2], k = row.sizes[3];
  const std::int64_t b = place / (m * n), i = place / n % m, j = place % n;
  double sum = 0;
  for (std::int64_t x = 0; x < k; ++x)
    sum += in.at(0, b * m * k + (row.variant[0] == 't' ? x * m + i : i * k + x)) *
           in.at(1, b * k * n + (row.variant[1] == 't' ? j * k + x : x * n + j));
  return sum;
}

double conv(const CpuRow& row, const Inputs& in, std::int64_t place) {
  const std::int64_t channels = row.sizes[1], height = row.sizes[2], width = row.sizes[3], out = row.sizes[4],
                     kernel = row.sizes[5], stride = row.sizes[6], padding = row.sizes[7];
  const std::int64_t high = (height + 2 * padding - kernel) / stride + 1,
                     wide = (width + 2 * padding - kernel) / stride + 1;
  const std::int64_t x = place % wide, y = place / wide % high, o = place / wide / high % out,
                     b = place / wide / high / out;
  double sum = 0;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t dy = 0; dy < kernel; ++dy)
      for (std::int64_t dx = 0; dx < kernel; ++dx) {
        const std::int64_t py = y * stride + dy - padding, px = x * stride + dx - padding;
        if (py < 0 || py >= height || px < 0 || px >= width) continue;
        sum += in.at(0, ((b * channels + c) * height + py) * width + px) *
               in.at(1, ((o * channels + c) * kernel + dy) * kernel + dx);
      }
  return sum;
}

double chain(const CpuRow&, const Inputs& in, std::int64_t place) {
  const double x = in.at(0, place);
  return std::max((x * 1.5 + 0.5) * x - 0.25, 0.0);
}

double sum_of(const Inputs& in, std::int64_t begin, std::int64_t count, std::int64_t step) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += in.at(0, begin + i * step);
  return sum;
}
double sum_all(const CpuRow& row, const Inputs& in, std::int64_t) {
  return sum_of(in, 0, row.sizes[0] * row.sizes[1], 1);
}
double sum_rows(const CpuRow& row, const Inputs& in, std::int64_t place) {
  return sum_of(in, place * row.sizes[1], row.sizes[1], 1);
}
double sum_columns(const CpuRow& row, const Inputs& in, std::int64_t place) {
  return sum_of(in, place, row.sizes[0], row.sizes[1]);
}

double layernorm(const CpuRow& row, const Inputs& in, std::int64_t place) {
  const std::int64_t n = row.sizes[1], begin = place / n * n;
  const double mean = sum_of(in, begin, n, 1) / static_cast<double>(n);
  double square = 0;
  for (std::int64_t i = 0; i < n; ++i) square += std::pow(in.at(0, begin + i) - mean, 2);
  return (in.at(0, place) - mean) / std::sqrt(square / static_cast<double>(n) + 1e-5);
}

// What a gradient g that comes in becomes on its way through a softmax whose result was y.
double softmax_backward(const CpuRow& row, const Inputs& in, std::int64_t place) {
  const std::int64_t n = row.sizes[1], begin = place / n * n;
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += in.at(0, begin + i) * in.at(1, begin + i);
  return in.at(0, place) * (in.at(1, place) - sum);
}

double layernorm_backward(const CpuRow& row, const Inputs& in, std::int64_t place) {
  const std::int64_t n = row.sizes[1], begin = place / n * n;
  const auto count = static_cast<double>(n);
  const double mean = sum_of(in, begin, n, 1) / count;
  double square = 0, sum = 0, along = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double off = in.at(0, begin + i) - mean, g = in.at(1, begin + i);
    square += off * off, sum += g, along += g * off;
  }
  const double scale = 1 / std::sqrt(square / count + 1e-5);
  return scale * (in.at(1, place) - sum / count - (in.at(0, place) - mean) * scale * scale * along / count);
}

double softmax(const CpuRow& row, const Inputs& in, std::int64_t place) {
  const std::int64_t n = row.sizes[1], begin = place / n * n;
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(in.at(0, begin + i));
  return std::exp(in.at(0, place)) / sum;
}

// A weight of 4 bits: the low halves of a block's 16 bytes come first, then the high ones.
double nibble(const Inputs& in, std::int64_t block, std::int64_t i) {
  const auto byte = static_cast<int>(in.at(0, block * 16 + i % 16));
  return (i < 16 ? byte & 15 : byte >> 4) - 8;
}

double matvec(const CpuRow& row, const Inputs& in, std::int64_t place) {
  const std::int64_t k = row.sizes[1];
  double sum = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    if (row.dtype != "q4") {
      sum += in.at(0, place * k + i) * in.at(1, i);
      continue;
    }
    const std::int64_t block = (place * k + i) / 32;
    const double x = row.kind == "matvec" ? in.at(2, i) : in.at(2, i) * in.at(3, i / 32);
    sum += in.at(1, block) * nibble(in, block, i % 32) * x;
  }
  return sum;
}

double attention(const CpuRow& row, const Inputs& in, std::int64_t place) {
  const std::int64_t length = row.sizes[1], d = row.sizes[2];
  const std::int64_t head = place / d / length * length * d, at = place / d % length, feature = place % d;
  double sum = 0, total = 0;
  const std::int64_t keys = row.variant == "full" ? length : at + 1;
  for (std::int64_t j = 0; j < keys; ++j) {
    double score = 0;
    for (std::int64_t i = 0; i < d; ++i) score += in.at(0, head + at * d + i) * in.at(1, head + j * d + i);
    const double weight = std::exp(score / std::sqrt(static_cast<double>(d)));
    sum += weight;
    total += weight * in.at(2, head + j * d + feature);
  }
  return total / sum;
}

double tiny(const CpuRow& row, const Inputs& in, std::int64_t place) {
  return in.at(0, place) + static_cast<double>(row.sizes[2]);
}

// The gradients of a convolution with stride 1 and as many outputs as inputs in a row.
double conv_input_gradient(const CpuRow& row, const Inputs& in, std::int64_t place) {
  const std::vector<std::int64_t>& s = row.sizes;
  const std::int64_t h = s[2], w = s[3], k = s[5], pad = s[7];
  const std::int64_t b = place / (s[1] * h * w), i = place / (h * w) % s[1], y = place / w % h, x = place % w;
  double sum = 0;
  for (std::int64_t o = 0; o < s[4]; ++o)
    for (std::int64_t ky = 0; ky < k; ++ky)
      for (std::int64_t kx = 0; kx < k; ++kx) {
        const std::int64_t gy = y + pad - ky, gx = x + pad - kx;
        if (gy < 0 || gy >= h || gx < 0 || gx >= w) continue;
        sum += in.at(1, ((o * s[1] + i) * k + ky) * k + kx) * in.at(2, ((b * s[4] + o) * h + gy) * w + gx);
      }
  return sum;
}

double conv_weight_gradient(const CpuRow& row, const Inputs& in, std::int64_t place) {
  const std::vector<std::int64_t>& s = row.sizes;
  const std::int64_t h = s[2], w = s[3], k = s[5], pad = s[7];
  const std::int64_t o = place / (s[1] * k * k), i = place / (k * k) % s[1], ky = place / k % k,
                     kx = place % k;
  double sum = 0;
  for (std::int64_t b = 0; b < s[0]; ++b)
    for (std::int64_t y = 0; y < h; ++y)
      for (std::int64_t x = 0; x < w; ++x) {
        const std::int64_t py = y + ky - pad, px = x + kx - pad;
        if (py < 0 || py >= h || px < 0 || px >= w) continue;
        sum += in.at(0, ((b * s[1] + i) * h + py) * w + px) * in.at(2, ((b * s[4] + o) * h + y) * w + x);
      }
  return sum;
}

struct Kind {
  const char* name;
  Formula formula;
};
constexpr Kind kKinds[] = {{"tiny", tiny},
                           {"gemm", gemm},
                           {"conv", conv},
                           {"conv_input_gradient", conv_input_gradient},
                           {"conv_weight_gradient", conv_weight_gradient},
                           {"chain", chain},
                           {"sum_all", sum_all},
                           {"sum_rows", sum_rows},
                           {"sum_columns", sum_columns},
                           {"layernorm", layernorm},
                           {"softmax", softmax},
                           {"softmax_backward", softmax_backward},
                           {"layernorm_backward", layernorm_backward},
                           {"matvec", matvec},
                           {"matvec_q4q8", matvec},
                           {"attention", attention}};

}  // namespace

std::vector<std::int64_t> sample_places(std::int64_t elements, std::int64_t most) {
  std::vector<std::int64_t> places;
  const std::int64_t count = std::min(elements, most);
  for (std::int64_t i = 0; i < count; ++i)
    places.push_back(
        count == 1 ? 0
                   : static_cast<std::int64_t>(static_cast<double>(elements - 1) *
                                               (static_cast<double>(i) / static_cast<double>(count - 1))));
  return places;
}

std::int64_t output_elements(const CpuRow& row) {
  const std::vector<std::int64_t>& s = row.sizes;
  if (row.kind == "gemm") return s[0] * s[1] * s[2];
  if (row.kind == "conv")
    return s[0] * s[4] * ((s[2] + 2 * s[7] - s[5]) / s[6] + 1) * ((s[3] + 2 * s[7] - s[5]) / s[6] + 1);
  if (row.kind == "conv_input_gradient") return s[0] * s[1] * s[2] * s[3];
  if (row.kind == "conv_weight_gradient") return s[4] * s[1] * s[5] * s[5];
  if (row.kind == "attention") return s[0] * s[1] * s[2];
  if (row.kind == "sum_all") return 1;
  if (row.kind == "sum_rows" || row.kind == "matvec" || row.kind == "matvec_q4q8") return s[0];
  if (row.kind == "sum_columns") return s[1];
  if (inputs_of(row).empty()) return 0;
  return s[0] * s[1];
}

std::vector<double> reference_values(const CpuRow& row, const std::string& folder,
                                     const std::vector<std::int64_t>& places) {
  std::vector<double> values;
  for (const Kind& kind : kKinds) {
    if (row.kind != kind.name) continue;
    const Inputs in(row, folder);
    for (const std::int64_t place : places) values.push_back(kind.formula(row, in, place));
  }
  return values;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.empty()) return std::numeric_limits<double>::infinity();
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, std::abs(a[i] - b[i]));
    largest = std::max({largest, std::abs(a[i]), std::abs(b[i])});
  }
  return largest > 0 ? difference / largest : 0;
}

}  // namespace lathe::tool
