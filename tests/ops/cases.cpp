#include "cases.h"

#include <limits>

namespace lathe::test {
namespace {

using Shapes = Case::Shapes;

// Random numbers are counter-based, so REF draws the same ones.
void all_random(std::vector<Case>& all) {
  auto row = [&](const char* name, std::function<Tensor(Maker&)> build) {
    all.push_back(
        {name, "f", false, [build](Maker& m, const Shape&) { return build(m); }, Shapes::Own, true});
  };
  // clang-format off
  row("random_bits",     [](Maker& m) { return Tensor::random_bits(33, m.on_device(dtypes::uint32)); });
  row("rand",            [](Maker& m) { return Tensor::rand({5, 7}, m.options()); });
  row("randn",           [](Maker& m) { return Tensor::randn({5, 7}, m.options()); });
  row("randint",         [](Maker& m) { return Tensor::randint({5, 7}, -3, 9, m.on_device(dtypes::int32)); });
  row("normal",          [](Maker& m) { return Tensor::normal({4, 3}, 1, 2, m.options()); });
  row("uniform",         [](Maker& m) { return Tensor::uniform({4, 3}, -1, 2, m.options()); });
  row("scaled_uniform",  [](Maker& m) { return Tensor::scaled_uniform({4, 3}, m.options()); });
  row("glorot_uniform",  [](Maker& m) { return Tensor::glorot_uniform({4, 3}, m.options()); });
  row("kaiming_uniform", [](Maker& m) { return Tensor::kaiming_uniform({4, 3}, 0.01, m.options()); });
  row("kaiming_normal",  [](Maker& m) { return Tensor::kaiming_normal({4, 3}, 0.01, m.options()); });
  row("randperm",        [](Maker& m) { return Tensor::randperm(17, m.on_device(dtypes::int32)); });
  row("rand_like",       [](Maker& m) { return m({3, 2}).rand_like(); });
  row("randn_like",      [](Maker& m) { return m({3, 2}).randn_like(); });
  row("multinomial",     [](Maker& m) { return m({6}, 0.5, 2).cast(dtypes::float32).multinomial(5, true); });
  row("dropout",         [](Maker& m) { TrainingScope training; return m({4, 5}).dropout(0.5); });
  // clang-format on
}

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
  UNARY(reciprocal,  "fl",   true,     0.5,   3)
  UNARY(sqrt,        "fl",   true,     0.1,   4)
  UNARY(rsqrt,       "fl",   true,     0.2,   4)
  UNARY(square,      "fi",   true,     -3,    3)
  UNARY(exp2,        "fl",   true,     -3,    3)
  UNARY(exp,         "fl",   true,     -3,    3)
  UNARY(expm1,       "fl",   true,     -3,    3)
  UNARY(log2,        "fl",   true,     0.1,   9)
  UNARY(log,         "fl",   true,     0.1,   9)
  UNARY(log10,       "fl",   true,     0.1,   9)
  UNARY(log1p,       "fl",   true,     -0.8,  9)
  UNARY(sin,         "fl",   true,     -6,    6)
  UNARY(cos,         "fl",   true,     -6,    6)
  UNARY(tan,         "fl",   true,     -1.2,  1.2)
  UNARY(asin,        "fl",   true,     -0.9,  0.9)
  UNARY(acos,        "fl",   true,     -0.9,  0.9)
  UNARY(atan,        "fl",   true,     -4,    4)
  UNARY(sinh,        "fl",   true,     -2,    2)
  UNARY(cosh,        "fl",   true,     -2,    2)
  UNARY(tanh,        "fl",   true,     -3,    3)
  UNARY(asinh,       "fl",   true,     -3,    3)
  UNARY(acosh,       "fl",   true,     1.2,   4)
  UNARY(atanh,       "fl",   true,     -0.8,  0.8)
  UNARY(erf,         "fl",   true,     -2,    2)
  UNARY(erfc,        "fl",   true,     -2,    2)
  UNARY(isnan,       "fl",   false,    -2,    2)
  UNARY(isinf,       "fl",   false,    -2,    2)
  UNARY(isfinite,    "fl",   false,    -2,    2)
  UNARY(trunc,       "fl",   false,    -4,    4)
  UNARY(floor,       "fl",   false,    -4,    4)
  UNARY(ceil,        "fl",   false,    -4,    4)
  UNARY(round,       "fl",   false,    -4,    4)
  UNARY(sign,        "fi",   false,    -2,    2)
  UNARY(abs,         "fi",   true,     -3,    3)
  UNARY(relu,        "fi",   true,     -2,    2)
  UNARY(relu6,       "fl",   true,     -2,    8)
  UNARY(sigmoid,     "fl",   true,     -4,    4)
  UNARY(hardsigmoid, "fl",   true,     -4,    4)
  UNARY(hardswish,   "fl",   true,     -4,    4)
  UNARY(selu,        "fl",   true,     -3,    3)
  UNARY(quick_gelu,  "fl",   true,     -3,    3)
  UNARY(silu,        "fl",   true,     -3,    3)
  UNARY(swish,       "fl",   true,     -3,    3)
  UNARY(mish,        "fl",   true,     -3,    3)
  UNARY(logsigmoid,  "fl",   true,     -3,    3)
  UNARY(softsign,    "fl",   true,     -3,    3)
#undef UNARY
#define BINARY(name, kinds, grad, low, high) \
  row(#name, kinds, grad, [](Maker& m, const Shape& s) { return m(s, low, high).name(m(s, low, high)); }); \
  row(#name "_broadcast", kinds, grad, [](Maker& m, const Shape&) { return m({3, 1, 5}, low, high).name(m({4, 1}, low, high)); }, Shapes::Own);
  BINARY(add,         "fib", true,     -3,    3)
  BINARY(sub,         "fi",  true,     -3,    3)
  BINARY(mul,         "fib", true,     -3,    3)
  BINARY(fdiv,        "fib", true,     1,     3)
  BINARY(floor_divide,"fi",  false,    1,     9)
  BINARY(mod,         "fi",  false,    -9,    9)
  BINARY(fmod,        "fi",  false,    -9,    9)
  BINARY(maximum,     "fib", true,     -3,    3)
  BINARY(minimum,     "fib", true,     -3,    3)
  BINARY(copysign,    "fl",  false,    -3,    3)
  BINARY(logaddexp,   "fl",  true,     -3,    3)
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
  row("pow_whole",    "i",   false, [](Maker& m, const Shape& s) { return m(s, -3, 3).pow(m(s, 0, 4)); });
  row("rpow",         "f",   true,  [](Maker& m, const Shape& s) { return m(s).rpow(1.7); });
  row("div",          "fi",  true,  [](Maker& m, const Shape& s) { return m(s, 1, 3).div(m(s, 1, 3)); });
  row("div_trunc",    "fi",  false, [](Maker& m, const Shape& s) { return m(s, -9, 9).div(m(s, 1, 4), "trunc"); });
  row("div_floor",    "fi",  false, [](Maker& m, const Shape& s) { return m(s, -9, 9).div(m(s, 1, 4), "floor"); });
  row("literals",     "fi",  true,  [](Maker& m, const Shape& s) { return 2 - m(s) * 3 + 1; });
  row("isclose",      "fi",  false, [](Maker& m, const Shape& s) { return m(s, 0, 1).isclose(m(s, 0, 1), 0.2, 0.1); });
  row("isclose_nan",  "f",   false, [](Maker& m, const Shape& s) { return m(s, 0, 1).isclose(m(s, 0, 1), 0.2, 0.1, true); });
  row("clip",         "fi",  true,  [](Maker& m, const Shape& s) { return m(s, 0, 4).clip(1, 2); });
  row("clamp_low",    "fi",  true,  [](Maker& m, const Shape& s) { return m(s, 0, 4).clamp(1); });
  row("clamp_tensors","fi",  true,  [](Maker& m, const Shape& s) { Tensor low = m(s, 0, 1), high = m(s, 2, 3); return m(s, 0, 4).clamp(&low, &high); });
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

  row("cast_double",  "fib", true,  [](Maker& m, const Shape& s) { return m(s, -4, 4).to_double(); });
  row("cast_bfloat16","fib", true,  [](Maker& m, const Shape& s) { return m(s, -4, 4).to_bfloat16(); });
  row("cast_fp8",     "fib", false, [](Maker& m, const Shape& s) { return m(s, -4, 4).cast(dtypes::fp8e4m3); });
  row("cast_int8",    "fib", false, [](Maker& m, const Shape& s) { return m(s, -4, 4).cast(dtypes::int8); });
  row("cast_uint16",  "fib", false, [](Maker& m, const Shape& s) { return m(s, -4, 4).cast(dtypes::uint16); });
  row("cast_int16",   "fib", false, [](Maker& m, const Shape& s) { return m(s, -4, 4).to_short(); });
  row("cast_uint32",  "fib", false, [](Maker& m, const Shape& s) { return m(s, -4, 4).cast(dtypes::uint32); });
  row("cast_int64",   "fib", false, [](Maker& m, const Shape& s) { return m(s, -4, 4).to_long(); });
  row("cast_uint64",  "fib", false, [](Maker& m, const Shape& s) { return m(s, -4, 4).cast(dtypes::uint64); });
  row("cast_named",   "fi",  false, [](Maker& m, const Shape& s) { return m(s).to_half().to_float().to_int().to_bool(); });
  row("bitcast",      "fib", false, [](Maker& m, const Shape& s) {
    Tensor x = m(s);
    std::int64_t width = x.element_size();
    return x.bitcast(width == 1 ? dtypes::uint8 : width == 2 ? dtypes::int16 : width == 4 ? dtypes::uint32 : dtypes::int64);
  });

  // ---- made from nothing, in the dtype under test
  row("full",         "fib", false, [](Maker& m, const Shape& s) { return Tensor::full(s, 1, m.options()); });
  row("zeros_ones",   "fib", false, [](Maker& m, const Shape& s) { return Tensor::zeros(s, m.options()) + Tensor::ones(s, m.options()); });
  row("arange",       "fi",  false, [](Maker& m, const Shape&) { return Tensor::arange(1, 40, 3, m.options()); }, Shapes::Own);
  row("linspace",     "f",   false, [](Maker& m, const Shape&) { return Tensor::linspace(0, 4, 9, m.options()); }, Shapes::Own);
  row("eye",          "fib", false, [](Maker& m, const Shape&) { return Tensor::eye(5, 7, m.options()); }, Shapes::Own);
  row("meshgrid",     "fi",  true,  [](Maker& m, const Shape&) { auto g = Tensor::meshgrid({m({3}), m({5})}); return g[0] * g[1]; }, Shapes::Own);
  row("like",         "fi",  true,  [](Maker& m, const Shape& s) { Tensor x = m(s); return x + x.const_like(2) * x.full_like(3) - x.ones_like() + x.zeros_like(); });
  row("from_bytes",   "fib", false, [](Maker& m, const Shape&) { static const char kBytes[] = "0123456789abcdefghijklmnopqrstuv"; auto w = m.options().dtype->itemsize(); return Tensor::from_bytes(kBytes, 32, {32 / w}, *m.options().dtype, m.options().device) + Tensor::zeros({}, m.options()); }, Shapes::Own);
  row("from_blob",    "i",   false, [](Maker& m, const Shape&) { static std::int32_t numbers[] = {1, 2, 3}; return Tensor::from_blob(numbers, {3}, {dtypes::int32, "CPU"}).to(m.options().device) + m({3}).cast(dtypes::int32); }, Shapes::Own);
  all_random(all);

  // ---- copies and writes in place
  row("clone",        "fib", true,  [](Maker& m, const Shape& s) { return m(s).clone(); });
  row("to",           "fib", false, [](Maker& m, const Shape& s) { Tensor x = m(s); return x.to("CPU:1").to(x.device()); });
  row("to_",          "fi",  false, [](Maker& m, const Shape& s) { Tensor x = m(s).clone(); std::string home = x.device(); x.to_("CPU:1"); return x.to_(home) + 1; });
  row("detach",       "fi",  false, [](Maker& m, const Shape& s) { Tensor x = m(s); return x.detach() * x; });
  row("contiguous_backward", "fi", true, [](Maker& m, const Shape& s) { return m(s).contiguous_backward() * 2; });
  row("assign",       "fib", true,  [](Maker& m, const Shape& s) { Tensor x = m(s).clone(); x.assign(m(s)); return x; });
  row("replace",      "fi",  true,  [](Maker& m, const Shape& s) { Tensor x = m(s).clone(); x.replace(m(s) * 2); return x; });
  row("in_place",     "fi",  true,  [](Maker& m, const Shape& s) { Tensor x = m(s).clone(); x += m(s); x *= 2; x -= 1; return x; });
  row("setitem",      "fib", true,  [](Maker& m, const Shape&) { Tensor x = m({5, 6}).clone(); x.setitem({Slice{1, 4}, Slice{{}, {}, 2}}, m({3, 3})); return x; }, Shapes::Own);
  row("setitem_index","fi",  true,  [](Maker& m, const Shape&) { Tensor x = m({5, 6}).clone(); x.setitem({m.index({1}, 0, 5)}, m({6})); return x; }, Shapes::Own);

  // ---- movement
  row("view",         "fi",  true,  [](Maker& m, const Shape&) { return m({4, 6}).view({3, 8}) * m({3, 8}); }, Shapes::Own);
  row("transpose_all","fi",  true,  [](Maker& m, const Shape&) { return m({2, 3, 5}).T() + m({5, 3, 2}); }, Shapes::Own);
  row("squeeze",      "fi",  true,  [](Maker& m, const Shape&) { return m({2, 1, 5, 1}).squeeze(1).squeeze() + m({5}).unsqueeze(0); }, Shapes::Own);
  row("unflatten",    "fi",  true,  [](Maker& m, const Shape&) { return m({2, 12}).unflatten(1, {3, 4}).movedim(0, 2).contiguous(); }, Shapes::Own);
  row("rearrange",    "fi",  true,  [](Maker& m, const Shape&) { return m({2, 6, 5}).rearrange("b (h w) c -> b c h w", {{"h", 2}}).contiguous(); }, Shapes::Own);
  row("pad_to",       "fib", true,  [](Maker& m, const Shape&) { return m({3, 4}).pad_to({5, 7}).shrink_to({4, 6}).contiguous(); }, Shapes::Own);
  row("pad_replicate","f",   true,  [](Maker& m, const Shape&) { return m({2, 3, 5}).pad({2, 3}, "replicate"); }, Shapes::Own);
  row("pad_circular", "f",   true,  [](Maker& m, const Shape&) { return m({2, 3, 5}).pad({2, 3}, "circular"); }, Shapes::Own);
  row("pad_inf",      "f",   true,  [](Maker& m, const Shape&) { return m({3, 4}).pad({{0, 0}, {0, 3}}, -std::numeric_limits<double>::infinity()).max({1}); }, Shapes::Own);
  row("split",        "fi",  true,  [](Maker& m, const Shape&) { auto p = m({7, 3}).split(3); return p[0].sum({0}) + p[1].sum({0}) * p[2].sum({0}); }, Shapes::Own);
  row("chunk",        "fi",  true,  [](Maker& m, const Shape&) { auto p = m({2, 8}).chunk(2, 1); return p[0] * p[1]; }, Shapes::Own);
  row("cat_method",   "fi",  true,  [](Maker& m, const Shape&) { return m({2, 3}).cat(m({1, 3})); }, Shapes::Own);
  row("cat_empty",    "fi",  true,  [](Maker& m, const Shape&) { return Tensor::cat({m({0, 3}), m({2, 3})}); }, Shapes::Own);
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
  row("prod_gradient","f",   true,  [](Maker& m, const Shape&) { return m({3, 4}, 1, 2).prod({1}); }, Shapes::Own);
  row("var_mean",     "f",   true,  [](Maker& m, const Shape&) { auto [v, mean] = m({4, 6}).var_mean({1}); return v + mean * 2; }, Shapes::Own);
  row("std_mean",     "f",   true,  [](Maker& m, const Shape&) { auto [v, mean] = m({4, 6}).std_mean({1}); return v + mean * 2; }, Shapes::Own);
  row("sum_empty",    "fib", false, [](Maker& m, const Shape&) { return m({0, 3}).sum({0}); }, Shapes::Own);
  row("max_two_axes", "fi",  true,  [](Maker& m, const Shape&) { return m({3, 4, 5}).max({0, 2}); }, Shapes::Own);
  row("sum_wide",     "fi",  true,  [](Maker& m, const Shape&) { return m({3, 5}).sum({1}, false, dtypes::float64); }, Shapes::Own);
  row("usum",         "fi",  true,  [](Maker& m, const Shape& s) { return m(s).usum({m(s), m(s)}); });
  row("uprod",        "fi",  true,  [](Maker& m, const Shape& s) { return m(s).uprod({m(s), m(s)}); });
  row("softmin",      "f",   true,  [](Maker& m, const Shape& s) { return m(s).softmin(-1); }, Shapes::Ranked);
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
  row("cummin",       "fi",  false, [](Maker& m, const Shape&) { return m({3, 11}).cummin(1).second; }, Shapes::Own);
  row("logcumsumexp", "f",   true,  [](Maker& m, const Shape&) { return m({3, 7}).logcumsumexp(1); }, Shapes::Own);
  row("sort_down",    "fi",  false, [](Maker& m, const Shape&) { return m({3, 13}).sort(-1, true).second; }, Shapes::Own);
  row("sort",         "fi",  true,  [](Maker& m, const Shape&) { return m({3, 13}).sort().first; }, Shapes::Own);
  row("argsort",      "fi",  false, [](Maker& m, const Shape&) { return m({2, 9}).argsort(); }, Shapes::Own);
  row("topk",         "fi",  true,  [](Maker& m, const Shape&) { return m({2, 9}).topk(3).first; }, Shapes::Own);
  row("gather",       "fib", true,  [](Maker& m, const Shape&) { return m({4, 7}).gather(1, m.index({4, 3}, 0, 7)); }, Shapes::Own);
  row("embedding",    "f",   true,  [](Maker& m, const Shape&) { return m({11, 5}).embedding(m.index({2, 4}, 0, 11)); }, Shapes::Own);
  row("index_tensor", "fi",  true,  [](Maker& m, const Shape&) { return m({6, 5}).getitem({m.index({4}, 0, 6)}); }, Shapes::Own);
  row("scatter_add",  "fi",  true,  [](Maker& m, const Shape&) { return m({5, 4}).scatter_reduce(0, m.index({3, 4}, 0, 5), m({3, 4}), "sum"); }, Shapes::Own);
  row("scatter",      "fib", false, [](Maker& m, const Shape&) { return m({5, 4}).scatter(0, m.index({1, 4}, 0, 5), m({1, 4})); }, Shapes::Own);
  row("scatter_max",  "fi",  false, [](Maker& m, const Shape&) { return m({5, 4}).scatter_reduce(0, m.index({3, 4}, 0, 5), m({3, 4}), "amax"); }, Shapes::Own);
  row("nonzero",      "fib", false, [](Maker& m, const Shape&) { return m({12}, -1, 1).nonzero(12, -1); }, Shapes::Own);
  row("index_pair",   "fi",  true,  [](Maker& m, const Shape&) { return m({6, 5}).getitem({m.index({4}, 0, 6), m.index({4}, 0, 5)}); }, Shapes::Own);
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
  row("dot",          "fi",  true,  [](Maker& m, const Shape&) { return m({130}).dot(m({130})); }, Shapes::Own);
  row("dot_wide",     "f",   true,  [](Maker& m, const Shape&) { return m({5, 7}).dot(m({7, 6}), dtypes::float64); }, Shapes::Own);
  row("matmul_empty", "f",   true,  [](Maker& m, const Shape&) { return m({3, 0}).matmul(m({0, 4})) + m({3, 4}); }, Shapes::Own);
  row("sequential",   "f",   true,  [](Maker& m, const Shape&) { return m({2, 3}).sequential({[](const Tensor& x) { return x.relu(); }, [](const Tensor& x) { return x * 2; }}); }, Shapes::Own);
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
  row("max_pool_indices","f",false, [](Maker& m, const Shape&) { return m({2, 3, 8, 6}).max_pool2d_with_indices().second; }, Shapes::Own);
  row("max_unpool2d", "f",   false, [](Maker& m, const Shape&) { auto [v, at] = m({1, 2, 4, 6}).max_pool2d_with_indices(); return v.max_unpool2d(at); }, Shapes::Own);
  row("max_pool_ceil","f",   true,  [](Maker& m, const Shape&) { PoolOptions o; o.stride = 2; o.padding = 1; o.ceil_mode = true; return m({1, 2, 8, 7}).max_pool2d({3, 3}, o); }, Shapes::Own);
  row("avg_pool_pad", "f",   true,  [](Maker& m, const Shape&) { PoolOptions o; o.padding = 1; o.count_include_pad = false; return m({1, 2, 8, 7}).avg_pool2d({3, 3}, o); }, Shapes::Own);
  row("batchnorm",    "f",   true,  [](Maker& m, const Shape&) { Tensor w = m({3}), b = m({3}); return m({2, 3, 4}).batchnorm(&w, &b, m({3}), m({3}, 0.5, 2)); }, Shapes::Own);
  row("interpolate_nearest","f",true,[](Maker& m, const Shape&) { return m({1, 2, 4, 5}).interpolate({7, 9}, "nearest"); }, Shapes::Own);
  row("avg_pool2d",   "f",   true,  [](Maker& m, const Shape&) { return m({2, 3, 8, 6}).avg_pool2d({3, 3}); }, Shapes::Own);
  row("interpolate",  "f",   true,  [](Maker& m, const Shape&) { return m({1, 2, 4, 5}).interpolate({7, 9}); }, Shapes::Own);
  row("attention",    "f",   true,  [](Maker& m, const Shape&) { return m({2, 5, 4}).scaled_dot_product_attention(m({2, 5, 4}), m({2, 5, 4})); }, Shapes::Own);
  row("attention_causal","f",true,  [](Maker& m, const Shape&) { AttentionOptions o; o.causal = true; return m({2, 5, 4}).scaled_dot_product_attention(m({2, 5, 4}), m({2, 5, 4}), o); }, Shapes::Own);
  row("cross_entropy","f",   true,  [](Maker& m, const Shape&) { return m({6, 10}).cross_entropy(m.index({6}, 0, 10)); }, Shapes::Own);
  row("bce_logits",   "f",   true,  [](Maker& m, const Shape&) { return m({6, 3}).binary_crossentropy_logits(m({6, 3}, 0, 1)); }, Shapes::Own);
  row("bce",          "f",   true,  [](Maker& m, const Shape&) { return m({6, 3}, 0.1, 0.9).binary_crossentropy(m({6, 3}, 0.1, 0.9)); }, Shapes::Own);
  row("sparse_crossentropy","f",true,[](Maker& m, const Shape&) { return m({6, 10}).sparse_categorical_crossentropy(m.index({6}, 0, 10)); }, Shapes::Own);
  row("nll_loss",     "f",   true,  [](Maker& m, const Shape&) { return m({6, 10}).log_softmax().nll_loss(m.index({6}, 0, 10)); }, Shapes::Own);

  // ---- linear algebra and digests
  row("qr",           "f",   false, [](Maker& m, const Shape&) { auto [q, r] = m({4, 3}).qr(); return q.dot(r); }, Shapes::Own);
  row("svd",          "f",   false, [](Maker& m, const Shape&) { auto [u, v, w] = m({4, 3}).svd(false); return u * v.unsqueeze(0) + w.sum() * 0; }, Shapes::Own);
  row("newton_schulz","f",   true,  [](Maker& m, const Shape&) { return m({3, 4}).newton_schulz(2, {3.4445, -4.7750, 2.0315}); }, Shapes::Own);
  row("keccak",       "i",   false, [](Maker& m, const Shape&) { return m.index({2, 9}, 0, 256).cast(dtypes::uint8).keccak(); }, Shapes::Own);
  row("hash",         "fi",  false, [](Maker& m, const Shape&) { return m({9, 3}).hash(); }, Shapes::Own);
  // clang-format on
  for (Case& c : all) {
    for (const char* start :
         {"relu", "selu", "elu", "celu", "maximum", "minimum", "clamp", "clip", "hardtanh", "sum_", "mean",
          "max_", "min_", "softplus", "mish", "logsigmoid", "logaddexp", "usum"})
      if (c.name.starts_with(start)) c.any_zero = true;
    if (c.name == "lerp") c.fused = true;
    c.normalized = c.name == "layernorm" || c.name == "normalize";
  }
  return all;
}

}  // namespace

const std::vector<Case>& cases() {
  static const auto* all = new std::vector<Case>(make_cases());
  return *all;
}

}  // namespace lathe::test
