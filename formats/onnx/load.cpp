#include "formats/onnx/load.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "formats/onnx/call.h"
#include "formats/onnx/known.h"

namespace lathe::onnx {
namespace {

using formats::Source;

enum class List : std::uint8_t { Floats, Doubles, Integers, None };

// One row per element type: its dtype, and the list that holds it where it is not raw.
struct ElementRow {
  Element element;
  const char* name;
  std::optional<DataType> dtype;
  List list;
  int packed = 1;  // elements of one byte
};

// clang-format off
constexpr ElementRow kElements[] = {
    {Element::Float,          "float32",        dtypes::float32,     List::Floats},
    {Element::Uint8,          "uint8",          dtypes::uint8,       List::Integers},
    {Element::Int8,           "int8",           dtypes::int8,        List::Integers},
    {Element::Uint16,         "uint16",         dtypes::uint16,      List::Integers},
    {Element::Int16,          "int16",          dtypes::int16,       List::Integers},
    {Element::Int32,          "int32",          dtypes::int32,       List::Integers},
    {Element::Int64,          "int64",          dtypes::int64,       List::Integers},
    {Element::String,         "string",         std::nullopt,        List::None},
    {Element::Bool,           "bool",           dtypes::bool_,       List::Integers},
    {Element::Float16,        "float16",        dtypes::float16,     List::Integers},
    {Element::Double,         "float64",        dtypes::float64,     List::Doubles},
    {Element::Uint32,         "uint32",         dtypes::uint32,      List::Integers},
    {Element::Uint64,         "uint64",         dtypes::uint64,      List::Integers},
    {Element::Complex64,      "complex64",      std::nullopt,        List::None},
    {Element::Complex128,     "complex128",     std::nullopt,        List::None},
    {Element::Bfloat16,       "bfloat16",       dtypes::bfloat16,    List::Integers},
    {Element::Float8E4M3FN,   "float8e4m3fn",   dtypes::fp8e4m3,     List::Integers},
    {Element::Float8E4M3FNUZ, "float8e4m3fnuz", dtypes::fp8e4m3fnuz, List::Integers},
    {Element::Float8E5M2,     "float8e5m2",     dtypes::fp8e5m2,     List::Integers},
    {Element::Float8E5M2FNUZ, "float8e5m2fnuz", dtypes::fp8e5m2fnuz, List::Integers},
    {Element::Uint4,          "uint4",          dtypes::uint8,       List::Integers, 2},
    {Element::Int4,           "int4",           dtypes::int8,        List::Integers, 2},
    {Element::Float4E2M1,     "float4e2m1",     std::nullopt,        List::None},
    {Element::Float8E8M0,     "float8e8m0",     std::nullopt,        List::None},
    {Element::Uint2,          "uint2",          std::nullopt,        List::None},
    {Element::Int2,           "int2",           std::nullopt,        List::None},
};
// clang-format on

const ElementRow* row_of(Element element) {
  for (const ElementRow& row : kElements)
    if (row.element == element) return &row;
  return nullptr;
}

UserError refused(const TensorProto& t, const Source& source, const std::string& why) {
  return source.refuse(fmt::format("tensor '{}': {}", formats::shown(t.name), why));
}

Shape shape_of(const TensorProto& t) { return {t.dims.begin(), t.dims.end()}; }

// Elements as bytes of their dtype, from the lists of numbers.
std::vector<std::byte> bytes_of_list(const TensorProto& t, const ElementRow& row, std::int64_t count,
                                     const Source& source) {
  const std::size_t held = row.list == List::Floats    ? t.floats.size()
                           : row.list == List::Doubles ? t.doubles.size()
                                                       : t.integers.size();
  const std::int64_t entries = (count + row.packed - 1) / row.packed;
  if (held != static_cast<std::size_t>(entries))
    throw refused(t, source, fmt::format("it holds {} numbers, its shape needs {}", held, entries));
  const auto size = static_cast<std::size_t>(row.packed > 1 ? 1 : row.dtype->itemsize());
  std::vector<std::byte> out(held * size);
  if (row.list == List::Floats) std::memcpy(out.data(), t.floats.data(), out.size());
  if (row.list == List::Doubles) std::memcpy(out.data(), t.doubles.data(), out.size());
  if (row.list == List::Integers)
    for (std::size_t i = 0; i < held; ++i)
      std::memcpy(out.data() + i * size, &t.integers[i], size);  // low bytes first
  return out;
}

// Two elements of a byte, the low one first, as one byte each.
std::vector<std::byte> unpacked(const std::vector<std::byte>& packed, bool is_signed, std::int64_t count) {
  std::vector<std::byte> out;
  for (std::int64_t i = 0; i < count; ++i) {
    int v = (static_cast<int>(packed[static_cast<std::size_t>(i / 2)]) >> (4 * (i % 2))) & 15;
    if (is_signed && v > 7) v -= 16;
    out.push_back(static_cast<std::byte>(v));
  }
  return out;
}

Value value_of_bytes(std::vector<std::byte> bytes, const TensorProto& t, const ElementRow& row,
                     std::int64_t count, const std::string& device) {
  if (row.packed > 1) bytes = unpacked(bytes, row.element == Element::Int4, count);
  if (row.dtype->is_bool())
    for (std::byte& b : bytes) b = b == std::byte{0} ? b : std::byte{1};
  if (count == 0) return Tensor::empty(shape_of(t), {.dtype = row.dtype, .device = device});
  const Tensor tensor = Tensor::from_bytes(bytes.data(), bytes.size(), shape_of(t), *row.dtype, device);
  if (count > static_cast<std::int64_t>(kMostKnown) || *row.dtype == dtypes::uint64 ||
      (row.dtype->bitsize() == 8 && row.dtype->is_float()))
    return tensor;
  const Tensor host = Tensor::from_bytes(bytes.data(), bytes.size(), shape_of(t), *row.dtype, "CPU");
  return Value(tensor, with_known(host).known());
}

struct Place {
  Source source;
  FileRange range;
};

std::int64_t parsed(const std::string& text, const TensorProto& t, const Source& source) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    throw refused(t, source,
                  fmt::format("'{}' is not an offset or length of external data", formats::shown(text)));
  return std::stoll(text);
}

// Where the bytes of external data lie: a file beside the model, never one outside its folder.
Place external_place(const TensorProto& t, const Source& source) {
  const auto entry = [&](const char* key) {
    const auto found = t.external.find(key);
    return found == t.external.end() ? std::string() : found->second;
  };
  const std::string location = entry("location");
  if (!source.is_file())
    throw refused(t, source, "its data is in another file, which a model in memory does not have");
  if (formats::leaves_folder(location))
    throw refused(
        t, source,
        fmt::format("its data is in '{}', which is not inside the model's folder", formats::shown(location)));
  Source data(std::filesystem::path(source.name()).parent_path() / location, source.op());
  const std::string offset = entry("offset"), length = entry("length");
  FileRange range;
  range.offset = offset.empty() ? 0 : static_cast<std::uint64_t>(parsed(offset, t, source));
  if (!data.has(range.offset, 0))
    throw refused(t, source,
                  fmt::format("its data begins at byte {} of {}, which has {}", range.offset, data.name(),
                              data.size()));
  range.count =
      length.empty() ? data.size() - range.offset : static_cast<std::uint64_t>(parsed(length, t, source));
  if (!data.has(range.offset, range.count))
    throw refused(t, source,
                  fmt::format("{} bytes at {} are outside {}, which has {}", range.count, range.offset,
                              data.name(), data.size()));
  return {data, range};
}

Value load_raw(const Place& place, const TensorProto& t, const ElementRow& row, std::int64_t count,
               const Source& source, const std::string& device) {
  const auto size = static_cast<std::uint64_t>(row.packed > 1 ? 1 : row.dtype->itemsize());
  const std::uint64_t needed =
      row.packed > 1 ? static_cast<std::uint64_t>((count + 1) / 2) : static_cast<std::uint64_t>(count) * size;
  if (place.range.count < needed || (place.range.count > needed && !t.is_external))
    throw refused(t, source, fmt::format("it has {} bytes, its shape needs {}", place.range.count, needed));
  if (count <= static_cast<std::int64_t>(kMostKnown) || row.packed > 1)
    return value_of_bytes(place.source.read(place.range.offset, needed, "a tensor"), t, row, count, device);
  const auto elements = static_cast<std::uint64_t>(count);
  if (row.dtype->is_bool())  // any byte but 0 is true
    return place.source.view(place.range.offset, dtypes::uint8, shape_of(t), elements).to(device).ne(0);
  return place.source.view(place.range.offset, *row.dtype, shape_of(t), elements).to(device);
}

}  // namespace

std::optional<DataType> dtype_of(Element element) {
  const ElementRow* row = row_of(element);
  return row == nullptr ? std::nullopt : row->dtype;
}

std::string_view element_name(Element element) {
  const ElementRow* row = row_of(element);
  return row == nullptr ? "of an unknown type" : row->name;
}

DataType dtype_for(Element element, const Call& call) {
  const auto dtype = dtype_of(element);
  if (!dtype) call.not_supported(fmt::format("elements {} have no dtype here", element_name(element)));
  return *dtype;
}

std::int64_t element_count(const TensorProto& t, const Source& source) {
  std::uint64_t bytes = 0, count = 0;
  if (t.dims.size() > 64) throw refused(t, source, fmt::format("it has {} axes", t.dims.size()));
  if (!formats::checked_bytes(t.dims, 8, bytes, count)) throw refused(t, source, "its shape is impossible");
  return static_cast<std::int64_t>(count);
}

Value load_tensor(const TensorProto& t, const Source& source, const std::string& device) {
  const std::int64_t count = element_count(t, source);
  if (t.element == Element::String) {
    if (t.strings.size() != static_cast<std::size_t>(count))
      throw refused(t, source,
                    fmt::format("it holds {} strings, its shape needs {}", t.strings.size(), count));
    return Strings{t.dims, t.strings};
  }
  const ElementRow* row = row_of(t.element);
  if (row == nullptr || !row->dtype)
    throw NotSupported("onnx", fmt::format("{}: tensor '{}': elements {} are not supported", source.name(),
                                           formats::shown(t.name), element_name(t.element)));
  if (t.is_external) return load_raw(external_place(t, source), t, *row, count, source, device);
  if (t.has_raw) return load_raw({source, t.raw}, t, *row, count, source, device);
  return value_of_bytes(bytes_of_list(t, *row, count, source), t, *row, count, device);
}

Value load_sparse(const SparseTensorProto& t, const Source& source, const std::string& device) {
  TensorProto dense;
  dense.name = t.values.name;
  dense.dims = t.dims;
  const std::int64_t count = element_count(dense, source);
  constexpr std::int64_t kMost = std::int64_t(1) << 28;  // a few bytes may claim a tensor of any size
  if (count > kMost)
    throw refused(dense, source,
                  fmt::format("it has {} elements when made dense, more than {}", count, kMost));
  const Tensor values = load_tensor(t.values, source, "CPU").tensor();
  const std::vector<std::int64_t> given = load_tensor(t.indices, source, "CPU").tensor().data<std::int64_t>();
  const auto entries = static_cast<std::size_t>(values.numel().value());
  const std::size_t width = t.indices.dims.size() == 2 ? t.dims.size() : 1;
  if (given.size() != entries * width) throw refused(dense, source, "its indices do not fit its values");
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) *
                               static_cast<std::size_t>(values.element_size()));
  const std::vector<std::byte> from = values.bytes();
  const auto size = static_cast<std::size_t>(values.element_size());
  for (std::size_t i = 0; i < entries; ++i) {
    std::int64_t flat = 0;
    for (std::size_t k = 0; k < width; ++k) {
      const std::int64_t at = given[i * width + k], limit = width == 1 ? count : t.dims[k];
      if (at < 0 || at >= limit)
        throw refused(dense, source, fmt::format("index {} is outside {}", at, limit));
      flat = flat * limit + at;
    }
    std::memcpy(bytes.data() + static_cast<std::size_t>(flat) * size, from.data() + i * size, size);
  }
  if (count == 0) return Tensor::empty(shape_of(dense), {.dtype = values.dtype(), .device = device});
  return Tensor::from_bytes(bytes.data(), bytes.size(), shape_of(dense), values.dtype(), device);
}

}  // namespace lathe::onnx
