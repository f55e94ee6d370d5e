// ai.onnx.ml: the common ones of classical models.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

Tensor as_floats(const Call& c, std::size_t i) {
  const Tensor& x = c.x(i);
  return x.is_floating_point() && x.dtype() != dtypes::float64 ? x : x.cast(dtypes::float32);
}

Outputs scaler(const Call& c) {
  const std::vector<double> offset = c.floats("offset"), scale = c.floats("scale");
  const Tensor x = as_floats(c, 0);
  return {(x - c.constant(offset, {Size(offset.size())}, x.dtype())) *
          c.constant(scale, {Size(scale.size())}, x.dtype())};
}

Outputs normalizer(const Call& c) {
  const Tensor x = as_floats(c, 0);
  const std::string norm = c.text("norm", "MAX");
  const Tensor size = norm == "MAX"  ? x.abs().max(-1, true)
                      : norm == "L1" ? x.abs().sum(-1, true)
                                     : x.square().sum(-1, true).sqrt();
  return {x / size.eq(0).where(1, size)};
}

Tensor after_transform(const Call& c, const Tensor& scores) {
  const std::string how = c.text("post_transform", "NONE");
  if (how == "NONE") return scores;
  if (how == "SOFTMAX") return scores.softmax(-1);
  if (how == "LOGISTIC") return scores.sigmoid();
  if (how == "SOFTMAX_ZERO") return scores.ne(0).where(scores.softmax(-1), 0);
  c.not_supported(fmt::format("post_transform {}", formats::shown(how)));
}

Outputs linear_regressor(const Call& c) {
  const std::vector<double> weights = c.floats("coefficients"), bias = c.floats("intercepts");
  const std::int64_t targets = c.integer("targets", 1);
  const Tensor x = as_floats(c, 0);
  if (targets < 1 || weights.size() % static_cast<std::size_t>(targets) != 0)
    c.fail("the coefficients do not fit the targets");
  const Size features(weights.size() / static_cast<std::size_t>(targets));
  Tensor y = x.matmul(c.constant(weights, {targets, features}, x.dtype()).T());
  if (!bias.empty()) y = y + c.constant(bias, {Size(bias.size())}, x.dtype());
  return {after_transform(c, y)};
}

Outputs linear_classifier(const Call& c) {
  const std::vector<double> weights = c.floats("coefficients"), bias = c.floats("intercepts");
  const Numbers labels = c.ints("classlabels_ints");
  const std::vector<std::string> names = c.texts("classlabels_strings");
  const Tensor x = as_floats(c, 0);
  const auto rows = static_cast<std::int64_t>(std::max<std::size_t>(bias.size(), 1));
  if (weights.size() % static_cast<std::size_t>(rows) != 0)
    c.fail("the coefficients do not fit the intercepts");
  Tensor scores = x.matmul(
      c.constant(weights, {rows, Size(weights.size() / static_cast<std::size_t>(rows))}, x.dtype()).T());
  if (!bias.empty()) scores = scores + c.constant(bias, {rows}, x.dtype());
  const std::size_t classes = std::max(labels.size(), names.size());
  if (classes == 0) c.fail("the labels of the classes are missing");
  Tensor winner = scores.argmax(-1);
  if (rows == 1) {  // one row of scores decides between two classes
    winner = scores.gt(0).squeeze(-1);
    scores = Tensor::cat({scores.neg(), scores}, -1);
  }
  const Tensor out = after_transform(c, scores);
  if (!labels.empty())
    return {c.constant(labels, {Size(labels.size())}).getitem({winner.cast(dtypes::int64)}), out};
  Strings text{concrete_shape(winner, c), {}};
  c.evaluator.note_random();
  for (double v : winner.tolist()) text.values.push_back(names.at(static_cast<std::size_t>(v)));
  return {text, out};
}

Outputs binarizer(const Call& c) { return {c.x(0).gt(c.number("threshold", 0.0)).cast(c.x(0).dtype())}; }

Outputs feature_extractor(const Call& c) {
  const Tensor& x = c.x(0);
  return {picked(c, x, x.ndim() - 1, c.ints(1))};
}

Outputs imputer(const Call& c) {
  const Tensor& x = c.x(0);
  const bool real = c.has_attribute("imputed_value_floats");
  std::vector<double> fill = c.floats("imputed_value_floats");
  for (std::int64_t v : c.ints("imputed_value_int64s")) fill.push_back(static_cast<double>(v));
  const double replaced = real ? c.number("replaced_value_float", 0.0)
                               : static_cast<double>(c.integer("replaced_value_int64", 0));
  const Tensor values = c.constant(fill, {Size(fill.size())}, x.dtype());
  return {(std::isnan(replaced) ? x.isnan() : x.eq(replaced)).where(values, x)};
}

// The text of a number as keys and values of a label encoder are compared.
struct Table {
  std::map<std::string, std::size_t> texts;
  std::map<double, std::size_t> numbers;
};

Outputs label_encoder(const Call& c) {
  Table keys;
  std::size_t count = 0;
  for (const std::string& k : c.texts("keys_strings")) keys.texts.emplace(k, count++);
  for (double k : c.floats("keys_floats")) keys.numbers.emplace(k, count++);
  for (std::int64_t k : c.ints("keys_int64s")) keys.numbers.emplace(static_cast<double>(k), count++);
  const auto tensor_attribute = [&](std::string_view name) -> std::optional<Value> {
    const Attribute* a = c.attribute(name);
    return a != nullptr && a->tensor ? std::optional(c.evaluator.load(*a->tensor)) : std::nullopt;
  };
  std::vector<std::string> texts = c.texts("values_strings");
  std::vector<double> numbers = c.floats("values_floats");
  DataType dtype = numbers.empty() ? dtypes::int64 : dtypes::float32;
  for (std::int64_t v : c.ints("values_int64s")) numbers.push_back(static_cast<double>(v));
  if (const auto k = tensor_attribute("keys_tensor")) {
    if (k->kind() == Value::Kind::Strings)
      for (const std::string& s : k->strings().values) keys.texts.emplace(s, count++);
    else
      for (double v :
           c.evaluator.known_of(*k)->is_float() ? c.evaluator.known_of(*k)->floats : k->tensor().tolist())
        keys.numbers.emplace(v, count++);
  }
  std::string missing_text = c.text("default_string", "_Unused");
  double missing = dtype.is_float() ? c.number("default_float", -0.0)
                                    : static_cast<double>(c.integer("default_int64", -1));
  if (const auto v = tensor_attribute("values_tensor")) {
    if (v->kind() == Value::Kind::Strings) {
      texts = v->strings().values;
    } else {
      numbers = v->tensor().tolist();
      dtype = v->tensor().dtype();
    }
  }
  if (const auto d = tensor_attribute("default_tensor")) {
    if (d->kind() == Value::Kind::Strings)
      missing_text = d->strings().values.at(0);
    else
      missing = d->tensor().tolist().at(0);
  }
  std::vector<std::size_t> found;
  Numbers shape;
  const auto lookup = [&](const auto& table, const auto& key) {
    const auto at = table.find(key);
    found.push_back(at == table.end() ? std::numeric_limits<std::size_t>::max() : at->second);
  };
  if (c.value(0).kind() == Value::Kind::Strings) {
    shape = c.value(0).strings().shape;
    for (const std::string& s : c.value(0).strings().values) lookup(keys.texts, s);
  } else {
    shape = concrete_shape(c.x(0), c);
    for (double v : c.floats(std::size_t(0))) lookup(keys.numbers, v);
  }
  if (!texts.empty()) {
    Strings out{shape, {}};
    for (std::size_t at : found) out.values.push_back(at < texts.size() ? texts[at] : missing_text);
    return {out};
  }
  std::vector<double> out;
  for (std::size_t at : found) out.push_back(at < numbers.size() ? numbers[at] : missing);
  return {c.constant(out, Shape(shape.begin(), shape.end()), dtype)};
}

// clang-format off
const OpRow kRows[] = {
    {"ArrayFeatureExtractor", 1, feature_extractor}, {"Binarizer", 1, binarizer}, {"Imputer", 1, imputer},
    {"LabelEncoder", 1, label_encoder}, {"LinearClassifier", 1, linear_classifier}, {"LinearRegressor", 1, linear_regressor},
    {"Normalizer", 1, normalizer}, {"Scaler", 1, scaler},
};
// clang-format on

}  // namespace

OpTable ml_ops() { return {"ai.onnx.ml", "classical models", kRows}; }

}  // namespace lathe::onnx
