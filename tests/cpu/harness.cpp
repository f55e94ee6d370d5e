#include "cpu/harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"

namespace lathe::backends {
void register_cpu_backend(Registry& registry);
void register_null_backend(Registry& registry);
void register_disk_backend(Registry& registry);
}  // namespace lathe::backends

namespace lathe::test {

const Backend& backend(const char* name) {
  static const bool added = [] {
    if (registry().find("CPU") != nullptr) return true;  // this build links them all
    Registry rows;
    backends::register_cpu_backend(rows);
    backends::register_null_backend(rows);
    backends::register_disk_backend(rows);
    for (const Backend& row : rows.all()) add_backend(row);
    return true;
  }();
  static_cast<void>(added);
  return *registry().find(name);
}

Node ProgramBuilder::buffer(DType dtype, std::int64_t size) {
  auto slot = static_cast<std::int64_t>(program_.params.size());
  program_.params.push_back({slot, dtype, size, true, true});
  return param(dtype, slot, size);
}

Node ProgramBuilder::variable(std::string_view name, std::int64_t min, std::int64_t max) {
  AttrData d{std::string(name), {min, max}};
  Node node = intern(Op::Var, dtypes::Int64, {}, Attr::of(d));
  program_.variables.emplace_back(node);
  return node;
}

Node ProgramBuilder::loop(Node extent, DType dtype) {
  if (!extent.is_const()) add(extent);
  AttrData d{"", {next_range_++, static_cast<std::int64_t>(RangeKind::Loop)}};
  Node node = intern(Op::Range, dtype, {extent}, Attr::of(d));
  program_.code.emplace_back(node);
  scopes_.emplace_back();
  scopes_.back().push_back(node);
  open_.push_back(node);
  return node;
}

void ProgramBuilder::when(Node condition) {
  add(condition);
  Node node = intern(Op::If, dtypes::Void, {condition});
  program_.code.emplace_back(node);
  scopes_.emplace_back();
  open_.push_back(node);
}

void ProgramBuilder::close() {
  Node node = open_.back();
  open_.pop_back();
  scopes_.pop_back();
  program_.code.emplace_back(intern(node.is(Op::If) ? Op::EndIf : Op::End, dtypes::Void, {node}));
}

Node ProgramBuilder::add(Node node) {
  if (node.is_const() || node.is(Op::Param) || node.is(Op::Var) || node.is(Op::After) || node.is(Op::Define))
    return node;
  for (const auto& scope : scopes_)
    if (std::find(scope.begin(), scope.end(), node) != scope.end()) return node;
  for (Node arg : node.args())
    if (arg.dtype() != dtypes::Void) add(arg);
  program_.code.emplace_back(node);
  scopes_.back().push_back(node);
  return node;
}

std::shared_ptr<const Compiler> llvm_compiler() {
  static auto compiler = [] {
    try {
      return backends::make_llvm_compiler(backends::host_target());
    } catch (const DeviceError&) {
      if (LATHE_HAVE_LLVM) throw;
      return std::shared_ptr<const Compiler>();
    }
  }();
  return compiler;
}

std::shared_ptr<const Compiler> c_compiler() {
  static auto compiler = backends::make_c_compiler(backends::host_target());
  return compiler;
}

std::vector<std::shared_ptr<const Compiler>> compilers() {
  if (!llvm_compiler()) return {c_compiler()};
  return {llvm_compiler(), c_compiler()};
}

void run(const Binary& binary, std::span<Bytes> buffers, std::span<const std::int64_t> variables,
         std::int64_t threads) {
  static std::unique_ptr<Device> device = backends::open_cpu_device(0);
  std::unique_ptr<Kernel> kernel = device->load(binary);
  std::vector<Arg> args;
  for (Bytes& b : buffers) args.push_back({Arg::Kind::Span, {{0, b.size(), b.data()}, 0, b.size()}, 0});
  for (std::int64_t v : variables) args.push_back({Arg::Kind::Int, {}, v});
  Grid grid;
  grid.threads = threads;
  device->wait(device->launch(0, *kernel, grid, args, {}));
}

Element read_element(DType dtype, const std::byte* from) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from, static_cast<std::size_t>(dtype.bytes()));
  DType raw = dtype.bits() == 8    ? dtypes::UInt8
              : dtype.bits() == 16 ? dtypes::UInt16
              : dtype.bits() == 32 ? dtypes::UInt32
                                   : dtypes::UInt64;
  return reinterpret(dtype, raw, {static_cast<std::int64_t>(bits), 0});
}

void write_element(DType dtype, Element value, std::byte* to) {
  DType raw = dtype.bits() == 8    ? dtypes::UInt8
              : dtype.bits() == 16 ? dtypes::UInt16
              : dtype.bits() == 32 ? dtypes::UInt32
                                   : dtypes::UInt64;
  std::uint64_t bits = static_cast<std::uint64_t>(reinterpret(raw, dtype, value).i);
  std::memcpy(to, &bits, static_cast<std::size_t>(dtype.bytes()));
}

Bytes elements(DType dtype, std::span<const Element> values) {
  Bytes out(values.size() * static_cast<std::size_t>(dtype.bytes()));
  for (std::size_t i = 0; i < values.size(); ++i)
    write_element(dtype, values[i], out.data() + i * static_cast<std::size_t>(dtype.bytes()));
  return out;
}

bool same(DType dtype, Element a, Element b) {
  if (!dtype.is_float()) return a.i == b.i;
  if (std::isnan(a.f) || std::isnan(b.f)) return std::isnan(a.f) && std::isnan(b.f);
  return a.f == b.f && std::signbit(a.f) == std::signbit(b.f);
}

std::string text_of(DType dtype, Element value) {
  return dtype.is_float() ? fmt::format("{} ({:a})", value.f, value.f) : fmt::format("{}", value.i);
}

std::vector<Element> edge_values(DType dtype) {
  std::vector<Element> out;
  if (dtype.is_bool()) return {{0, 0}, {1, 0}};
  if (!dtype.is_float()) {
    std::int64_t bits = dtype.bits(), low = dtype.min_int(),
                 high = dtype.scalar == Scalar::UInt64 ? -1 : dtype.max_int();
    for (std::int64_t v :
         {low, low + 1, std::int64_t{-7}, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{2},
          std::int64_t{3}, std::int64_t{7}, bits - 1, bits, bits + 1, high / 2, high - 1, high})
      out.push_back({wrap(dtype, v), 0});
    return out;
  }
  double inf = std::numeric_limits<double>::infinity();
  for (double v : {0.0,
                   1.0,
                   0.5,
                   1.5,
                   2.5,
                   3.0,
                   0.1,
                   127.5,
                   128.0,
                   255.9,
                   256.0,
                   448.0,
                   464.0,
                   65504.0,
                   65520.0,
                   2147483583.0,
                   2147483647.0,
                   2147483648.0,
                   4294967295.0,
                   4294967296.0,
                   9.2e18,
                   9223372036854775808.0,
                   1.8446744073709551616e19,
                   3e38,
                   1e300,
                   1e-5,
                   1e-8,
                   1e-40,
                   1.5e-45,
                   0x1p-1074,
                   0x1p-126,
                   0x1p-24,
                   0x1.8p-25,
                   16777217.0,
                   inf})
    for (double sign : {1.0, -1.0}) out.push_back({0, round_to(dtype, sign * v)});
  out.push_back({0, std::numeric_limits<double>::quiet_NaN()});
  return out;
}

std::vector<Element> all_values(DType dtype) {
  if (dtype.is_bool() || dtype.bits() > 16) return edge_values(dtype);
  std::vector<Element> out;
  DType raw = dtype.bits() == 8 ? dtypes::UInt8 : dtypes::UInt16;
  for (std::int64_t bits = 0; bits < std::int64_t{1} << dtype.bits(); ++bits)
    out.push_back(reinterpret(dtype, raw, {bits, 0}));
  return out;
}

std::vector<DType> value_dtypes() {
  std::vector<DType> out;
#define LATHE_DTYPE(name, ...) out.push_back(dtypes::name);
#include "ir/dtypes.def"
#undef LATHE_DTYPE
  std::erase_if(out, [](DType d) { return d == dtypes::Void || d == dtypes::Index; });
  return out;
}

}  // namespace lathe::test
