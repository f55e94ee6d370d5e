// Writes GGUF files. Object knows fewer types of values than the format: integers become u32 where they
// fit (in lists i32), others i64; floats f32, as the programs that read such files expect.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <thread>

#include "formats/gguf_blocks.h"
#include "formats/gguf_pack.h"
#include "formats/output.h"
#include "formats/source.h"

namespace lathe::state {
namespace {

using formats::GgufType;
using formats::Output;
using formats::shown;

constexpr std::string_view kOp = "gguf_save";
constexpr std::uint64_t kAlignment = 32;
constexpr int kVersion = 3;
enum Code : std::uint32_t { kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9, kI64 = 11 };

// What comes before the tensors, in memory: it has a great many small values.
struct Head {
  std::string bytes;
  void number(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
  void text(std::string_view t) {
    number(t.size(), 8);
    bytes += t;
  }
};

bool fits_unsigned(std::int64_t x) { return x >= 0 && x <= UINT32_MAX; }
bool fits_signed(std::int64_t x) { return x >= INT32_MIN && x <= INT32_MAX; }

// The one type that all elements of a list can be written as.
Code code_of_items(const Object::Items& items, const std::string& key) {
  const auto all = [&](auto&& test) { return std::all_of(items.begin(), items.end(), test); };
  using Kind = Object::Kind;
  if (all([](const Object& o) { return o.is(Kind::Int); }))
    return all([](const Object& o) { return fits_signed(o.integer()); }) ? kI32 : kI64;
  if (all([](const Object& o) { return o.is(Kind::Int) || o.is(Kind::Float); })) return kF32;
  if (all([](const Object& o) { return o.is(Kind::Bool); })) return kBool;
  if (all([](const Object& o) { return o.is(Kind::String); })) return kString;
  if (all([](const Object& o) { return o.is(Kind::List); })) return kArray;
  throw UserError(kOp, fmt::format("the list under \"{}\" has values of several kinds", shown(key)));
}

Code code_of(const Object& value, const std::string& key) {
  switch (value.kind()) {
    case Object::Kind::Bool: return kBool;
    case Object::Kind::Int:
      return fits_unsigned(value.integer()) ? kU32 : fits_signed(value.integer()) ? kI32 : kI64;
    case Object::Kind::Float: return kF32;
    case Object::Kind::String: return kString;
    case Object::Kind::List: return kArray;
    default:
      throw UserError(
          kOp, fmt::format("\"{}\" is a {}, which GGUF files do not hold", shown(key), value.kind_name()));
  }
}

void write_value(Head& out, Code code, const Object& value, const std::string& key) {
  switch (code) {
    case kBool: return out.number(value.boolean() ? 1 : 0, 1);
    case kU32:
    case kI32: return out.number(static_cast<std::uint32_t>(value.integer()), 4);
    case kI64: return out.number(static_cast<std::uint64_t>(value.integer()), 8);
    case kF32: return out.number(std::bit_cast<std::uint32_t>(static_cast<float>(value.number())), 4);
    case kString: return out.text(value.string());
    case kArray: {
      const Code of = code_of_items(value.items(), key);
      out.number(of, 4);
      out.number(value.items().size(), 8);
      for (const Object& item : value.items()) write_value(out, of, item, key);
    }
  }
}

// The parts' numbers of a model that was split are of no use in one file.
bool is_kept(const std::string& key) { return !key.starts_with("split.") && key != "general.alignment"; }

void write_metadata(Head& out, const Object::Entries& entries) {
  for (const auto& [key, value] : entries) {
    if (!is_kept(key.string())) continue;
    out.text(key.string());
    const Code code = code_of(value, key.string());
    out.number(code, 4);
    write_value(out, code, value, key.string());
  }
}

// ---- tensors

struct Planned {
  const GgufTensor* tensor;
  const GgufType* type;
  Shape shape;  // of the numbers
  std::uint64_t bytes = 0, offset = 0;
};

bool is_plain(const GgufType& type) { return type.unpacked == nullptr; }

Planned plan(const GgufTensor& t) {
  formats::check_plain(t.values, t.name, std::string(kOp));
  Planned p{&t, formats::gguf_type(t.type), t.values.shape()};
  const auto refuse = [&](const std::string& why) {
    return UserError(
        kOp, fmt::format("tensor \"{}\" of shape {} {}", shown(t.name), to_string(t.values.shape()), why));
  };
  if (p.type == nullptr)
    throw refuse(fmt::format("cannot be written as {}, which is not a type", shown(t.type)));
  if (t.packed) {
    if (t.values.dtype() != dtypes::uint8 || p.shape.empty() || p.shape.back().value() % p.type->bytes != 0)
      throw refuse(fmt::format("is not rows of {} blocks, {} bytes each", p.type->name, p.type->bytes));
    p.bytes = static_cast<std::uint64_t>(t.values.nbytes());
    p.shape.back() = p.shape.back().value() / p.type->bytes * p.type->elements;
    return p;
  }
  if (!is_plain(*p.type) && formats::gguf::packer_of(p.type->name) == nullptr)
    throw NotSupported(
        kOp,
        fmt::format("{} is read and not written: it needs a measure of which numbers matter", p.type->name))
        .help(fmt::format("written are {}", fmt::join(gguf_written_types(), ", ")));
  const std::int64_t columns = p.shape.empty() ? 1 : p.shape.back().value();
  if (columns % p.type->elements != 0)
    throw refuse(fmt::format("has rows that are not a multiple of the block size {} of {}", p.type->elements,
                             p.type->name));
  p.bytes = static_cast<std::uint64_t>(t.values.numel().value() / p.type->elements * p.type->bytes);
  return p;
}

// Calls work(begin, end) for parts of [0, count) on several threads.
template <class Work>
void in_parts(std::size_t count, const Work& work) {
  constexpr std::size_t kWorthAThread = 64;
  const std::size_t threads =
      std::clamp<std::size_t>(count / kWorthAThread, 1, std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::thread> running;
  for (std::size_t i = 1; i < threads; ++i)
    running.emplace_back(
        [&work, begin = count * i / threads, end = count * (i + 1) / threads] { work(begin, end); });
  work(0, count / threads);
  for (std::thread& thread : running) thread.join();
}

// The numbers packed, and by how much they are off.
std::vector<std::byte> packed(const Planned& p, GgufError& error) {
  const std::vector<float> x = p.tensor->values.data<float>();
  if (const auto bad = std::find_if_not(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
      bad != x.end())
    throw UserError(kOp, fmt::format("tensor \"{}\" holds {} at {}, which {} cannot say",
                                     shown(p.tensor->name), *bad, bad - x.begin(), p.type->name));
  std::vector<std::byte> out(p.bytes);
  const auto elements = static_cast<std::size_t>(p.type->elements),
             bytes = static_cast<std::size_t>(p.type->bytes);
  const formats::gguf::PackBlock pack = formats::gguf::packer_of(p.type->name);
  in_parts(x.size() / elements, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      pack(x.data() + i * elements, reinterpret_cast<std::uint8_t*>(out.data()) + i * bytes);
  });
  const Tensor stored = Tensor::from_bytes(out.data(), out.size(), {Size(out.size())}, dtypes::uint8);
  const std::vector<float> back = gguf_unpack(p.type->name, stored).data<float>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double off = static_cast<double>(back[i]) - static_cast<double>(x[i]);
    if (!std::isfinite(off))
      throw UserError(kOp, fmt::format("tensor \"{}\" holds {} at {}, which is beyond the scales of {}",
                                       shown(p.tensor->name), x[i], i, p.type->name));
    error.error += off * off;
    error.size += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return out;
}

GgufError write_tensor(Output& out, const Planned& p) {
  GgufError error{p.tensor->name, std::string(p.type->name), static_cast<std::int64_t>(p.bytes)};
  const Tensor& values = p.tensor->values;
  if (p.tensor->packed || (is_plain(*p.type) && values.dtype() == p.type->dtype)) {
    out.write(values.bytes());
    return error;
  }
  if (is_plain(*p.type)) {
    const std::vector<float> before = values.data<float>();
    Tensor cast = values.to(default_device()).cast(p.type->dtype);
    const std::vector<float> after = cast.realize().data<float>();
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (std::isfinite(before[i]) && !std::isfinite(after[i]))
        throw UserError(kOp, fmt::format("tensor \"{}\" holds {} at {}, which is beyond {}",
                                         shown(p.tensor->name), before[i], i, p.type->name));
      if (!std::isfinite(before[i])) continue;
      const double off = static_cast<double>(after[i]) - static_cast<double>(before[i]);
      error.error += off * off;
      error.size += static_cast<double>(before[i]) * static_cast<double>(before[i]);
    }
    out.write(cast.bytes());
  } else {
    out.write(packed(p, error));
  }
  const auto count = static_cast<double>(std::max<std::int64_t>(values.numel().value(), 1));
  error.error = std::sqrt(error.error / count);
  error.size = std::sqrt(error.size / count);
  return error;
}

void fill_up(Output& out) {
  while (out.position() % kAlignment != 0) out.number(0, 1);
}

}  // namespace

std::vector<std::string> gguf_written_types() {
  std::vector<std::string> names;
  for (const GgufType& type : formats::gguf_types())
    if (is_plain(type)) names.emplace_back(type.name);
  for (const std::string_view name : formats::gguf::written_types()) names.emplace_back(name);
  return names;
}

std::int64_t gguf_block_size(std::string_view type) {
  const GgufType* found = formats::gguf_type(type);
  return found == nullptr ? 0 : found->elements;
}

std::vector<GgufError> gguf_save(const Object& metadata, const std::vector<GgufTensor>& tensors,
                                 const std::filesystem::path& to) {
  std::vector<Planned> plans;
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      throw UserError(kOp, fmt::format("two tensors have the name \"{}\"", shown(tensor.name)));
    plans.push_back(plan(tensor));
    plans.back().offset = offset;
    offset = (offset + plans.back().bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  const Object::Entries& entries = metadata.entries();
  const auto keys =
      std::count_if(entries.begin(), entries.end(), [](const auto& e) { return is_kept(e.first.string()); });
  Head head{"GGUF"};
  head.number(kVersion, 4);
  head.number(plans.size(), 8);
  head.number(static_cast<std::uint64_t>(keys), 8);
  write_metadata(head, entries);
  for (const Planned& p : plans) {
    head.text(p.tensor->name);
    head.number(p.shape.size(), 4);
    for (std::size_t i = p.shape.size(); i-- > 0;)
      head.number(static_cast<std::uint64_t>(p.shape[i].value()), 8);
    head.number(p.type->code, 4);
    head.number(p.offset, 8);
  }
  Output out(to, std::string(kOp));
  out.write(head.bytes);
  std::vector<GgufError> errors;
  for (const Planned& p : plans) {
    fill_up(out);
    errors.push_back(write_tensor(out, p));
  }
  fill_up(out);
  out.commit();
  return errors;
}

}  // namespace lathe::state
