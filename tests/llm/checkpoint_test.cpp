// Model files of every kind as one value: what is read from real ones is run in plain loops and gives the
// published logits; damaged and strange ones are refused.
#include "lathe/llm/checkpoint.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <functional>

#include "lathe/error.h"
#include "lathe/state.h"
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

class CheckpointFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(testing::TempDir()) /
        (std::string("lathe_checkpoint_") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path write(const std::string& name, std::string_view text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }
  static std::string refusal(const std::function<void()>& f) {
    try {
      f();
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  }
  std::filesystem::path folder_;
};

TEST_F(CheckpointFiles, AModelWrittenAsGgufIsTheSameModel) {
  LATHE_NEEDS_DATA("stories260K");
  for (const char* path : {"stories260K/stories260K.bin", "tinystories-656k"}) {
    const Checkpoint before = load_checkpoint(test_data() / path);
    quantize(test_data() / path, folder_ / "m.gguf", {.type = "F32"});
    const Checkpoint after = load_checkpoint(folder_ / "m.gguf");
    const ModelConfig &a = before.config, &b = after.config;
    EXPECT_EQ(after.format, "GGUF");
    EXPECT_EQ((std::vector<std::int64_t>{a.vocabulary, a.context, a.dim, a.feed_forward, a.layers, a.heads,
                                         a.kv_heads, a.head_dim}),
              (std::vector<std::int64_t>{b.vocabulary, b.context, b.dim, b.feed_forward, b.layers, b.heads,
                                         b.kv_heads, b.head_dim}));
    EXPECT_FLOAT_EQ(static_cast<float>(a.eps), static_cast<float>(b.eps));
    EXPECT_TRUE(b.rotary.interleaved);
    EXPECT_EQ(a.rotary.frequencies, b.rotary.frequencies);
    EXPECT_EQ(a.begin, b.begin);
    EXPECT_EQ(a.ends, b.ends);
    EXPECT_EQ(before.parameters(), after.parameters());
    ASSERT_TRUE(after.tokenizer.has_value());
    for (const char* text : {"Once upon a time", " two  spaces", "caf\xc3\xa9", ""}) {
      const std::vector<TokenId> ids = before.tokenizer->encode(text);
      EXPECT_EQ(after.tokenizer->encode(text), ids) << path << ": " << text;
      EXPECT_EQ(after.tokenizer->decode(ids, true), before.tokenizer->decode(ids, true))
          << path << ": " << text;
    }
    expect_published_logits(after, (test_data() / path).parent_path().filename() == "data"
                                       ? test_data() / path
                                       : (test_data() / path).parent_path());
  }
}

TEST_F(CheckpointFiles, PackedWeightsAreOfferedBothWays) {
  LATHE_NEEDS_DATA("stories260K");
  const auto written =
      quantize(test_data() / "stories260K/stories260K.bin", folder_ / "q.gguf", {.type = "q4_0"});
  Checkpoint checkpoint = load_checkpoint(folder_ / "q.gguf");
  for (const Quantized& q : written) {
    const bool divisible =
        q.name.find("norm") == std::string::npos && q.name.find("ffn_down") == std::string::npos;
    // Rows of 172 are no whole blocks.
    const std::string expected = q.name.find("norm") != std::string::npos ? "F32"
                                 : divisible                              ? "Q4_0"
                                                                          : "F16";
    EXPECT_EQ(q.type, expected) << q.name;
    EXPECT_EQ(q.note.empty(), expected != "F16") << q.name;
    EXPECT_EQ(checkpoint.packed.contains(q.name), expected == "Q4_0") << q.name;
    EXPECT_LT(q.error, 0.11 * q.size + 1e-9) << q.name;
  }
  const Checkpoint::Packed& packed = checkpoint.packed.at("blk.0.attn_q.weight");
  EXPECT_EQ(packed.type, "Q4_0");
  EXPECT_EQ(to_string(packed.blocks.shape()), "(64, 36)");
  EXPECT_EQ(to_string(checkpoint.weight("blk.0.attn_q.weight").shape()), "(64, 64)");
  const std::vector<double> before = checkpoint.weight("blk.0.attn_q.weight").tolist();
  checkpoint.realize();
  EXPECT_EQ(checkpoint.weight("blk.0.attn_q.weight").tolist(), before);
  EXPECT_LT(checkpoint.bytes(), checkpoint.parameters());
  // A GGUF file is packed anew, and what has the type already is kept byte for byte.
  quantize(folder_ / "q.gguf", folder_ / "again.gguf", {.type = "Q4_0"});
  EXPECT_EQ(load_checkpoint(folder_ / "again.gguf").packed.at("blk.0.attn_q.weight").blocks.bytes(),
            packed.blocks.bytes());
}

TEST_F(CheckpointFiles, FusedMatricesComeApartPackedOrNot) {
  const std::int64_t dim = 64, feed = 32, queries = 64, keys = 32;
  const Object::Entries head = {{"general.architecture", "phi3"},   {"phi3.context_length", 32},
                                {"phi3.embedding_length", dim},     {"phi3.block_count", 1},
                                {"phi3.feed_forward_length", feed}, {"phi3.attention.head_count", 4},
                                {"phi3.attention.head_count_kv", 2}};
  const auto matrix = [](std::int64_t rows, std::int64_t columns) {
    return Tensor::arange(rows * columns).cast(dtypes::float32).reshape({rows, columns}).sin();
  };
  for (const char* type : {"F32", "Q8_0"}) {
    const Tensor qkv = matrix(queries + 2 * keys, dim), up = matrix(2 * feed, dim);
    state::gguf_save(head,
                     {{"token_embd.weight", "F32", matrix(8, dim)},
                      {"output.weight", "F32", matrix(8, dim)},
                      {"blk.0.attn_qkv.weight", type, qkv},
                      {"blk.0.attn_output.weight", "F32", matrix(dim, queries)},
                      {"blk.0.ffn_up.weight", type, up},
                      {"blk.0.ffn_down.weight", "F32", matrix(dim, feed)}},
                     folder_ / "fused.gguf");
    const Checkpoint c = load_checkpoint(folder_ / "fused.gguf");
    const Tensor k = c.weight("blk.0.attn_k.weight"), gate = c.weight("blk.0.ffn_gate.weight");
    EXPECT_EQ(to_string(k.shape()), "(32, 64)");
    EXPECT_TRUE(k.allclose(qkv[Slice{queries, queries + keys}], 0, 0.01)) << type;
    EXPECT_TRUE(gate.allclose(up[Slice{0, feed}], 0, 0.01)) << type;
    EXPECT_TRUE(c.weight("blk.0.ffn_up.weight").allclose(up[Slice{feed, 2 * feed}], 0, 0.01)) << type;
    EXPECT_FALSE(c.has("blk.0.attn_qkv.weight"));
  }
}

TEST_F(CheckpointFiles, WhatIsNoModelIsRefusedWithTheReason) {
  const auto expect = [&](const std::filesystem::path& path, const char* part) {
    const std::string text = refusal([&] { load_checkpoint(path); });
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(folder_ / "none", "is not there");
  expect(folder_, "holds neither config.json nor one GGUF file");
  expect(write("a.txt", "words"), "not a known kind of model file");
  expect(write("short.bin", "words"), "the model's");
  const auto config = [&](const std::string& text, const char* part) {
    write("config.json", text);
    expect(folder_, part);
  };
  config("{", "is not JSON");
  config("[]", "\"\" (model_type) is not known");
  config(R"({"model_type": "new"})", "\"new\" (model_type) is not known");
  config(R"({"model_type": "llama", "hidden_size": 1e300})", "are not as they should be");
  config(R"({"model_type": "llama", "hidden_size": 8, "num_attention_heads": 3})",
         "3 heads do not share 8 features");
  const std::string sizes =
      R"({"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 4,)"
      R"("intermediate_size": 8, "max_position_embeddings": 8)";
  config(sizes + R"(, "quantization_config": {"bits": 4}})", "quantization_config");
  config(sizes + R"(, "rope_scaling": {"type": "odd"}})", "of the kind \"odd\"");
  config(sizes + R"(, "rope_scaling": {"type": "llama3", "original_max_position_embeddings": 0}})",
         "which context it began with");
  config(sizes + R"(, "num_key_value_heads": 1000000})", "kv_heads is 1000000");
  config(sizes + "}", "has neither model.safetensors");
  write("model.safetensors.index.json", R"({"weight_map": {"a": "../elsewhere"}})");
  config(sizes + "}", "not a file beside it");
  write("model.safetensors.index.json", R"({"weight_map": {"a": "part.safetensors"}})");
  config(sizes + "}", "part.safetensors, which is missing");
  std::filesystem::remove(folder_ / "model.safetensors.index.json");
  state::safe_save({{"model.embed_tokens.weight", Tensor::zeros({4, 9}).realize()}},
                   folder_ / "model.safetensors");
  config(sizes + "}",
         "\"token_embd.weight\" has shape (4, 9), and by the file's own description it is (4, 8)");
  Object::Entries keys = {{"general.architecture", "llama"}};
  const auto gguf = [&](const char* part) {
    state::gguf_save(keys, {{"token_embd.weight", "F32", Tensor::zeros({4, 8})}}, folder_ / "m.gguf");
    expect(folder_ / "m.gguf", part);
  };
  gguf("the model's dim is 0");
  keys = {{"general.architecture", "mamba"}};
  gguf("the architecture \"mamba\" is not known");
  keys = {{"general.architecture", 7}};
  gguf("a int is where a string is needed");
}

}  // namespace
}  // namespace lathe::llm
