// Attention with a state instead of a past, and the convolution that is before it.
#include <fmt/format.h>

#include <cmath>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

// (batch, length, heads * size) as (batch, heads, length, size).
Tensor unpacked(const Call& c, const Tensor& x, std::int64_t heads) {
  const std::int64_t width = concrete(x.size(2), c, "the width");
  if (heads < 1 || width % heads != 0)
    c.fail(fmt::format("a width of {} does not make {} heads", width, heads));
  return x.reshape({x.size(0), x.size(1), heads, width / heads}).permute({0, 2, 1, 3});
}

// One row per update rule: whether the state decays, and whether it is corrected by what it already gives.
struct UpdateRule {
  std::string_view name;
  bool decays, corrects;
};
constexpr UpdateRule kUpdateRules[] = {
    {"linear", false, false}, {"gated", true, false}, {"delta", false, true}, {"gated_delta", true, true}};

const UpdateRule& rule_of(const Call& c) {
  const std::string name = c.text("update_rule", "gated_delta");
  for (const UpdateRule& rule : kUpdateRules)
    if (rule.name == name) return rule;
  c.fail(fmt::format("there is no update rule '{}'", formats::shown(name)));
}

// The state is (batch, heads, key size, value size); steps follow one another.
Outputs linear_attention(const Call& c) {
  const std::int64_t query_heads = c.integer("q_num_heads"), heads = c.integer("kv_num_heads");
  const UpdateRule& rule = rule_of(c);
  const Tensor q = unpacked(c, c.x(0), query_heads), k = unpacked(c, c.x(1), heads),
               v = unpacked(c, c.x(2), heads);
  if (query_heads % heads != 0) c.fail(fmt::format("{} heads of queries and {} of keys", query_heads, heads));
  const DataType dtype = q.dtype(), wide = dtype.bitsize() < 32 ? dtypes::float32 : dtype;
  const std::int64_t length = concrete(q.size(2), c, "the length"),
                     key = concrete(q.size(3), c, "the head size");
  const double given = c.number("scale", 0.0),
               scale = given == 0 ? 1 / std::sqrt(static_cast<double>(key)) : given;
  Tensor state =
      c.has(3) ? c.x(3).cast(wide)
               : Tensor::zeros({q.size(0), heads, key, v.size(3)}, {.dtype = wide, .device = c.device()});
  if (rule.decays && !c.has(4)) c.fail("the decay is missing");
  if (rule.corrects && !c.has(5)) c.fail("beta is missing");
  const Tensor decay = rule.decays ? unpacked(c, c.x(4), heads).cast(wide).exp() : Tensor();
  // One rate per head, or one for all.
  const Tensor rate = rule.corrects ? c.x(5).permute({0, 2, 1}).unsqueeze(-1).cast(wide) : Tensor();
  auto step = [](const Tensor& x, std::int64_t t) {
    return sliced(x, 2, t, t + 1);
  };  // (batch, heads, 1, size)
  std::vector<Tensor> rows;
  for (std::int64_t t = 0; t < length; ++t) {
    const Tensor column = step(k, t).cast(wide).transpose(-1, -2);  // (batch, heads, key, 1)
    Tensor value = step(v, t).cast(wide);
    if (rule.decays) state = state * step(decay, t).transpose(-1, -2);
    if (rule.corrects) value = (value - column.transpose(-1, -2).matmul(state)) * step(rate, t);
    state = (state + column * value).contiguous();
    const Tensor shared = query_heads == heads ? state : state.repeat_interleave(query_heads / heads, 1);
    rows.push_back(step(q, t).cast(wide).matmul(shared) * scale);
  }
  if (rows.empty()) c.fail("the sequence is empty");
  const Tensor y = Tensor::cat(rows, 2).permute({0, 2, 1, 3});
  return {y.reshape({q.size(0), length, y.size(2) * y.size(3)}).cast(dtype), state.cast(dtype)};
}

Outputs causal_convolution(const Call& c) {
  const Tensor &x = c.x(0), &weight = c.x(1);
  if (x.ndim() != 3 || weight.ndim() != 3) c.fail("three axes are needed");
  const std::int64_t past = concrete(weight.size(2), c, "the kernel") - 1,
                     channels = concrete(x.size(1), c, "the channels");
  const Tensor all = c.has(3) ? Tensor::cat({c.x(3), x}, 2) : padded(x, 2, past, 0);
  const Tensor* bias = c.has(2) ? &c.x(2) : nullptr;
  Tensor y = all.conv2d(weight, bias, {.groups = channels});
  const std::string name = c.text("activation", "none");
  if (name != "none" && name != "silu" && name != "swish")
    c.fail(fmt::format("there is no activation '{}'", formats::shown(name)));
  if (name != "none") y = y.silu();
  return {y, sliced(all, 2, all.size(2) - past, all.size(2))};
}

// clang-format off
const OpRow kRows[] = {{"LinearAttention", 27, linear_attention}, {"CausalConvWithState", 27, causal_convolution}};
// clang-format on

}  // namespace

OpTable linear_attention_ops() { return {"", "attention with a state", kRows}; }

}  // namespace lathe::onnx
