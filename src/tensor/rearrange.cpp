// rearrange: axes by name, as in "b (h w) c -> b h w c".
#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>

#include "tensor/impl.h"

namespace lathe {
namespace {

using Names = std::vector<std::string>;
struct Group {  // the names joined in one axis
  Names names;
  bool joined = false;  // is in brackets
};

std::vector<Group> parse_side(std::string_view text, std::string_view formula) {
  std::vector<Group> out;
  bool open = false;
  std::string name;
  auto finish = [&] {
    if (name.empty()) return;
    if (open)
      out.back().names.push_back(name);
    else
      out.push_back({{name}, false});
    name.clear();
  };
  for (char c : text) {
    if (c == ' ' || c == '(' || c == ')') {
      finish();
      if (c == ' ') continue;
      if (open == (c == '('))
        throw UserError("rearrange", fmt::format("the brackets of \"{}\" do not match", formula));
      open = c == '(';
      if (open) out.push_back({{}, true});
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
    if (!g.joined && g.names[0] == "...") {
      for (std::size_t i = 0; i < axes; ++i) out.push_back({{fmt::format("...{}", i)}, false});
      continue;
    }
    Group wide{{}, g.joined};
    for (const std::string& name : g.names) {
      if (name != "...") wide.names.push_back(name);
      for (std::size_t i = 0; name == "..." && i < axes; ++i) wide.names.push_back(fmt::format("...{}", i));
    }
    out.push_back(wide);
  }
  side = std::move(out);
}

// A letter, then letters, digits and underscores, the last of which is no underscore. "1" is an axis of one
// element.
bool is_axis_name(std::string_view name) {
  if (name == "1" || name == "...") return true;
  auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0 || c >= 0x80; };
  auto fits = [&](unsigned char c) { return is_letter(c) || std::isdigit(c) != 0 || c == '_'; };
  return is_letter(static_cast<unsigned char>(name.front())) && name.back() != '_' &&
         std::all_of(name.begin(), name.end(), fits);
}

void check_side(const std::vector<Group>& side, bool may_join_dots, std::string_view formula) {
  int dots = 0;
  for (const Group& g : side)
    for (const std::string& name : g.names) {
      if (!is_axis_name(name))
        throw UserError("rearrange",
                        fmt::format("\"{}\" in \"{}\" is not the name of an axis", name, formula));
      if (name != "...") continue;
      ++dots;
      if (g.joined && !may_join_dots)
        throw UserError("rearrange",
                        fmt::format("the axes of ... in \"{}\" have no sizes to be split by", formula));
    }
  if (dots > 1) throw UserError("rearrange", fmt::format("a side of \"{}\" has more than one ...", formula));
}

// The other spelling of three dots.
std::string with_plain_dots(std::string_view formula) {
  constexpr std::string_view kDots = "\xE2\x80\xA6";
  std::string out(formula);
  for (std::size_t at = out.find(kDots); at != std::string::npos; at = out.find(kDots, at))
    out.replace(at, kDots.size(), "...");
  return out;
}

Names flat_names(const std::vector<Group>& side) {
  Names out;
  for (const Group& g : side)
    for (const std::string& name : g.names)
      if (name != "1") out.push_back(name);
  return out;
}

}  // namespace

Tensor Tensor::rearrange(std::string_view given,
                         const std::vector<std::pair<std::string, std::int64_t>>& sizes) const {
  Scope scope;
  const std::string text = with_plain_dots(given);
  const std::string_view formula = text;
  std::size_t arrow = formula.find("->");
  if (arrow == std::string_view::npos || formula.find("->", arrow + 2) != std::string_view::npos)
    throw UserError("rearrange", fmt::format("\"{}\" must have exactly one ->", formula));
  std::vector<Group> left = parse_side(formula.substr(0, arrow), formula),
                     right = parse_side(formula.substr(arrow + 2), formula);
  check_side(left, false, formula);
  check_side(right, true, formula);
  auto is_dots = [](const Group& g) {
    return std::find(g.names.begin(), g.names.end(), "...") != g.names.end();
  };
  std::size_t dots = static_cast<std::size_t>(std::count_if(left.begin(), left.end(), is_dots));
  if (left.size() - dots > static_cast<std::size_t>(ndim()) ||
      (dots == 0 && left.size() != static_cast<std::size_t>(ndim())))
    throw UserError("rearrange", fmt::format("\"{}\" does not name the {} axes of {}", formula, ndim(),
                                             to_string(shape())));
  std::size_t covered = static_cast<std::size_t>(ndim()) - (left.size() - dots);
  spell_ellipsis(left, covered);
  spell_ellipsis(right, covered);
  std::map<std::string, Size> known(sizes.begin(), sizes.end());
  for (const Names named = flat_names(left); const auto& [name, size] : sizes)
    if (std::find(named.begin(), named.end(), name) == named.end())
      throw UserError("rearrange", fmt::format("\"{}\" has no axis {}, whose size is given", formula, name));
  Shape split_shape;
  for (std::size_t i = 0; i < left.size(); ++i) {
    Nodes others;
    std::string missing;
    for (const std::string& name : left[i].names) {
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
                      fmt::format("axis {} of {} does not match \"{}\"", i, to_string(shape()), formula));
    if (!missing.empty()) known[missing] = size_of(*rest);
    for (const std::string& name : left[i].names)
      if (name != "1") split_shape.push_back(known.at(name));
  }
  const Names from = flat_names(left), to = flat_names(right);
  Names a = from, b = to;
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
    for (const std::string& name : g.names)
      if (name != "1") n = n * known.at(name);
    joined.push_back(n);
  }
  return reshape(split_shape).permute(order).reshape(joined);
}

}  // namespace lathe
