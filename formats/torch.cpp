// Torch checkpoints. The zip form is an archive with a pickle, data.pkl, and a file for every storage; the
// older form is five pickles, the last of which lists the storages whose bytes follow.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "formats/pickle.h"
#include "formats/strided.h"
#include "formats/zip.h"

namespace lathe::state {
namespace {

using formats::PickleMachine;
using formats::PickleValue;
using formats::shown;
using formats::Source;
using Kind = PickleValue::Kind;
using Args = std::vector<PickleValue>;

// ---- the words of a checkpoint

struct TypeWord {
  std::string_view name;
  DataType dtype;
};
constexpr std::array kStorageTypes = {
    TypeWord{"torch.DoubleStorage", dtypes::float64}, TypeWord{"torch.FloatStorage", dtypes::float32},
    TypeWord{"torch.HalfStorage", dtypes::float16},   TypeWord{"torch.BFloat16Storage", dtypes::bfloat16},
    TypeWord{"torch.LongStorage", dtypes::int64},     TypeWord{"torch.IntStorage", dtypes::int32},
    TypeWord{"torch.ShortStorage", dtypes::int16},    TypeWord{"torch.CharStorage", dtypes::int8},
    TypeWord{"torch.ByteStorage", dtypes::uint8},     TypeWord{"torch.BoolStorage", dtypes::bool_},
    TypeWord{"torch.UntypedStorage", dtypes::uint8},  TypeWord{"torch.storage.UntypedStorage", dtypes::uint8},
};
constexpr std::array kDtypes = {
    TypeWord{"torch.float64", dtypes::float64},
    TypeWord{"torch.float32", dtypes::float32},
    TypeWord{"torch.float16", dtypes::float16},
    TypeWord{"torch.bfloat16", dtypes::bfloat16},
    TypeWord{"torch.float8_e4m3fn", dtypes::fp8e4m3},
    TypeWord{"torch.float8_e5m2", dtypes::fp8e5m2},
    TypeWord{"torch.float8_e4m3fnuz", dtypes::fp8e4m3fnuz},
    TypeWord{"torch.float8_e5m2fnuz", dtypes::fp8e5m2fnuz},
    TypeWord{"torch.int64", dtypes::int64},
    TypeWord{"torch.int32", dtypes::int32},
    TypeWord{"torch.int16", dtypes::int16},
    TypeWord{"torch.int8", dtypes::int8},
    TypeWord{"torch.uint64", dtypes::uint64},
    TypeWord{"torch.uint32", dtypes::uint32},
    TypeWord{"torch.uint16", dtypes::uint16},
    TypeWord{"torch.uint8", dtypes::uint8},
    TypeWord{"torch.bool", dtypes::bool_},
};
std::optional<DataType> type_of(std::span<const TypeWord> table, std::string_view name) {
  for (const TypeWord& row : table)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

struct Storage {
  DataType dtype;
  std::int64_t elements = 0;
  Tensor flat;  // not defined while the file is only looked through
};

// Builds the tensors of one file; what differs between the two forms is how a storage is found.
class Reader {
 public:
  using FindStorage = std::function<Storage(const std::string& key, DataType dtype, std::int64_t elements,
                                            const PickleValue& view, std::uint64_t at)>;
  Reader(const Source& file, PickleMachine& machine, FindStorage find)
      : file_(file), machine_(machine), find_(std::move(find)) {}

  formats::PickleWords words() {
    return {
        [](const std::string& name) { return knows(name); },
        [this](const std::string& name, const Args& args, std::uint64_t at) { return call(name, args, at); },
        [this](const PickleValue& id, std::uint64_t at) { return persistent(id, at); }};
  }

 private:
  using Function = PickleValue (Reader::*)(const Args& args, std::uint64_t at);
  struct Word {
    std::string_view name;
    Function function;
  };
  static std::span<const Word> functions();

  static bool knows(const std::string& name) {
    return find_function(name) != nullptr || type_of(kStorageTypes, name) || type_of(kDtypes, name) ||
           name == "torch.Tensor" || name == "torch.nn.parameter.Parameter";
  }
  static Function find_function(std::string_view name) {
    for (const Word& word : functions())
      if (word.name == name) return word.function;
    return nullptr;
  }
  UserError refuse(std::uint64_t at, const std::string& why) const { return file_.refuse_at(at, why); }

  PickleValue call(const std::string& name, const Args& args, std::uint64_t at) {
    const Function function = find_function(name);
    if (function == nullptr) throw refuse(at, fmt::format("{} is called, which is not a function", name));
    return (this->*function)(args, at);
  }

  // ("storage", type, key, location, elements, in the older form a view or nothing)
  PickleValue persistent(const PickleValue& id, std::uint64_t at) {
    if (!id.is(Kind::Tuple) || id.node->items.size() < 5) throw refuse(at, "a storage is described wrongly");
    const Args& parts = id.node->items;
    if (!parts[0].is(Kind::String) || parts[0].node->text != "storage" || !parts[1].is(Kind::Name) ||
        !parts[2].is(Kind::String) || !parts[4].is(Kind::Int))
      throw refuse(at, "a storage is described wrongly");
    const std::optional<DataType> dtype = type_of(kStorageTypes, parts[1].node->text);
    if (!dtype) throw refuse(at, fmt::format("{} is not a storage", shown(parts[1].node->text)));
    if (parts[4].integer < 0) throw refuse(at, "a storage has a negative size");
    const std::string& key = parts[2].node->text;
    auto [place, fresh] = numbers_.try_emplace(key, storages_.size());
    if (fresh) {
      storages_.push_back(
          find_(key, *dtype, parts[4].integer, parts.size() > 5 ? parts[5] : PickleValue(), at));
    } else if (storages_[place->second].dtype != *dtype) {
      throw refuse(at, fmt::format("storage \"{}\" has two dtypes", shown(key)));
    }
    return {Kind::Storage, static_cast<std::int64_t>(place->second), 0, nullptr};
  }

  std::vector<std::int64_t> numbers(const PickleValue& value, std::uint64_t at) const {
    if (!value.is(Kind::Tuple) && !value.is(Kind::List)) throw refuse(at, "sizes and strides are tuples");
    std::vector<std::int64_t> out;
    for (const PickleValue& item : value.node->items) {
      if (!item.is(Kind::Int)) throw refuse(at, "a size or stride is no whole number");
      out.push_back(item.integer);
    }
    return out;
  }

  PickleValue tensor_of(const Args& args, std::optional<DataType> dtype, std::uint64_t at) {
    if (args.size() < 4 || !args[0].is(Kind::Storage) || !args[1].is(Kind::Int))
      throw refuse(at, "a tensor is described wrongly");
    const Storage& storage = storages_[static_cast<std::size_t>(args[0].integer)];
    Tensor flat = storage.flat;
    std::int64_t elements = storage.elements;
    if (dtype && *dtype != storage.dtype) {
      elements = elements * storage.dtype.itemsize() / dtype->itemsize();
      if (flat.defined())
        flat = elements == 0
                   ? Tensor::empty({0}, {.dtype = *dtype})
                   : flat.bitcast(dtypes::uint8)[Slice{0, elements * dtype->itemsize()}].bitcast(*dtype);
    }
    const formats::Strided layout{args[1].integer, numbers(args[2], at), numbers(args[3], at)};
    if (const std::string problem = formats::strided_problem(layout, elements); !problem.empty())
      throw refuse(at, "a tensor is described wrongly: " + problem);
    return machine_.make_tensor(flat.defined() ? formats::strided(flat, layout) : Tensor());
  }

  // ---- the functions
  PickleValue rebuild_tensor(const Args& args, std::uint64_t at) { return tensor_of(args, {}, at); }
  // Newer dtypes have no storage class of their own; the dtype is the seventh argument.
  PickleValue rebuild_tensor_v3(const Args& args, std::uint64_t at) {
    std::optional<DataType> dtype;
    if (args.size() > 6 && args[6].is(Kind::Name)) dtype = type_of(kDtypes, args[6].node->text);
    if (!dtype) throw refuse(at, "a tensor has no dtype");
    return tensor_of(args, dtype, at);
  }
  PickleValue rebuild_parameter(const Args& args, std::uint64_t at) {
    if (args.empty() || !args[0].is(Kind::Tensor)) throw refuse(at, "a parameter has no tensor");
    return args[0];
  }
  // (function, type, its arguments, state)
  PickleValue rebuild_from_type(const Args& args, std::uint64_t at) {
    if (args.size() < 3 || !args[0].is(Kind::Name) || !args[1].is(Kind::Name) || !args[2].is(Kind::Tuple))
      throw refuse(at, "a tensor is described wrongly");
    const std::string& function = args[0].node->text;
    if (!function.starts_with("torch._utils._rebuild_tensor") &&
        !function.starts_with("torch._utils._rebuild_param"))
      throw refuse(at, fmt::format("{} makes no tensor", shown(function)));
    return call(function, args[2].node->items, at);
  }
  PickleValue ordered_dict(const Args& args, std::uint64_t at) {
    PickleValue dict = machine_.make(Kind::Dict);
    if (args.empty()) return dict;
    if (args.size() > 1 || !args[0].is(Kind::List))
      throw refuse(at, "an OrderedDict is made of something odd");
    for (const PickleValue& pair : args[0].node->items) {
      const bool two = (pair.is(Kind::List) || pair.is(Kind::Tuple)) && pair.node->items.size() == 2;
      if (!two) throw refuse(at, "an entry of an OrderedDict is not a pair");
      dict.node->items.insert(dict.node->items.end(), pair.node->items.begin(), pair.node->items.end());
    }
    return dict;
  }
  PickleValue size(const Args& args, std::uint64_t at) {
    if (args.size() != 1 || !args[0].is(Kind::Tuple)) throw refuse(at, "a torch.Size is not a tuple");
    return args[0];
  }
  PickleValue device(const Args& args, std::uint64_t at) {
    if (args.empty() || !args[0].is(Kind::String)) throw refuse(at, "a device has no name");
    std::string text = args[0].node->text;
    if (args.size() > 1 && args[1].is(Kind::Int)) text += fmt::format(":{}", args[1].integer);
    return machine_.make(Kind::String, std::move(text));
  }
  PickleValue set(const Args& args, std::uint64_t at) {
    if (args.size() > 1 || (args.size() == 1 && !args[0].is(Kind::List)))
      throw refuse(at, "a set is not a list");
    return args.empty() ? machine_.make(Kind::List) : args[0];
  }
  // How protocol 2 writes bytes: text whose characters are below 256, named so that Python encodes it.
  PickleValue encode(const Args& args, std::uint64_t at) {
    if (args.size() != 2 || !args[0].is(Kind::String) || !args[1].is(Kind::String) ||
        (args[1].node->text != "latin1" && args[1].node->text != "latin-1"))
      throw refuse(at, "bytes are encoded in an unknown way");
    std::string out;
    const std::string& text = args[0].node->text;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto c = static_cast<unsigned char>(text[i]);
      if (c < 0x80) {
        out.push_back(text[i]);
      } else if ((c == 0xc2 || c == 0xc3) && i + 1 < text.size()) {
        const auto next = static_cast<unsigned char>(text[++i]);
        out.push_back(static_cast<char>((c & 3) << 6 | (next & 0x3f)));
      } else {
        throw refuse(at, "encoded bytes hold a character above 255");
      }
    }
    return machine_.make(Kind::Bytes, std::move(out));
  }

  const Source& file_;
  PickleMachine& machine_;
  FindStorage find_;
  std::map<std::string, std::size_t> numbers_;
  std::vector<Storage> storages_;
};

std::span<const Reader::Word> Reader::functions() {
  static constexpr Word kFunctions[] = {
      {"collections.OrderedDict", &Reader::ordered_dict},
      {"torch._utils._rebuild_tensor", &Reader::rebuild_tensor},
      {"torch._utils._rebuild_tensor_v2", &Reader::rebuild_tensor},
      {"torch._utils._rebuild_tensor_v3", &Reader::rebuild_tensor_v3},
      {"torch._utils._rebuild_parameter", &Reader::rebuild_parameter},
      {"torch._utils._rebuild_parameter_with_state", &Reader::rebuild_parameter},
      {"torch._tensor._rebuild_from_type_v2", &Reader::rebuild_from_type},
      {"torch.Size", &Reader::size},
      {"torch.device", &Reader::device},
      {"builtins.set", &Reader::set},
      {"__builtin__.set", &Reader::set},
      {"_codecs.encode", &Reader::encode},
  };
  return kFunctions;
}

std::uint64_t storage_bytes(DataType dtype, std::int64_t elements, const Source& file, std::uint64_t at) {
  std::uint64_t bytes = 0, count = 0;
  if (!formats::checked_bytes({elements}, dtype.itemsize(), bytes, count))
    throw file.refuse_at(at, fmt::format("a storage has {} elements", elements));
  return bytes;
}

// ---- the zip form

Object load_zip(const Source& file) {
  const formats::ZipReader zip(file);
  constexpr std::string_view kPickle = "data.pkl";
  std::optional<std::string> root;
  for (const formats::ZipMember& member : zip.members()) {
    const std::string_view name = member.name;
    if (!name.ends_with(kPickle)) continue;
    const std::string_view folder = name.substr(0, name.size() - kPickle.size());
    if (!folder.empty() && (!folder.ends_with('/') || folder.find('/') != folder.size() - 1)) continue;
    if (root) throw file.refuse("the archive has two data.pkl");
    root = folder;
  }
  if (!root) {
    const bool script = std::any_of(zip.members().begin(), zip.members().end(), [](const auto& member) {
      return member.name.ends_with("/constants.pkl");
    });
    throw file.refuse("the archive has no data.pkl, so it is not a torch checkpoint")
        .help(script ? "a TorchScript program: save its state_dict instead" : "load_npz reads npz files");
  }
  if (const formats::ZipMember* order = zip.find(*root + "byteorder")) {
    const std::vector<std::byte> bytes = zip.read(*order);
    if (std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()) != "little")
      throw file.refuse("its numbers have the high byte first, which is not read");
  }
  const Source pickle = zip.source(*zip.find(*root + std::string(kPickle)));
  std::map<std::string_view, const formats::ZipMember*> members;
  for (const formats::ZipMember& member : zip.members()) members.emplace(member.name, &member);
  PickleMachine machine(pickle, 0);
  Reader reader(
      pickle, machine,
      [&](const std::string& key, DataType dtype, std::int64_t elements, const PickleValue&,
          std::uint64_t at) -> Storage {
        const std::uint64_t bytes = storage_bytes(dtype, elements, pickle, at);
        const auto found = members.find(*root + "data/" + key);
        if (found == members.end())
          throw pickle.refuse_at(at, fmt::format("storage \"{}\" is not in the archive", shown(key)));
        const formats::ZipMember& member = *found->second;
        if (member.size < bytes)
          throw pickle.refuse_at(at, fmt::format("storage \"{}\" has {} bytes, {} {} take {}", shown(key),
                                                 member.size, elements, dtype.name(), bytes));
        return {dtype, elements,
                zip.source(member).view(0, dtype, {Size(elements)}, static_cast<std::uint64_t>(elements))};
      });
  return machine.to_object(machine.run(reader.words()));
}

// ---- the older form

// 0x1950a86a20f9469cfc6c, the lowest byte first.
constexpr std::string_view kLegacyMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::int64_t kLegacyVersion = 1001;

struct Need {
  DataType dtype;
  std::int64_t elements = 0;
};

Object load_legacy(const Source& file) {
  PickleMachine machine(file, 0);
  const formats::PickleWords plain{[](const std::string&) { return false; },
                                   {},
                                   [&](const PickleValue&, std::uint64_t at) -> PickleValue {
                                     throw file.refuse_at(at, "a storage is where none is expected");
                                   }};
  const PickleValue magic = machine.run(plain);
  if (!magic.is(Kind::BigInt) || magic.node->text != kLegacyMagic)
    throw file.refuse_at(0, "is not a torch checkpoint: its first word is wrong");
  const PickleValue version = machine.run(plain);
  if (!version.is(Kind::Int) || version.integer != kLegacyVersion)
    throw file.refuse("is a torch checkpoint of an unknown version");
  const Object system = machine.to_object(machine.run(plain));
  if (system.is(Object::Kind::Dict))
    if (const Object* little = system.find("little_endian");
        little != nullptr && little->is(Object::Kind::Bool) && !little->boolean())
      throw file.refuse("its numbers have the high byte first, which is not read");

  // Once to learn which storages there are and where their bytes begin, and again with those at hand.
  const std::uint64_t begin = machine.position();
  std::map<std::string, Need> needs;
  auto need = [&](const std::string& key, DataType dtype, std::int64_t elements, const PickleValue& view,
                  std::uint64_t at) -> Storage {
    if (!view.is(Kind::None)) throw file.refuse_at(at, "a storage is a part of another, which is not read");
    storage_bytes(dtype, elements, file, at);
    needs.insert_or_assign(key, Need{dtype, elements});
    return {dtype, elements, Tensor()};
  };
  Reader first(file, machine, need);
  machine.run(first.words());
  const PickleValue keys = machine.run(plain);
  if (!keys.is(Kind::List)) throw file.refuse("the list of storages is missing");
  std::map<std::string, Tensor> found;
  std::uint64_t at = machine.position();
  for (const PickleValue& key : keys.node->items) {
    if (!key.is(Kind::String)) throw file.refuse("a storage has no name");
    const auto wanted = needs.find(key.node->text);
    if (wanted == needs.end())
      throw file.refuse_at(at, fmt::format("storage \"{}\" belongs to no tensor", shown(key.node->text)));
    const auto [dtype, elements] = wanted->second;
    const auto stated = static_cast<std::int64_t>(file.number(at, 8, "a storage's size"));
    if (stated != elements)
      throw file.refuse_at(at, fmt::format("storage \"{}\" has {} elements, {} were promised",
                                           shown(key.node->text), stated, elements));
    const std::uint64_t bytes = storage_bytes(dtype, elements, file, at);
    if (!file.has(at + 8, bytes))
      throw file.refuse_at(at, fmt::format("the file is truncated: a storage takes {} bytes, {} are left",
                                           bytes, file.size() - at - 8));
    found.insert_or_assign(key.node->text,
                           file.view(at + 8, dtype, {Size(elements)}, static_cast<std::uint64_t>(elements)));
    at += 8 + bytes;
  }
  PickleMachine again(file, begin);
  Reader second(file, again,
                [&](const std::string& key, DataType dtype, std::int64_t elements, const PickleValue&,
                    std::uint64_t place) -> Storage {
                  const auto flat = found.find(key);
                  if (flat == found.end())
                    throw file.refuse_at(place, fmt::format("storage \"{}\" is not in the file", shown(key)));
                  return {dtype, elements, flat->second};
                });
  return again.to_object(again.run(second.words()));
}

}  // namespace

Object torch_load(const Bytes& from) {
  const Source file(from, "torch_load");
  const std::vector<std::byte> start = file.read(0, std::min<std::uint64_t>(file.size(), 4), "the start");
  const std::string_view text(reinterpret_cast<const char*>(start.data()), start.size());
  if (text == "PK\x03\x04") return load_zip(file);
  if (text.starts_with('\x80')) return load_legacy(file);
  throw file.refuse("is not a torch checkpoint: it begins neither as a zip file nor as a pickle")
      .help(text.starts_with("\x93NUM") ? "load_npy reads npy files" : "safe_load reads safetensors files");
}

}  // namespace lathe::state
