// A Checkpoint from a folder as Hugging Face's libraries write it: config.json, weights as safetensors in one
// file or several with an index, tokenizer files.
#include <algorithm>
#include <cmath>
#include <set>

#include "apps/llm/architectures.h"
#include "apps/llm/checkpoint_read.h"
#include "apps/llm/json_values.h"
#include "apps/llm/rotary.h"

namespace lathe::llm {

namespace {

namespace fs = std::filesystem;
constexpr std::string_view kOp = "load_checkpoint";

struct ActivationRow {
  std::string_view names;  // between spaces
  Activation activation;
};
constexpr ActivationRow kActivations[] = {
    {" silu swish ", Activation::Silu},
    {" gelu ", Activation::Gelu},
    {" gelu_new gelu_pytorch_tanh gelu_fast ", Activation::GeluTanh},
    {" relu ", Activation::Relu},
};

Activation activation_named(std::string_view name) {
  for (const ActivationRow& row : kActivations)
    if (row.names.find(fmt::format(" {} ", name)) != std::string_view::npos) return row.activation;
  throw NotSupported(kOp, fmt::format("the activation \"{}\" is not known", name.substr(0, 80)));
}

void read_sizes(const Json& j, ModelConfig& c) {
  const auto size = [&](std::initializer_list<const char*> keys, std::int64_t fallback = 0) {
    return value_of<std::int64_t>(j, keys, fallback);
  };
  c.vocabulary = size({"vocab_size"});
  c.context = size({"max_position_embeddings", "n_positions"});
  c.dim = size({"hidden_size", "n_embd"});
  c.layers = size({"num_hidden_layers", "n_layer"});
  c.heads = size({"num_attention_heads", "n_head"});
  c.kv_heads = size({"num_key_value_heads"});
  c.head_dim = size({"head_dim"});
  c.experts = size({"num_local_experts", "num_experts"});
  c.experts_used = c.experts > 0 ? size({"num_experts_per_tok"}) : 0;
  c.token_types = size({"type_vocab_size"});
  constexpr std::int64_t kUsualRatio = 4, kMostDim = 1 << 24;
  const std::int64_t usual = std::clamp<std::int64_t>(c.dim, 0, kMostDim) * kUsualRatio;
  c.feed_forward = c.experts > 0 ? size({"moe_intermediate_size", "intermediate_size"}, usual)
                                 : size({"intermediate_size", "n_inner"}, usual);
}

void read_ways(const Json& j, ModelConfig& c) {
  const bool gemma = c.architecture.starts_with("gemma");
  c.eps = value_of(j, {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon"}, c.eps);
  // What Gemma's first files say under "hidden_act" is not what they were trained with.
  const Json* act = gemma ? find_any(j, {"hidden_activation"})
                          : find_any(j, {"hidden_act", "hidden_activation", "activation_function"});
  if (act != nullptr) c.activation = activation_named(act->get<std::string>());
  c.attention_softcap =
      value_of(j, {"attn_logit_softcapping"}, c.architecture == "gemma2" ? 0 : c.attention_softcap);
  c.logit_softcap =
      value_of(j, {"final_logit_softcapping"}, c.architecture == "gemma2" ? 0 : c.logit_softcap);
  if (const Json* scalar = find_any(j, {"query_pre_attn_scalar"}); scalar != nullptr)
    c.attention_scale = 1 / std::sqrt(scalar->get<double>());
  const bool slides = value_of(j, {"use_sliding_window"}, !c.architecture.starts_with("qwen"));
  c.sliding_window = slides ? value_of<std::int64_t>(j, {"sliding_window"}, 0) : 0;
  c.expert_weights_sum_to_one = value_of(j, {"norm_topk_prob"}, c.expert_weights_sum_to_one);
}

// What would be computed otherwise than here: refused rather than left out.
void refuse_unsupported(const Json& j) {
  struct Row {
    const char* key;
    Json plain;
  };
  const Row rows[] = {
      {"quantization_config", nullptr},          {"clip_qkv", nullptr},      {"qk_layernorm", false},
      {"mlp_only_layers", Json::array()},        {"decoder_sparse_step", 1}, {"is_decoder", false},
      {"scale_attn_by_inverse_layer_idx", false}};
  for (const Row& row : rows)
    if (const Json* found = find_any(j, {row.key}); found != nullptr && *found != row.plain)
      throw NotSupported(kOp, fmt::format("config.json says {} = {}, which is not supported", row.key,
                                          found->dump().substr(0, 80)));
  const auto positions = value_of<std::string>(j, {"position_embedding_type"}, "absolute");
  if (positions != "absolute")
    throw NotSupported(
        kOp, fmt::format("positions of the kind \"{}\" are not supported", positions.substr(0, 80)));
}

Rotary read_rotary(const Json& j, const ModelConfig& c) {
  // Newer files have everything about it in one object.
  const Json* own = find_any(j, {"rope_scaling", "rope_parameters"});
  const Json none = Json::object();
  const Json& r = own != nullptr && own->is_object() ? *own : none;
  const double theta = value_of(r, {"rope_theta"}, value_of(j, {"rope_theta"}, 10000.0));
  const double part = value_of(r, {"partial_rotary_factor"}, value_of(j, {"partial_rotary_factor"}, 1.0));
  if (!(part > 0 && part <= 1))
    throw UserError(kOp, fmt::format("config.json says partial_rotary_factor = {}", part));
  RotaryScaling s;
  s.kind = value_of<std::string>(r, {"rope_type", "type"}, "");
  if (s.kind == "default") s.kind.clear();
  if (s.kind == "su") s.kind = "longrope";  // its first name
  const auto context = value_of<std::int64_t>(j, {"max_position_embeddings"}, 0);
  s.first = value_of<std::int64_t>(r, {"original_max_position_embeddings"},
                                   value_of<std::int64_t>(j, {"original_max_position_embeddings"}, context));
  const double reach = s.first > 0 ? static_cast<double>(context) / static_cast<double>(s.first) : 1;
  s.factor = value_of(r, {"factor"}, s.kind == "longrope" ? reach : 1.0);
  s.low = value_of(r, {"low_freq_factor"}, s.low);
  s.high = value_of(r, {"high_freq_factor"}, s.high);
  s.beta_fast = value_of(r, {"beta_fast"}, s.beta_fast);
  s.beta_slow = value_of(r, {"beta_slow"}, s.beta_slow);
  s.attention = value_of(r, {"attention_factor"}, 0.0);
  s.short_factors = value_of(r, {"short_factor"}, s.short_factors);
  s.long_factors = value_of(r, {"long_factor"}, s.long_factors);
  return rotary_of(static_cast<std::int64_t>(part * static_cast<double>(c.head_dim)), theta, c.context, s);
}

void read_ends(const Json& j, ModelConfig& c) {
  if (const Json* begin = find_any(j, {"bos_token_id"}); begin != nullptr && begin->is_number_integer())
    c.begin = begin->get<TokenId>();
  const Json* end = find_any(j, {"eos_token_id"});
  if (end == nullptr) return;
  const auto add = [&](TokenId id) {
    if (std::find(c.ends.begin(), c.ends.end(), id) == c.ends.end()) c.ends.push_back(id);
  };
  const Json list = end->is_array() ? *end : Json::array({*end});
  for (const Json& one : list)
    if (one.is_number_integer()) add(one.get<TokenId>());
}

ModelConfig read_config(const fs::path& folder, const LoadOptions& options) {
  const Json j = read_json(folder / "config.json", kOp);
  ModelConfig c;
  const Architecture& architecture = architecture_of_family(value_of<std::string>(j, {"model_type"}, ""));
  c.architecture = architecture.name;
  c.name = folder.filename().string();
  architecture.defaults(c);
  refuse_unsupported(j);
  read_sizes(j, c);
  read_ways(j, c);
  read_ends(j, c);
  if (fs::exists(folder / "generation_config.json"))
    read_ends(read_json(folder / "generation_config.json", kOp), c);
  if (options.context > 0) c.context = std::min(c.context, options.context);
  finish_config(c);
  check_config(c);
  if (c.positions == Positions::Rotary) c.rotary = read_rotary(j, c);
  const fs::path pooling = folder / "1_Pooling" / "config.json";
  if (fs::exists(pooling)) {
    const Json p = read_json(pooling, kOp);
    if (value_of(p, {"pooling_mode_mean_tokens"}, false)) c.pooling = Pooling::Mean;
    if (value_of(p, {"pooling_mode_cls_token"}, false)) c.pooling = Pooling::First;
    if (value_of(p, {"pooling_mode_lasttoken"}, false)) c.pooling = Pooling::Last;
  }
  return c;
}

// The safetensors files of the folder. An index names them; a name that leads out of the folder is refused.
std::vector<fs::path> weight_files(const fs::path& folder) {
  const fs::path index = folder / "model.safetensors.index.json";
  if (!fs::exists(index)) {
    if (fs::exists(folder / "model.safetensors")) return {folder / "model.safetensors"};
    throw MissingFile(
        kOp, fmt::format("{} has neither model.safetensors nor an index of its parts", folder.string()));
  }
  std::set<std::string> names;
  const Json parsed = read_json(index, kOp);
  for (const auto& [tensor, file] : parsed.at("weight_map").items()) names.insert(file.get<std::string>());
  std::vector<fs::path> files;
  for (const std::string& name : names) {
    if (fs::path(name).filename() != fs::path(name) || name.empty())
      throw UserError(kOp, fmt::format("{} names \"{}\", which is not a file beside it", index.string(),
                                       name.substr(0, 80)));
    if (!fs::exists(folder / name))
      throw MissingFile(kOp, fmt::format("{} names {}, which is missing", index.string(), name));
    files.push_back(folder / name);
  }
  return files;
}

StoredWeights read_weights(const fs::path& folder, const Architecture& architecture,
                           const LoadOptions& options, std::int64_t experts) {
  StoredWeights weights;
  std::map<std::string, std::map<std::int64_t, Tensor>> stacked;
  for (const fs::path& file : weight_files(folder))
    for (const auto& [name, tensor] : state::safe_load(opened(file, options.device))) {
      const MappedName to = mapped_name(name, architecture.name);
      if (to.name.empty()) continue;
      Tensor x = tensor.to(options.device);
      if (to.transposed && x.ndim() == 2) x = x.transpose();
      if (architecture.norm_adds_one && to.name.ends_with("norm.weight")) x = x.cast(dtypes::float32) + 1;
      const bool fresh = to.expert < 0 ? weights.emplace(to.name, StoredWeight{"", x}).second
                                       : stacked[to.name].emplace(to.expert, x).second;
      if (!fresh) throw UserError(kOp, fmt::format("two tensors of {} are \"{}\"", folder.string(), to.name));
    }
  for (const auto& [name, parts] : stacked) {
    std::vector<Tensor> list;
    for (const auto& [expert, tensor] : parts) list.push_back(tensor);
    if (static_cast<std::int64_t>(list.size()) != experts || parts.rbegin()->first != experts - 1)
      throw UserError(kOp, fmt::format("\"{}\" has {} of {} experts", name, list.size(), experts));
    weights[name] = {"", Tensor::stack(list)};
  }
  return weights;
}

// chat_template is a text, or a list of named ones of which the one called "default" is meant.
std::string chat_template_of(const fs::path& folder) {
  const fs::path own = folder / "chat_template.jinja";
  if (fs::exists(own)) {
    std::ifstream in(own, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  if (!fs::exists(folder / "tokenizer_config.json")) return {};
  const Json j = read_json(folder / "tokenizer_config.json", kOp);
  const Json* found = find_any(j, {"chat_template"});
  if (found == nullptr) return {};
  if (found->is_string()) return found->get<std::string>();
  for (const Json& one : *found)
    if (one.value("name", "") == "default") return one.at("template").get<std::string>();
  return {};
}

bool has_tokenizer(const fs::path& folder) {
  return fs::exists(folder / "tokenizer.json") || fs::exists(folder / "encoder.json") ||
         fs::exists(folder / "vocab.txt");
}

}  // namespace

Draft read_folder(const fs::path& given, const LoadOptions& options) {
  const fs::path folder = given.empty() ? fs::path(".") : given;
  Draft out;
  Checkpoint& checkpoint = out.checkpoint;
  try {
    checkpoint.config = read_config(folder, options);
    const Architecture& architecture = architecture_named(checkpoint.config.architecture);
    out.weights = read_weights(folder, architecture, options, checkpoint.config.experts);
    checkpoint.chat_template = chat_template_of(folder);
  } catch (const Json::exception& error) {
    throw UserError(kOp, fmt::format("the JSON files of {} are not as they should be: {}", folder.string(),
                                     error.what()));
  }
  checkpoint.format = "safetensors";
  const bool says_tied = read_json(folder / "config.json", kOp).value("tie_word_embeddings", false);
  if (says_tied) {  // the file may have one matrix under either name, or both
    if (const auto output = out.weights.find("output.weight"); output != out.weights.end()) {
      out.weights.emplace("token_embd.weight", output->second);
      out.weights.erase("output.weight");
    }
  }
  checkpoint.config.tied = !out.weights.contains("output.weight");
  if (options.tokenizer.empty() && has_tokenizer(folder)) {
    checkpoint.tokenizer = Tokenizer::load(folder);
    checkpoint.tokenizer_file = folder;
  }
  return out;
}

}  // namespace lathe::llm
