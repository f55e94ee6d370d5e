// Whatever is done to a model file, load_checkpoint gives a model or a UserError: it does not crash, hang or
// take memory by a number it read. Run under the sanitizers by make asan; FUZZ_SECONDS runs longer.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <functional>
#include <random>

#include "lathe/error.h"
#include "lathe/llm/checkpoint.h"
#include "lathe/state.h"
#include "support/fuzz.h"
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

constexpr std::uint64_t kNumbers[] = {
    0, 1, 7, 0x7f, 0x80, 0xff, 0xffff, 0x7fffffff, 0xffffffff, std::uint64_t{1} << 62, ~std::uint64_t{0}};

std::string mutated(std::string bytes, std::mt19937_64& random) {
  const std::size_t changes = 1 + random() % 4;
  for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 7) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8)); break;
      case 2: bytes.resize(at); break;
      case 3: bytes.erase(at, 1 + random() % 16); break;
      case 4: bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 64)); break;
      case 5: {
        const std::uint64_t number = kNumbers[random() % std::size(kNumbers)];
        const std::string raw(reinterpret_cast<const char*>(&number), std::size_t{1} << random() % 4);
        bytes.replace(at, raw.size(), raw);
        break;
      }
      default: {  // a digit of a text
        const std::size_t digit = bytes.find_first_of("0123456789", at);
        if (digit != std::string::npos) bytes[digit] = static_cast<char>('0' + random() % 10);
      }
    }
  }
  return bytes;
}

class CheckpointFuzz : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / "lathe_checkpoint_fuzz";
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

TEST_F(CheckpointFuzz, DamagedModelsAreReadOrRefused) {
  struct Case {
    fs::path file, model;
  };
  const Case cases[] = {{"m.gguf", "m.gguf"},
                        {"model/model.safetensors", "model"},
                        {"model/tokenizer.json", "model"},
                        {"model/config.json", "model"}};
  for (const Case& one : cases) ASSERT_NO_THROW(use(folder_ / one.model)) << one.file;
  std::uint64_t read = 0, refused = 0;
  for (test::FuzzSeeds seeds(100); seeds.next();)
    for (const Case& one : cases) {
      const std::string whole = tests::read_file(folder_ / one.file);
      std::mt19937_64 random(seeds.seed());
      fs::remove(folder_ / one.file);  // another file under the name, never one that shrinks under a mapping
      write(one.file, mutated(whole, random));
      try {
        use(folder_ / one.model);
        ++read;
      } catch (const UserError& error) {
        ++refused;
        ASSERT_GT(std::string(error.what()).size(), 20U);
      } catch (const std::exception& error) {
        FAIL() << "FUZZ_SEED=" << seeds.seed() << ": " << one.file << ": " << error.what();
      }
      fs::remove(folder_ / one.file);
      write(one.file, whole);
    }
  std::printf("%llu read, %llu refused\n", static_cast<unsigned long long>(read),
              static_cast<unsigned long long>(refused));
  EXPECT_GT(refused, 0U);
#if !defined(__SANITIZE_ADDRESS__)
  struct rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  EXPECT_LT(usage.ru_maxrss, 4L << 20) << "kilobytes: a file's own numbers decided what was allocated";
#endif
}

}  // namespace
}  // namespace lathe::llm
