// tokenizer.json, as Hugging Face's tokenizers write it: each part is an object with a "type". A part of a
// type that is not known is refused by name: leaving it out would make other tokens in silence.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/llm/base64.h"
#include "apps/llm/token_models.h"
#include "apps/llm/tokenizer_load.h"
#include "apps/llm/tokenizer_steps.h"
#include "lathe/error.h"

namespace lathe::llm {

namespace {

using Json = nlohmann::json;

[[noreturn]] void unknown_type(std::string_view part, const Json& json) {
  throw NotSupported("tokenizer",
                     fmt::format("a {} of type \"{}\" is not supported", part, json.value("type", "")));
}

// The value of a key that may be missing or null.
template <class T>
T value_or(const Json& json, const char* key, T fallback) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? fallback : found->template get<T>();
}

// Calls `visit` with each part of a sequence, or with the part itself.
template <class Visit>
void for_each_part(const Json& json, const char* list, const Visit& visit) {
  if (json.is_null()) return;
  if (json.at("type") != "Sequence") return visit(json);
  for (const Json& part : json.at(list)) for_each_part(part, list, visit);
}

Keep keep_of(const Json& json) {
  const auto name = value_or<std::string>(json, "behavior", "Isolated");
  if (name == "Removed") return Keep::Removed;
  if (name == "Isolated") return Keep::Isolated;
  if (name == "MergedWithPrevious") return Keep::WithPrevious;
  if (name == "MergedWithNext") return Keep::WithNext;
  if (name == "Contiguous") return Keep::Contiguous;
  throw NotSupported("tokenizer", fmt::format("the behavior \"{}\" of a split is not known", name));
}

// ---- the rows: a type of part, and the step it makes

NormalizeStep replace_step(const Json& j) {
  const Json& pattern = j.at("pattern");
  const auto by = j.at("content").get<std::string>();
  return pattern.contains("Regex") ? replace_matches(pattern.at("Regex"), by)
                                   : replace_text(pattern.at("String"), by);
}

NormalizeStep bert_step(const Json& j) {
  const auto lowers = value_or(j, "lowercase", true);
  return bert_normalize({.clean = value_or(j, "clean_text", true),
                         .split_chinese = value_or(j, "handle_chinese_chars", true),
                         .strip_accents = value_or(j, "strip_accents", lowers),
                         .lowercase = lowers});
}

struct NormalizeRow {
  std::string_view type;
  NormalizeStep (*make)(const Json&);
};
// clang-format off
const NormalizeRow kNormalizers[] = {
    {"NFC",            [](const Json&) { return normalize_form(NormalForm::NFC); }},
    {"NFD",            [](const Json&) { return normalize_form(NormalForm::NFD); }},
    {"NFKC",           [](const Json&) { return normalize_form(NormalForm::NFKC); }},
    {"NFKD",           [](const Json&) { return normalize_form(NormalForm::NFKD); }},
    {"Lowercase",      [](const Json&) { return lowercase(); }},
    {"StripAccents",   [](const Json&) { return strip_accents(); }},
    {"Strip",          [](const Json& j) { return strip_spaces(value_or(j, "strip_left", true), value_or(j, "strip_right", true)); }},
    {"Prepend",        [](const Json& j) { return prepend_text(j.at("prepend")); }},
    {"Replace",        replace_step},
    {"BertNormalizer", bert_step},
    {"Precompiled",    [](const Json& j) { return character_map(base64_decoded(j.at("precompiled_charsmap").get<std::string>())); }},
};

SplitStep split_step(const Json& j) {
  const Json& pattern = j.at("pattern");
  const bool invert = value_or(j, "invert", false);
  return pattern.contains("Regex") ? split_matches(pattern.at("Regex"), keep_of(j), invert)
                                   : split_text(pattern.at("String"), keep_of(j), invert);
}

SplitStep metaspace_step(const Json& j) {
  const auto scheme = value_or<std::string>(j, "prepend_scheme", value_or(j, "add_prefix_space", true) ? "always" : "never");
  return visible_spaces(value_or(j, "replacement", std::string(kVisibleSpace)), scheme != "never", scheme == "first", value_or(j, "split", true));
}

bool is_digit(char32_t code) { return category_matches(code, "N"); }

struct SplitRow {
  std::string_view type;
  SplitStep (*make)(const Json&);
};
const SplitRow kSplitters[] = {
    {"ByteLevel",        [](const Json& j) { return byte_level(value_or(j, "add_prefix_space", true), value_or(j, "use_regex", true)); }},
    {"Split",            split_step},
    {"Metaspace",        metaspace_step},
    {"Whitespace",       [](const Json&) { return split_matches(R"(\w+|[^\w\s]+)", Keep::Removed, true); }},
    {"WhitespaceSplit",  [](const Json&) { return split_characters(is_space, Keep::Removed); }},
    {"Digits",           [](const Json& j) { return split_characters(is_digit, value_or(j, "individual_digits", false) ? Keep::Isolated : Keep::Contiguous); }},
    {"Punctuation",      [](const Json& j) { return split_characters(is_punctuation, keep_of(j)); }},
    {"CharDelimiterSplit", [](const Json& j) { return split_text(j.at("delimiter"), Keep::Removed); }},
};

DecodeStep metaspace_decode(const Json& j) {
  const auto scheme = value_or<std::string>(j, "prepend_scheme", value_or(j, "add_prefix_space", true) ? "always" : "never");
  return decode_visible_spaces(value_or(j, "replacement", std::string(kVisibleSpace)), scheme != "never");
}

struct DecodeRow {
  std::string_view type;
  DecodeStep (*make)(const Json&);
};
const DecodeRow kDecoders[] = {
    {"ByteLevel",    [](const Json&) { return decode_bytes(); }},
    {"ByteFallback", [](const Json&) { return decode_byte_fallback(); }},
    {"Fuse",         [](const Json&) { return decode_fuse(); }},
    {"Strip",        [](const Json& j) { return decode_strip(j.at("content"), value_or(j, "start", 0), value_or(j, "stop", 0)); }},
    {"Replace",      [](const Json& j) { return decode_replace(j.at("pattern").at("String"), j.at("content")); }},
    {"Metaspace",    metaspace_decode},
    {"WordPiece",    [](const Json& j) { return decode_wordpiece(value_or(j, "prefix", std::string("##")), value_or(j, "cleanup", true)); }},
    {"BPEDecoder",   [](const Json& j) { return decode_suffix(value_or(j, "suffix", std::string("</w>"))); }},
};
// clang-format on

template <class Rows>
auto row_of(const Rows& rows, const Json& json, std::string_view part) {
  for (const auto& row : rows)
    if (json.at("type") == row.type) return row.make(json);
  unknown_type(part, json);
}

// ---- the model

std::shared_ptr<Vocabulary> vocabulary_of(const Json& model) {
  auto vocabulary = std::make_shared<Vocabulary>();
  const Json& entries = model.at("vocab");
  if (entries.is_array()) {  // unigram: pairs of a piece and its score, by id
    for (std::size_t i = 0; i < entries.size(); ++i)
      vocabulary->add(static_cast<TokenId>(i), entries[i].at(0));
  } else {
    for (const auto& [piece, id] : entries.items()) vocabulary->add(id.get<TokenId>(), piece);
  }
  return vocabulary;
}

std::optional<TokenId> named_token(const Vocabulary& vocabulary, const Json& model, const char* key) {
  const auto piece = value_or<std::string>(model, key, "");
  return piece.empty() ? std::nullopt : vocabulary.find(piece);
}

std::unique_ptr<TokenModel> bpe_of(const SharedVocabulary& vocabulary, const Json& model) {
  BpeRules rules;
  std::vector<std::string> lines;
  for (const Json& merge : model.at("merges"))
    lines.push_back(merge.is_array()
                        ? fmt::format("{} {}", merge.at(0).get<std::string>(), merge.at(1).get<std::string>())
                        : merge.get<std::string>());
  rules.continuing_prefix = value_or<std::string>(model, "continuing_subword_prefix", "");
  rules.end_suffix = value_or<std::string>(model, "end_of_word_suffix", "");
  if (!rules.continuing_prefix.empty())
    throw NotSupported("tokenizer",
                       "merges of pieces with a prefix for the inside of a word are not supported");
  rules.merges = merges_from_lines(*vocabulary, lines);
  rules.whole_pieces_first = value_or(model, "ignore_merges", false);
  rules.unknown = {named_token(*vocabulary, model, "unk_token"), value_or(model, "fuse_unk", false),
                   value_or(model, "byte_fallback", false)};
  return make_bpe(vocabulary, std::move(rules));
}

std::unique_ptr<TokenModel> unigram_of(const SharedVocabulary& vocabulary, const Json& model) {
  std::vector<float> scores;
  for (const Json& entry : model.at("vocab")) scores.push_back(entry.at(1).get<float>());
  Unknown unknown{std::nullopt, true, value_or(model, "byte_fallback", false)};
  if (model.contains("unk_id") && model.at("unk_id").is_number_integer())
    unknown.id = model.at("unk_id").get<TokenId>();
  return make_unigram(vocabulary, std::move(scores), unknown);
}

std::unique_ptr<TokenModel> wordpiece_of(const SharedVocabulary& vocabulary, const Json& model) {
  WordPieceRules rules;
  rules.continuing_prefix = value_or<std::string>(model, "continuing_subword_prefix", "##");
  rules.most_characters = value_or<std::size_t>(model, "max_input_chars_per_word", 100);
  const std::optional<TokenId> unknown = named_token(*vocabulary, model, "unk_token");
  if (!unknown)
    throw UserError("tokenizer", "the unknown token of the WordPiece model is not in its vocabulary");
  rules.unknown = *unknown;
  return make_wordpiece(vocabulary, std::move(rules));
}

std::unique_ptr<TokenModel> model_of(const SharedVocabulary& vocabulary, const Json& model) {
  auto type = value_or<std::string>(model, "type", "");
  if (type.empty())
    type = model.at("vocab").is_array() ? "Unigram"
           : model.contains("merges")   ? "BPE"
                                        : "WordPiece";  // older files
  if (type == "BPE") return bpe_of(vocabulary, model);
  if (type == "Unigram") return unigram_of(vocabulary, model);
  if (type == "WordPiece") return wordpiece_of(vocabulary, model);
  if (type == "WordLevel") return make_word_level(vocabulary, named_token(*vocabulary, model, "unk_token"));
  unknown_type("model", model);
}

// ---- what is around a text

void fill_template(TokenizerParts& parts, const Json& json) {
  bool text_seen = false;
  for (const Json& item : json.at("single")) {
    if (item.contains("Sequence")) {
      text_seen = true;
      continue;
    }
    const auto name = item.at("SpecialToken").at("id").get<std::string>();
    for (const Json& id : json.at("special_tokens").at(name).at("ids"))
      (text_seen ? parts.after : parts.before).push_back(id);
  }
}

void fill_surroundings(TokenizerParts& parts, const Json& json) {
  for_each_part(json, "processors", [&](const Json& j) {
    const std::string& type = j.at("type").get_ref<const std::string&>();
    if (type == "TemplateProcessing") return fill_template(parts, j);
    if (type == "BertProcessing" || type == "RobertaProcessing") {
      parts.before.push_back(j.at("cls").at(1));
      parts.after.push_back(j.at("sep").at(1));
    } else if (type != "ByteLevel") {  // that one only trims offsets
      unknown_type("post-processor", j);
    }
  });
}

void fill_added(TokenizerParts& parts, Vocabulary& vocabulary, const Json& list) {
  for (const Json& j : list) {
    AddedToken token{.id = j.at("id"),
                     .content = j.at("content"),
                     .special = value_or(j, "special", false),
                     .normalized = value_or(j, "normalized", false),
                     .take_left = value_or(j, "lstrip", false),
                     .take_right = value_or(j, "rstrip", false),
                     .whole_word = value_or(j, "single_word", false)};
    vocabulary.add(token.id, token.content);
    if (token.special) mark_special(parts, token.id, names_an_end(token.content));
    parts.added.push_back(std::move(token));
  }
}

Parts parts_of(const Json& json) {
  auto parts = std::make_shared<TokenizerParts>();
  const Json& model = json.at("model");
  const std::shared_ptr<Vocabulary> vocabulary = vocabulary_of(model);
  if (json.contains("added_tokens")) fill_added(*parts, *vocabulary, json.at("added_tokens"));
  parts->vocabulary = vocabulary;
  parts->model = model_of(vocabulary, model);
  const auto part = [&](const char* key) { return json.contains(key) ? json.at(key) : Json(); };
  for_each_part(part("normalizer"), "normalizers",
                [&](const Json& j) { parts->normalize.push_back(row_of(kNormalizers, j, "normalizer")); });
  for_each_part(part("pre_tokenizer"), "pretokenizers", [&](const Json& j) {
    if (j.at("type") == "BertPreTokenizer") {
      parts->split.push_back(split_characters(is_space, Keep::Removed));
      parts->split.push_back(split_characters(is_punctuation, Keep::Isolated));
    } else {
      parts->split.push_back(row_of(kSplitters, j, "pre-tokenizer"));
    }
  });
  for_each_part(part("decoder"), "decoders",
                [&](const Json& j) { parts->decode.push_back(row_of(kDecoders, j, "decoder")); });
  fill_surroundings(*parts, part("post_processor"));
  if (!parts->before.empty()) parts->begin = parts->before.front();
  if (!parts->stop.empty()) parts->end = parts->stop.front();
  return parts;
}

// What goes wrong inside of JSON (a missing key, another type) as a refusal that names the file.
template <class Make>
Parts guarded(std::string_view text, const std::string& name, const Make& make) {
  try {
    return make(Json::parse(text));
  } catch (const Json::exception& e) {
    throw UserError("tokenizer", fmt::format("{} is damaged or no tokenizer: {}", name, e.what()));
  }
}

}  // namespace

Parts parts_from_json(std::string_view text, const std::string& name) {
  return guarded(text, name, parts_of);
}

Parts parts_from_gpt2(std::string_view encoder, std::string_view merges) {
  return guarded(encoder, "encoder.json", [&](const Json& json) {
    auto parts = std::make_shared<TokenizerParts>();
    auto vocabulary = std::make_shared<Vocabulary>();
    for (const auto& [piece, id] : json.items()) vocabulary->add(id.get<TokenId>(), piece);
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < merges.size();) {
      const std::size_t end = std::min(merges.find('\n', at), merges.size());
      const std::string_view line = merges.substr(at, end - at);
      if (!line.empty() && !line.starts_with("#version")) lines.emplace_back(line);
      at = end + 1;
    }
    parts->vocabulary = vocabulary;
    parts->model = make_bpe(vocabulary, {.merges = merges_from_lines(*vocabulary, lines),
                                         .unknown = {},
                                         .continuing_prefix = {},
                                         .end_suffix = {}});
    parts->split = {byte_level(false, true)};
    parts->decode = {decode_bytes()};
    if (const auto end = vocabulary->find("<|endoftext|>")) {
      parts->begin = parts->end = *end;
      mark_special(*parts, *end, true);
      parts->added.push_back({.id = *end, .content = "<|endoftext|>", .special = true});
    }
    return parts;
  });
}

Parts parts_from_unigram(std::string_view text, const std::string& name) {
  return guarded(text, name, [](const Json& json) {
    auto parts = std::make_shared<TokenizerParts>();
    auto vocabulary = std::make_shared<Vocabulary>();
    std::vector<float> scores;
    for (const Json& entry : json) {
      vocabulary->add(static_cast<TokenId>(scores.size()), entry.at(0));
      scores.push_back(entry.at(1).is_null()
                           ? 0
                           : entry.at(1).get<float>());  // the readers such files are for count null as 0
    }
    parts->vocabulary = vocabulary;
    parts->model = make_unigram(vocabulary, std::move(scores), {.id = 0, .fuse = true});
    parts->normalize = {normalize_form(NormalForm::NFKC), collapse_spaces()};
    parts->split = {visible_spaces(std::string(kVisibleSpace), true, false, false)};
    parts->decode = {decode_visible_spaces(std::string(kVisibleSpace), true)};
    return parts;
  });
}

}  // namespace lathe::llm
