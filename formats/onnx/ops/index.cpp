// Operators that read and write by index, and those that sort.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

Outputs gather(const Call& c) {
  if (c.value(0).kind() == Value::Kind::Strings) {
    const Strings& s = c.value(0).strings();
    if (s.shape.size() != 1) c.not_supported("strings of more than one axis cannot be gathered");
    Strings out{concrete_shape(c.x(1), c), {}};
    for (std::int64_t i : c.ints(1)) {
      const std::int64_t n = s.shape[0], at = i < 0 ? i + n : i;
      if (at < 0 || at >= n) c.fail(fmt::format("index {} is outside an axis of {}", i, n));
      out.values.push_back(s.values[static_cast<std::size_t>(at)]);
    }
    return {out};
  }
  const Tensor& x = c.x(0);
  const std::int64_t axis = c.axis(c.integer("axis", 0), x.ndim());
  const Value& at = c.value(1);
  std::vector<Index> index(static_cast<std::size_t>(axis), Index(Slice{}));
  if (at.known() && at.known()->shape.empty() && !at.known()->is_float() &&
      !at.known()->sizes[0].is_symbolic())
    index.emplace_back(at.known()->sizes[0]);  // one position is a view
  else
    index.emplace_back(c.x(1));
  return {x.getitem(index)};
}

Outputs gather_elements(const Call& c) {
  const Tensor& x = c.x(0);
  const std::int64_t axis = c.axis(c.integer("axis", 0), x.ndim());
  return {x.gather(axis, wrapped(c.x(1), x.size(axis)))};
}

// Index tuples of the last axis, as positions among the rows that the leading `depth` axes of `x` make.
Tensor row_positions(const Call& c, const Tensor& tuples, const Numbers& sizes, std::int64_t first,
                     std::int64_t depth) {
  Tensor rows = Tensor::full({}, 0, {.dtype = dtypes::int64, .device = c.device()});
  for (std::int64_t k = 0; k < depth; ++k) {
    const std::int64_t size = sizes[static_cast<std::size_t>(first + k)];
    rows = rows * size + wrapped(tuples.getitem({kEllipsis, k}).cast(dtypes::int64), size);
  }
  return rows;
}

Outputs gather_nd(const Call& c) {
  const Tensor &x = c.x(0), &tuples = c.x(1);
  const std::int64_t batch = c.integer("batch_dims", 0);
  const Numbers sizes = concrete_shape(x, c), shape = concrete_shape(tuples, c);
  if (shape.empty()) c.fail("the indices need an axis");
  const std::int64_t depth = shape.back();
  if (batch < 0 || depth < 1 || batch + depth > x.ndim() || batch >= tuples.ndim())
    c.fail("the indices do not fit the data");
  const std::int64_t batches = product({sizes.begin(), sizes.begin() + batch});
  const std::int64_t rows = product({sizes.begin() + batch, sizes.begin() + batch + depth});
  const std::int64_t row = product({sizes.begin() + batch + depth, sizes.end()});
  Numbers out(shape.begin(), shape.end() - 1);
  const std::int64_t each = batches == 0 ? 0 : product(out) / std::max<std::int64_t>(batches, 1);
  out.insert(out.end(), sizes.begin() + batch + depth, sizes.end());
  Tensor at = row_positions(c, tuples, sizes, batch, depth).reshape({batches, each});
  at = at +
       Tensor::arange(batches, {.dtype = dtypes::int64, .device = c.device()}).reshape({batches, 1}) * rows;
  const Tensor flat = x.reshape({batches * rows, row});
  return {flat.getitem({at.reshape({batches * each})}).reshape(Shape(out.begin(), out.end()))};
}

// What each reduction is called in Lathe; an empty name replaces.
std::string_view reduction(const Call& c) {
  const std::string name = c.text("reduction", "none");
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"none", ""}, {"add", "sum"}, {"mul", "prod"}, {"max", "amax"}, {"min", "amin"}};
  for (const auto& [onnx_name, own] : kNames)
    if (onnx_name == name) return own;
  c.fail(fmt::format("there is no reduction '{}'", formats::shown(name)));
}

Tensor scattered(const Call& c, const Tensor& x, std::int64_t axis, const Tensor& index,
                 const Tensor& updates) {
  const std::string_view how = reduction(c);
  return how.empty() ? x.scatter(axis, index, updates) : x.scatter_reduce(axis, index, updates, how);
}

Outputs scatter_elements(const Call& c) {
  const Tensor& x = c.x(0);
  const std::int64_t axis = c.axis(c.integer("axis", 0), x.ndim());
  return {scattered(c, x, axis, wrapped(c.x(1), x.size(axis)), c.x(2))};
}

Outputs scatter_nd(const Call& c) {
  const Tensor &x = c.x(0), &tuples = c.x(1), &updates = c.x(2);
  const Numbers sizes = concrete_shape(x, c), shape = concrete_shape(tuples, c);
  if (shape.empty() || shape.back() > x.ndim()) c.fail("the indices do not fit the data");
  const std::int64_t depth = shape.back();
  const std::int64_t rows = product({sizes.begin(), sizes.begin() + depth}),
                     row = product({sizes.begin() + depth, sizes.end()});
  const std::int64_t entries = product({shape.begin(), shape.end() - 1});
  const Tensor at = row_positions(c, tuples, sizes, 0, depth)
                        .reshape(depth == 0 ? Shape{1, 1} : Shape{entries, 1})
                        .expand({entries, row});
  return {scattered(c, x.reshape({rows, row}), 0, at, updates.reshape({entries, row})).reshape(x.shape())};
}

// The slots of a cache that the updates fill, from a position of each batch on.
Outputs tensor_scatter(const Call& c) {
  const Tensor &x = c.x(0), &updates = c.x(1);
  const std::int64_t rank = x.ndim(), axis = c.axis(c.integer("axis", -2), rank);
  const bool circular = c.text("mode", "linear") == "circular";
  const TensorOptions whole{.dtype = dtypes::int64, .device = c.device()};
  Shape shape(static_cast<std::size_t>(rank), Size(1));
  shape[static_cast<std::size_t>(axis)] = updates.size(axis);
  Tensor at = Tensor::arange(updates.size(axis).value(), whole).reshape(shape);
  if (c.has(2)) at = at + along(c.x(2).cast(dtypes::int64), 0, rank);
  if (circular) at = at.mod(x.size(axis).value());
  return {x.scatter(axis, at.expand(updates.shape()), updates)};
}

Outputs one_hot(const Call& c) {
  const std::int64_t depth = c.has(1) ? static_cast<std::int64_t>(c.number(std::size_t(1))) : 0;
  if (depth < 0) c.fail("the depth is negative");
  const Tensor index = c.x(0).cast(dtypes::int64), &values = c.x(2);
  const std::int64_t rank = index.ndim() + 1, axis = c.axis(c.integer("axis", -1), rank);
  const Tensor classes =
      along(Tensor::arange(depth, {.dtype = dtypes::int64, .device = c.device()}), axis, rank);
  const Tensor hot = wrapped(index, depth).unsqueeze(axis).eq(classes);
  return {hot.where(values[1], values[0])};
}

Outputs nonzero(const Call& c) {
  const Tensor& x = c.x(0);
  const Numbers shape = concrete_shape(x, c);
  const std::vector<double> values = c.floats(0);
  const auto rank = static_cast<std::int64_t>(shape.size());
  std::vector<Numbers> at(static_cast<std::size_t>(rank));
  for (std::size_t flat = 0; flat < values.size(); ++flat) {
    if (values[flat] == 0) continue;
    auto rest = static_cast<std::int64_t>(flat);
    for (std::int64_t k = rank - 1; k >= 0; --k) {
      at[static_cast<std::size_t>(k)].push_back(rest % shape[static_cast<std::size_t>(k)]);
      rest /= shape[static_cast<std::size_t>(k)];
    }
  }
  Numbers all;
  for (const Numbers& one : at) all.insert(all.end(), one.begin(), one.end());
  const std::int64_t count = rank == 0 ? 0 : static_cast<std::int64_t>(at[0].size());
  return {all.empty() ? Tensor::empty({rank, count}, {.dtype = dtypes::int64, .device = c.device()})
                      : c.constant(all, {rank, count})};
}

Outputs compress(const Call& c) {
  Tensor x = c.x(0);
  std::int64_t axis = 0;
  if (c.has_attribute("axis"))
    axis = c.axis(c.integer("axis"), x.ndim());
  else
    x = x.reshape({-1});
  const Numbers keep = c.ints(1);
  Numbers at;
  for (std::size_t i = 0; i < keep.size(); ++i)
    if (keep[i] != 0) at.push_back(static_cast<std::int64_t>(i));
  if (at.empty()) return {sliced(x, axis, 0, 0)};
  if (at.back() >= x.size(axis).value()) c.fail("the condition is longer than the axis");
  return {picked(c, x, axis, at)};
}

// The rows of an axis, told apart by their elements; of the flattened tensor without one.
Outputs unique(const Call& c) {
  Tensor x = c.x(0);
  std::int64_t axis = 0;
  if (c.has_attribute("axis"))
    axis = c.axis(c.integer("axis"), x.ndim());
  else
    x = x.reshape({-1});
  const std::int64_t n = concrete(x.size(axis), c, "the axis");
  c.evaluator.note_random();
  const Tensor rows = x.movedim(axis, 0).contiguous();
  const std::vector<double> values = rows.tolist();
  const std::size_t width = n == 0 ? 0 : values.size() / static_cast<std::size_t>(n);
  struct Group {
    std::int64_t first, count, order;
  };
  std::map<std::vector<double>, Group> groups;
  std::vector<std::vector<double>> keys;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(width) * i;
    std::vector<double> key(begin, begin + static_cast<std::ptrdiff_t>(width));
    const auto [found, is_new] =
        groups.try_emplace(key, Group{i, 0, static_cast<std::int64_t>(groups.size())});
    ++found->second.count;
    keys.push_back(std::move(key));
  }
  if (c.integer("sorted", 1) != 0) {
    std::int64_t order = 0;
    for (auto& [key, group] : groups) group.order = order++;
  }
  Numbers first(groups.size()), counts(groups.size()), inverse;
  for (const auto& [key, group] : groups) {
    first[static_cast<std::size_t>(group.order)] = group.first;
    counts[static_cast<std::size_t>(group.order)] = group.count;
  }
  for (const auto& key : keys) inverse.push_back(groups.at(key).order);
  const Size found(groups.size());
  if (groups.empty()) c.fail("an empty tensor has no elements to compare");
  return {picked(c, x, axis, first), c.constant(first, {found}), c.constant(inverse, {n}),
          c.constant(counts, {found})};
}

Outputs top_k(const Call& c) {
  const Tensor& x = c.x(0);
  const std::int64_t axis = c.axis(c.integer("axis", -1), x.ndim());
  const std::int64_t k = c.version < 10 ? c.integer("k") : c.integer(std::size_t(1)),
                     n = concrete(x.size(axis), c, "the axis");
  if (k < 0 || k > n) c.fail(fmt::format("{} of {} elements cannot be taken", k, n));
  if (k == 0) return {sliced(x, axis, 0, 0), sliced(x, axis, 0, 0).cast(dtypes::int64)};
  const auto [values, index] = x.sort(axis, c.integer("largest", 1) != 0);
  return {sliced(values, axis, 0, k), sliced(index, axis, 0, k).cast(dtypes::int64)};
}

// clang-format off
const OpRow kRows[] = {
    {"Gather", 1, gather}, {"GatherElements", 11, gather_elements}, {"GatherND", 11, gather_nd},
    {"Scatter", 9, scatter_elements}, {"ScatterElements", 11, scatter_elements}, {"ScatterND", 11, scatter_nd},
    {"TensorScatter", 24, tensor_scatter}, {"OneHot", 9, one_hot}, {"NonZero", 9, nonzero}, {"Compress", 9, compress},
    {"Unique", 11, unique}, {"TopK", 1, top_k},
};
// clang-format on

}  // namespace

Tensor wrapped(const Tensor& index, const Size& size) { return index.lt(0).where(index.add(size), index); }

OpTable index_ops() { return {"", "indexing and sorting", kRows}; }

}  // namespace lathe::onnx
