// Every architecture with small random weights, in its own project's files, against PyTorch, which
// architectures.py writes them in: what is loaded is run in plain loops, from the files as they are and from
// the GGUF file that is written of them. Decoders are run by Model, encoders by Encoder.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/llm/blocks.h"
#include "lathe/error.h"
#include "lathe/llm/encoder.h"
#include "lathe/llm/model.h"
#include "lathe/state.h"
#include "test_folders.h"
#include "tests/llm/data.h"
#include "tests/llm/plain_model.h"
#include "tests/llm/random_model.h"

namespace lathe::llm {
namespace {

using Json = nlohmann::json;

// Some of the tokens at once, the others one by one.
std::vector<double> run_model(const Checkpoint& checkpoint, std::span<const TokenId> tokens) {
  Model model(checkpoint, {.page_tokens = 4, .sequences = 1, .chunk = 8});
  std::vector<PageId> pages(static_cast<std::size_t>(model.options().pages));
  std::iota(pages.begin(), pages.end(), 0);
  constexpr std::size_t kAtOnce = 6;
  std::vector<float> logits = model.step(std::vector{StepSequence{tokens.first(kAtOnce), 0, pages}})[0];
  for (std::size_t i = kAtOnce; i < tokens.size(); ++i)
    logits =
        model.step(std::vector{StepSequence{tokens.subspan(i, 1), static_cast<std::int64_t>(i), pages}})[0];
  return {logits.begin(), logits.end()};
}

class Architectures : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::path(testing::TempDir()) / "lathe_architectures";
    std::filesystem::remove_all(folder_);
    const std::string python = "/usr/bin/python3";
    if (std::system((python + " -c 'import torch' >/dev/null 2>&1").c_str()) != 0) return;
    const char* seed = std::getenv("FUZZ_SEED");
    seed_ = seed == nullptr ? "1" : seed;
    const std::string program = std::string(LATHE_SOURCE_DIR) + "/tests/llm/architectures.py";
    made_ = std::system((python + " '" + program + "' '" + folder_.string() + "' " + seed_).c_str()) == 0;
    ASSERT_TRUE(made_) << program;
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  static void expect_near(const std::vector<double>& got, const Json& expected, const std::string& what) {
    const auto want = expected.at("result").get<std::vector<double>>();
    ASSERT_EQ(got.size(), want.size()) << what;
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 2e-4 * std::max(1.0, std::fabs(want[i])))
          << what << ", at " << i << ", FUZZ_SEED=" << seed_;
  }
  static std::vector<double> result_of(const Checkpoint& model, const std::vector<TokenId>& tokens) {
    if (model.config.causal) return tests::PlainModel(model).logits(tokens);
    const std::vector<std::vector<TokenId>> texts = {tokens};
    const std::vector<float> vector = Encoder(model).embed(texts, false)[0];
    return {vector.begin(), vector.end()};
  }

  static inline std::filesystem::path folder_;
  static inline std::string seed_;
  static inline bool made_ = false;
};

TEST_F(Architectures, AllAreWhatPyTorchSays) {
  if (!made_) GTEST_SKIP() << "the distribution's Python has no torch";
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (!entry.is_directory()) continue;
    ++count;
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    const Json expected = Json::parse(tests::read_file(entry.path() / "expected.json"));
    const auto tokens = expected.at("tokens").get<std::vector<TokenId>>();
    expect_near(result_of(load_checkpoint(entry.path()), tokens), expected, name);
    const std::filesystem::path gguf = folder_ / (name + ".gguf");
    quantize(entry.path(), gguf, {.type = "F32"});
    expect_near(result_of(load_checkpoint(gguf), tokens), expected, name + " as GGUF");
  }
  EXPECT_EQ(count, 13U);
}

TEST_F(Architectures, AllDecodersRunAsPyTorchSays) {
  if (!made_) GTEST_SKIP() << "the distribution's Python has no torch";
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    if (!entry.is_directory() || entry.path().filename() == "bert") continue;
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    const Json expected = Json::parse(tests::read_file(entry.path() / "expected.json"));
    const auto tokens = expected.at("tokens").get<std::vector<TokenId>>();
    expect_near(run_model(load_checkpoint(entry.path()), tokens), expected, name);
  }
}

TEST_F(Architectures, AnEncodersTextsDoNotDependOnEachOther) {
  if (!made_) GTEST_SKIP() << "the distribution's Python has no torch";
  for (const Pooling pooling : {Pooling::Mean, Pooling::First, Pooling::Last}) {
    Checkpoint checkpoint = load_checkpoint(folder_ / "bert");
    checkpoint.config.pooling = pooling;
    const Encoder encoder(checkpoint);
    const std::vector<std::vector<TokenId>> texts = {
        {3, 4, 5}, {7}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}};
    const auto together = encoder.embed(texts);
    ASSERT_EQ(together.size(), texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto alone = encoder.embed(std::span(&texts[i], 1))[0];
      double square = 0;
      for (std::size_t k = 0; k < alone.size(); ++k) {
        ASSERT_NEAR(together[i][k], alone[k], 1e-5);
        square += alone[k] * alone[k];
      }
      EXPECT_NEAR(square, 1, 1e-5);
    }
  }
  const Encoder encoder(load_checkpoint(folder_ / "bert"));
  const std::vector<std::vector<TokenId>> wrong[] = {{{}}, {{40}}, {{-1}}, {std::vector<TokenId>(65, 1)}};
  for (const auto& texts : wrong) EXPECT_THROW(encoder.embed(texts), UserError);
}

TEST(EncoderOfADecoder, HasTheFeaturesThatTheModelWritesWith) {
  for (const tests::RandomModel& random : tests::random_models()) {
    SCOPED_TRACE(random.what);
    const Checkpoint& c = random.checkpoint;
    const std::vector<TokenId> tokens = {5, 9, 60, 0, 1, 33, 2, 7, 8, 41, 12};
    const auto count = static_cast<std::int64_t>(tokens.size());
    const Encoder encoder(c, {.context = 32});
    // Behind other texts, filled up: the last position's features are what the logits are made of.
    std::vector<std::int32_t> rows(2 * 16, 3);
    std::copy(tokens.begin(), tokens.end(), rows.begin() + 16);
    std::vector<std::uint8_t> mask(rows.size(), 1);
    std::fill(mask.begin() + 16 + count, mask.end(), std::uint8_t{0});
    const Tensor all = encoder.features(Tensor(rows, {2, 16}), Tensor(mask, {2, 16}).to_bool());
    const std::vector<double> got = logits_of(c, all.getitem({1, Slice{count - 1, count}})).tolist(),
                              want = run_model(c, tokens);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-4 * std::max(1.0, std::fabs(want[i]))) << "token " << i;
  }
}

TEST(EncoderOfADecoder, GivesATextTheSameVectorInAnyCompany) {
  const Encoder encoder(tests::random_model("gemma2-like").checkpoint);
  std::vector<std::vector<TokenId>> texts;
  for (int i = 0; i < 9; ++i) texts.emplace_back(1 + i * 5 % 40, static_cast<TokenId>(i));
  const auto together = encoder.embed(texts);
  for (std::size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(encoder.embed(std::span(&texts[i], 1))[0], together[i]) << "text " << i;
}

// A LLaMA with one layer of 256 features, each matrix of this type.
void write_llama(const std::filesystem::path& file, const std::string& type) {
  constexpr std::int64_t kWide = 256, kTokens = 64;
  const Object::Entries keys = {{"general.architecture", "llama"},    {"llama.context_length", 32},
                                {"llama.embedding_length", kWide},    {"llama.block_count", 1},
                                {"llama.feed_forward_length", kWide}, {"llama.attention.head_count", 8},
                                {"llama.attention.head_count_kv", 4}, {"llama.rope.freq_base", 10000.0}};
  std::vector<state::GgufTensor> tensors;
  const auto add = [&](const std::string& name, std::int64_t rows) {
    tensors.push_back({name, type, (Tensor::randn({rows, kWide}) * 0.08).realize()});
  };
  Tensor::manual_seed(5);
  add("token_embd.weight", kTokens);
  for (const char* name : {"attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
    add(std::string("blk.0.") + name + ".weight", kWide);
  for (const char* name : {"attn_k", "attn_v"}) add(std::string("blk.0.") + name + ".weight", kWide / 2);
  for (const char* name : {"blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"})
    tensors.push_back({std::string(name) + ".weight", "F32", Tensor::ones({kWide})});
  state::gguf_save(keys, tensors, file);
}

TEST(PackedModels, ComputeWhatTheirNumbersSay) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "lathe_packed_model.gguf";
  const std::vector<TokenId> tokens = {1, 60, 33, 7, 7, 12, 0, 25};
  for (const char* type : {"F16", "Q4_0", "Q8_0", "Q4_K", "Q6_K", "IQ4_XS", "MXFP4"}) {
    write_llama(file, type);
    const Checkpoint checkpoint = load_checkpoint(file);
    const std::vector<double> want = tests::PlainModel(checkpoint).logits(tokens),
                              got = run_model(checkpoint, tokens);
    ASSERT_EQ(got.size(), want.size()) << type;
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(got[i], want[i], 1e-3 * std::max(1.0, std::fabs(want[i]))) << type << ", token " << i;
    std::filesystem::remove(file);
  }
}

}  // namespace
}  // namespace lathe::llm
