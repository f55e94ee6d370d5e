#include "lathe/llm/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "apps/llm/architectures.h"
#include "apps/llm/checkpoint_read.h"
#include "lathe/error.h"
#include "lathe/state.h"

namespace lathe::llm {

namespace {

namespace fs = std::filesystem;

// The GGUF file of a folder that has one, or the first part of one that is split.
std::optional<fs::path> gguf_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".gguf") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  const bool one =
      found.size() == 1 ||
      (!found.empty() && found.front().filename().string().find("-00001-of-") != std::string::npos);
  return one ? std::optional(found.front()) : std::nullopt;
}

bool begins_with_gguf(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  char magic[4] = {};
  return in.read(magic, sizeof magic) && std::string_view(magic, sizeof magic) == "GGUF";
}

Draft read(const fs::path& path, const LoadOptions& options) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    throw MissingFile("load_checkpoint", fmt::format("{} is not there", path.string()));
  if (fs::is_directory(status)) {
    if (fs::exists(path / "config.json")) return read_folder(path, options);
    if (const auto file = gguf_in(path)) return read_gguf(*file, options);
    throw MissingFile("load_checkpoint",
                      fmt::format("{} holds neither config.json nor one GGUF file", path.string()));
  }
  const std::string extension = path.extension().string();
  if (extension == ".gguf" || begins_with_gguf(path)) return read_gguf(path, options);
  if (extension == ".safetensors" || extension == ".json") return read_folder(path.parent_path(), options);
  if (extension == ".bin") return read_llama2c(path, options);
  throw UserError("load_checkpoint", fmt::format("{} is not a known kind of model file", path.string()))
      .help("a .gguf file, a folder with config.json and safetensors, or a .bin file of llama2.c");
}

}  // namespace

Shape StoredWeight::shape() const {
  return type.empty() ? stored.shape() : state::gguf_unpack(type, stored).shape();
}

StoredWeight StoredWeight::rows(std::int64_t begin, std::int64_t end) const {
  return {type, stored[Slice{begin, end}]};
}

state::Bytes opened(const fs::path& file, const std::string& device) {
  if (device.starts_with("CPU")) return state::MappedFile{file};
  return file;
}

const Tensor& Checkpoint::weight(std::string_view name) const {
  const auto found = weights.find(std::string(name));
  if (found != weights.end()) return found->second;
  throw UserError("load_checkpoint", fmt::format("the {} file of a {} model has no tensor \"{}\"", format,
                                                 config.architecture, name));
}

void Checkpoint::realize() {
  std::vector<Tensor> all;
  for (auto& [name, packed_weight] : packed) {
    all.push_back(packed_weight.blocks);
    if (!byte_activations) continue;
    packed_weight.parts = state::gguf_byte_parts(packed_weight.type, packed_weight.blocks);
    for (const Tensor& kept : packed_weight.parts) all.push_back(kept);
  }
  for (auto& [name, tensor] : weights)
    if (packed.find(name) == packed.end()) all.push_back(tensor);
  Tensor::realize_all(all);
  for (auto& [name, packed_weight] : packed)  // over what is in memory now
    weights[name] = state::gguf_unpack(packed_weight.type, packed_weight.blocks);
}

std::int64_t Checkpoint::parameters() const {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : weights) count += tensor.numel().value();
  return count;
}

std::int64_t Checkpoint::bytes() const {
  std::int64_t count = 0;
  for (const auto& [name, tensor] : weights) {
    const auto found = packed.find(name);
    count += found == packed.end() ? tensor.nbytes() : found->second.blocks.nbytes();
  }
  return count;
}

Checkpoint load_checkpoint(const fs::path& path, const LoadOptions& given) {
  LoadOptions options = given;
  if (options.device.empty()) options.device = default_device();
  Draft draft = read(path, options);
  Checkpoint& out = draft.checkpoint;
  if (!options.tokenizer.empty()) {
    out.tokenizer = Tokenizer::load(options.tokenizer);
    out.tokenizer_file = options.tokenizer;
  }
  split_fused(draft.weights, out.config);
  check_weights(draft.weights, out.config);
  for (const auto& [name, weight] : draft.weights) {
    if (!weight.type.empty()) out.packed.emplace(name, Checkpoint::Packed{weight.type, weight.stored});
    out.weights.emplace(name,
                        weight.type.empty() ? weight.stored : state::gguf_unpack(weight.type, weight.stored));
  }
  if (out.tokenizer) {
    if (out.chat_template.empty()) out.chat_template = out.tokenizer->chat_template();
    if (!out.config.begin) out.config.begin = out.tokenizer->begin_id();
    for (const TokenId id : out.tokenizer->stop_ids())
      if (std::find(out.config.ends.begin(), out.config.ends.end(), id) == out.config.ends.end())
        out.config.ends.push_back(id);
  }
  return std::move(out);
}

}  // namespace lathe::llm
