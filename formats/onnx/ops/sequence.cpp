// Sequences and optionals.
#include <fmt/format.h>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

// A position of a sequence, counted from its end where negative; one past the end where `may_end`.
std::size_t position(const Call& c, std::size_t input, std::size_t size, bool may_end) {
  const std::int64_t given = c.integer(input), n = static_cast<std::int64_t>(size),
                     at = given < 0 ? given + n : given;
  if (at < 0 || at > n || (at == n && !may_end))
    c.fail(fmt::format("position {} is outside a sequence of {}", given, n));
  return static_cast<std::size_t>(at);
}

Outputs insert(const Call& c) {
  Value::Items items = c.value(0).items();
  const std::size_t at = c.has(2) ? position(c, 2, items.size(), true) : items.size();
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), c.value(1));
  return {items};
}

Outputs erase(const Call& c) {
  Value::Items items = c.value(0).items();
  if (items.empty()) c.fail("the sequence is empty");
  items.erase(items.begin() +
              static_cast<std::ptrdiff_t>(c.has(1) ? position(c, 1, items.size(), false) : items.size() - 1));
  return {items};
}

Outputs joined(const Call& c) {
  std::vector<Tensor> all;
  for (const Value& v : c.value(0).items()) all.push_back(v.tensor());
  if (all.empty()) c.fail("the sequence is empty");
  const bool new_axis = c.integer("new_axis", 0) != 0;
  const std::int64_t axis = c.axis(c.integer("axis"), all[0].ndim() + (new_axis ? 1 : 0));
  return {new_axis ? Tensor::stack(all, axis) : Tensor::cat(all, axis)};
}

Outputs split(const Call& c) {
  const Tensor& x = c.x(0);
  const std::int64_t axis = c.axis(c.integer("axis", 0), x.ndim()), n = concrete(x.size(axis), c, "the axis");
  Numbers parts;
  bool keep = true;
  if (n > (1 << 20)) c.not_supported(fmt::format("an axis of {} is not split into a sequence", n));
  if (!c.has(1)) {
    parts.assign(static_cast<std::size_t>(n), 1);
    keep = c.integer("keepdims", 1) != 0;
  } else if (c.x(1).ndim() == 0) {
    const std::int64_t each = c.integer(std::size_t(1));
    if (each < 1) c.fail("parts need a size");
    for (std::int64_t at = 0; at < n; at += each) parts.push_back(std::min(each, n - at));
  } else {
    parts = c.ints(1);
  }
  Value::Items items;
  std::int64_t at = 0;
  for (std::int64_t part : parts) {
    if (part < 0 || part > n - at) c.fail(fmt::format("the parts do not fit an axis of {}", n));
    const Tensor piece = sliced(x, axis, at, at + part);
    items.emplace_back(keep ? piece : piece.squeeze(axis));
    at += part;
  }
  return {items};
}

Outputs has_element(const Call& c) {
  const bool has = !c.inputs.empty() && c.value(0).kind() != Value::Kind::None;
  return {make_known(dtypes::bool_, {}, {Size(has ? 1 : 0)})};
}

Outputs get_element(const Call& c) {
  if (c.value(0).kind() == Value::Kind::None) c.fail("the optional has no value");
  return {c.value(0)};
}

// clang-format off
const OpRow kRows[] = {
    {"SequenceConstruct", 11, [](const Call& c) -> Outputs { return {Value::Items(c.inputs)}; }},
    {"SequenceEmpty", 11, [](const Call&) -> Outputs { return {Value::Items()}; }},
    {"SequenceLength", 11, [](const Call& c) -> Outputs { return {make_known(dtypes::int64, {}, {Size(c.value(0).items().size())})}; }},
    {"SequenceAt", 11, [](const Call& c) -> Outputs { return {c.value(0).items()[position(c, 1, c.value(0).items().size(), false)]}; }},
    {"SequenceInsert", 11, insert}, {"SequenceErase", 11, erase}, {"ConcatFromSequence", 11, joined},
    {"SplitToSequence", 11, split},
    {"Optional", 15, [](const Call& c) -> Outputs { return {c.inputs.empty() ? Value() : c.value(0)}; }},
    {"OptionalHasElement", 15, has_element}, {"OptionalGetElement", 15, get_element},
};
// clang-format on

}  // namespace

OpTable sequence_ops() { return {"", "sequences and optionals", kRows}; }

}  // namespace lathe::onnx
