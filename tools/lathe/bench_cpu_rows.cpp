// The rows of `lathe bench cpu`, as data. A name says what is measured; names of matrix products contain
// `gemm`, those of odd shapes also `odd`.
#include <fmt/format.h>

#include "tools/lathe/bench_cpu.h"

namespace lathe::tool {
namespace {

constexpr int kThreads = 2;  // where a row does not say otherwise

struct Product {
  const char* name;
  std::int64_t batch, m, n, k;
  const char *operands, *dtype;  // "nt": the first as it is, the second transposed
  int threads;
  double reach, tuned;
  bool quick;
};
// clang-format off
constexpr Product kProducts[] = {
    // name                         batch  m      n     k       operands dtype  threads reach tuned quick
    {"sgemm_256_t1",                1,     256,   256,  256,    "nn",    "f32",  1,     0.90, 1.00, true},
    {"sgemm_512_t1",                1,     512,   512,  512,    "nn",    "f32",  1,     0.90, 1.00, false},
    {"sgemm_1024_t1",               1,     1024,  1024, 1024,   "nn",    "f32",  1,     0.90, 1.00, true},
    {"sgemm_2048_t1",               1,     2048,  2048, 2048,   "nn",    "f32",  1,     0.90, 1.00, false},
    {"sgemm_256_t2",                1,     256,   256,  256,    "nn",    "f32",  2,     0.90, 1.00, false},
    {"sgemm_512_t2",                1,     512,   512,  512,    "nn",    "f32",  2,     0.90, 1.00, false},
    {"sgemm_1024_t2",               1,     1024,  1024, 1024,   "nn",    "f32",  2,     0.90, 1.00, true},
    {"sgemm_2048_t2",               1,     2048,  2048, 2048,   "nn",    "f32",  2,     0.90, 1.00, false},
    {"sgemm_odd_1000x1000x1000",    1,     1000,  1000, 1000,   "nn",    "f32",  2,     0.85, 1.00, true},
    {"sgemm_odd_64x4096x512",       1,     64,    4096, 512,    "nn",    "f32",  2,     0.85, 1.00, false},
    {"sgemm_odd_3x3x100000",        1,     3,     3,    100000, "nn",    "f32",  2,     0.85, 1.00, false},
    {"sgemm_odd_batch32_128x128x64",32,    128,   128,  64,     "nn",    "f32",  2,     0.85, 1.00, false},
    {"sgemm_odd_1000_tn",           1,     1000,  1000, 1000,   "tn",    "f32",  2,     0.85, 1.00, false},
    {"sgemm_odd_1000_nt",           1,     1000,  1000, 1000,   "nt",    "f32",  2,     0.85, 1.00, true},
    {"sgemm_odd_1000_tt",           1,     1000,  1000, 1000,   "tt",    "f32",  2,     0.85, 1.00, false},
    {"sgemm_odd_batch32_128x128x64_nt",32, 128,   128,  64,     "nt",    "f32",  2,     0.85, 1.00, false},
    {"bf16_gemm_512_t1",            1,     512,   512,  512,    "nn",    "bf16", 1,     0.60, 0.75, false},
    {"bf16_gemm_1024_t1",           1,     1024,  1024, 1024,   "nn",    "bf16", 1,     0.60, 0.75, true},
    {"bf16_gemm_2048_t1",           1,     2048,  2048, 2048,   "nn",    "bf16", 1,     0.60, 0.75, false},
    {"int8_gemm_512_t1",            1,     512,   512,  512,    "nn",    "s8",   1,     0.60, 0.75, false},
    {"int8_gemm_1024_t1",           1,     1024,  1024, 1024,   "nn",    "s8",   1,     0.60, 0.75, true},
    {"int8_gemm_2048_t1",           1,     2048,  2048, 2048,   "nn",    "s8",   1,     0.60, 0.75, false},
};

struct Convolution {
  const char* name;
  std::int64_t batch, in, height, width, out, kernel, stride, padding;
  bool quick;
};
constexpr Convolution kConvolutions[] = {
    // name                       batch in   h    w    out  kernel stride padding quick
    {"conv3x3_64x56x56_b1",       1,    64,  56,  56,  64,  3,     1,     1,      true},
    {"conv3x3_64x56x56_b16",      16,   64,  56,  56,  64,  3,     1,     1,      false},
    {"conv3x3_256x14x14_b1",      1,    256, 14,  14,  256, 3,     1,     1,      false},
    {"conv3x3_256x14x14_b16",     16,   256, 14,  14,  256, 3,     1,     1,      false},
    {"conv7x7s2_3x224x224_b1",    1,    3,   224, 224, 64,  7,     2,     3,      false},
    {"conv7x7s2_3x224x224_b16",   16,   3,   224, 224, 64,  7,     2,     3,      false},
    {"conv1x1_256x56x56_b1",      1,    256, 56,  56,  64,  1,     1,     0,      true},
    {"conv1x1_256x56x56_b16",     16,   256, 56,  56,  64,  1,     1,     0,      false},
};

// Bound by memory: the unit is bytes read and written once each, and the goal a share of the roof.
struct Stream {
  const char *name, *kind, *dtype;
  std::int64_t rows, columns;
  RoofKind roof;
  double bytes_per_element;  // of the large operand, results of its size included
  double reach, tuned;
  double tolerance;
  bool quick;
};
constexpr Stream kStreams[] = {
    // name                    kind            dtype   rows   columns roof            bytes  reach tuned tolerance quick
    {"chain_5_ops",            "chain",        "f32",  16384, 1024,   RoofKind::Copy, 8,     0.90, 0.95, 1e-5,     true},
    {"sum_all",                "sum_all",      "f32",  16384, 1024,   RoofKind::Read, 4,     0.90, 0.95, 1e-4,     true},
    {"sum_rows",               "sum_rows",     "f32",  16384, 1024,   RoofKind::Read, 4,     0.90, 0.95, 1e-4,     false},
    {"sum_columns",            "sum_columns",  "f32",  16384, 1024,   RoofKind::Read, 4,     0.90, 0.95, 1e-4,     true},
    {"layernorm",              "layernorm",    "f32",  16384, 1024,   RoofKind::Copy, 8,     0.75, 0.85, 1e-4,     true},
    {"softmax",                "softmax",      "f32",  16384, 1024,   RoofKind::Copy, 8,     0.50, 0.65, 1e-4,     true},
    {"matvec_8192_f32",        "matvec",       "f32",  8192,  8192,   RoofKind::Read, 4,     0.90, 0.95, 1e-4,     true},
    {"matvec_8192_bf16",       "matvec",       "bf16", 8192,  8192,   RoofKind::Read, 2,     0.90, 0.95, 1e-4,     false},
    {"matvec_8192_int8",       "matvec",       "s8",   8192,  8192,   RoofKind::Read, 1,     0.70, 0.80, 1e-4,     false},
    {"matvec_8192_4bit",       "matvec",       "q4",   8192,  8192,   RoofKind::Read, 0.5625,0.25, 0.40, 1e-4,     true},
    {"matvec_8192_4bit_int8_activations", "matvec_q4q8", "q4", 8192, 8192, RoofKind::Read, 0.5625, 0.45, 0.60, 1e-4, false},
};
// clang-format on

CpuRow row_of(const Product& p) {
  CpuRow row;
  row.name = p.name;
  row.kind = "gemm";
  row.dtype = p.dtype;
  row.sizes = {p.batch, p.m, p.n, p.k};
  row.variant = p.operands;
  row.threads = p.threads;
  const bool small = row.dtype != "f32";
  row.roof = row.dtype == "bf16" ? RoofKind::BFloat16 : row.dtype == "s8" ? RoofKind::Int8 : RoofKind::Float;
  row.work = 2.0 * static_cast<double>(p.batch * p.m) * static_cast<double>(p.n * p.k);
  row.unit = "GFLOP/s";
  row.reach = p.reach;
  row.tuned_reach = p.tuned;
  row.reach_is_roof = small;
  row.tolerance = row.dtype == "bf16" ? 0.01 : row.dtype == "s8" ? 0 : 1e-4;
  row.quick = p.quick;
  return row;
}

CpuRow row_of(const Convolution& c) {
  CpuRow row;
  row.name = c.name;
  row.kind = "conv";
  row.sizes = {c.batch, c.in, c.height, c.width, c.out, c.kernel, c.stride, c.padding};
  row.threads = kThreads;
  const std::int64_t high = (c.height + 2 * c.padding - c.kernel) / c.stride + 1,
                     wide = (c.width + 2 * c.padding - c.kernel) / c.stride + 1;
  row.work = 2.0 * static_cast<double>(c.batch * c.out * high * wide) *
             static_cast<double>(c.in * c.kernel * c.kernel);
  row.unit = "GFLOP/s";
  row.reach = 0.8;
  row.tuned_reach = 1.0;
  row.quick = c.quick;
  return row;
}

CpuRow row_of(const Stream& s) {
  CpuRow row;
  row.name = s.name;
  row.kind = s.kind;
  row.dtype = s.dtype;
  row.sizes = {s.rows, s.columns};
  row.threads = kThreads;
  row.roof = s.roof;
  row.work = static_cast<double>(s.rows * s.columns) * s.bytes_per_element;
  row.unit = "GB/s";
  row.reach = s.reach;
  row.tuned_reach = s.tuned;
  row.reach_is_roof = true;
  row.tolerance = s.tolerance;
  row.quick = s.quick;
  return row;
}

// sizes: heads, length, features. A causal mask leaves half of the products.
CpuRow attention(const char* name, const char* variant, double reach, double tuned) {
  CpuRow row;
  row.name = name;
  row.kind = "attention";
  row.sizes = {8, 2048, 64};
  row.variant = variant;
  row.work = 2.0 * 2 * 8 * 2048 * 2048 * 64 / 2;
  row.unit = "GFLOP/s";
  row.reach = reach;
  row.tuned_reach = tuned;
  return row;
}

// sizes: batch and what else the net takes.
CpuRow net(const char* name, const char* kind, std::vector<std::int64_t> sizes, const char* variant,
           double gflop, double reach, double tuned) {
  CpuRow row;
  row.name = name;
  row.kind = kind;
  row.sizes = std::move(sizes);
  row.variant = variant;
  row.work = gflop * 1e9;
  row.unit = "ms";
  row.reach = reach;
  row.tuned_reach = tuned;
  row.tolerance = 2e-3;
  row.net = true;
  return row;
}

}  // namespace

std::vector<CpuRow> cpu_rows() {
  std::vector<CpuRow> rows;
  for (const Product& p : kProducts) rows.push_back(row_of(p));
  for (const Convolution& c : kConvolutions) rows.push_back(row_of(c));
  rows.push_back(net("demo_step_b512", "demo", {512}, "eager", 40, 1.2, 1.7));
  rows.push_back(net("demo_step_b512_vs_compiled", "demo", {512}, "compiled", 40, 0, 1.1));
  rows.push_back(net("gpt2_124m_forward_t128", "gpt2", {1, 128}, "eager", 32, 1.0, 1.3));
  rows.push_back(net("bert_base_forward_t128_b8", "bert", {8, 128}, "eager", 180, 1.0, 1.3));
  for (const Stream& s : kStreams) rows.push_back(row_of(s));
  rows.push_back(attention("attention_8x2048x64_causal", "parts", 2, 3));
  rows.push_back(attention("attention_8x2048x64_causal_vs_fused", "fused", 1, 1));
  return rows;
}

Json to_json(const CpuRow& row) {
  Json dtypes = Json::array(), shapes = Json::array();
  for (const RowInput& input : inputs_of(row)) {
    dtypes.push_back(input.dtype);
    shapes.push_back(input.shape);
  }
  return {{"name", row.name},   {"device", row.device},   {"kind", row.kind},       {"dtype", row.dtype},
          {"sizes", row.sizes}, {"variant", row.variant}, {"threads", row.threads}, {"net", row.net},
          {"dtypes", dtypes},   {"shapes", shapes}};
}

// What contenders need: how the row is judged stays with the parent.
CpuRow row_from_json(const Json& json) {
  CpuRow row;
  row.name = json.at("name");
  row.device = json.value("device", "CPU");
  row.kind = json.at("kind");
  row.dtype = json.at("dtype");
  row.sizes = json.at("sizes").get<std::vector<std::int64_t>>();
  row.variant = json.at("variant");
  row.threads = json.at("threads");
  row.net = json.at("net");
  return row;
}

}  // namespace lathe::tool
