#include "ir/op.h"

#include <array>
#include <limits>
#include <string>
#include <unordered_map>

namespace lathe {
namespace {

enum TraitBits : unsigned { Plain = 0, Comm = 1, Assoc = 2, Idem = 4 };
enum DomainBits : unsigned { I = 1, F = 2, B = 4, IF = I | F, IB = I | B, IFB = I | F | B };

constexpr UnitKind kLow = UnitKind::Low, kHigh = UnitKind::High, kOnes = UnitKind::Ones,
                   kNone = UnitKind::None;
constexpr UnitKind unit(UnitKind k) { return k; }
constexpr UnitKind unit(int v) { return v == 0 ? UnitKind::Zero : UnitKind::One; }

constexpr OpInfo scalar_row(std::string_view name, int args, ResultKind result, unsigned domain,
                            unsigned traits, UnitKind unit, std::string_view text) {
  return {name,
          args,
          result,
          OpGroup::Element,
          {},
          "",
          (domain & I) != 0,
          (domain & F) != 0,
          (domain & B) != 0,
          (traits & Comm) != 0,
          (traits & Assoc) != 0,
          (traits & Idem) != 0,
          unit,
          text,
          "TKP"};
}

// The attribute column of structure_ops.def.
using AttrKind = AttrForm::Kind;
using enum AttrForm::Named;
constexpr std::size_t kMany = std::numeric_limits<std::size_t>::max();
constexpr AttrForm none() { return {}; }
constexpr AttrForm number() { return {AttrKind::Number}; }
constexpr AttrForm integer() { return {AttrKind::Integer}; }
constexpr AttrForm op_name() { return {AttrKind::OpName, OpAt0}; }
constexpr AttrForm op_or_ints(std::size_t least, std::size_t most) {
  return {AttrKind::OpOrInts, OpAt0, least, most};
}
constexpr AttrForm ints(std::size_t least, std::size_t most, AttrForm::Named named = Nothing) {
  return {AttrKind::Ints, named, least, most};
}
constexpr AttrForm maybe_ints(std::size_t least, std::size_t most) {
  return {AttrKind::MaybeInts, Nothing, least, most};
}
constexpr AttrForm text(std::size_t least = 0, std::size_t most = 0) {
  return {AttrKind::Text, Nothing, least, most};
}
constexpr AttrForm text_ints(std::size_t least, std::size_t most) {
  return {AttrKind::TextInts, Nothing, least, most};
}
constexpr AttrForm maybe_text() { return {AttrKind::MaybeText}; }

constexpr OpInfo structure_row(std::string_view name, int args, ResultKind result, OpGroup group,
                               AttrForm attribute, std::string_view words, std::string_view form) {
  return {name,  args,  result, group, attribute,      words, false, false,
          false, false, false,  false, UnitKind::None, "",    form};
}

constexpr std::array<OpInfo, kOps> kTable = {{
#define LATHE_OP(name, args, result, domain, traits, u, value, text, ...) \
  scalar_row(#name, args, ResultKind::result, domain, traits, unit(u), text),
#include "ir/ops.def"
#undef LATHE_OP
#define LATHE_NODE(name, args, form, group, attribute, limits, operands, dtype, shape, bounds, check, fits, \
                   words, meaning)                                                                          \
  structure_row(#name, args, ResultKind::dtype, OpGroup::group, attribute, words, form),
#include "ir/structure_ops.def"
#undef LATHE_NODE
}};

constexpr std::array<std::string_view, 12> kRangeKinds = {"global", "local",  "thread",  "loop",
                                                          "reduce", "group",  "upcast",  "unroll",
                                                          "warp",   "device", "cluster", "role"};
constexpr std::array<std::string_view, 5> kSpaces = {"global", "shared", "register", "fragment", "barrier"};

}  // namespace

const OpInfo& info(Op op) { return kTable[static_cast<std::size_t>(op)]; }

std::optional<Op> parse_op(std::string_view name) {
  static const auto* by_name = [] {
    auto* map = new std::unordered_map<std::string_view, Op>;
    for (int i = 0; i < kOps; ++i) map->emplace(kTable[static_cast<std::size_t>(i)].name, static_cast<Op>(i));
    return map;
  }();
  auto it = by_name->find(name);
  return it == by_name->end() ? std::nullopt : std::optional(it->second);
}

std::string_view name(RangeKind kind) { return kRangeKinds[static_cast<std::size_t>(kind)]; }

std::optional<RangeKind> parse_range_kind(std::string_view text) {
  for (std::size_t i = 0; i < kRangeKinds.size(); ++i)
    if (kRangeKinds[i] == text) return static_cast<RangeKind>(i);
  return std::nullopt;
}

std::string_view name(Space space) { return kSpaces[static_cast<std::size_t>(space)]; }

}  // namespace lathe
