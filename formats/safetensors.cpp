// The safetensors format: the length of a JSON header in 8 bytes, the header, then the tensors' bytes. The
// header names every tensor with dtype, shape and its place among the bytes, which are covered once, whole.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "formats/json.h"
#include "formats/output.h"
#include "formats/source.h"

namespace lathe::state {
namespace {

using formats::shown;
using formats::Source;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMostHeader = 100'000'000;  // the format's own limit
constexpr std::size_t kMostAxes = 64;
constexpr std::string_view kMetadata = "__metadata__";

struct Code {
  std::string_view text;
  DataType dtype;
};
constexpr std::array kCodes = {
    Code{"BOOL", dtypes::bool_},
    Code{"U8", dtypes::uint8},
    Code{"I8", dtypes::int8},
    Code{"F8_E4M3", dtypes::fp8e4m3},
    Code{"F8_E5M2", dtypes::fp8e5m2},
    Code{"F8_E4M3FNUZ", dtypes::fp8e4m3fnuz},
    Code{"F8_E5M2FNUZ", dtypes::fp8e5m2fnuz},
    Code{"I16", dtypes::int16},
    Code{"U16", dtypes::uint16},
    Code{"F16", dtypes::float16},
    Code{"BF16", dtypes::bfloat16},
    Code{"I32", dtypes::int32},
    Code{"U32", dtypes::uint32},
    Code{"F32", dtypes::float32},
    Code{"I64", dtypes::int64},
    Code{"U64", dtypes::uint64},
    Code{"F64", dtypes::float64},
};

struct Entry {
  std::string name;
  std::optional<DataType> dtype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> place;  // first byte and the one after the last
  std::uint64_t count = 0;
  std::size_t at = 0;  // in the header, for refusals
};

struct Header {
  std::vector<Entry> entries;
  Metadata metadata;
  std::uint64_t data = 0;  // where the tensors' bytes begin
};

DataType dtype_of(const std::string& code, const formats::JsonReader& json) {
  for (const Code& row : kCodes)
    if (row.text == code) return row.dtype;
  throw json.refuse(fmt::format("there is no dtype \"{}\" here", shown(code)));
}

void read_entry(formats::JsonReader& json, Entry& entry) {
  json.object([&](const std::string& key) {
    if (key == "dtype") {
      entry.dtype = dtype_of(json.string(), json);
    } else if (key == "shape") {
      entry.shape.emplace();
      json.array([&] {
        if (entry.shape->size() == kMostAxes) throw json.refuse("a tensor has more than 64 axes");
        entry.shape->push_back(json.integer());
        if (entry.shape->back() < 0) throw json.refuse("a size is negative");
      });
    } else if (key == "data_offsets") {
      std::vector<std::uint64_t> ends;
      json.array([&] {
        const std::int64_t end = json.integer();
        if (ends.size() == 2 || end < 0) throw json.refuse("data_offsets are two numbers, none negative");
        ends.push_back(static_cast<std::uint64_t>(end));
      });
      if (ends.size() != 2) throw json.refuse("data_offsets are two numbers");
      entry.place.emplace(ends[0], ends[1]);
    } else {
      throw json.refuse(fmt::format("a tensor has no \"{}\"", shown(key)));
    }
  });
  if (!entry.dtype || !entry.shape || !entry.place)
    throw json.refuse(fmt::format("tensor \"{}\" has no {}", shown(entry.name),
                                  !entry.dtype   ? "dtype"
                                  : !entry.shape ? "shape"
                                                 : "data_offsets"));
}

// Every byte belongs to one tensor: no overlap hides data in other data, and nothing follows the last.
void check_places(std::vector<Entry>& entries, std::uint64_t data_bytes, const Source& file) {
  for (Entry& e : entries) {
    std::uint64_t bytes = 0;
    auto refuse = [&](const std::string& why) {
      return file.refuse_at(kLengthBytes + e.at, fmt::format("tensor \"{}\" {}", shown(e.name), why));
    };
    const std::string what =
        fmt::format("{} of shape {}", e.dtype->name(), to_string(Shape(e.shape->begin(), e.shape->end())));
    if (!formats::checked_bytes(*e.shape, e.dtype->itemsize(), bytes, e.count))
      throw refuse(fmt::format("is {}, whose bytes cannot be counted in 63 bits", what));
    const auto [begin, end] = *e.place;
    if (begin > end || end > data_bytes)
      throw refuse(fmt::format("lies at {} to {} of the file's {} bytes of data", begin, end, data_bytes));
    if (end - begin != bytes)
      throw refuse(
          fmt::format("is {}, which takes {} bytes, but its place has {}", what, bytes, end - begin));
  }
  std::vector<const Entry*> order;
  for (const Entry& e : entries) order.push_back(&e);
  std::stable_sort(order.begin(), order.end(),
                   [](const Entry* a, const Entry* b) { return *a->place < *b->place; });
  std::uint64_t covered = 0;
  for (const Entry* e : order) {
    if (e->place->first != covered)
      throw file.refuse_at(
          kLengthBytes + e->at,
          fmt::format("tensor \"{}\" begins at {} of the data, {}", shown(e->name), e->place->first,
                      e->place->first < covered ? fmt::format("inside another that ends at {}", covered)
                                                : fmt::format("bytes {} to there belong to none", covered)));
    covered = e->place->second;
  }
  if (covered != data_bytes)
    throw file.refuse(fmt::format("the tensors take {} bytes of data, the file has {}", covered, data_bytes));
}

Header read_header(const Source& file) {
  const std::uint64_t length = file.number(0, kLengthBytes, "the header's length");
  if (length > kMostHeader)
    throw file.refuse_at(0, fmt::format("the header's length is {}, the most is {}", length, kMostHeader))
        .help("this may be no safetensors file");
  const std::vector<std::byte> raw = file.read(kLengthBytes, length, "the header");
  const std::string_view text(reinterpret_cast<const char*>(raw.data()), raw.size());
  if (!text.starts_with('{')) throw file.refuse_at(kLengthBytes, "the header does not begin with \"{\"");
  formats::JsonReader json(text, [&](std::size_t at, const std::string& why) {
    return file.refuse_at(kLengthBytes + at, "in the header, " + why);
  });
  Header header;
  header.data = kLengthBytes + length;
  json.object([&](const std::string& name) {
    if (name == kMetadata) {
      json.object([&](const std::string& key) { header.metadata[key] = json.string(); });
      return;
    }
    Entry entry;
    entry.name = name;
    entry.at = json.position();
    read_entry(json, entry);
    header.entries.push_back(std::move(entry));
  });
  json.end();
  check_places(header.entries, file.size() - header.data, file);
  return header;
}

std::string_view code_of(DataType dtype, const std::string& name) {
  for (const Code& row : kCodes)
    if (row.dtype == dtype) return row.text;
  throw UserError("safe_save",
                  fmt::format("{} is {}, which safetensors files do not hold", shown(name), dtype.name()))
      .help("cast it first");
}

}  // namespace

StateDict safe_load(const Bytes& from) {
  const Source file(from, "safe_load");
  const Header header = read_header(file);
  StateDict tensors;
  for (const Entry& e : header.entries)
    tensors.emplace_back(e.name, file.view(header.data + e.place->first, *e.dtype,
                                           Shape(e.shape->begin(), e.shape->end()), e.count));
  return tensors;
}

Metadata safe_load_metadata(const Bytes& from) {
  return read_header(Source(from, "safe_load_metadata")).metadata;
}

void safe_save(const StateDict& tensors, const std::filesystem::path& to, const Metadata& metadata) {
  const std::string op = "safe_save";
  // The widest first, so that every tensor is aligned to its elements; among equals by name.
  std::vector<const StateDict::value_type*> order;
  std::set<std::string_view> names;
  for (const auto& entry : tensors) {
    formats::check_plain(entry.second, entry.first, op);
    if (entry.first == kMetadata || !formats::is_utf8(entry.first))
      throw UserError(op, fmt::format("\"{}\" cannot be the name of a tensor", shown(entry.first)));
    if (!names.insert(entry.first).second)
      throw UserError(op, fmt::format("two tensors have the name \"{}\"", shown(entry.first)));
    order.push_back(&entry);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const std::int64_t wide_a = a->second.element_size(), wide_b = b->second.element_size();
    return wide_a != wide_b ? wide_a > wide_b : a->first < b->first;
  });
  std::string header = "{";
  if (!metadata.empty()) {
    for (const auto& [key, value] : metadata) {
      if (!formats::is_utf8(key) || !formats::is_utf8(value))
        throw UserError(op, fmt::format("the metadata \"{}\" is not UTF-8", shown(key)));
      header += fmt::format("{}{}:{}", header.size() == 1 ? "\"__metadata__\":{" : ",",
                            formats::json_quoted(key), formats::json_quoted(value));
    }
    header += "}";
  }
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& [name, tensor] = *order[i];
    std::string sizes;
    for (const Size& size : tensor.shape())
      sizes += fmt::format("{}{}", sizes.empty() ? "" : ",", size.value());
    const std::uint64_t end = at + static_cast<std::uint64_t>(tensor.nbytes());
    header += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          header.size() == 1 ? "" : ",", formats::json_quoted(name),
                          code_of(tensor.dtype(), name), sizes, at, end);
    at = end;
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  if (header.size() > kMostHeader)
    throw UserError(
        op, fmt::format("the header would have {} bytes, the most is {}", header.size(), kMostHeader));

  std::vector<Tensor> all;
  for (const auto& entry : tensors) all.push_back(entry.second);
  Tensor::realize_all(all);  // in one schedule
  formats::Output out(to, op);
  out.number(header.size(), 8);
  out.write(header);
  for (const auto* entry : order) out.write(entry->second.bytes());
  out.commit();
}

}  // namespace lathe::state
