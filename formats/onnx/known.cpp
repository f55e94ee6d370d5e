#include "formats/onnx/known.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>

namespace lathe::onnx {
namespace {

using Ints = std::vector<std::int64_t>;
using KnownPtr = std::shared_ptr<const Known>;
using Results = std::optional<KnownPtr>;

// An element of either kind: one of the two is used, as the dtype says.
struct KnownElement {
  Size size;
  double number = 0;
};

KnownPtr made(DataType dtype, Ints shape, const std::vector<KnownElement>& elements) {
  auto known = std::make_shared<Known>();
  known->dtype = dtype;
  known->shape = std::move(shape);
  for (const KnownElement& e : elements)
    dtype.is_float() ? known->floats.push_back(e.number) : known->sizes.push_back(e.size);
  return known;
}

KnownElement element(const Known& k, std::size_t i) {
  return k.is_float() ? KnownElement{0, k.floats[i]} : KnownElement{k.sizes[i], 0};
}

std::vector<KnownElement> elements_of(const Known& k) {
  std::vector<KnownElement> all;
  for (std::size_t i = 0; i < k.count(); ++i) all.push_back(element(k, i));
  return all;
}

Results reshaped(const Known& k, Ints shape) {
  return product(shape) == static_cast<std::int64_t>(k.count())
             ? Results(made(k.dtype, shape, elements_of(k)))
             : std::nullopt;
}

// The shape two shapes broadcast to, or nothing.
std::optional<Ints> broadcast(const Ints& a, const Ints& b) {
  Ints out(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  if (product(out) > static_cast<std::int64_t>(kMostKnown)) return std::nullopt;
  return out;
}

// Where element `flat` of `out` is found in a tensor of shape `from` that broadcasts to it.
std::size_t source_index(std::size_t flat, const Ints& out, const Ints& from) {
  std::size_t index = 0, stride = 1;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto size = static_cast<std::size_t>(out[out.size() - 1 - i]);
    const std::size_t at = flat % size;
    flat /= size;
    if (i >= from.size()) continue;
    const auto own = static_cast<std::size_t>(from[from.size() - 1 - i]);
    if (own != 1) index += at * stride;
    stride *= own;
  }
  return index;
}

using Combine = std::optional<KnownElement> (*)(const KnownElement& a, const KnownElement& b, DataType dtype);

Results combined(const Known& a, const Known& b, Combine combine, std::optional<DataType> result = {}) {
  if (a.dtype != b.dtype) return std::nullopt;
  const auto shape = broadcast(a.shape, b.shape);
  if (!shape) return std::nullopt;
  std::vector<KnownElement> out;
  for (std::size_t i = 0; i < static_cast<std::size_t>(product(*shape)); ++i) {
    const auto e = combine(element(a, source_index(i, *shape, a.shape)),
                           element(b, source_index(i, *shape, b.shape)), a.dtype);
    if (!e) return std::nullopt;
    out.push_back(*e);
  }
  return made(result.value_or(a.dtype), *shape, out);
}

bool plain(const KnownElement& a, const KnownElement& b) {
  return !a.size.is_symbolic() && !b.size.is_symbolic();
}

std::optional<KnownElement> quotient(const KnownElement& a, const KnownElement& b, DataType dtype) {
  if (dtype.is_float()) return KnownElement{0, a.number / b.number};
  if (b.size.is_symbolic() || b.size == 0) return std::nullopt;
  if (a.size.is_symbolic())
    return b.size.value() > 0 ? std::optional(KnownElement{a.size / b.size}) : std::nullopt;
  return b.size.value() == -1 ? std::nullopt
                              : std::optional(KnownElement{Size(a.size.value() / b.size.value())});
}

template <class Compare>
std::optional<KnownElement> compared(const KnownElement& a, const KnownElement& b, DataType dtype,
                                     Compare compare) {
  if (dtype.is_float()) return KnownElement{Size(compare(a.number, b.number) ? 1 : 0)};
  if (!plain(a, b)) return std::nullopt;
  return KnownElement{Size(compare(a.size.value(), b.size.value()) ? 1 : 0)};
}

std::optional<KnownElement> equal(const KnownElement& a, const KnownElement& b, DataType dtype) {
  if (!dtype.is_float() && a.size == b.size) return KnownElement{Size(1)};
  return compared(a, b, dtype, [](auto x, auto y) { return x == y; });
}

// Elements of the results of arithmetic stay inside their dtype only where they are 64-bit integers or
// floats.
struct BinaryRow {
  std::string_view name;
  Combine combine;
  bool is_comparison = false;
};

// clang-format off
constexpr BinaryRow kBinary[] = {
    {"Add", [](const KnownElement& a, const KnownElement& b, DataType) -> std::optional<KnownElement> { return KnownElement{a.size + b.size, a.number + b.number}; }},
    {"Sub", [](const KnownElement& a, const KnownElement& b, DataType) -> std::optional<KnownElement> { return KnownElement{a.size - b.size, a.number - b.number}; }},
    {"Mul", [](const KnownElement& a, const KnownElement& b, DataType) -> std::optional<KnownElement> { return KnownElement{a.size * b.size, a.number * b.number}; }},
    {"Div", quotient},
    {"Min", [](const KnownElement& a, const KnownElement& b, DataType) -> std::optional<KnownElement> { if (!plain(a, b)) return std::nullopt; return KnownElement{Size(std::min(a.size.value(), b.size.value())), std::min(a.number, b.number)}; }},
    {"Max", [](const KnownElement& a, const KnownElement& b, DataType) -> std::optional<KnownElement> { if (!plain(a, b)) return std::nullopt; return KnownElement{Size(std::max(a.size.value(), b.size.value())), std::max(a.number, b.number)}; }},
    {"Equal", equal, true},
    {"Less", [](const KnownElement& a, const KnownElement& b, DataType d) { return compared(a, b, d, [](auto x, auto y) { return x < y; }); }, true},
    {"Greater", [](const KnownElement& a, const KnownElement& b, DataType d) { return compared(a, b, d, [](auto x, auto y) { return x > y; }); }, true},
    {"LessOrEqual", [](const KnownElement& a, const KnownElement& b, DataType d) { return compared(a, b, d, [](auto x, auto y) { return x <= y; }); }, true},
    {"GreaterOrEqual", [](const KnownElement& a, const KnownElement& b, DataType d) { return compared(a, b, d, [](auto x, auto y) { return x >= y; }); }, true},
};
// clang-format on

// Integers narrower than this may wrap, and floats narrower than double round: those are a device's business.
bool exact(DataType dtype) { return dtype == dtypes::int64 || dtype == dtypes::float64; }

bool small(const Known& k) {
  for (const Size& s : k.sizes)
    if (s.is_symbolic() ? s.max() > (std::int64_t(1) << 31) : std::abs(s.value()) > (std::int64_t(1) << 31))
      return false;
  for (double f : k.floats)
    if (!std::isfinite(f) || f != std::floor(f) || std::abs(f) > (1 << 20))
      return false;  // every dtype but half holds these
  return true;
}

bool computes_exactly(const Known& k) {
  return (exact(k.dtype) || k.dtype == dtypes::int32 || k.dtype == dtypes::float32 || k.dtype.is_bool()) &&
         small(k);
}

Results binary(const Call& call, const std::vector<KnownPtr>& in) {
  for (const BinaryRow& row : kBinary)
    if (row.name == call.node.op) {
      if (in.size() != 2 || !computes_exactly(*in[0]) || !computes_exactly(*in[1])) return std::nullopt;
      Results out = combined(*in[0], *in[1], row.combine,
                             row.is_comparison ? std::optional(dtypes::bool_) : std::nullopt);
      // Quotients and products of floats may need rounding to their dtype.
      if (out && (*out)->dtype == dtypes::float32)
        for (double f : (*out)->floats)
          if (static_cast<double>(static_cast<float>(f)) != f) return std::nullopt;
      if (out && (*out)->dtype == dtypes::int32 && !small(**out)) return std::nullopt;
      return out;
    }
  return std::nullopt;
}

Results cast(const Call& call, const Known& k) {
  const auto to = dtype_of(static_cast<lathe::onnx::Element>(call.integer("to")));
  if (!to) return std::nullopt;
  if (*to == k.dtype) return made(k.dtype, k.shape, elements_of(k));
  if (!small(k) || (*to != dtypes::int64 && *to != dtypes::int32 && *to != dtypes::float32 &&
                    *to != dtypes::float64 && !to->is_bool()))
    return std::nullopt;
  std::vector<KnownElement> out;
  for (const KnownElement& e : elements_of(k)) {
    if (k.is_float()) {
      const auto whole = static_cast<std::int64_t>(e.number);
      out.push_back({Size(to->is_bool() ? (e.number != 0 ? 1 : 0) : whole), e.number});
    } else if (e.size.is_symbolic()) {
      if (to->is_float() || to->is_bool()) return std::nullopt;
      out.push_back(e);
    } else {
      const std::int64_t v = e.size.value();
      out.push_back({Size(to->is_bool() ? (v != 0 ? 1 : 0) : v), static_cast<double>(v)});
    }
  }
  return made(*to, k.shape, out);
}

Results unsqueeze(const Call& call, const std::vector<KnownPtr>& in) {
  const auto given = call.ints_of(1, "axes");
  if (!given) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(in[0]->shape.size() + given->size());
  const Ints axes = call.axes(*given, rank);
  Ints shape(static_cast<std::size_t>(rank), 0), rest = in[0]->shape;
  for (std::int64_t a : axes) shape[static_cast<std::size_t>(a)] = 1;
  auto next = rest.begin();
  for (std::int64_t& s : shape)
    if (s != 1) s = *next++;
  return reshaped(*in[0], shape);
}

Results squeeze(const Call& call, const std::vector<KnownPtr>& in) {
  const auto given = call.ints_of(1, "axes");
  const auto rank = static_cast<std::int64_t>(in[0]->shape.size());
  Ints shape;
  const Ints axes = given ? call.axes(*given, rank) : Ints{};
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::int64_t size = in[0]->shape[static_cast<std::size_t>(i)];
    const bool listed = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (given ? listed && size == 1 : size == 1) continue;
    if (listed) return std::nullopt;
    shape.push_back(size);
  }
  return reshaped(*in[0], shape);
}

Results gather(const Call& call, const std::vector<KnownPtr>& in) {
  const Known &data = *in[0], &index = *in[1];
  if (data.shape.empty() ||
      call.axis(call.integer("axis", 0), static_cast<std::int64_t>(data.shape.size())) != 0)
    return std::nullopt;
  const std::int64_t rows = data.shape[0],
                     row = rows == 0 ? 0 : static_cast<std::int64_t>(data.count()) / rows;
  std::vector<KnownElement> out;
  for (const Size& s : index.sizes) {
    if (s.is_symbolic()) return std::nullopt;
    const std::int64_t i = s.value() < 0 ? s.value() + rows : s.value();
    if (i < 0 || i >= rows)
      call.fail("index " + std::to_string(s.value()) + " is outside an axis of " + std::to_string(rows));
    for (std::int64_t k = 0; k < row; ++k)
      out.push_back(element(data, static_cast<std::size_t>(i * row + k)));
  }
  Ints shape = index.shape;
  shape.insert(shape.end(), data.shape.begin() + 1, data.shape.end());
  if (out.size() > kMostKnown) return std::nullopt;
  return made(data.dtype, shape, out);
}

Results concat(const Call& call, const std::vector<KnownPtr>& in) {
  if (in[0]->shape.empty() ||
      call.axis(call.integer("axis"), static_cast<std::int64_t>(in[0]->shape.size())) != 0)
    return std::nullopt;
  Ints shape = in[0]->shape;
  shape[0] = 0;
  std::vector<KnownElement> out;
  for (const KnownPtr& k : in) {
    if (k->dtype != in[0]->dtype || k->shape.size() != shape.size() ||
        !std::equal(k->shape.begin() + 1, k->shape.end(), shape.begin() + 1))
      return std::nullopt;
    shape[0] += k->shape[0];
    for (const KnownElement& e : elements_of(*k)) out.push_back(e);
  }
  if (out.size() > kMostKnown) return std::nullopt;
  return made(in[0]->dtype, shape, out);
}

Results slice(const Call& call, const std::vector<KnownPtr>& in) {
  const Known& data = *in[0];
  if (data.shape.size() != 1) return std::nullopt;
  const auto starts = call.ints_of(1, "starts"), ends = call.ints_of(2, "ends"),
             steps = call.has(4) ? call.ints_of(4, "") : Ints{1};
  if (!starts || !ends || starts->size() != 1 || ends->size() != 1 || steps->size() != 1) return std::nullopt;
  const std::int64_t n = data.shape[0], step = (*steps)[0];
  if (step == 0) call.fail("a step is zero");
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  auto placed = [&](std::int64_t at) { return std::clamp(at < 0 ? at + n : at, low, high); };
  std::int64_t begin = placed((*starts)[0]), end = placed((*ends)[0]);
  std::vector<KnownElement> out;
  if (step > 0)
    for (std::int64_t i = begin; i < end; i += std::min(step, n))
      out.push_back(element(data, static_cast<std::size_t>(i)));
  else
    for (std::int64_t i = begin; i > end; i += std::max(step, -n))
      out.push_back(element(data, static_cast<std::size_t>(i)));
  return made(data.dtype, {static_cast<std::int64_t>(out.size())}, out);
}

Results reshape(const Call& call, const std::vector<KnownPtr>& in) {
  Ints shape = call.ints(1);
  std::int64_t rest = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && i < in[0]->shape.size() && call.integer("allowzero", 0) == 0)
      shape[i] = in[0]->shape[i];
    if (shape[i] > 0) rest *= shape[i];
    if (shape[i] > static_cast<std::int64_t>(kMostKnown)) return std::nullopt;
  }
  const auto free = std::find(shape.begin(), shape.end(), -1);
  if (free != shape.end())
    *free = static_cast<std::int64_t>(in[0]->count()) / std::max<std::int64_t>(rest, 1);
  for (std::int64_t s : shape)
    if (s < 0) return std::nullopt;
  return reshaped(*in[0], shape);
}

Results where(const std::vector<KnownPtr>& in) {
  if (in[1]->dtype != in[2]->dtype) return std::nullopt;
  const auto some = broadcast(in[1]->shape, in[2]->shape);
  const auto shape = some ? broadcast(in[0]->shape, *some) : std::nullopt;
  if (!shape) return std::nullopt;
  std::vector<KnownElement> out;
  for (std::size_t i = 0; i < static_cast<std::size_t>(product(*shape)); ++i) {
    const Size& yes = in[0]->sizes[source_index(i, *shape, in[0]->shape)];
    if (yes.is_symbolic()) return std::nullopt;
    const Known& from = *in[yes.value() != 0 ? 1 : 2];
    out.push_back(element(from, source_index(i, *shape, from.shape)));
  }
  return made(in[1]->dtype, *shape, out);
}

Results range(const std::vector<KnownPtr>& in) {
  if (in[0]->dtype != dtypes::int64) return std::nullopt;
  for (const KnownPtr& k : in)
    if (k->count() != 1 || k->sizes[0].is_symbolic()) return std::nullopt;
  const std::int64_t start = in[0]->sizes[0].value(), limit = in[1]->sizes[0].value(),
                     step = in[2]->sizes[0].value();
  if (step == 0 || !small(*in[0]) || !small(*in[1]) || !small(*in[2])) return std::nullopt;
  std::vector<KnownElement> out;
  for (std::int64_t v = start; step > 0 ? v < limit : v > limit; v += step) {
    if (out.size() == kMostKnown) return std::nullopt;
    out.push_back({Size(v)});
  }
  return made(dtypes::int64, {static_cast<std::int64_t>(out.size())}, out);
}

Results reduce(const Call& call, const std::vector<KnownPtr>& in) {
  const Known& k = *in[0];
  if (k.dtype != dtypes::int64 || k.shape.size() != 1 || k.count() == 0 || !small(k)) return std::nullopt;
  Size out = k.sizes[0];
  for (std::size_t i = 1; i < k.count(); ++i) {
    if (call.node.op == "ReduceProd")
      out = out * k.sizes[i];
    else if (call.node.op == "ReduceSum")
      out = out + k.sizes[i];
    else
      return std::nullopt;
  }
  const auto given = call.ints_of(1, "axes");
  if (given && given->empty() && call.integer("noop_with_empty_axes", 0) != 0) return std::nullopt;
  return made(k.dtype, call.integer("keepdims", 1) != 0 ? Ints{1} : Ints{}, {{out}});
}

Results logical_not(const Known& k) {
  std::vector<KnownElement> out;
  for (const Size& s : k.sizes) out.push_back({Size(s.value() == 0 ? 1 : 0)});
  return made(dtypes::bool_, k.shape, out);
}

Results evaluated(const Call& call, const std::vector<KnownPtr>& in) {
  const std::string_view op = call.node.op;
  if (op == "Identity") return made(in[0]->dtype, in[0]->shape, elements_of(*in[0]));
  if (op == "Cast") return cast(call, *in[0]);
  if (op == "Unsqueeze") return unsqueeze(call, in);
  if (op == "Squeeze") return squeeze(call, in);
  if (op == "Gather") return gather(call, in);
  if (op == "Concat") return concat(call, in);
  if (op == "Slice") return slice(call, in);
  if (op == "Reshape" && in.size() == 2) return reshape(call, in);
  if (op == "Where") return where(in);
  if (op == "Range") return range(in);
  if (op == "ReduceProd" || op == "ReduceSum") return reduce(call, in);
  if (op == "Not") return logical_not(*in[0]);
  return binary(call, in);
}

}  // namespace

std::shared_ptr<const Known> make_known(DataType dtype, std::vector<std::int64_t> shape,
                                        std::vector<Size> sizes) {
  auto known = std::make_shared<Known>();
  known->dtype = dtype;
  known->shape = std::move(shape);
  known->sizes = std::move(sizes);
  return known;
}

std::shared_ptr<const Known> make_known_floats(DataType dtype, std::vector<std::int64_t> shape,
                                               std::vector<double> values) {
  auto known = std::make_shared<Known>();
  known->dtype = dtype;
  known->shape = std::move(shape);
  known->floats = std::move(values);
  return known;
}

Tensor tensor_of(const Known& known) {
  const Shape shape(known.shape.begin(), known.shape.end());
  if (known.is_float()) return Tensor(known.floats, shape).cast(known.dtype);
  bool symbolic = false;
  std::vector<std::int64_t> values;
  for (const Size& s : known.sizes) {
    symbolic |= s.is_symbolic();
    values.push_back(s.is_symbolic() ? 0 : s.value());
  }
  if (!symbolic)
    return values.size() == 1 ? Tensor::full(shape, values[0], {.dtype = known.dtype})
                              : Tensor(values, shape).cast(known.dtype);
  std::vector<Tensor> all;
  for (const Size& s : known.sizes)
    all.push_back(Tensor(0, {.dtype = dtypes::int64}).add(s).cast(known.dtype));
  return Tensor::stack(all).reshape(shape);
}

Value with_known(const Tensor& tensor) {
  std::vector<std::int64_t> shape;
  for (const Size& s : tensor.shape()) shape.push_back(s.bound_value());
  if (tensor.is_floating_point()) return make_known_floats(tensor.dtype(), shape, tensor.data<double>());
  const std::vector<std::int64_t> values = tensor.data<std::int64_t>();
  return make_known(tensor.dtype(), shape, {values.begin(), values.end()});
}

std::optional<std::vector<Value>> evaluate_known(const Call& call) {
  if (!call.node.domain.empty() || call.inputs.empty()) return std::nullopt;
  std::vector<KnownPtr> in;
  for (const Value& v : call.inputs) {
    if (v.kind() == Value::Kind::None) continue;
    if (!v.known()) return std::nullopt;
    in.push_back(v.known());
  }
  if (in.empty()) return std::nullopt;
  const Results out = evaluated(call, in);
  if (!out) return std::nullopt;
  return std::vector<Value>{Value(*out)};
}

}  // namespace lathe::onnx
