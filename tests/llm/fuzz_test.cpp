// Whatever is done to a model file, a tokenizer or a chat template, it is read or a UserError: nothing
// crashes, hangs or takes memory by a number it read. Run under the sanitizers by make asan; FUZZ_SECONDS and
// scripts/fuzz_files.sh run longer.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <random>

#include <nlohmann/json.hpp>

#include "lathe/error.h"
#include "lathe/llm/chat_template.h"
#include "lathe/llm/checkpoint.h"
#include "lathe/state.h"
#include "support/fuzz.h"
#include "support/mutated.h"
#include "test_folders.h"
#include "tests/llm/data.h"

namespace lathe::llm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizer =
    R"({"version": "1.0", "added_tokens": [{"id": 0, "content": "<s>", "special": true}],
"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Prepend", "prepend": "_"}]},
"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\p{L}+|\\s"}, "behavior": "Isolated", "invert": false},
"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
"pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
"decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
"model": {"type": "BPE", "unk_token": null, "fuse_unk": false, "byte_fallback": true,
"vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3, "_": 4, "_ab": 5, "c": 6, "d": 7}, "merges": ["a b", "_ ab"]}})";
constexpr const char* kConfig =
    R"({"model_type": "llama", "vocab_size": 8, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
"original_max_position_embeddings": 8}, "tie_word_embeddings": true, "bos_token_id": 0, "eos_token_id": [2, 3]})";

template <class... T>
std::string raw(T... numbers) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
  return bytes;
}

// Of llama2.c: 8 features, 8 hidden, one layer, 2 heads and as many of keys, 8 tokens, 16 positions.
std::string llama2c_checkpoint() {
  std::string bytes = raw(8, 8, 1, 2, 2, 8, 16);
  constexpr int kNumbers = 8 * 8 + 8 + 4 * 8 * 8 + 8 + 3 * 8 * 8 + 8 + 2 * 16 * 2;
  for (int i = 0; i < kNumbers; ++i) bytes += raw(0.01F * static_cast<float>(i % 17 - 8));
  return bytes;
}
std::string llama2c_tokenizer() {
  std::string bytes = raw(8);
  for (const std::string piece : {"<unk>", "<s>", "</s>", "a", "b", " ", "ab", "<0x41>"})
    bytes += raw(-0.5F, static_cast<std::int32_t>(piece.size())) + piece;
  return bytes;
}

class CheckpointFuzz : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("lathe_checkpoint_fuzz_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "model");
    Tensor::manual_seed(1);
    const auto some = [](std::int64_t rows, std::int64_t columns) {
      return Tensor::randn({rows, columns}).realize();
    };
    const std::string layer = "model.layers.0.";
    state::safe_save({{"model.embed_tokens.weight", some(8, 32)},
                      {layer + "self_attn.q_proj.weight", some(32, 32)},
                      {layer + "self_attn.k_proj.weight", some(16, 32)},
                      {layer + "self_attn.v_proj.weight", some(16, 32)},
                      {layer + "self_attn.o_proj.weight", some(32, 32)},
                      {layer + "mlp.gate_proj.weight", some(32, 32)},
                      {layer + "mlp.up_proj.weight", some(32, 32)},
                      {layer + "mlp.down_proj.weight", some(32, 32)}},
                     folder_ / "model" / "model.safetensors");
    write("model/config.json", kConfig);
    write("model/tokenizer.json", kTokenizer);
    quantize(folder_ / "model", folder_ / "m.gguf", {.type = "Q4_0"});
    quantize(folder_ / "model", folder_ / "k.gguf", {.type = "IQ4_NL", .output_type = "BF16"});
    write("old.bin", llama2c_checkpoint());
    write("tokenizer.bin", llama2c_tokenizer());
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const fs::path& name, std::string_view bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  // Loads what the mutated file is part of, and looks at a few numbers.
  void use(const fs::path& model) const {
    const Checkpoint checkpoint = load_checkpoint(model);
    checkpoint.weight("token_embd.weight").tolist();
    if (!checkpoint.tokenizer) return;
    const std::vector<TokenId> ids = checkpoint.tokenizer->encode("ab <s> cab\xff");
    checkpoint.tokenizer->decode(ids);
  }
  fs::path folder_;
};

// Counts what became of damaged files, and refuses every end but the two that are right.
class Outcomes {
 public:
  template <class F>
  void add(const std::string& what, F&& use) {
    try {
      use();
      ++read_;
    } catch (const UserError& error) {
      ++refused_;
      EXPECT_GT(std::string(error.what()).size(), 20U) << what;
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << ": " << error.what();
    }
  }
  void finish() const {
    std::printf("%llu read, %llu refused\n", static_cast<unsigned long long>(read_),
                static_cast<unsigned long long>(refused_));
    EXPECT_GT(refused_, 0U);
#if !defined(__SANITIZE_ADDRESS__)
    struct rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    EXPECT_LT(usage.ru_maxrss, 4L << 20) << "kilobytes: a file's own numbers decided what was allocated";
#endif
  }

 private:
  std::uint64_t read_ = 0, refused_ = 0;
};

std::string what_failed(std::uint64_t seed, const fs::path& file) {
  return "FUZZ_SEED=" + std::to_string(seed) + ": " + file.string();
}

TEST_F(CheckpointFuzz, DamagedModelsAreReadOrRefused) {
  struct Case {
    fs::path file, model;
  };
  const Case cases[] = {{"m.gguf", "m.gguf"},
                        {"k.gguf", "k.gguf"},
                        {"old.bin", "old.bin"},
                        {"tokenizer.bin", "old.bin"},
                        {"model/model.safetensors", "model"},
                        {"model/tokenizer.json", "model"},
                        {"model/config.json", "model"}};
  for (const Case& one : cases) ASSERT_NO_THROW(use(folder_ / one.model)) << one.file;
  Outcomes outcomes;
  for (test::FuzzSeeds seeds(100); seeds.next() && !HasFailure();)
    for (const Case& one : cases) {
      const std::string whole = tests::read_file(folder_ / one.file);
      std::mt19937_64 random(seeds.seed());
      fs::remove(folder_ / one.file);  // another file under the name, never one that shrinks under a mapping
      write(one.file, test::mutated(whole, random));
      outcomes.add(what_failed(seeds.seed(), one.file), [&] { use(folder_ / one.model); });
      fs::remove(folder_ / one.file);
      write(one.file, whole);
    }
  outcomes.finish();
}

TEST_F(CheckpointFuzz, DamagedTokenizersAreReadOrRefused) {
  const std::pair<const char*, std::string> files[] = {
      {"vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n##a\n##b\nab\n##cab\n"},
      {"unigram.json",
       R"([["<unk>", 0], ["<s>", 0], ["</s>", 0], ["a", -1.5], ["b", -2], ["\u2581ab", -0.5e0]])"},
      {"tokenizer.bin", llama2c_tokenizer()},
      {"tokenizer.json", kTokenizer},
      {"m.gguf", tests::read_file(folder_ / "m.gguf")}};
  Outcomes outcomes;
  const auto encode = [&](const fs::path& file) {
    const Tokenizer tokenizer = Tokenizer::load(folder_ / file);
    for (const char* text : {"ab <s> cab\xff", "", "  \xe2\x96\x81 aaaaaaaaaaaaaaaabbbb"})
      tokenizer.decode(tokenizer.encode(text));
  };
  for (const auto& [name, whole] : files) {
    fs::remove(folder_ / name);
    write(name, whole);
    ASSERT_NO_THROW(encode(name)) << name;
  }
  for (test::FuzzSeeds seeds(100); seeds.next() && !HasFailure();)
    for (const auto& [name, whole] : files) {
      std::mt19937_64 random(seeds.seed());
      fs::remove(folder_ / name);
      write(name, test::mutated(whole, random));
      outcomes.add(what_failed(seeds.seed(), name), [&, file = fs::path(name)] { encode(file); });
    }
  outcomes.finish();
}

TEST(ChatTemplateFuzz, DamagedTemplatesAreRunOrRefused) {
  const fs::path folder = fs::path(LATHE_SOURCE_DIR) / "tests/llm/chat_templates";
  const auto cases = nlohmann::json::parse(tests::read_file(folder / "cases.json")).at("templates");
  Outcomes outcomes;
  for (test::FuzzSeeds seeds(60); seeds.next() && !HasFailure();)
    for (const auto& [name, variables] : cases.items()) {
      std::mt19937_64 random(seeds.seed());
      const std::string source = test::mutated(tests::read_file(folder / (name + ".jinja")), random);
      outcomes.add(what_failed(seeds.seed(), name),
                   [&, given = variables.at(0)] { ChatTemplate(source).render(given.dump(), 1700000000); });
    }
  outcomes.finish();
}

}  // namespace
}  // namespace lathe::llm
