#include "apps/llm/tokenizer_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include "apps/llm/token_models.h"
#include "apps/llm/tokenizer_steps.h"
#include "lathe/error.h"
#include "lathe/state.h"

namespace lathe::llm {

namespace {

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    const std::string what = fmt::format("{} cannot be opened", file.string());
    if (!std::filesystem::exists(file)) throw MissingFile("tokenizer", what);
    throw UserError("tokenizer", what);
  }
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

Parts parts_from_folder(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "tokenizer.json")) {
    Parts parts = parts_from_json(read_text(folder / "tokenizer.json"), (folder / "tokenizer.json").string());
    return parts;
  }
  if (std::filesystem::exists(folder / "encoder.json"))
    return parts_from_gpt2(read_text(folder / "encoder.json"), read_text(folder / "vocab.bpe"));
  if (std::filesystem::exists(folder / "vocab.txt"))
    return parts_from_wordpiece(read_text(folder / "vocab.txt"));
  throw MissingFile(
      "tokenizer",
      fmt::format("{} has neither tokenizer.json, nor encoder.json with vocab.bpe, nor vocab.txt",
                  folder.string()));
}

Parts parts_from_file(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  if (file.extension() == ".gguf") return parts_from_gguf(state::gguf_load(file).metadata);
  if (name == "encoder.json") return parts_from_folder(file.parent_path());
  const std::string text = read_text(file);
  if (text.starts_with("GGUF")) return parts_from_gguf(state::gguf_load(file).metadata);
  if (file.extension() == ".txt") return parts_from_wordpiece(text);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return parts_from_json(text, file.string());
  if (first != std::string::npos && text[first] == '[') return parts_from_unigram(text, file.string());
  if (file.extension() == ".bin") return parts_from_llama2c(text);
  throw UserError("tokenizer", fmt::format("{} is not a known kind of tokenizer file", file.string()))
      .help(
          "tokenizer.json, a .gguf file, vocab.txt, llama2.c's tokenizer.bin, or a folder with one of them");
}

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& file) {
  return Tokenizer(std::filesystem::is_directory(file) ? parts_from_folder(file) : parts_from_file(file));
}
Tokenizer Tokenizer::from_json(std::string_view text, const std::string& name) {
  return Tokenizer(parts_from_json(text, name));
}
Tokenizer Tokenizer::from_gguf(const Object& metadata) { return Tokenizer(parts_from_gguf(metadata)); }

void fill_bert_steps(TokenizerParts& parts) {
  parts.normalize = {bert_normalize({})};
  parts.split = {split_characters(is_space, Keep::Removed), split_characters(is_punctuation, Keep::Isolated)};
  parts.decode = {decode_wordpiece("##", true)};
}

std::vector<Merge> merges_from_lines(const Vocabulary& vocabulary, const std::vector<std::string>& lines) {
  std::vector<Merge> merges;
  for (const std::string& line : lines) {
    const std::size_t space = line.find(' ', 1);  // a piece may be a space itself
    const auto refuse = [&](std::string_view why) {
      return UserError("tokenizer", fmt::format("merge {} (\"{}\") {}", merges.size(), line, why));
    };
    if (space == std::string::npos) throw refuse("is not a pair of pieces");
    const std::string left = line.substr(0, space), right = line.substr(space + 1);
    const auto l = vocabulary.find(left), r = vocabulary.find(right), joined = vocabulary.find(left + right);
    if (!l || !r || !joined) throw refuse("names a piece that is not a token");
    merges.push_back({*l, *r, *joined, static_cast<std::int32_t>(merges.size())});
  }
  return merges;
}

void mark_special(TokenizerParts& parts, TokenId id, bool stop) {
  parts.special[id] = true;
  if (stop && std::find(parts.stop.begin(), parts.stop.end(), id) == parts.stop.end())
    parts.stop.push_back(id);
}

bool names_an_end(std::string_view piece) {
  constexpr std::array kEnds = {std::string_view("</s>"),
                                std::string_view("<|endoftext|>"),
                                std::string_view("<|eot_id|>"),
                                std::string_view("<|im_end|>"),
                                std::string_view("<|end|>"),
                                std::string_view("<end_of_turn>"),
                                std::string_view("<|end_of_text|>"),
                                std::string_view("<|eom_id|>"),
                                std::string_view("<|return|>"),
                                std::string_view("<eos>")};
  return std::find(kEnds.begin(), kEnds.end(), piece) != kEnds.end();
}

}  // namespace lathe::llm
