// The GGUF format of llama.cpp: magic, version, counts, keys with values, a list of tensors (name, sizes the
// fastest first, type, place), then their bytes, each at a multiple of the alignment.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <set>
#include <span>

#include "formats/gguf_blocks.h"
#include "formats/source.h"

namespace lathe::state {
namespace {

using formats::GgufType;
using formats::shown;
using formats::Source;

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kAlignment = 32;
constexpr std::uint64_t kMostName = 1 << 16, kMostDepth = 8, kMostAxes = 8;

enum class Kind : std::uint32_t { U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64 };
constexpr int kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};  // the fewest a value takes

struct Entry {
  std::string name;
  const GgufType* type = nullptr;
  Shape shape;
  std::uint64_t count = 1, bytes = 0, offset = 0, at = 0;
};

// Reads one thing after the other.
class Reader {
 public:
  explicit Reader(const Source& file) : file_(file) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t number(int bytes, std::string_view what) {
    const std::uint64_t value = file_.number(at_, bytes, what);
    at_ += static_cast<std::uint64_t>(bytes);
    return value;
  }
  std::string text(std::uint64_t most, std::string_view what) {
    const std::uint64_t begin = at_, length = number(8, what);
    if (length > most) throw file_.refuse_at(begin, fmt::format("{} has {} bytes", what, length));
    const std::vector<std::byte> raw = file_.read(at_, length, what);
    at_ += length;
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  Kind kind() {
    const std::uint64_t begin = at_, code = number(4, "the type of a value");
    if (code > static_cast<std::uint64_t>(Kind::F64))
      throw file_.refuse_at(begin, fmt::format("there is no type {} of values", code));
    return static_cast<Kind>(code);
  }
  Object value(Kind kind, std::uint64_t depth = 0) {
    const std::uint64_t begin = at_;
    switch (kind) {
      case Kind::Array: return array(depth);
      case Kind::String: return text(file_.size(), "a string");
      default: break;
    }
    const int bytes = kBytes[static_cast<std::size_t>(kind)];
    const std::uint64_t raw = number(bytes, "a value");
    const int unused = 64 - 8 * bytes;
    switch (kind) {
      case Kind::Bool:
        if (raw > 1) throw file_.refuse_at(begin, fmt::format("a bool is {}", raw));
        return raw == 1;
      case Kind::F32: return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(raw)));
      case Kind::F64: return std::bit_cast<double>(raw);
      case Kind::I8:
      case Kind::I16:
      case Kind::I32:
      case Kind::I64: return static_cast<std::int64_t>(raw << unused) >> unused;
      default: break;
    }
    if (raw >> 63 != 0) throw file_.refuse_at(begin, fmt::format("the number {} is beyond 63 bits", raw));
    return static_cast<std::int64_t>(raw);
  }

 private:
  Object array(std::uint64_t depth) {
    if (depth == kMostDepth) throw file_.refuse_at(at_, "arrays are nested too deeply");
    const Kind of = kind();
    const std::uint64_t begin = at_, count = number(8, "the length of an array");
    if (count > file_.size() / static_cast<std::uint64_t>(kBytes[static_cast<std::size_t>(of)]))
      throw file_.refuse_at(begin, fmt::format("an array has {} elements", count));
    Object::Items items;
    for (std::uint64_t i = 0; i < count; ++i) items.push_back(value(of, depth + 1));
    return items;
  }

  const Source& file_;
  std::uint64_t at_ = 0;
};

Entry read_entry(Reader& reader, const Source& file) {
  Entry e;
  e.at = reader.at();
  e.name = reader.text(kMostName, "the name of a tensor");
  auto refuse = [&](const std::string& why) {
    return file.refuse_at(e.at, fmt::format("tensor \"{}\" {}", shown(e.name), why));
  };
  const std::uint64_t axes = reader.number(4, "the number of axes");
  if (axes > kMostAxes) throw refuse(fmt::format("has {} axes", axes));
  std::vector<std::int64_t> sizes(axes);
  for (std::uint64_t i = 0; i < axes; ++i)  // the fastest axis comes first
    sizes[axes - 1 - i] = static_cast<std::int64_t>(reader.number(8, "a size"));
  const auto code = static_cast<std::uint32_t>(reader.number(4, "the type of a tensor"));
  e.offset = reader.number(8, "the place of a tensor");
  e.type = formats::gguf_type(code);
  if (e.type == nullptr) {
    const std::string_view name = formats::unread_gguf_type(code);
    if (!name.empty())
      throw NotSupported("gguf_load", fmt::format("{}: tensor \"{}\" is {}, which is not read", file.name(),
                                                  shown(e.name), name));
    throw refuse(fmt::format("has type {}, which is none", code));
  }
  if (!formats::checked_bytes(sizes, static_cast<int>(e.type->bytes), e.bytes, e.count))
    throw refuse(fmt::format("is {} of shape {}, whose bytes cannot be counted in 63 bits", e.type->name,
                             to_string(Shape(sizes.begin(), sizes.end()))));
  if (e.type->elements > 1) {
    if (sizes.empty() || sizes.back() % e.type->elements != 0)
      throw refuse(fmt::format("has rows of {}, which is not a multiple of the block size {}",
                               sizes.empty() ? 1 : sizes.back(), e.type->elements));
    e.bytes =
        e.count / static_cast<std::uint64_t>(e.type->elements) * static_cast<std::uint64_t>(e.type->bytes);
  }
  e.shape.assign(sizes.begin(), sizes.end());
  return e;
}

// Every tensor is in the file, and no two share a byte.
void check_places(std::span<const Entry> entries, std::uint64_t data, std::uint64_t alignment,
                  const Source& file) {
  std::vector<const Entry*> order;
  for (const Entry& e : entries) {
    order.push_back(&e);
    if (e.offset % alignment == 0 && file.has(data, e.offset) && file.has(data + e.offset, e.bytes)) continue;
    throw file.refuse_at(
        e.at, fmt::format("tensor \"{}\" lies at {} of the data with {} bytes, which is {}", shown(e.name),
                          e.offset, e.bytes, e.offset % alignment != 0 ? "not aligned" : "beyond the file"));
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Entry* a, const Entry* b) { return a->offset < b->offset; });
  std::uint64_t end = 0;
  for (const Entry* e : order) {
    if (e->bytes == 0) continue;
    if (e->offset < end)
      throw file.refuse_at(
          e->at, fmt::format("tensor \"{}\" begins at {} of the data, inside another that ends at {}",
                             shown(e->name), e->offset, end));
    end = e->offset + e->bytes;
  }
}

// As it is in the file; of a packed type the rows' bytes.
Tensor stored_tensor(const Source& file, const Entry& e, std::uint64_t begin) {
  if (e.type->unpacked == nullptr) return file.view(begin, e.type->dtype, e.shape, e.count);
  Shape bytes = e.shape;
  bytes.back() = bytes.back().value() / e.type->elements * e.type->bytes;
  return file.view(begin, dtypes::uint8, bytes, e.bytes);
}

void add_tensor(Gguf& out, const std::string& name, std::string_view type, const Tensor& stored) {
  const bool packed = gguf_is_packed(type);
  out.tensors.emplace_back(name, packed ? gguf_unpack(type, stored.to(default_device())) : stored);
  out.stored.emplace(name, Gguf::Stored{std::string(type), stored});
}

// One file, which may be a part of several.
Gguf read_file(const Source& file) {
  Reader reader(file);
  const std::vector<std::byte> magic = file.read(0, kMagic.size(), "the magic");
  if (std::string_view(reinterpret_cast<const char*>(magic.data()), magic.size()) != kMagic)
    throw file.refuse_at(0, "it does not begin with \"GGUF\"").help("this may be no GGUF file");
  reader.number(4, "the magic");
  const std::uint64_t version = reader.number(4, "the version");
  constexpr std::uint64_t kBigEndianThree = 3u << 24, kBigEndianTwo = 2u << 24;
  if (version == kBigEndianThree || version == kBigEndianTwo)
    throw file.refuse_at(4, "its numbers have the high byte first").help("convert it to little-endian");
  if (version != 2 && version != 3)
    throw file.refuse_at(4, fmt::format("it is of version {}, which is not 2 or 3", version));
  const std::uint64_t tensors = reader.number(8, "the number of tensors");
  const std::uint64_t keys = reader.number(8, "the number of keys");
  Gguf out;
  Object::Entries metadata;
  std::uint64_t alignment = kAlignment;
  std::set<std::string> seen;
  for (std::uint64_t i = 0; i < keys; ++i) {
    const std::uint64_t begin = reader.at();
    std::string key = reader.text(kMostName, "a key");
    const Kind kind = reader.kind();
    Object value = reader.value(kind);
    if (!seen.insert(key).second)
      throw file.refuse_at(begin, fmt::format("the key \"{}\" occurs twice", shown(key)));
    if (key == "general.alignment") {
      const std::int64_t given = value.is(Object::Kind::Int) ? value.integer() : 0;
      if (given <= 0 || given % 8 != 0 || given > 1 << 20)
        throw file.refuse_at(begin, "the alignment is not a multiple of 8");
      alignment = static_cast<std::uint64_t>(given);
    }
    metadata.emplace_back(std::move(key), std::move(value));
  }
  out.metadata = std::move(metadata);
  std::vector<Entry> entries;
  seen.clear();
  for (std::uint64_t i = 0; i < tensors; ++i) {
    entries.push_back(read_entry(reader, file));
    if (!seen.insert(entries.back().name).second)
      throw file.refuse_at(entries.back().at,
                           fmt::format("two tensors have the name \"{}\"", shown(entries.back().name)));
  }
  const std::uint64_t data = (reader.at() + alignment - 1) / alignment * alignment;
  check_places(entries, data, alignment, file);
  for (const Entry& e : entries)
    add_tensor(out, e.name, e.type->name, stored_tensor(file, e, data + e.offset));
  return out;
}

// The number under a key, or what it is where the key is missing.
std::int64_t key_number(const Gguf& part, std::string_view key, std::int64_t missing) {
  for (const auto& [name, value] : part.metadata.entries())
    if (name.string() == key && value.is(Object::Kind::Int)) return value.integer();
  return missing;
}

// The ending of part i of a large model's name.
std::string part_ending(std::int64_t i, std::int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", i + 1, count);
}

// The files of a model that is split: `first` is one of them, `given` where it was read.
Gguf read_parts(const Gguf& first, const Bytes& given, std::int64_t count, const Source& source) {
  const std::int64_t number = key_number(first, "split.no", 0);
  const std::filesystem::path* path = formats::path_of(given);
  const bool mapped = std::holds_alternative<MappedFile>(given);
  const std::string name = path != nullptr ? path->filename().string() : "",
                    ending = part_ending(number, count);
  auto refuse = [&](const std::string& why) {
    return source.refuse(fmt::format("it is part {} of {}, and {}", number + 1, count, why));
  };
  if (path == nullptr)
    throw refuse("the other parts are only found for a file in a folder").help("give the path of one part");
  if (!name.ends_with(ending))
    throw refuse("its name tells not where the others are").help("the name of this part ends in " + ending);
  Gguf out;
  std::set<std::string> seen;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto place =
        path->parent_path() / (name.substr(0, name.size() - ending.size()) + part_ending(i, count));
    if (!std::filesystem::exists(place))
      throw MissingFile("gguf_load", fmt::format("{}: it is part {} of {}, and {} is missing", source.name(),
                                                 number + 1, count, place.filename().string()))
          .help("all parts must be in one folder");
    const Source file(mapped ? Bytes(MappedFile{place}) : Bytes(place), "gguf_load");
    Gguf part = i == number ? first : read_file(file);
    if (key_number(part, "split.no", 0) != i || key_number(part, "split.count", 1) != count)
      throw file.refuse(fmt::format("it is part {} of {}, where part {} of {} should be",
                                    key_number(part, "split.no", 0) + 1, key_number(part, "split.count", 1),
                                    i + 1, count));
    if (i == 0) out.metadata = part.metadata;  // the others have no more than their numbers
    for (auto& [tensor_name, tensor] : part.tensors) {
      if (!seen.insert(tensor_name).second)
        throw file.refuse(fmt::format("tensor \"{}\" is also in an earlier part", shown(tensor_name)));
      out.tensors.emplace_back(tensor_name, tensor);
      out.stored.emplace(tensor_name, part.stored.at(tensor_name));
    }
  }
  const auto found = static_cast<std::int64_t>(out.tensors.size());
  if (const std::int64_t all = key_number(out, "split.tensors.count", found); all != found)
    throw refuse(fmt::format("all parts have {} tensors together, not {}", found, all));
  return out;
}

}  // namespace

bool gguf_is_packed(std::string_view type) {
  const GgufType* found = formats::gguf_type(type);
  return found != nullptr && found->unpacked != nullptr;
}

Tensor gguf_unpack(std::string_view type, const Tensor& stored) {
  const GgufType* found = formats::gguf_type(type);
  if (found == nullptr || found->unpacked == nullptr)
    throw UserError("gguf_unpack", fmt::format("{} is not a packed type of GGUF", shown(type)));
  if (stored.dtype() != dtypes::uint8 || stored.ndim() == 0 || stored.size(-1).value() % found->bytes != 0)
    throw UserError("gguf_unpack", fmt::format("{} is not rows of whole blocks of {}, {} bytes each",
                                               stored.str(), found->name, found->bytes));
  const Tensor blocks = stored.reshape({Size(stored.numel().value() / found->bytes), Size(found->bytes)});
  Shape shape = stored.shape();
  shape.back() = shape.back().value() / found->bytes * found->elements;
  return found->unpacked(blocks).reshape(shape);
}

Gguf gguf_load(const Bytes& from) {
  const Source file(from, "gguf_load");
  Gguf part = read_file(file);
  const std::int64_t count = key_number(part, "split.count", 1);
  constexpr std::int64_t kMostParts = 99999;  // five digits
  if (count < 1 || count > kMostParts) throw file.refuse(fmt::format("it is split into {} parts", count));
  return count == 1 ? part : read_parts(part, from, count, file);
}

}  // namespace lathe::state
