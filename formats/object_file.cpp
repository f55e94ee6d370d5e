// lathe::save and lathe::load. The tensors of the tree are a safetensors file's; the tree itself is a line of
// JSON in its metadata, in which
//   {"t": "name"} is a tensor, {"l": [..]} a list, {"u": [..]} a tuple, {"d": [[key, value], ..]} a dict,
//   {"f": "0x1.8p+0"} a float and {"b": "00ff"} bytes; null, true, integers and strings are themselves.
// A dict of tensors alone needs no tree: it is a plain safetensors file.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <unordered_map>
#include <unordered_set>

#include "formats/json.h"
#include "formats/source.h"

namespace lathe {
namespace {

using Kind = Object::Kind;
constexpr char kTree[] = "lathe.tree";
constexpr int kMostDepth = 100;

bool is_state_dict(const Object& object) {
  if (!object.is(Kind::Dict)) return false;
  for (const auto& [key, value] : object.entries())
    if (!key.is(Kind::String) || !value.is(Kind::Tensor)) return false;
  return true;
}

class TreeWriter {
 public:
  std::string text;
  state::StateDict tensors;

  void write(const Object& object, const std::string& name, int depth) {
    if (depth > kMostDepth)
      throw UserError("save", fmt::format("the object is nested deeper than {}", kMostDepth));
    switch (object.kind()) {
      case Kind::None: text += "null"; return;
      case Kind::Bool: text += object.boolean() ? "true" : "false"; return;
      case Kind::Int: text += std::to_string(object.integer()); return;
      case Kind::Float: text += fmt::format("{{\"f\":\"{}\"}}", float_text(object.number())); return;
      case Kind::String: return write_string(object.string());
      case Kind::Bytes: {
        text += "{\"b\":\"";
        for (std::byte b : object.bytes()) text += fmt::format("{:02x}", std::to_integer<unsigned>(b));
        text += "\"}";
        return;
      }
      case Kind::Tensor: {
        text += fmt::format("{{\"t\":{}}}", formats::json_quoted(add(object.tensor(), name)));
        return;
      }
      case Kind::List:
      case Kind::Tuple: {
        text += object.is(Kind::List) ? "{\"l\":[" : "{\"u\":[";
        for (std::size_t i = 0; i < object.items().size(); ++i) {
          if (i > 0) text += ",";
          write(object.items()[i], joined(name, std::to_string(i)), depth + 1);
        }
        text += "]}";
        return;
      }
      case Kind::Dict: {
        text += "{\"d\":[";
        std::size_t i = 0;
        for (const auto& [key, value] : object.entries()) {
          const std::string part = key.is(Kind::String) ? key.string() : std::to_string(i);
          text += i++ > 0 ? ",[" : "[";
          write(key, joined(name, "key"), depth + 1);
          text += ",";
          write(value, joined(name, part), depth + 1);
          text += "]";
        }
        text += "]}";
        return;
      }
    }
  }

 private:
  static std::string joined(const std::string& name, const std::string& part) {
    return name.empty() ? part : name + "." + part;
  }
  static std::string float_text(double value) {
    return std::isnan(value) ? "nan" : fmt::format("{:a}", value);
  }
  void write_string(const std::string& value) {
    if (!formats::is_utf8(value)) throw UserError("save", "a string is not UTF-8").help("save it as bytes");
    text += formats::json_quoted(value);
  }
  std::string add(const Tensor& tensor, const std::string& wanted) {
    std::string name = wanted.empty() ? "tensor" : wanted;
    for (int i = 2; !names_.insert(name).second; ++i) name = fmt::format("{} ({})", wanted, i);
    tensors.emplace_back(name, tensor);
    return name;
  }

  std::unordered_set<std::string> names_;
};

class TreeReader {
 public:
  TreeReader(formats::JsonReader& json, const state::StateDict& tensors) : json_(json) {
    for (const auto& [name, tensor] : tensors) tensors_.emplace(name, &tensor);
  }

  Object read(int depth) {
    if (depth > kMostDepth) throw json_.refuse(fmt::format("the tree is nested deeper than {}", kMostDepth));
    switch (json_.peek()) {
      case 'n': json_.null(); return {};
      case 't':
      case 'f': return json_.boolean();
      case '"': return json_.string();
      case '{': return read_tagged(depth);
      default: return json_.integer();
    }
  }

 private:
  Object read_tagged(int depth) {
    Object result;
    int entries = 0;
    json_.object([&](const std::string& tag) {
      if (entries++ > 0) throw json_.refuse("a value of the tree has two tags");
      if (tag == "t") {
        const auto found = tensors_.find(json_.string());
        if (found == tensors_.end()) throw json_.refuse("the tree names a tensor that is not there");
        result = *found->second;
      } else if (tag == "f") {
        result = read_float();
      } else if (tag == "b") {
        result = read_bytes();
      } else if (tag == "l" || tag == "u") {
        Object::Items items;
        json_.array([&] { items.push_back(read(depth + 1)); });
        result = tag == "l" ? Object(std::move(items)) : Object(Object::Tuple{std::move(items)});
      } else if (tag == "d") {
        Object::Entries pairs;
        json_.array([&] { pairs.push_back(read_pair(depth)); });
        result = std::move(pairs);
      } else {
        throw json_.refuse(fmt::format("the tree has no \"{}\"", formats::shown(tag)));
      }
    });
    if (entries == 0) throw json_.refuse("a value of the tree has no tag");
    return result;
  }
  std::pair<Object, Object> read_pair(int depth) {
    std::vector<Object> both;
    json_.array([&] {
      if (both.size() == 2) throw json_.refuse("an entry of a dict is a key and a value");
      both.push_back(read(depth + 1));
    });
    if (both.size() != 2) throw json_.refuse("an entry of a dict is a key and a value");
    return {std::move(both[0]), std::move(both[1])};
  }
  double read_float() {
    const std::string text = json_.string();
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || end != text.c_str() + text.size())
      throw json_.refuse(fmt::format("\"{}\" is not a float", formats::shown(text)));
    return value;
  }
  Object::Bytes read_bytes() {
    const std::string text = json_.string();
    Object::Bytes bytes;
    for (std::size_t i = 0; i < text.size(); i += 2) {
      unsigned byte = 0;
      const char* end = text.data() + std::min(i + 2, text.size());
      if (auto [stop, error] = std::from_chars(text.data() + i, end, byte, 16);
          error != std::errc() || stop != text.data() + i + 2)
        throw json_.refuse("bytes are pairs of hexadecimal digits");
      bytes.data.push_back(static_cast<std::byte>(byte));
    }
    return bytes;
  }

  formats::JsonReader& json_;
  std::unordered_map<std::string_view, const Tensor*> tensors_;
};

}  // namespace

void save(const Object& object, const std::filesystem::path& file) {
  if (is_state_dict(object)) return state::safe_save(object.tensors(), file);
  TreeWriter writer;
  writer.write(object, "", 0);
  state::safe_save(writer.tensors, file, {{kTree, writer.text}});
}

Object load(const std::filesystem::path& file) {
  const state::StateDict tensors = state::safe_load(file);
  const state::Metadata metadata = state::safe_load_metadata(file);
  if (const auto tree = metadata.find(kTree); tree != metadata.end()) {
    formats::JsonReader json(tree->second, [&](std::size_t at, const std::string& why) {
      return UserError("load",
                       fmt::format("{}: at {} of the metadata {}, {}", file.string(), at, kTree, why));
    });
    Object object = TreeReader(json, tensors).read(0);
    json.end();
    return object;
  }
  Object::Entries entries;
  for (const auto& [name, tensor] : tensors) entries.emplace_back(name, tensor);
  return entries;
}

}  // namespace lathe
