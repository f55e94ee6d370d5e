#include "tools/lathe/inspect_model.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "lathe/error.h"
#include "lathe/state.h"
#include "tools/lathe/commands.h"

namespace lathe::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct TensorLine {
  std::string name, type;
  Shape shape;
  std::int64_t bytes = 0;
};
struct Contents {
  std::string format;
  Object::Entries keys;
  std::vector<TensorLine> tensors;
};

bool begins_with(const fs::path& file, std::string_view magic) {
  std::ifstream in(file, std::ios::binary);
  std::string start(magic.size(), '\0');
  return in.read(start.data(), static_cast<std::streamsize>(start.size())) && start == magic;
}
bool is_gguf(const fs::path& file) { return file.extension() == ".gguf" || begins_with(file, "GGUF"); }

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

void add_lines(Contents& out, const state::StateDict& tensors) {
  for (const auto& [name, tensor] : tensors)
    out.tensors.push_back({name, upper(tensor.dtype().name()), tensor.shape(), tensor.nbytes()});
}

Contents read_gguf(const fs::path& path) {
  const state::Gguf file = state::gguf_load(path);
  Contents out{"GGUF", file.metadata.entries(), {}};
  for (const auto& [name, tensor] : file.tensors) {
    const state::Gguf::Stored& stored = file.stored.at(name);
    out.tensors.push_back({name, stored.type, tensor.shape(), stored.stored.nbytes()});
  }
  return out;
}

Contents read_safetensors(const fs::path& path) {
  Contents out{"safetensors", {}, {}};
  for (const auto& [key, value] : state::safe_load_metadata(path)) out.keys.emplace_back(key, value);
  add_lines(out, state::safe_load(path));
  return out;
}

// All parts of a folder's model, with its config as keys.
Contents read_folder(const fs::path& folder) {
  Contents out{"folder", {}, {}};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    if (file.extension() == ".safetensors") add_lines(out, state::safe_load(file));
    if (file.filename() != "config.json") continue;
    const Json config = Json::parse(std::ifstream(file), nullptr, false);
    if (!config.is_object())
      throw UserError("inspect", fmt::format("{} is not a JSON object", file.string()));
    for (const auto& [key, value] : config.items())
      out.keys.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  }
  if (out.tensors.empty() && out.keys.empty())
    throw UserError("inspect",
                    fmt::format("{} has no model: neither config.json nor safetensors", folder.string()));
  return out;
}

Contents read_any(const fs::path& path) {
  if (fs::is_directory(path)) return read_folder(path);
  if (is_gguf(path)) return read_gguf(path);
  const std::string extension = path.extension().string();
  if (extension == ".safetensors") return read_safetensors(path);
  Contents out{"torch checkpoint", {}, {}};
  if (extension == ".npz") {
    out.format = "npz";
    add_lines(out, state::load_npz(path));
  } else if (extension == ".npy") {
    out.format = "npy";
    add_lines(out, {{path.stem().string(), state::load_npy(path)}});
  } else {
    add_lines(out, state::torch_load(path).tensors());
  }
  return out;
}

// A value in a line: long texts and lists are cut, and told how long they are.
std::string shown(const Object& value, std::size_t most = 72) {
  switch (value.kind()) {
    case Object::Kind::Bool: return value.boolean() ? "true" : "false";
    case Object::Kind::Int: return std::to_string(value.integer());
    case Object::Kind::Float: return fmt::format("{:g}", value.number());
    case Object::Kind::String: {
      std::string text;
      for (const char c : value.string().substr(0, most))
        text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? fmt::format("\\x{:02x}", c)
                                                                  : std::string(1, c);
      return value.string().size() > most ? fmt::format("{}... ({} bytes)", text, value.string().size())
                                          : text;
    }
    case Object::Kind::List: {
      std::string text = "[";
      std::size_t count = 0;
      for (const Object& item : value.items()) {
        if (text.size() > most) return fmt::format("{}, ...] ({} values)", text, value.items().size());
        text += (count++ == 0 ? "" : ", ") + shown(item, 24);
      }
      return text + "]";
    }
    default: return std::string(value.kind_name());
  }
}

std::string sizes(const Shape& shape) {
  std::string text;
  for (const Size& size : shape) text += fmt::format("{}{}", text.empty() ? "" : " x ", size.value());
  return text.empty() ? "1" : text;
}

std::int64_t numbers_in(const Shape& shape) {
  std::int64_t count = 1;
  for (const Size& size : shape) count *= size.value();
  return count;
}

int print_json(const Contents& contents) {
  Json keys = Json::object(), tensors = Json::array();
  for (const auto& [key, value] : contents.keys) keys[key.string()] = shown(value, 1 << 20);
  for (const TensorLine& t : contents.tensors) {
    Json shape = Json::array();
    for (const Size& size : t.shape) shape.push_back(size.value());
    tensors.push_back({{"name", t.name}, {"type", t.type}, {"shape", shape}, {"bytes", t.bytes}});
  }
  const Json all = {{"format", contents.format}, {"metadata", keys}, {"tensors", tensors}};
  fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
  return 0;
}

}  // namespace

bool is_tensor_file(const std::string& path) {
  if (fs::is_directory(path) || is_gguf(path)) return true;
  const std::string extension = fs::path(path).extension().string();
  for (const char* known : {".safetensors", ".npz", ".npy", ".pt", ".pth", ".ckpt"})
    if (extension == known) return true;
  return begins_with(path, "PK\x03\x04");
}

int inspect_tensor_file(const std::string& path, bool json) {
  const Contents contents = read_any(path);
  if (json) return print_json(contents);
  std::int64_t numbers = 0, bytes = 0;
  std::map<std::string, std::int64_t> types;
  for (const TensorLine& t : contents.tensors) {
    numbers += numbers_in(t.shape);
    bytes += t.bytes;
    ++types[t.type];
  }
  std::string kinds;
  for (const auto& [type, count] : types)
    kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, type);
  fmt::print("{}: {}, {} tensors ({}), {} numbers, {} bytes\n", path, contents.format,
             contents.tensors.size(), kinds, numbers, bytes);
  for (const auto& [key, value] : contents.keys) fmt::print("  {} = {}\n", shown(key), shown(value));
  std::vector<std::vector<std::string>> rows = {{"tensor", "type", "shape", "bytes"}};
  for (const TensorLine& t : contents.tensors)
    rows.push_back({shown(t.name), t.type, sizes(t.shape), std::to_string(t.bytes)});
  if (rows.size() > 1) print_table(rows);
  return 0;
}

}  // namespace lathe::tool
