// Real tokenizers against the ids that their own projects publish, and small ones written here for each part
// of a file.
#include "lathe/llm/tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "lathe/error.h"
#include "tests/llm/data.h"

namespace lathe::llm {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<TokenId>;
using tests::read_file;
using tests::test_data;

constexpr EncodeOptions kPlain{.add_special = false, .parse_special = false};

std::vector<std::string> split_at(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0;;) {
    const std::size_t end = text.find(separator, at);
    parts.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    if (end == std::string::npos) return parts;
    at = end + separator.size();
  }
}

// The published test strings of a tokenizer and the ids of each.
void expect_published(const Tokenizer& tokenizer, const std::filesystem::path& vectors) {
  const std::vector<std::string> texts =
      split_at(read_file(vectors.string() + ".inp"), "\n__ggml_vocab_test__\n");
  const std::vector<std::string> lines = split_at(read_file(vectors.string() + ".out"), "\n");
  ASSERT_EQ(texts.size(), 47U);
  ASSERT_GE(lines.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Ids expected;
    std::istringstream numbers(lines[i]);
    for (TokenId id = 0; numbers >> id;) expected.push_back(id);
    EXPECT_EQ(tokenizer.encode(texts[i], kPlain), expected) << "string " << i << ": \"" << texts[i] << '"';
  }
}

TEST(Tokenizer, Gpt2MatchesThePublishedIds) {
  LATHE_NEEDS_DATA("tokenizers/gpt2");
  const Tokenizer tokenizer = Tokenizer::load(test_data() / "tokenizers/gpt2");
  EXPECT_EQ(tokenizer.size(), 50257);
  expect_published(tokenizer, test_data() / "tokenizers/gpt2/ggml-vocab-gpt-2.gguf");
}

TEST(Tokenizer, BertMatchesThePublishedIdsFromBothFiles) {
  LATHE_NEEDS_DATA("tokenizers/bert-base-uncased");
  const std::filesystem::path folder = test_data() / "tokenizers/bert-base-uncased";
  expect_published(Tokenizer::load(folder / "vocab.txt"), folder / "ggml-vocab-bert-bge.gguf");
  expect_published(Tokenizer::load(folder / "ggml-vocab-bert-bge.gguf"), folder / "ggml-vocab-bert-bge.gguf");
}

TEST(Tokenizer, StoryModelsMatchTheirPrompts) {
  LATHE_NEEDS_DATA("tinystories-656k");
  for (const auto& [folder, file] :
       {std::pair("tinystories-656k", "tokenizer.json"), std::pair("stories260K", "tok512.bin")}) {
    const Tokenizer tokenizer = Tokenizer::load(test_data() / folder / file);
    const Json expected = Json::parse(read_file(test_data() / folder / "expected_greedy.json"));
    for (const Json& one : expected.at("cases")) {
      const auto prompt = one.at("prompt").get<std::string>();
      EXPECT_EQ(tokenizer.encode(prompt), one.at("prompt_ids").get<Ids>()) << folder << ": " << prompt;
      const auto ids = one.at("greedy_ids").get<Ids>();
      EXPECT_EQ(tokenizer.decode(ids, true), one.at("text").get<std::string>()) << folder;
      TokenStream stream(tokenizer);
      std::string text;
      for (const TokenId id : ids) text += stream.push(id);
      EXPECT_EQ(text + stream.finish(), one.at("text").get<std::string>()) << folder << ", token by token";
    }
  }
}

TEST(Tokenizer, UnigramMatchesTheSentencesOfItsModel) {
  LATHE_NEEDS_DATA("use-lite");
  const Tokenizer tokenizer = Tokenizer::load(test_data() / "use-lite/vocab.json");
  const Json sentences = Json::parse(read_file(test_data() / "use-lite/sentences.json"));
  for (const Json& one : sentences.at("sentences")) {
    const auto text = one.at("text").get<std::string>();
    EXPECT_EQ(tokenizer.encode(text), one.at("ids").get<Ids>()) << text;
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(Tokenizer, DecodingIsTheReverseOfEncoding) {
  LATHE_NEEDS_DATA("tokenizers/gpt2");
  const Tokenizer tokenizer = Tokenizer::load(test_data() / "tokenizers/gpt2");
  for (const char* text :
       {"", " ", "a", "  two  spaces\n\n", "naïve café — 漢字 🦙🦙", "\t\r\nx", "’s 're"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    TokenStream stream(tokenizer);
    std::string streamed;
    for (const TokenId id : tokenizer.encode(text)) {
      const std::string part = stream.push(id);
      EXPECT_EQ(part.find("\xEF\xBF\xBD"), std::string::npos) << "a character came in two pieces";
      streamed += part;
    }
    EXPECT_EQ(streamed + stream.finish(), text);
  }
}

// A small tokenizer.json around a model, with further parts.
std::string file_with(const Json& model, const Json& parts = Json::object()) {
  Json file = parts;
  file["model"] = model;
  return file.dump();
}

Json small_bpe() {
  return {
      {"type", "BPE"},
      {"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}, {"abab", 3}, {"\u2581", 4}, {"<unk>", 5}, {"\u2581a", 6}}},
      {"merges", {"a b", "ab ab", "\u2581 a"}},
      {"unk_token", "<unk>"}};
}

TEST(Tokenizer, MergesTheLowestRankFirst) {
  const Tokenizer tokenizer = Tokenizer::from_json(file_with(small_bpe()));
  EXPECT_EQ(tokenizer.encode("ababab"), (Ids{3, 2}));
  EXPECT_EQ(tokenizer.encode("aba"), (Ids{2, 0}));
  EXPECT_EQ(tokenizer.encode("xy"), (Ids{5, 5}));
  Json fused = small_bpe();
  fused["fuse_unk"] = true;
  EXPECT_EQ(Tokenizer::from_json(file_with(fused)).encode("xya"), (Ids{5, 0}));
}

TEST(Tokenizer, SpecialTokensAreTextOnlyWhereItIsAskedFor) {
  const Json added = {{"added_tokens", {{{"id", 7}, {"content", "<ab>"}, {"special", true}}}},
                      {"post_processor",
                       {{"type", "TemplateProcessing"},
                        {"single", {{{"SpecialToken", {{"id", "<ab>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                        {"special_tokens", {{"<ab>", {{"ids", {7}}}}}}}}};
  const Tokenizer tokenizer = Tokenizer::from_json(file_with(small_bpe(), added));
  EXPECT_EQ(tokenizer.encode("a<ab>b"), (Ids{7, 0, 7, 1}));
  EXPECT_EQ(tokenizer.encode("a<ab>b", {.add_special = false}), (Ids{0, 7, 1}));
  EXPECT_EQ(tokenizer.encode("a<ab>b", kPlain), (Ids{0, 5, 2, 5, 1}));
  EXPECT_EQ(tokenizer.decode(Ids{7, 0, 1}, true), "ab");
  EXPECT_TRUE(tokenizer.is_special(7));
  EXPECT_EQ(tokenizer.begin_id(), 7);
}

TEST(Tokenizer, MetaspaceMarksTheFirstWordWhereItIsTold) {
  const auto ids = [](const char* scheme, std::string_view text) {
    const Json parts = {
        {"pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", scheme}}}};
    return Tokenizer::from_json(file_with(small_bpe(), parts)).encode(text);
  };
  EXPECT_EQ(ids("always", "a a"), (Ids{6, 6}));
  EXPECT_EQ(ids("never", "a a"), (Ids{0, 6}));
}

TEST(Tokenizer, RefusalsNameWhatIsNotUnderstood) {
  const auto refusal = [](const std::string& text) {
    try {
      Tokenizer::from_json(text);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  EXPECT_NE(refusal("{").find("tokenizer.json is damaged"), std::string::npos);
  EXPECT_NE(refusal("{}").find("model"), std::string::npos);
  EXPECT_NE(refusal(file_with({{"type", "Other"}, {"vocab", Json::object()}}))
                .find("a model of type \"Other\" is not supported"),
            std::string::npos);
  EXPECT_NE(refusal(file_with(small_bpe(), {{"normalizer", {{"type", "Nmt"}}}}))
                .find("a normalizer of type \"Nmt\" is not supported"),
            std::string::npos);
  Json broken = small_bpe();
  broken["merges"] = {"a z"};
  EXPECT_NE(refusal(file_with(broken)).find("merge 0 (\"a z\") names a piece that is not a token"),
            std::string::npos);
  broken = small_bpe();
  broken["vocab"]["huge"] = 2000000000;
  EXPECT_NE(refusal(file_with(broken)).find("a token has the id 2000000000"), std::string::npos);
  EXPECT_THROW(Tokenizer::load("/nowhere/tokenizer.json"), MissingFile);
  const Tokenizer tokenizer = Tokenizer::from_json(file_with(small_bpe()));
  EXPECT_THROW((void)tokenizer.decode(Ids{99}), UserError);
}

}  // namespace
}  // namespace lathe::llm
