// The rows of `lathe bench cuda`, as data: what is wanted of one H200, in sections that take a few minutes
// each.
#include <fmt/format.h>

#include "tools/lathe/bench_cpu.h"

namespace lathe::tool {
namespace {

// clang-format off
struct Product {
  const char* name;
  std::int64_t batch, m, n, k;
  const char *operands, *dtype;
  double reach;  // TFLOP/s; below 2: of the peer
};
constexpr Product kProducts[] = {
    // name                    batch  m     n     k     operands dtype   reach
    {"f32_4096",               1,     4096, 4096, 4096, "nn",    "f32",  42},
    {"bf16_8192",              1,     8192, 8192, 8192, "nn",    "bf16", 600},
    {"bf16_4096",              1,     4096, 4096, 4096, "nn",    "bf16", 560},
    {"bf16_2048",              1,     2048, 2048, 2048, "nn",    "bf16", 300},
    {"f32_2048",               1,     2048, 2048, 2048, "nn",    "f32",  1},
    {"f16_8192",               1,     8192, 8192, 8192, "nn",    "f16",  600},
    {"f16_4096",               1,     4096, 4096, 4096, "nn",    "f16",  560},
    {"fp8_8192_nt",            1,     8192, 8192, 8192, "nt",    "e4m3", 1000},
    {"fp8_4096_nt",            1,     4096, 4096, 4096, "nt",    "e4m3", 1},
    {"fp8_8192",               1,     8192, 8192, 8192, "nn",    "e4m3", 1},
    {"tf32_4096",              1,     4096, 4096, 4096, "nn",    "tf32", 270},
    {"tf32_4096_nt",           1,     4096, 4096, 4096, "nt",    "tf32", 270},
    {"tf32_8192_nt",           1,     8192, 8192, 8192, "nt",    "tf32", 1},
    {"s8_8192_nt",             1,     8192, 8192, 8192, "nt",    "s8",   1},
};
constexpr Product kOdd[] = {
    {"bf16_4096x4096x4095",    1,     4096, 4096, 4095, "nn",    "bf16", 0.75},
    {"bf16_1000",              1,     1000, 1000, 1000, "nn",    "bf16", 0.75},
    {"bf16_8192x128x8192",     1,     8192, 128,  8192, "nn",    "bf16", 0.75},
    {"bf16_batch64_512",       64,    512,  512,  512,  "nn",    "bf16", 0.75},
    {"bf16_4096_nt",           1,     4096, 4096, 4096, "nt",    "bf16", 0.75},
    {"bf16_4096_tn",           1,     4096, 4096, 4096, "tn",    "bf16", 0.75},
    {"bf16_4096_tt",           1,     4096, 4096, 4096, "tt",    "bf16", 0.75},
    {"f32_1000",               1,     1000, 1000, 1000, "nn",    "f32",  0.75},
    {"f32_4096x4096x4095_nt",  1,     4096, 4096, 4095, "nt",    "f32",  0.75},
};

struct Stream {
  const char *name, *kind, *dtype;
  std::int64_t rows, columns;
  double bytes_per_element, reach;  // TB/s
};
constexpr Stream kStreams[] = {
    // name               kind           dtype   rows   columns bytes   reach
    {"chain_f32",         "chain",       "f32",  16384, 8192,   8,      3.9},
    {"chain_bf16",        "chain",       "bf16", 32768, 8192,   4,      3.9},
    {"sum_f32",           "sum_all",     "f32",  16384, 8192,   4,      3.9},
    {"sum_rows_bf16",     "sum_rows",    "bf16", 32768, 8192,   2,      3.9},
    {"sum_columns_bf16",  "sum_columns", "bf16", 32768, 8192,   2,      3.9},
    {"softmax_bf16",      "softmax",     "bf16", 32768, 8192,   4,      3.5},
    {"layernorm_bf16",    "layernorm",   "bf16", 32768, 8192,   4,      3.5},
    {"softmax_f32",       "softmax",     "f32",  16384, 8192,   8,      3.5},
    {"softmax_back_bf16", "softmax_backward", "bf16", 32768, 8192, 6,   3.3},
    {"layernorm_back_bf16", "layernorm_backward", "bf16", 32768, 8192, 6, 3.3},
    {"matvec_bf16",       "matvec",      "bf16", 8192,  32768,  2,      3.8},
    {"matvec_f32",        "matvec",      "f32",  8192,  32768,  4,      3.8},
    {"matvec_4bit",       "matvec",      "q4",   8192,  32768,  0.5625, 2.5},
};

// What the goal names and no row runs yet.
constexpr std::pair<const char*, const char*> kMissing[] = {
    {"attention forward + backward",   "backward keeps its weights"},
    {"sort, scatter-add, top-k",       "no row yet"},
};

struct NetRow {
  const char *name, *kind, *variant, *unit;
  std::vector<std::int64_t> sizes;
  double work, reach;
};
// A cold row is a process that begins with nothing, up to its first result.
const NetRow kNets[] = {
    // name                  kind              variant    unit        sizes              work       reach
    {"gpt2_train_b32",       "gpt2_train",     "",        "ktok/s",   {32, 1024, 50304}, 32 * 1024, 400},
    {"resnet50_forward_b64", "resnet_forward", "",        "images/s", {64, 224},         64,        15000},
    {"resnet50_train_b64",   "resnet_train",   "",        "images/s", {64, 224},         64,        1},
    {"llama_1b_decode",      "llama_decode",   "",        "tok/s",    {1024},            1,         1000},
};
const NetRow kColdNets[] = {
    {"gpt2_train_b32_cold",  "gpt2_train",     kColdNet,  "s",        {32, 1024, 50304}, 1,         3},
    {"llama_1b_decode_cold", "llama_decode",   kColdNet,  "s",        {1024},            1,         3},
};
// clang-format on

double tolerance_of(const std::string& dtype) {
  return dtype == "s8" ? 0 : dtype == "f32" || dtype == "q4" ? 1e-4 : 2e-2;
}

CpuRow cuda_row(const char* name, const char* kind, const char* dtype, double reach, double work,
                std::vector<std::int64_t> sizes) {
  CpuRow row;
  row.device = "CUDA";
  row.name = name;
  row.kind = kind;
  row.dtype = dtype;
  row.sizes = std::move(sizes);
  row.work = work;
  row.reach = reach;
  row.tolerance = tolerance_of(dtype);
  return row;
}

CpuRow row_of(const Product& p) {
  CpuRow row = cuda_row(p.name, "gemm", p.dtype, p.reach,
                        2.0 * static_cast<double>(p.batch * p.m) * static_cast<double>(p.n * p.k),
                        {p.batch, p.m, p.n, p.k});
  row.variant = p.operands;
  row.unit = "TFLOP/s";
  return row;
}

CpuRow row_of(const NetRow& n) {
  CpuRow row = cuda_row(n.name, n.kind, "bf16", n.reach, n.work, n.sizes);
  row.variant = n.variant;
  row.unit = n.unit;
  // Losses and scores, of products in 16 bits: PyTorch's own without them fall by 0.063 more or less.
  row.tolerance = 0.1;
  row.net = true;
  return row;
}

CpuRow row_of(const Stream& s) {
  CpuRow row = cuda_row(s.name, s.kind, s.dtype, s.reach,
                        static_cast<double>(s.rows * s.columns) * s.bytes_per_element, {s.rows, s.columns});
  row.roof = RoofKind::Copy;
  row.unit = "TB/s";
  return row;
}

// sizes: heads of all batches, length, features.
CpuRow attention(const char* name, const char* variant, double reach) {
  const std::int64_t heads = 64, length = 4096, features = 128;
  const double products = 4.0 * static_cast<double>(heads * features) * static_cast<double>(length * length);
  const bool full = std::string_view(variant) == "full";
  CpuRow row =
      cuda_row(name, "attention", "bf16", reach, full ? products : products / 2, {heads, length, features});
  row.variant = variant;
  row.unit = "TFLOP/s";
  return row;
}

// Kernels that do next to nothing, one after the other: what starting each of them costs.
CpuRow tiny_kernels(const char* name, std::int64_t kernels, double microseconds) {
  CpuRow row =
      cuda_row(name, "tiny", "f32", 1 / microseconds, static_cast<double>(kernels), {1, 1024, kernels});
  row.unit = "kernels/us";
  return row;
}

CpuRow convolution(const char* name, const char* dtype, double reach, const char* kind = "conv") {
  const std::int64_t batch = 64, channels = 256, size = 56, kernel = 3;
  CpuRow row = cuda_row(name, kind, dtype, reach,
                        2.0 * static_cast<double>(batch * channels * size * size) *
                            static_cast<double>(channels * kernel * kernel),
                        {batch, channels, size, size, channels, kernel, 1, 1});
  row.unit = "TFLOP/s";
  return row;
}

}  // namespace

std::vector<CudaSection> cuda_sections() {
  std::vector<CudaSection> sections{{"products", {}}, {"memory", {}}, {"odd", {}}, {"fused", {}},
                                    {"launch", {}},   {"nets", {}},   {"cold", {}}};
  for (const Product& p : kProducts) sections[0].rows.push_back(row_of(p));
  for (const Stream& s : kStreams) sections[1].rows.push_back(row_of(s));
  for (const Product& p : kOdd) sections[2].rows.push_back(row_of(p));
  sections[3].rows = {convolution("conv3x3_256x56x56_b64_f32", "f32", 1),
                      convolution("conv3x3_256x56x56_b64_bf16", "bf16", 550),
                      convolution("conv3x3_input_gradient_bf16", "bf16", 450, "conv_input_gradient"),
                      convolution("conv3x3_weight_gradient_bf16", "bf16", 450, "conv_weight_gradient"),
                      attention("attention_full_bf16", "full", 450),
                      attention("attention_causal_bf16", "fused", 400)};
  sections[4].rows = {tiny_kernels("tiny_kernels_300", 300, 1.5)};
  for (const NetRow& n : kNets) sections[5].rows.push_back(row_of(n));
  for (const NetRow& n : kColdNets) sections[6].rows.push_back(row_of(n));
  return sections;
}

std::vector<std::pair<std::string, std::string>> cuda_missing() {
  return {std::begin(kMissing), std::end(kMissing)};
}

}  // namespace lathe::tool
