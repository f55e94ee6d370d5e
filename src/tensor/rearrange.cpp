// rearrange: axes by name, as in "b (h w) c -> b h w c".
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tensor/impl.h"

namespace lathe {
namespace {

using Group = std::vector<std::string>;  // the names joined in one axis

std::vector<Group> parse_side(std::string_view text, std::string_view formula) {
  std::vector<Group> out;
  bool open = false;
  std::string name;
  auto finish = [&] {
    if (name.empty()) return;
    if (open)
      out.back().push_back(name);
    else
      out.push_back({name});
    name.clear();
  };
  for (char c : text) {
    if (c == ' ' || c == '(' || c == ')') {
      finish();
      if (c == ' ') continue;
      if (open == (c == '('))
        throw UserError("rearrange", fmt::format("the brackets of \"{}\" do not match", formula));
      open = c == '(';
      if (open) out.emplace_back();
    } else {
      name += c;
    }
  }
  finish();
  if (open) throw UserError("rearrange", fmt::format("the brackets of \"{}\" do not match", formula));
  return out;
}

// An ellipsis becomes as many made-up names as it covers axes.
void spell_ellipsis(std::vector<Group>& side, std::size_t axes) {
  std::vector<Group> out;
  for (const Group& g : side) {
    if (g.size() == 1 && g[0] == "...") {
      for (std::size_t i = 0; i < axes; ++i) out.push_back({fmt::format("...{}", i)});
      continue;
    }
    Group wide;
    for (const std::string& name : g) {
      if (name != "...") wide.push_back(name);
      for (std::size_t i = 0; name == "..." && i < axes; ++i) wide.push_back(fmt::format("...{}", i));
    }
    out.push_back(wide);
  }
  side = std::move(out);
}

Group flat_names(const std::vector<Group>& side) {
  Group out;
  for (const Group& g : side)
    for (const std::string& name : g)
      if (name != "1") out.push_back(name);
  return out;
}

}  // namespace

Tensor Tensor::rearrange(std::string_view formula,
                         const std::vector<std::pair<std::string, std::int64_t>>& sizes) const {
  Scope scope;
  std::size_t arrow = formula.find("->");
  if (arrow == std::string_view::npos) throw UserError("rearrange", fmt::format("\"{}\" has no ->", formula));
  std::vector<Group> left = parse_side(formula.substr(0, arrow), formula),
                     right = parse_side(formula.substr(arrow + 2), formula);
  auto is_dots = [](const Group& g) { return std::find(g.begin(), g.end(), "...") != g.end(); };
  std::size_t dots = static_cast<std::size_t>(std::count_if(left.begin(), left.end(), is_dots));
  if (left.size() - dots > static_cast<std::size_t>(ndim()) ||
      (dots == 0 && left.size() != static_cast<std::size_t>(ndim())))
    throw UserError("rearrange", fmt::format("\"{}\" does not name the {} axes of {}", formula, ndim(),
                                             to_string(shape())));
  std::size_t covered = static_cast<std::size_t>(ndim()) - (left.size() - dots);
  spell_ellipsis(left, covered);
  spell_ellipsis(right, covered);
  std::map<std::string, Size> known(sizes.begin(), sizes.end());
  Shape split_shape;
  for (std::size_t i = 0; i < left.size(); ++i) {
    Nodes others;
    std::string missing;
    for (const std::string& name : left[i]) {
      if (name == "1") continue;
      if (known.contains(name))
        others.push_back(size_node(known.at(name)));
      else if (missing.empty())
        missing = name;
      else
        throw UserError("rearrange", fmt::format("the sizes of {} and {} are both unknown", missing, name))
            .help("give one");
    }
    Node whole = size_node(shape()[i]);
    std::optional<Node> rest = exact_quotient(std::span(&whole, 1), others);
    if (!rest || (missing.empty() && !is_one(*rest)))
      throw UserError("rearrange",
                      fmt::format("axis {} of {} is not what \"{}\" says", i, to_string(shape()), formula));
    if (!missing.empty()) known[missing] = size_of(*rest);
    for (const std::string& name : left[i])
      if (name != "1") split_shape.push_back(known.at(name));
  }
  Group from = flat_names(left), to = flat_names(right);
  Group a = from, b = to;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  if (a != b || std::adjacent_find(a.begin(), a.end()) != a.end())
    throw UserError("rearrange", fmt::format("the two sides of \"{}\" do not name the same axes", formula));
  std::vector<std::int64_t> order;
  for (const std::string& name : to)
    order.push_back(std::find(from.begin(), from.end(), name) - from.begin());
  Shape joined;
  for (const Group& g : right) {
    Size n = 1;
    for (const std::string& name : g)
      if (name != "1") n = n * known.at(name);
    joined.push_back(n);
  }
  return reshape(split_shape).permute(order).reshape(joined);
}

}  // namespace lathe
