// Models against the published texts of real weights, and against loops over double where weights are random.
#include "lathe/llm/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "lathe/context.h"
#include "lathe/error.h"
#include "tests/llm/data.h"
#include "tests/llm/plain_model.h"
#include "tests/llm/random_model.h"

namespace lathe::llm {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<TokenId>;
using tests::test_data;

// One sequence at a time, on pages in an order of its own.
class Greedy {
 public:
  explicit Greedy(Model& model, unsigned seed = 0)
      : model_(model), pages_(static_cast<std::size_t>(model.options().pages)) {
    std::iota(pages_.begin(), pages_.end(), 0);
    std::mt19937 random(seed);
    std::shuffle(pages_.begin(), pages_.end(), random);
    pages_.resize(static_cast<std::size_t>(model.pages_of(model.options().context)));
  }
  StepSequence sequence(std::span<const TokenId> tokens) const { return {tokens, position_, pages_}; }
  // Takes in a prompt in pieces of this many tokens; gives the logits behind it.
  std::vector<float> read(const Ids& prompt, std::size_t piece) {
    std::vector<float> logits;
    for (std::size_t at = 0; at < prompt.size(); at += piece) {
      const std::span<const TokenId> part =
          std::span(prompt).subspan(at, std::min(piece, prompt.size() - at));
      logits = model_.step(std::vector{sequence(part)})[0];
      advance(static_cast<std::int64_t>(part.size()));
    }
    return logits;
  }
  void advance(std::int64_t tokens) { position_ += tokens; }

  static TokenId best(const std::vector<float>& logits) {
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

 private:
  Model& model_;
  std::vector<PageId> pages_;
  std::int64_t position_ = 0;
};

void expect_published(const std::string& folder, const std::filesystem::path& file, bool invariant) {
  Model model(load_checkpoint(test_data() / folder / file),  // a whole path stands alone
              {.sequences = 2, .chunk = 32, .invariant = invariant});
  const Json expected = Json::parse(tests::read_file(test_data() / folder / "expected_greedy.json"));
  for (const Json& one : expected.at("cases")) {
    const auto prompt = one.at("prompt_ids").get<Ids>(), wanted = one.at("greedy_ids").get<Ids>();
    Greedy run(model, 3);
    Ids ids = prompt;
    std::vector<float> logits = run.read(prompt, 32);
    const std::size_t steps = one.value("steps", wanted.size());
    while (ids.size() < std::min(wanted.size(), prompt.size() + steps)) {
      ids.push_back(Greedy::best(logits));
      logits = run.read({ids.back()}, 1);
    }
    EXPECT_EQ(ids, Ids(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(ids.size())))
        << folder << ": " << one.at("prompt");
  }
}

TEST(Model, Stories260KWritesThePublishedStory) {
  LATHE_NEEDS_DATA("stories260K/stories260K.bin");
  for (const bool invariant : {true, false}) expect_published("stories260K", "stories260K.bin", invariant);
}

TEST(Model, TinyStoriesWritesThePublishedStory) {
  LATHE_NEEDS_DATA("tinystories-656k/model.safetensors");
  for (const bool invariant : {true, false}) expect_published("tinystories-656k", "", invariant);
}

TEST(Model, GgufFilesWriteThePublishedStories) {
  LATHE_NEEDS_DATA("tinystories-656k/model.safetensors");
  const std::filesystem::path gguf = std::filesystem::path(testing::TempDir()) / "lathe_published.gguf";
  for (const char* type : {"F32", "F16"})
    for (const auto& [folder, file] :
         {std::pair("stories260K", "stories260K.bin"), std::pair("tinystories-656k", "")}) {
      SCOPED_TRACE(type);
      quantize(test_data() / folder / file, gguf, {.type = type});
      expect_published(folder, gguf, false);
    }
  std::filesystem::remove(gguf);
}

TEST(Model, EveryArchitectureComputesWhatLoopsCompute) {
  for (const tests::RandomModel& random : tests::random_models()) {
    SCOPED_TRACE(random.what);
    const tests::PlainModel plain(random.checkpoint);
    Model model(random.checkpoint, {.context = 24, .page_tokens = 4, .sequences = 2, .chunk = 8});
    Ids tokens;
    std::mt19937 next(1);
    for (int i = 0; i < 19; ++i)
      tokens.push_back(
          static_cast<TokenId>(next() % static_cast<unsigned>(random.checkpoint.config.vocabulary)));
    Greedy run(model);
    for (const std::size_t end : {7U, 8U, 19U}) {
      const Ids piece(tokens.begin() + static_cast<std::ptrdiff_t>(end == 7   ? 0
                                                                   : end == 8 ? 7
                                                                              : 8),
                      tokens.begin() + static_cast<std::ptrdiff_t>(end));
      const std::vector<float> got = run.read(piece, 8);
      const tests::Row want =
          plain.logits(Ids(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end)));
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], want[i], 2e-4 * (1 + std::abs(want[i])))
            << "logit " << i << " behind token " << end;
    }
  }
}

// A sequence's bits are its own: whoever else is in the step, and however its prompt was cut.
TEST(Model, ASequenceHasTheSameBitsAloneAndInAnyBatch) {
  const Checkpoint checkpoint = tests::random_model("gemma2-like").checkpoint;
  Model model(checkpoint, {.context = 40, .page_tokens = 4, .pages = 60, .sequences = 5, .chunk = 32});
  std::mt19937 random(7);
  constexpr std::size_t kSequences = 5, kSteps = 6;
  std::vector<Ids> prompts(kSequences);
  for (std::size_t s = 0; s < kSequences; ++s)
    for (std::size_t i = 0; i < 3 + 5 * s; ++i)
      prompts[s].push_back(
          static_cast<TokenId>(random() % static_cast<unsigned>(checkpoint.config.vocabulary)));
  std::vector<PageId> all(60);
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), random);
  const auto pages = [&](std::size_t s) { return std::span(all).subspan(s * 10, 10); };

  std::vector<std::vector<std::vector<float>>> alone(kSequences);  // [sequence][step]
  std::vector<Ids> written(kSequences);
  for (std::size_t s = 0; s < kSequences; ++s) {
    std::int64_t position = 0;
    Ids next = prompts[s];
    for (std::size_t step = 0; step < kSteps; ++step) {
      alone[s].push_back(model.step(std::vector<StepSequence>{{next, position, pages(s)}})[0]);
      position += static_cast<std::int64_t>(next.size());
      next = {Greedy::best(alone[s].back())};
      written[s].push_back(next[0]);
    }
  }
  // The same prompts in pieces of other sizes, on other pages, then all sequences at once.
  for (std::size_t s = 0; s < kSequences; ++s) {
    std::vector<float> logits;
    for (std::size_t at = 0; at < prompts[s].size();) {
      const std::size_t piece = std::min<std::size_t>(1 + random() % 7, prompts[s].size() - at);
      logits = model.step(
          std::vector<StepSequence>{{std::span(prompts[s]).subspan(at, piece), static_cast<std::int64_t>(at),
                                     pages(kSequences - 1 - s)}})[0];
      at += piece;
    }
    ASSERT_EQ(logits, alone[s][0]) << "sequence " << s;
  }
  for (std::size_t step = 1; step < kSteps; ++step)
    for (const std::size_t count : {5U, 3U}) {
      std::vector<StepSequence> batch;
      for (std::size_t s = 0; s < count; ++s)
        batch.push_back({std::span(&written[s][step - 1], 1),
                         static_cast<std::int64_t>(prompts[s].size() + step - 1), pages(kSequences - 1 - s)});
      const auto got = model.step(batch);
      for (std::size_t s = 0; s < count; ++s)
        ASSERT_EQ(got[s], alone[s][step]) << "sequence " << s << " of " << count << ", step " << step;
    }
}

// A model of packed weights whose products are integers within a block: near the logits of floats, and with
// the same bits alone and in any batch.
TEST(Model, ActivationsInBytesAreNearFloatsAndInvariant) {
  LATHE_NEEDS_DATA("tinystories-656k/model.safetensors");
  const std::filesystem::path gguf = std::filesystem::path(testing::TempDir()) / "lathe_bytes.gguf";
  for (const char* type : {"Q8_0", "Q4_0"}) {  // rows are no whole blocks of K types
    SCOPED_TRACE(type);
    quantize(test_data() / "tinystories-656k", gguf, {.type = type});
    const Checkpoint checkpoint = load_checkpoint(gguf);
    const ModelOptions options{.context = 64, .page_tokens = 4, .pages = 64, .sequences = 3, .chunk = 32};
    ModelOptions in_bytes = options;
    in_bytes.byte_activations = true;
    Model floats(checkpoint, options), bytes(checkpoint, in_bytes);
    const Ids prompt{1, 9, 30, 77, 5, 12, 200, 41, 3, 8};
    const std::vector<float> want = Greedy(floats).read(prompt, 32), got = Greedy(bytes).read(prompt, 32),
                             in_pieces = Greedy(bytes).read(prompt, 3);
    ASSERT_EQ(got, in_pieces);
    double apart = 0, size = 0;
    for (std::size_t i = 0; i < want.size(); ++i)
      apart += std::pow(static_cast<double>(want[i] - got[i]), 2),
          size += std::pow(static_cast<double>(want[i]), 2);
    EXPECT_GT(apart, 0);  // they are rounded
    EXPECT_LT(std::sqrt(apart / size), 0.05);
    std::vector<PageId> pages(64);
    std::iota(pages.begin(), pages.end(), 0);
    const auto of = [&](std::size_t s) { return std::span(pages).subspan(16 * s, 16); };
    for (std::size_t s = 0; s < 3; ++s) bytes.step(std::vector<StepSequence>{{prompt, 0, of(s)}});
    const Ids next{17};
    const auto alone = bytes.step(std::vector<StepSequence>{{next, 10, of(0)}})[0];
    for (const std::size_t count : {2U, 3U}) {
      std::vector<StepSequence> batch;
      for (std::size_t s = 0; s < count; ++s) batch.push_back({next, 10, of(s)});
      for (const auto& logits : bytes.step(batch)) ASSERT_EQ(logits, alone) << count;
    }
  }
  std::filesystem::remove(gguf);
}

TEST(Model, OnceWarmNothingCompilesWhateverTheLengths) {
  Model model(tests::random_model("llama-like").checkpoint,
              {.context = 64, .page_tokens = 4, .sequences = 3, .chunk = 16});
  model.warm_up();
  const std::size_t shapes = model.shapes_seen();
  EXPECT_LE(shapes, 5U);  // 1, 2 and 3 sequences; 8 and 16 tokens
  std::vector<PageId> pages(static_cast<std::size_t>(model.options().pages));
  std::iota(pages.begin(), pages.end(), 0);
  const Counters before = counters();
  const Ids token{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  for (std::int64_t position = 0; position + 11 <= 64; ++position) {
    model.step(std::vector<StepSequence>{{std::span(token).first(1), position, pages}});
    model.step(std::vector<StepSequence>{
        {std::span(token).first(static_cast<std::size_t>(2 + position % 10)), position, pages}});
    const StepSequence one{std::span(token).first(1), position, pages};
    model.step(std::vector<StepSequence>(2 + static_cast<std::size_t>(position) % 2, one));
  }
  EXPECT_EQ(counters().compiles, before.compiles);
  EXPECT_EQ(counters().schedules, before.schedules);
  EXPECT_EQ(model.shapes_seen(), shapes);
}

TEST(Model, AStepThatDoesNotFitIsRefusedAndChangesNothing) {
  Model model(tests::random_model("llama-like").checkpoint,
              {.context = 16, .page_tokens = 4, .sequences = 2, .chunk = 8});
  const std::vector<PageId> pages{0, 1, 2, 3}, few{0}, wrong{99, 1, 2, 3};
  const Ids nine(9, 1), one{1}, unknown{32000}, negative{-1};
  const auto refused = [&](std::vector<StepSequence> s) { EXPECT_THROW(model.step(s), UserError); };
  refused({});
  refused({{nine, 0, pages}});
  refused({{one, 16, pages}});
  refused({{one, -1, pages}});
  refused({{one, 4, few}});
  refused({{one, 0, wrong}});
  refused({{unknown, 0, pages}});
  refused({{negative, 0, pages}});
  refused({{std::span(nine).first(2), 0, pages}, {one, 0, pages}});
  refused({{one, 0, pages}, {one, 0, pages}, {one, 0, pages}});
  EXPECT_EQ(model.step(std::vector<StepSequence>{{one, 15, pages}}).size(), 1U);
}

}  // namespace
}  // namespace lathe::llm
