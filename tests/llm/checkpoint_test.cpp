// Model files of every kind as one value: what is read from real ones is run in plain loops and gives the
// published logits; damaged and strange ones are refused.
#include "lathe/llm/checkpoint.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lathe/error.h"
#include "tests/llm/data.h"
#include "tests/llm/plain_model.h"

namespace lathe::llm {
namespace {

using Json = nlohmann::json;
using tests::PlainModel;
using tests::read_file;
using tests::test_data;

// The published numbers of a story model: the five best tokens after each prompt.
void expect_published_logits(const Checkpoint& checkpoint, const std::filesystem::path& folder) {
  const PlainModel model(checkpoint);
  const Json expected = Json::parse(read_file(folder / "expected_greedy.json"));
  for (const Json& one : expected.at("cases")) {
    const std::vector<double> logits = model.logits(one.at("prompt_ids").get<std::vector<TokenId>>());
    for (const Json& best : one.at("next_token_top5")) {
      const auto id = best.at(0).get<std::size_t>();
      EXPECT_NEAR(logits.at(id), best.at(1).get<double>(), 2e-3) << folder << ", token " << id;
    }
  }
}

TEST(Checkpoint, Llama2cFilesAreRead) {
  LATHE_NEEDS_DATA("stories260K");
  const Checkpoint checkpoint = load_checkpoint(test_data() / "stories260K/stories260K.bin");
  const ModelConfig& c = checkpoint.config;
  EXPECT_EQ(checkpoint.format, "llama2.c");
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ((std::vector<std::int64_t>{c.vocabulary, c.context, c.dim, c.feed_forward, c.layers, c.heads,
                                       c.kv_heads, c.head_dim}),
            (std::vector<std::int64_t>{512, 512, 64, 172, 5, 8, 4, 8}));
  EXPECT_TRUE(c.tied && c.rotary.interleaved);
  EXPECT_EQ(c.begin, 1);
  ASSERT_TRUE(checkpoint.tokenizer.has_value());
  EXPECT_EQ(checkpoint.tokenizer->size(), 512);
  expect_published_logits(checkpoint, test_data() / "stories260K");
}

TEST(Checkpoint, FoldersOfHuggingFaceAreRead) {
  LATHE_NEEDS_DATA("tinystories-656k");
  for (const char* path : {"tinystories-656k", "tinystories-656k/model.safetensors"}) {
    const Checkpoint checkpoint = load_checkpoint(test_data() / path);
    const ModelConfig& c = checkpoint.config;
    EXPECT_EQ(checkpoint.format, "safetensors");
    EXPECT_EQ((std::vector<std::int64_t>{c.vocabulary, c.context, c.dim, c.feed_forward, c.layers, c.heads,
                                         c.kv_heads, c.head_dim}),
              (std::vector<std::int64_t>{2048, 512, 128, 384, 2, 8, 4, 16}));
    EXPECT_FALSE(c.rotary.interleaved);
    EXPECT_EQ(c.ends, (std::vector<TokenId>{2}));
    EXPECT_EQ(checkpoint.weight("blk.1.ffn_down.weight").size(1).value(), 384);
    EXPECT_EQ(checkpoint.parameters(), 656000) << "the model's name says 656K";
    ASSERT_TRUE(checkpoint.tokenizer.has_value());
    expect_published_logits(checkpoint, test_data() / "tinystories-656k");
  }
}

}  // namespace
}  // namespace lathe::llm
