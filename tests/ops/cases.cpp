#include "cases.h"

namespace lathe::test {
namespace {

using Shapes = Case::Shapes;

std::vector<Case> make_cases() {
  std::vector<Case> all;
  auto row = [&](const char* name, const char* kinds, bool grad,
                 std::function<Tensor(Maker&, const Shape&)> build, Shapes shapes = Shapes::Any) {
    all.push_back({name, kinds, grad, std::move(build), shapes});
  };

  // clang-format off
#define UNARY(name, kinds, grad, low, high) row(#name, kinds, grad, [](Maker& m, const Shape& s) { return m(s, low, high).name(); });
  //    name         dtypes  gradient  low    high
  UNARY(neg,         "fi",   true,     -3,    3)
  UNARY(logical_not, "fib",  false,    -1,    1)
  UNARY(bitwise_not, "ib",   false,    -9,    9)
  UNARY(reciprocal,  "f",    true,     0.5,   3)
  UNARY(sqrt,        "f",    true,     0.1,   4)
  UNARY(rsqrt,       "f",    true,     0.2,   4)
  UNARY(square,      "fi",   true,     -3,    3)
  UNARY(exp2,        "f",    true,     -3,    3)
  UNARY(exp,         "f",    true,     -3,    3)
  UNARY(log2,        "f",    true,     0.1,   9)
  UNARY(log,         "f",    true,     0.1,   9)
  UNARY(log10,       "f",    true,     0.1,   9)
  UNARY(sin,         "f",    true,     -6,    6)
  UNARY(cos,         "f",    true,     -6,    6)
  UNARY(tan,         "f",    true,     -1.2,  1.2)
  UNARY(asin,        "f",    true,     -0.9,  0.9)
  UNARY(acos,        "f",    true,     -0.9,  0.9)
  UNARY(atan,        "f",    true,     -4,    4)
  UNARY(sinh,        "f",    true,     -2,    2)
  UNARY(cosh,        "f",    true,     -2,    2)
  UNARY(tanh,        "f",    true,     -3,    3)
  UNARY(asinh,       "f",    true,     -3,    3)
  UNARY(acosh,       "f",    true,     1.2,   4)
  UNARY(atanh,       "f",    true,     -0.8,  0.8)
  UNARY(erf,         "f",    true,     -2,    2)
  UNARY(isnan,       "f",    false,    -2,    2)
  UNARY(isinf,       "f",    false,    -2,    2)
  UNARY(isfinite,    "f",    false,    -2,    2)
  UNARY(trunc,       "f",    false,    -4,    4)
  UNARY(floor,       "f",    false,    -4,    4)
  UNARY(ceil,        "f",    false,    -4,    4)
  UNARY(round,       "f",    false,    -4,    4)
  UNARY(sign,        "fi",   false,    -2,    2)
  UNARY(abs,         "fi",   true,     -3,    3)
  UNARY(relu,        "fi",   true,     -2,    2)
  UNARY(relu6,       "f",    true,     -2,    8)
  UNARY(sigmoid,     "f",    true,     -4,    4)
  UNARY(hardsigmoid, "f",    true,     -4,    4)
  UNARY(hardswish,   "f",    true,     -4,    4)
  UNARY(selu,        "f",    true,     -3,    3)
  UNARY(quick_gelu,  "f",    true,     -3,    3)
  UNARY(silu,        "f",    true,     -3,    3)
  UNARY(mish,        "f",    true,     -3,    3)
  UNARY(logsigmoid,  "f",    true,     -3,    3)
  UNARY(softsign,    "f",    true,     -3,    3)
#undef UNARY
#define BINARY(name, kinds, grad, low, high) \
  row(#name, kinds, grad, [](Maker& m, const Shape& s) { return m(s, low, high).name(m(s, low, high)); }); \
  row(#name "_broadcast", kinds, grad, [](Maker& m, const Shape&) { return m({3, 1, 5}, low, high).name(m({4, 1}, low, high)); }, Shapes::Own);
  BINARY(add,         "fib", true,     -3,    3)
  BINARY(sub,         "fi",  true,     -3,    3)
  BINARY(mul,         "fib", true,     -3,    3)
  BINARY(fdiv,        "fi",  true,     1,     3)
  BINARY(floor_divide,"i",   false,    1,     9)
  BINARY(mod,         "i",   false,    -9,    9)
  BINARY(fmod,        "i",   false,    -9,    9)
  BINARY(maximum,     "fib", true,     -3,    3)
  BINARY(minimum,     "fib", true,     -3,    3)
  BINARY(copysign,    "f",   false,    -3,    3)
  BINARY(logaddexp,   "f",   true,     -3,    3)
  BINARY(lshift,      "i",   false,    0,     3)
  BINARY(rshift,      "i",   false,    0,     7)
  BINARY(bitwise_and, "ib",  false,    -9,    9)
  BINARY(bitwise_or,  "ib",  false,    -9,    9)
  BINARY(bitwise_xor, "ib",  false,    -9,    9)
  BINARY(eq,          "fib", false,    -2,    2)
  BINARY(ne,          "fib", false,    -2,    2)
  BINARY(lt,          "fib", false,    -2,    2)
  BINARY(gt,          "fib", false,    -2,    2)
  BINARY(le,          "fib", false,    -2,    2)
  BINARY(ge,          "fib", false,    -2,    2)
#undef BINARY

  // ---- with options
  row("pow",          "f",   true,  [](Maker& m, const Shape& s) { return m(s, 0.3, 3).pow(m(s, -2, 2)); });
  row("pow_square",   "fi",  true,  [](Maker& m, const Shape& s) { return m(s).pow(2); });
  row("pow_half",     "f",   true,  [](Maker& m, const Shape& s) { return m(s, 0.2, 4).pow(0.5); });
  row("lerp",         "f",   true,  [](Maker& m, const Shape& s) { return m(s).lerp(m(s), m(s, 0, 1)); });
  row("where",        "fib", true,  [](Maker& m, const Shape& s) { return m(s).gt(0).where(m(s), m(s)); });
  row("masked_fill",  "fi",  true,  [](Maker& m, const Shape& s) { return m(s).masked_fill(m(s).gt(0), 3); });
  row("clamp",        "fi",  true,  [](Maker& m, const Shape& s) { return m(s, -4, 4).clamp(-1, 2); });
  row("leaky_relu",   "f",   true,  [](Maker& m, const Shape& s) { return m(s).leaky_relu(0.1); });
  row("elu",          "f",   true,  [](Maker& m, const Shape& s) { return m(s).elu(); });
  row("celu",         "f",   true,  [](Maker& m, const Shape& s) { return m(s).celu(); });
  row("gelu_tanh",    "f",   true,  [](Maker& m, const Shape& s) { return m(s).gelu(); });
  row("gelu_erf",     "f",   true,  [](Maker& m, const Shape& s) { return m(s).gelu("none"); });
  row("softplus",     "f",   true,  [](Maker& m, const Shape& s) { return m(s).softplus(); });
  row("hardtanh",     "f",   true,  [](Maker& m, const Shape& s) { return m(s).hardtanh(); });
  row("cast_int",     "fib", false, [](Maker& m, const Shape& s) { return m(s, -4, 4).cast(dtypes::int32); });
  row("cast_uint8",   "fib", false, [](Maker& m, const Shape& s) { return m(s, -4, 4).cast(dtypes::uint8); });
  row("cast_float",   "fib", true,  [](Maker& m, const Shape& s) { return m(s, -4, 4).cast(dtypes::float32); });
  row("cast_half",    "fib", true,  [](Maker& m, const Shape& s) { return m(s, -4, 4).cast(dtypes::float16); });
  row("cast_bool",    "fi",  false, [](Maker& m, const Shape& s) { return m(s, -1, 1).cast(dtypes::bool_); });

  // ---- movement
  row("reshape",      "fib", true,  [](Maker& m, const Shape& s) { return m(s).reshape({-1}) + m(s).flatten(); });
  row("permute",      "fib", true,  [](Maker& m, const Shape&) { return m({2, 3, 4}).permute({2, 0, 1}).contiguous(); }, Shapes::Own);
  row("transpose",    "fi",  true,  [](Maker& m, const Shape&) { return m({5, 7}).transpose() + m({7, 5}); }, Shapes::Own);
  row("flip",         "fib", true,  [](Maker& m, const Shape&) { return m({3, 4, 5}).flip({0, 2}).contiguous(); }, Shapes::Own);
  row("expand",       "fi",  true,  [](Maker& m, const Shape&) { return m({3, 1, 5}).expand({3, 4, 5}) * m({3, 4, 5}); }, Shapes::Own);
  row("pad",          "fib", true,  [](Maker& m, const Shape&) { return m({3, 4}).pad({{1, 2}, {0, 3}}); }, Shapes::Own);
  row("pad_value",    "fi",  true,  [](Maker& m, const Shape&) { return m({3, 4}).pad({{1, 2}, {0, 3}}, 5); }, Shapes::Own);
  row("pad_reflect",  "f",   true,  [](Maker& m, const Shape&) { return m({2, 3, 5}).pad({2, 1}, "reflect"); }, Shapes::Own);
  row("shrink",       "fib", true,  [](Maker& m, const Shape&) { return m({5, 7}).shrink({{1, 4}, {2, 7}}).contiguous(); }, Shapes::Own);
  row("cat",          "fib", true,  [](Maker& m, const Shape&) { return Tensor::cat({m({2, 3}), m({4, 3}), m({1, 3})}); }, Shapes::Own);
  row("cat_axis1",    "fi",  true,  [](Maker& m, const Shape&) { return Tensor::cat({m({2, 3}), m({2, 5})}, 1); }, Shapes::Own);
  row("stack",        "fi",  true,  [](Maker& m, const Shape&) { return Tensor::stack({m({2, 3}), m({2, 3})}, 1); }, Shapes::Own);
  row("repeat",       "fi",  true,  [](Maker& m, const Shape&) { return m({2, 3}).repeat({2, 1, 3}); }, Shapes::Own);
  row("repeat_interleave", "fi", true, [](Maker& m, const Shape&) { return m({2, 3}).repeat_interleave(3, 1); }, Shapes::Own);
  row("roll",         "fi",  true,  [](Maker& m, const Shape&) { return m({4, 5}).roll({1, -2}, {0, 1}); }, Shapes::Own);
  row("diag",         "fi",  true,  [](Maker& m, const Shape&) { return m({5}).diag(); }, Shapes::Own);
  row("diagonal",     "fi",  true,  [](Maker& m, const Shape&) { return m({4, 6}).diagonal().contiguous(); }, Shapes::Own);
  row("triu",         "fi",  true,  [](Maker& m, const Shape&) { return m({4, 5}).triu(1); }, Shapes::Own);
  row("tril",         "fi",  true,  [](Maker& m, const Shape&) { return m({4, 5}).tril(-1); }, Shapes::Own);
  row("unfold",       "f",   true,  [](Maker& m, const Shape&) { return m({3, 9}).unfold(1, 3, 2).contiguous(); }, Shapes::Own);
  row("slice_step",   "fib", true,  [](Maker& m, const Shape&) { return m({7, 6}).getitem({Slice{1, 7, 2}, Slice{{}, {}, -1}}).contiguous(); }, Shapes::Own);

  // ---- reductions
  for (bool keep : {false, true}) {
    std::string k = keep ? "_keepdim" : "";
#define REDUCE(label, kinds, grad, call) row((std::string(label) + k).c_str(), kinds, grad, [keep](Maker& m, const Shape& s) { (void)keep; return call; }, Shapes::Ranked);
    REDUCE("sum_all",   "fib", true,  m(s).sum({}, keep))
    REDUCE("sum_last",  "fib", true,  m(s).sum({-1}, keep))
    REDUCE("sum_first", "fib", true,  m(s).sum({0}, keep))
    REDUCE("mean",      "f",   true,  m(s).mean({-1}, keep))
    REDUCE("max_last",  "fib", true,  m(s).max({-1}, keep))
    REDUCE("min_first", "fib", true,  m(s).min({0}, keep))
    REDUCE("prod",      "fi",  false, m(s, 1, 2).prod({-1}, keep))
    REDUCE("var",       "f",   true,  m(s).var({0}, keep, 0))
    REDUCE("any",       "fib", false, m(s, -1, 1).any({0}, keep))
    REDUCE("all",       "fib", false, m(s, -1, 1).all({-1}, keep))
    REDUCE("argmax",    "fi",  false, m(s).argmax(-1, keep))
    REDUCE("argmin",    "fi",  false, m(s).argmin(0, keep))
    REDUCE("logsumexp", "f",   true,  m(s).logsumexp({-1}, keep))
#undef REDUCE
  }
  row("std",          "f",   true,  [](Maker& m, const Shape&) { return m({4, 6}).std({1}); }, Shapes::Own);
  row("softmax",      "f",   true,  [](Maker& m, const Shape& s) { return m(s).softmax(-1); }, Shapes::Ranked);
  row("log_softmax",  "f",   true,  [](Maker& m, const Shape& s) { return m(s).log_softmax(-1); }, Shapes::Ranked);
  row("layernorm",    "f",   true,  [](Maker& m, const Shape&) { return m({3, 8}).layernorm(); }, Shapes::Own);
  row("normalize",    "f",   true,  [](Maker& m, const Shape&) { return m({3, 8}).normalize(); }, Shapes::Own);
  row("sum_of_sum",   "fi",  true,  [](Maker& m, const Shape&) { return m({4, 5, 6}).sum({2}).sum({0}); }, Shapes::Own);
  row("long_sum",     "f",   true,  [](Maker& m, const Shape&) { return m({70001}).sum(); }, Shapes::Own);
  row("long_sum_parts","f",  true,  [](Maker& m, const Shape&) { return m({131072}).sum(); }, Shapes::Own);

  // ---- scans, sorting, indexing
  row("cumsum",       "fi",  true,  [](Maker& m, const Shape&) { return m({3, 11}).cumsum(1); }, Shapes::Own);
  row("cumsum_long",  "fi",  true,  [](Maker& m, const Shape&) { return m({700}).cumsum(0); }, Shapes::Own);
  row("cumprod",      "fi",  false, [](Maker& m, const Shape&) { return m({3, 6}, 1, 2).cumprod(1); }, Shapes::Own);
  row("cummax",       "fi",  false, [](Maker& m, const Shape&) { return m({3, 11}).cummax(1).first; }, Shapes::Own);
  row("sort",         "fi",  true,  [](Maker& m, const Shape&) { return m({3, 13}).sort().first; }, Shapes::Own);
  row("argsort",      "fi",  false, [](Maker& m, const Shape&) { return m({2, 9}).argsort(); }, Shapes::Own);
  row("topk",         "fi",  true,  [](Maker& m, const Shape&) { return m({2, 9}).topk(3).first; }, Shapes::Own);
  row("gather",       "fib", true,  [](Maker& m, const Shape&) { return m({4, 7}).gather(1, m.index({4, 3}, 0, 7)); }, Shapes::Own);
  row("embedding",    "f",   true,  [](Maker& m, const Shape&) { return m({11, 5}).embedding(m.index({2, 4}, 0, 11)); }, Shapes::Own);
  row("index_tensor", "fi",  true,  [](Maker& m, const Shape&) { return m({6, 5}).getitem({m.index({4}, 0, 6)}); }, Shapes::Own);
  row("scatter_add",  "fi",  true,  [](Maker& m, const Shape&) { return m({5, 4}).scatter_reduce(0, m.index({3, 4}, 0, 5), m({3, 4}), "sum"); }, Shapes::Own);
  row("one_hot",      "i",   false, [](Maker& m, const Shape&) { return m.index({7}, 0, 5).one_hot(5); }, Shapes::Own);
  row("masked_select","fi",  false, [](Maker& m, const Shape&) { Tensor x = m({12}); return x.masked_select(x.gt(0), 12); }, Shapes::Own);

  // ---- products and layers
  row("matmul",       "fi",  true,  [](Maker& m, const Shape&) { return m({5, 7}).matmul(m({7, 6})); }, Shapes::Own);
  row("matmul_odd",   "f",   true,  [](Maker& m, const Shape&) { return m({17, 33}).matmul(m({33, 19})); }, Shapes::Own);
  row("matmul_big",   "f",   true,  [](Maker& m, const Shape&) { return m({64, 48}).matmul(m({48, 80})); }, Shapes::Own);
  row("matmul_tn",    "f",   true,  [](Maker& m, const Shape&) { return m({33, 17}).transpose().matmul(m({33, 40})); }, Shapes::Own);
  row("matmul_nt",    "f",   true,  [](Maker& m, const Shape&) { return m({17, 33}).matmul(m({40, 33}).transpose()); }, Shapes::Own);
  row("matmul_batch", "f",   true,  [](Maker& m, const Shape&) { return m({3, 5, 7}).matmul(m({3, 7, 4})); }, Shapes::Own);
  row("matvec",       "f",   true,  [](Maker& m, const Shape&) { return m({35, 130}).matmul(m({130})); }, Shapes::Own);
  row("einsum",       "f",   true,  [](Maker& m, const Shape&) { return Tensor::einsum("bij,bjk->bik", {m({2, 3, 4}), m({2, 4, 5})}); }, Shapes::Own);
  row("linear_relu",  "f",   true,  [](Maker& m, const Shape&) { Tensor b = m({9}); return m({4, 6}).linear(m({6, 9}), &b).relu(); }, Shapes::Own);
  row("conv2d",       "f",   true,  [](Maker& m, const Shape&) { return m({2, 3, 9, 8}).conv2d(m({4, 3, 3, 3})); }, Shapes::Own);
  row("conv2d_pad",   "f",   true,  [](Maker& m, const Shape&) { Tensor b = m({4}); ConvOptions o; o.padding = 1; return m({2, 3, 6, 7}).conv2d(m({4, 3, 3, 3}), &b, o); }, Shapes::Own);
  row("conv2d_stride","f",   true,  [](Maker& m, const Shape&) { ConvOptions o; o.stride = 2; o.padding = 1; return m({1, 2, 9, 9}).conv2d(m({3, 2, 3, 3}), nullptr, o); }, Shapes::Own);
  row("conv2d_dilate","f",   true,  [](Maker& m, const Shape&) { ConvOptions o; o.dilation = 2; return m({1, 2, 9, 9}).conv2d(m({3, 2, 3, 3}), nullptr, o); }, Shapes::Own);
  row("conv2d_groups","f",   true,  [](Maker& m, const Shape&) { ConvOptions o; o.groups = 2; return m({1, 4, 6, 6}).conv2d(m({6, 2, 3, 3}), nullptr, o); }, Shapes::Own);
  row("conv2d_depthwise","f",true,  [](Maker& m, const Shape&) { ConvOptions o; o.groups = 4; return m({1, 4, 6, 6}).conv2d(m({4, 1, 3, 3}), nullptr, o); }, Shapes::Own);
  row("conv1d",       "f",   true,  [](Maker& m, const Shape&) { return m({2, 3, 20}).conv2d(m({4, 3, 5})); }, Shapes::Own);
  row("conv_transpose2d","f",true,  [](Maker& m, const Shape&) { ConvTransposeOptions o; o.stride = 2; return m({1, 3, 4, 4}).conv_transpose2d(m({3, 2, 3, 3}), nullptr, o); }, Shapes::Own);
  row("max_pool2d",   "f",   true,  [](Maker& m, const Shape&) { return m({2, 3, 8, 6}).max_pool2d(); }, Shapes::Own);
  row("avg_pool2d",   "f",   true,  [](Maker& m, const Shape&) { return m({2, 3, 8, 6}).avg_pool2d({3, 3}); }, Shapes::Own);
  row("interpolate",  "f",   true,  [](Maker& m, const Shape&) { return m({1, 2, 4, 5}).interpolate({7, 9}); }, Shapes::Own);
  row("attention",    "f",   true,  [](Maker& m, const Shape&) { return m({2, 5, 4}).scaled_dot_product_attention(m({2, 5, 4}), m({2, 5, 4})); }, Shapes::Own);
  row("attention_causal","f",true,  [](Maker& m, const Shape&) { AttentionOptions o; o.causal = true; return m({2, 5, 4}).scaled_dot_product_attention(m({2, 5, 4}), m({2, 5, 4}), o); }, Shapes::Own);
  row("cross_entropy","f",   true,  [](Maker& m, const Shape&) { return m({6, 10}).cross_entropy(m.index({6}, 0, 10)); }, Shapes::Own);
  row("bce_logits",   "f",   true,  [](Maker& m, const Shape&) { return m({6, 3}).binary_crossentropy_logits(m({6, 3}, 0, 1)); }, Shapes::Own);
  // clang-format on
  return all;
}

}  // namespace

const std::vector<Case>& cases() {
  static const auto* all = new std::vector<Case>(make_cases());
  return *all;
}

}  // namespace lathe::test
