#include <algorithm>
#include <bit>

#include "base/error.h"
#include "render/c_helpers.h"
#include "render/c_printer.h"

namespace lathe::render {
namespace {

struct TypeRow {
  Scalar scalar;
  std::string_view text, unsigned_text;
};
constexpr TypeRow kTypes[] = {
    {Scalar::Bool, "_Bool", "_Bool"},
    {Scalar::Int8, "signed char", "unsigned char"},
    {Scalar::UInt8, "unsigned char", "unsigned char"},
    {Scalar::Int16, "short", "unsigned short"},
    {Scalar::UInt16, "unsigned short", "unsigned short"},
    {Scalar::Int32, "int", "unsigned int"},
    {Scalar::UInt32, "unsigned int", "unsigned int"},
    {Scalar::Index, "long long", "unsigned long long"},
    {Scalar::Int64, "long long", "unsigned long long"},
    {Scalar::UInt64, "unsigned long long", "unsigned long long"},
    {Scalar::Float16, "unsigned short", "unsigned short"},  // its bits
    {Scalar::BFloat16, "unsigned short", "unsigned short"},
    {Scalar::Float32, "float", "unsigned int"},
    {Scalar::Float64, "double", "unsigned long long"},
};

std::string_view find(std::span<const Spelling> table, std::string_view name) {
  for (const Spelling& row : table)
    if (row.name == name) return row.text;
  return {};
}

std::string scalar_type(const CDialect& dialect, DType dtype, bool as_unsigned) {
  if (!as_unsigned)
    if (std::string_view own = find(dialect.types, dtype.element().str()); !own.empty())
      return std::string(own);
  for (const TypeRow& row : kTypes)
    if (row.scalar == dtype.scalar) return std::string(as_unsigned ? row.unsigned_text : row.text);
  throw InternalError("c_text", fmt::format("no C type for {}", dtype.name()));
}

}  // namespace

std::string fill(std::string_view text, std::initializer_list<Filling> values) {
  std::string out;
  while (!text.empty()) {
    std::size_t dollar = text.find('$');
    out.append(text.substr(0, dollar));
    if (dollar == std::string_view::npos) break;
    text.remove_prefix(dollar + 1);
    const Filling* best = nullptr;
    for (const Filling& f : values)
      if (text.starts_with(f.name) && (best == nullptr || f.name.size() > best->name.size())) best = &f;
    check_internal(best != nullptr, "c_text", "a text names an unknown placeholder");
    out += best->value;
    text.remove_prefix(best->name.size());
  }
  return out;
}

int CUnit::padded_lanes(DType dtype) { return static_cast<int>(std::bit_ceil(unsigned{dtype.lanes})); }

// With GNU vectors a bool vector has a byte a lane, 0 or -1, so that it serves as a mask.
std::string CUnit::type(DType dtype) {
  if (dtype.lanes == 1) return scalar_type(dialect_, dtype, false);
  std::string name = "lathe_" + dtype.str();
  if (!known_.insert("type " + name).second) return name;
  bool masks = dialect_.vectors && dtype.is_bool();
  std::string element = masks ? std::string("signed char") : scalar_type(dialect_, dtype, false);
  int lanes = dialect_.vectors ? padded_lanes(dtype) : dtype.lanes, bytes = dtype.bytes() * lanes;
  int align = std::has_single_bit(static_cast<unsigned>(bytes)) ? std::min(bytes, 16) : dtype.bytes();
  types_ += fill(dialect_.vector_type, {{"T", element},
                                        {"name", name},
                                        {"bytes", fmt::format("{}", bytes)},
                                        {"lanes", fmt::format("{}", lanes)},
                                        {"align", fmt::format("{}", align)}}) +
            "\n";
  return name;
}

std::string CUnit::memory_type(DType dtype) {
  return dtype.is_bool() && dtype.lanes == 1 ? scalar_type(dialect_, dtypes::UInt8, false) : type(dtype);
}

std::string CUnit::helper(std::string_view name, DType dtype) {
  DType scalar = dtype.element();
  std::string full = fmt::format("lathe_{}_{}", name, scalar.str());
  if (known_.contains(full)) return full;
  const CHelper* common = find_c_helper(name);
  std::string_view text = find(dialect_.helpers, name);
  check_internal(common != nullptr || !text.empty(), "c_text", "an op's text calls an unknown helper");
  if (text.empty()) text = common->text;
  std::string_view needs = common != nullptr ? common->needs : "";
  while (!needs.empty()) {
    std::size_t space = needs.find(' ');
    helper(needs.substr(0, space), scalar);
    needs = space == std::string_view::npos ? "" : needs.substr(space + 1);
  }
  function(full, [&] {
    return fill(text, {{"helper", std::string(dialect_.helper)},
                       {"T", scalar_type(dialect_, scalar, false)},
                       {"U", scalar_type(dialect_, scalar, true)},
                       {"s", scalar.str()},
                       {"f", scalar.scalar == Scalar::Float64 ? "" : "f"},
                       {"bits", fmt::format("{}", scalar.bits())}});
  });
  return full;
}

std::string CUnit::lane(const std::string& vector, int i) const {
  return fmt::format("{}{}[{}]", vector, dialect_.vectors ? "" : ".v", i);
}

std::string CUnit::head() const {
  std::string out(dialect_.prologue);
  if (!out.empty() && out.back() != '\n') out += '\n';
  out += types_;
  out += functions_;
  if (!out.empty()) out += '\n';
  return out;
}

}  // namespace lathe::render
