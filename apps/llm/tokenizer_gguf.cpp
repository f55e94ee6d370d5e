// The tokenizer inside a GGUF file: pieces, scores, kinds and merges as arrays, and the name of what splits
// text.
#include <fmt/format.h>

#include <algorithm>

#include "apps/llm/token_models.h"
#include "apps/llm/tokenizer_load.h"
#include "apps/llm/tokenizer_steps.h"
#include "lathe/error.h"

namespace lathe::llm {

namespace {

enum class PieceKind : std::uint8_t { Normal = 1, Unknown, Control, UserDefined, Unused, Byte };

constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDigitsAlone = R"(\p{N})";

// "tokenizer.ggml.pre" and the patterns by which such a model's text is split, one after the other.
struct PreRow {
  std::string_view names;  // between spaces
  std::vector<const char*> patterns;
};
const PreRow kPre[] = {
    {" gpt-2 gpt2 default phi-2 jina-es jina-de mpt olmo jais trillion ", {kGpt2Pattern}},
    {" llama3 llama-bpe llama-v3 falcon3 smaug-bpe dbrx pixtral lfm2 ", {kLlama3}},
    {" qwen2 deepseek-r1-qwen stablelm2 megrez ", {kQwen2}},
    {" smollm starcoder refact command-r codeshell exaone minerva-7b ", {kDigitsAlone, kGpt2Pattern}},
};

const std::vector<const char*>& patterns_of(std::string_view pre) {
  for (const PreRow& row : kPre)
    if (row.names.find(fmt::format(" {} ", pre)) != std::string_view::npos) return row.patterns;
  throw NotSupported("tokenizer",
                     fmt::format("text split as by \"{}\" (tokenizer.ggml.pre) is not supported", pre));
}

class Keys {
 public:
  explicit Keys(const Object& metadata) : metadata_(metadata) {}
  const Object* find(std::string_view key) const {
    return metadata_.find(fmt::format("tokenizer.ggml.{}", key));
  }
  const Object::Items& list(std::string_view key) const {
    const Object* found = find(key);
    if (found == nullptr)
      throw UserError("tokenizer", fmt::format("the file has no key tokenizer.ggml.{}", key));
    return found->items();
  }
  std::string text(std::string_view key, std::string fallback) const {
    const Object* found = find(key);
    return found == nullptr ? std::move(fallback) : found->string();
  }
  bool flag(std::string_view key, bool fallback) const {
    const Object* found = find(key);
    return found == nullptr ? fallback : found->boolean();
  }
  std::optional<TokenId> token(std::string_view key, const Vocabulary& vocabulary) const {
    const Object* found = find(key);
    if (found == nullptr) return std::nullopt;
    const std::int64_t id = found->integer();
    if (id < 0 || id >= vocabulary.size())
      throw UserError("tokenizer", fmt::format("tokenizer.ggml.{} is {}, and there are {} tokens", key, id,
                                               vocabulary.size()));
    return static_cast<TokenId>(id);
  }

 private:
  const Object& metadata_;
};

std::vector<float> scores_of(const Keys& keys, std::size_t count) {
  std::vector<float> scores;
  for (const Object& score : keys.list("scores")) scores.push_back(static_cast<float>(score.number()));
  if (scores.size() != count)
    throw UserError("tokenizer", fmt::format("there are {} tokens and {} scores", count, scores.size()));
  return scores;
}

std::string bytes_of(const Object& object) {
  std::string out;
  for (const Object& byte : object.items()) out += static_cast<char>(byte.integer());
  return out;
}

void fill_sentencepiece(TokenizerParts& parts, const Keys& keys, bool prefix) {
  if (const Object* map = keys.find("precompiled_charsmap"))
    parts.normalize.push_back(character_map(bytes_of(*map)));
  if (keys.flag("remove_extra_whitespaces", false)) parts.normalize.push_back(collapse_spaces());
  parts.split = {visible_spaces(std::string(kVisibleSpace), false, false, false)};
  if (prefix) parts.normalize.push_back(prepend_text(" "));
  parts.decode = {decode_replace(std::string(kVisibleSpace), " "), decode_byte_fallback(), decode_fuse()};
  if (prefix) parts.decode.push_back(decode_strip(" ", 1, 0));
}

void fill_byte_level(TokenizerParts& parts, const Keys& keys, const std::shared_ptr<Vocabulary>& vocabulary) {
  std::vector<std::string> lines;
  for (const Object& merge : keys.list("merges")) lines.push_back(merge.string());
  BpeRules rules;
  rules.merges = merges_from_lines(*vocabulary, lines);
  const std::string pre = keys.text("pre", "default");
  rules.whole_pieces_first = pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3";
  parts.model = make_bpe(vocabulary, std::move(rules));
  for (const char* pattern : patterns_of(pre)) parts.split.push_back(split_matches(pattern, Keep::Isolated));
  parts.split.push_back(byte_level(keys.flag("add_space_prefix", false), false));
  parts.decode = {decode_bytes()};
}

// Words begin with a visible space there and are continued without a prefix.
void fill_wordpiece(TokenizerParts& parts, const Keys& keys, const std::shared_ptr<Vocabulary>& vocabulary) {
  fill_bert_steps(parts);
  const std::optional<TokenId> unknown = keys.token("unknown_token_id", *vocabulary);
  parts.model = make_wordpiece(vocabulary, {.continuing_prefix = "",
                                            .begin_prefix = std::string(kVisibleSpace),
                                            .unknown = unknown.value_or(100)});
  parts.decode = {decode_fuse(), decode_replace(std::string(kVisibleSpace), " "), decode_strip(" ", 1, 0)};
}

void fill_kinds(TokenizerParts& parts, const Keys& keys, const Vocabulary& vocabulary) {
  const Object* kinds = keys.find("token_type");
  if (kinds == nullptr) return;
  const Object::Items& list = kinds->items();
  for (std::size_t i = 0; i < std::min(list.size(), static_cast<std::size_t>(vocabulary.size())); ++i) {
    const auto kind = static_cast<PieceKind>(list[i].integer());
    const auto id = static_cast<TokenId>(i);
    const bool control = kind == PieceKind::Control || kind == PieceKind::Unknown;
    if (control) mark_special(parts, id, kind == PieceKind::Control && names_an_end(vocabulary.piece(id)));
    if (kind == PieceKind::Control || kind == PieceKind::UserDefined)
      parts.added.push_back({.id = id, .content = vocabulary.piece(id), .special = control});
  }
}

void fill_ends(TokenizerParts& parts, const Keys& keys, const Vocabulary& vocabulary, bool begins,
               bool ends) {
  parts.begin = keys.token("bos_token_id", vocabulary);
  parts.end = keys.token("eos_token_id", vocabulary);
  const std::optional<TokenId> separator =
      keys.token("seperator_token_id", vocabulary);  // as the format spells it
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"})
    if (const std::optional<TokenId> id = keys.token(key, vocabulary)) mark_special(parts, *id, true);
  if (parts.begin) mark_special(parts, *parts.begin, false);
  if (parts.begin && keys.flag("add_bos_token", begins)) parts.before = {*parts.begin};
  const std::optional<TokenId> last = separator ? separator : parts.end;
  if (last && keys.flag(separator ? "add_sep_token" : "add_eos_token", ends)) parts.after = {*last};
}

}  // namespace

Parts parts_from_gguf(const Object& metadata) {
  constexpr const char* kWhole = "tokenizer.huggingface.json";  // a whole tokenizer.json in place of the keys
  const Keys keys(metadata);
  if (const Object* whole = metadata.find(kWhole); whole != nullptr && keys.find("model") == nullptr)
    return parts_from_json(whole->string(), kWhole);
  auto parts = std::make_shared<TokenizerParts>();
  auto vocabulary = std::make_shared<Vocabulary>();
  const Object::Items& tokens = keys.list("tokens");
  for (std::size_t i = 0; i < tokens.size(); ++i)
    vocabulary->add(static_cast<TokenId>(i), tokens[i].string());
  parts->vocabulary = vocabulary;
  const std::string model = keys.text("model", "");
  const std::optional<TokenId> unknown = keys.token("unknown_token_id", *vocabulary);
  if (model == "llama") {
    fill_sentencepiece(*parts, keys, keys.flag("add_space_prefix", true));
    parts->model =
        make_bpe(vocabulary, {.merges = merges_by_score(*vocabulary, scores_of(keys, tokens.size())),
                              .unknown = {unknown, false, true},
                              .continuing_prefix = {},
                              .end_suffix = {}});
  } else if (model == "t5") {
    fill_sentencepiece(*parts, keys, keys.flag("add_space_prefix", true));
    parts->model = make_unigram(vocabulary, scores_of(keys, tokens.size()), {unknown, true, false});
  } else if (model == "gpt2") {
    fill_byte_level(*parts, keys, vocabulary);
  } else if (model == "bert") {
    fill_wordpiece(*parts, keys, vocabulary);
  } else {
    throw NotSupported("tokenizer",
                       fmt::format("a GGUF tokenizer of the model \"{}\" is not supported", model))
        .help("llama, gpt2, bert and t5 are");
  }
  fill_kinds(*parts, keys, *vocabulary);
  fill_ends(*parts, keys, *vocabulary, model == "llama" || model == "bert", model == "bert" || model == "t5");
  if (const Object* chat = metadata.find("tokenizer.chat_template")) parts->chat_template = chat->string();
  return parts;
}

}  // namespace lathe::llm
