// Products: matmul, einsum and what is written with them directly.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "lathe/modes.h"
#include "tensor/autocast.h"
#include "tensor/impl.h"

namespace lathe {

Tensor Tensor::dot(const Tensor& other, std::optional<DataType> accumulate) const {
  Scope scope;
  check_same_device("matmul", *this, other);
  if (AutocastScope::active() && !accumulate) {
    const Tensor x = lowered(*this), y = lowered(other);
    if (x.dtype() != dtype() || y.dtype() != other.dtype()) return x.dot(y);
  }
  if (ndim() == 0 || other.ndim() == 0)
    throw UserError("matmul", fmt::format("a scalar has no axis to multiply over: {} and {}",
                                          to_string(shape()), to_string(other.shape())))
        .help("use * for scalars");
  std::int64_t rows = other.ndim() >= 2 ? other.ndim() - 2 : 0;
  Size inner = shape().back(), theirs = other.shape()[static_cast<std::size_t>(rows)];
  if (!(inner == theirs)) {
    UserError error("matmul",
                    fmt::format("inner sizes differ: lhs {} has {}, rhs {} has {}", to_string(shape()),
                                inner.str(), to_string(other.shape()), theirs.str()));
    const PlaceRef mine = impl_->storage->made, its = other.impl()->storage->made;
    if (mine && its) error.note(fmt::format("lhs made at {}, rhs at {}", mine->text(), its->text()));
    if (other.ndim() >= 2 && other.shape().back() == inner)
      error.help(fmt::format("rhs.transpose() has shape {}", to_string(other.transpose(-1, -2).shape())));
    throw error;
  }
  DataType common = common_dtype(*this, other);
  // Products of small floats are exact in the accumulator, so operands are widened first.
  DataType wide = accumulate ? *accumulate : common.is_bool() ? common : sum_accumulator(common);
  Tensor x = cast(wide), y = other.cast(wide);
  bool no_rows = ndim() == 1, no_columns = other.ndim() == 1;
  if (no_rows) x = x.unsqueeze(0);
  if (no_columns) y = y.unsqueeze(1);
  y = y.transpose(-1, -2);
  Tensor product = x.unsqueeze(-2) * y.unsqueeze(-3);
  std::int64_t last = product.ndim() - 1;
  Tensor out =
      reduce_keep(Op::Add, product, std::span(&last, 1)).cast(accumulate ? *accumulate : common).squeeze(-1);
  if (no_columns) out = out.squeeze(-1);
  if (no_rows) out = out.squeeze(no_columns ? -1 : -2);
  return out;
}

Tensor Tensor::linear(const Tensor& weight, const Tensor* bias) const {
  Tensor out = weight.ndim() == 1 ? *this * weight : dot(weight);
  return bias != nullptr ? out + lowered(*bias) : out;
}

Tensor Tensor::sequential(const std::vector<std::function<Tensor(const Tensor&)>>& layers) const {
  Tensor out = *this;
  for (const auto& layer : layers) out = layer(out);
  return out;
}

namespace {

struct Formula {
  std::vector<std::string> inputs;
  std::string output;
};

// Letters stand for axes; "..." becomes capital placeholders that no formula may use.
Formula parse_formula(std::string_view text, const std::vector<Tensor>& operands) {
  std::string plain;
  for (char c : text)
    if (c != ' ') plain += c;
  std::size_t arrow = plain.find("->");
  std::string left = plain.substr(0, arrow);
  Formula f;
  for (std::size_t at = 0;;) {
    std::size_t comma = left.find(',', at);
    f.inputs.push_back(left.substr(at, comma - at));
    if (comma == std::string::npos) break;
    at = comma + 1;
  }
  if (f.inputs.size() != operands.size())
    throw UserError("einsum", fmt::format("\"{}\" names {} operands, {} were given", text, f.inputs.size(),
                                          operands.size()));
  std::size_t widest = 0;
  constexpr char kFirst = '\1';  // the axes of an ellipsis, right-aligned
  auto fill = [&](std::string& term, std::size_t axes) {
    std::size_t dots = term.find("...");
    if (dots == std::string::npos) return;
    std::string names;
    for (std::size_t i = 0; i < axes; ++i)
      names += static_cast<char>(kFirst + static_cast<char>(widest - axes + i));
    term.replace(dots, 3, names);
  };
  auto ellipsis_axes = [&](std::size_t i) -> std::size_t {
    if (f.inputs[i].find("...") == std::string::npos) return 0;
    std::size_t named = f.inputs[i].size() - 3, rank = static_cast<std::size_t>(operands[i].ndim());
    if (named > rank)
      throw UserError("einsum", fmt::format("\"{}\" names more axes than {} has", f.inputs[i],
                                            to_string(operands[i].shape())));
    return rank - named;
  };
  for (std::size_t i = 0; i < f.inputs.size(); ++i) widest = std::max(widest, ellipsis_axes(i));
  for (std::size_t i = 0; i < f.inputs.size(); ++i) fill(f.inputs[i], ellipsis_axes(i));
  if (arrow != std::string::npos) {
    f.output = plain.substr(arrow + 2);
    fill(f.output, widest);
  } else {  // every letter that is once, in alphabetical order, after the ellipsis
    std::map<char, int> uses;
    for (const std::string& term : f.inputs)
      for (char c : term) ++uses[c];
    for (auto [c, n] : uses)
      if (n == 1 || static_cast<std::size_t>(c - kFirst) < widest) f.output += c;
  }
  return f;
}

// An operand with one axis per distinct letter: repeated letters take the diagonal.
Tensor take_diagonals(Tensor x, std::string& letters) {
  for (std::size_t i = 0; i < letters.size(); ++i)
    for (std::size_t j = letters.size(); j-- > i + 1;)
      if (letters[j] == letters[i]) {
        x = x.diagonal(0, static_cast<std::int64_t>(i), static_cast<std::int64_t>(j));
        char c = letters[i];
        letters.erase(j, 1);
        letters.erase(i, 1);
        letters += c;
        i = static_cast<std::size_t>(-1);
        break;
      }
  return x;
}

}  // namespace

Tensor Tensor::einsum(std::string_view text, const std::vector<Tensor>& operands) {
  Scope scope;
  if (operands.empty()) throw UserError("einsum", "no operands");
  Formula f = parse_formula(text, operands);
  std::vector<Tensor> parts;
  for (const Tensor& t : operands) parts.push_back(lowered(t));
  std::set<char> letters;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (f.inputs[i].size() != static_cast<std::size_t>(parts[i].ndim()))
      throw UserError("einsum", fmt::format("\"{}\" names {} axes of operand {}, which has shape {}", text,
                                            f.inputs[i].size(), i, to_string(parts[i].shape())));
    parts[i] = take_diagonals(parts[i], f.inputs[i]);
    letters.insert(f.inputs[i].begin(), f.inputs[i].end());
  }
  for (char c : f.output)
    if (!letters.contains(c) || std::count(f.output.begin(), f.output.end(), c) > 1)
      throw UserError("einsum", fmt::format("\"{}\": output axis '{}' is unknown or named twice", text, c));
  std::string all(f.output);
  for (char c : letters)
    if (f.output.find(c) == std::string::npos) all += c;
  Tensor widest = parts[0];  // weak ones give way to the others
  for (const Tensor& t : parts)
    if (common_dtype(widest, t) != widest.dtype() || (widest.impl()->weak && !t.impl()->weak))
      widest = converted(t, common_dtype(widest, t));
  DataType common = widest.dtype();
  DataType wide = common.is_bool() ? common : sum_accumulator(common);
  std::map<char, Size> sizes;  // of each letter; 1 is broadcast
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (std::size_t at = 0; at < f.inputs[i].size(); ++at) {
      const Size size = parts[i].shape()[at];
      const auto known = sizes.try_emplace(f.inputs[i][at], size).first;
      if (known->second == 1) known->second = size;
      if (!(size == 1) && !(size == known->second))
        throw UserError("einsum", fmt::format("\"{}\": axis '{}' has size {} and size {}", text,
                                              f.inputs[i][at], known->second.str(), size.str()));
    }
  std::optional<Tensor> product;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<std::int64_t> order;
    Shape shape;
    for (char c : all) {
      std::size_t at = f.inputs[i].find(c);
      shape.push_back(at == std::string::npos ? Size(1) : parts[i].shape()[at]);
      if (at != std::string::npos) order.push_back(static_cast<std::int64_t>(at));
    }
    Tensor t = parts[i].permute(order).reshape(shape).cast(wide);
    product = product ? *product * t : t;
  }
  Axes summed;
  for (std::size_t i = f.output.size(); i < all.size(); ++i) summed.push_back(static_cast<std::int64_t>(i));
  Tensor out = reduce_keep(Op::Add, *product, summed).cast(common);
  Shape shape(out.shape().begin(), out.shape().begin() + static_cast<std::ptrdiff_t>(f.output.size()));
  return out.reshape(shape);
}

}  // namespace lathe
