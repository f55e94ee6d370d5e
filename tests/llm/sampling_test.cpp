// Sampling by its definition: what each option leaves, how often what is left is drawn, and text that never
// shows a part of a stop sequence.
#include "lathe/llm/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "lathe/error.h"
#include "lathe/llm/stop_text.h"

namespace lathe::llm {
namespace {

const std::vector<float> kLogits{1.0F, 3.0F, 2.0F, 0.0F, 2.5F, -1.0F};

// How often each token is drawn in many positions.
std::vector<double> frequencies(const SamplingOptions& options, const std::vector<float>& logits,
                                const TokenMask* allowed = nullptr) {
  constexpr int kDraws = 20000;
  const Sampler sampler(options);
  std::vector<double> out(logits.size());
  std::vector<TokenId> tokens;
  for (int i = 0; i < kDraws; ++i) {
    out[static_cast<std::size_t>(sampler(logits, tokens, tokens.size(), allowed).chosen.token)] +=
        1.0 / kDraws;
    tokens.push_back(0);
  }
  return out;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature,
                            const std::vector<bool>& kept) {
  std::vector<double> out;
  double total = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    out.push_back(kept[i] ? std::exp(logits[i] / temperature) : 0);
    total += out.back();
  }
  for (double& p : out) p /= total;
  return out;
}

void expect_drawn(const SamplingOptions& options, const std::vector<bool>& kept) {
  const std::vector<double> got = frequencies(options, kLogits),
                            want = softmax(kLogits, options.temperature, kept);
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (kept[i])
      EXPECT_NEAR(got[i], want[i], 0.015) << "token " << i;
    else
      EXPECT_EQ(got[i], 0) << "token " << i;
  }
}

TEST(Sampling, EachOptionLeavesWhatItSays) {
  expect_drawn({.temperature = 1}, {true, true, true, true, true, true});
  expect_drawn({.temperature = 0.5, .seed = 9}, {true, true, true, true, true, true});
  expect_drawn({.temperature = 1, .top_k = 3}, {false, true, true, false, true, false});
  expect_drawn({.temperature = 1, .top_k = 100}, {true, true, true, true, true, true});
  // Chances 0.456, 0.277, 0.168, ...: two reach 0.7.
  expect_drawn({.temperature = 1, .top_p = 0.7}, {false, true, false, false, true, false});
  expect_drawn({.temperature = 1, .top_p = 1e-9}, {false, true, false, false, false, false});
  expect_drawn({.temperature = 1, .min_p = 0.3}, {false, true, true, false, true, false});
  expect_drawn({.temperature = 1, .top_k = 2, .top_p = 0.6}, {false, true, false, false, false, false});
}

TEST(Sampling, TheLikeliestIsTakenWithoutTemperature) {
  const Sampler greedy({});
  EXPECT_EQ(greedy(kLogits, {}, 0).chosen.token, 1);
  EXPECT_EQ(greedy(std::vector<float>{1, 2, 2, 0}, {}, 0).chosen.token, 1) << "the first of equals";
  TokenMask mask{true, false, true, true, false, false};
  EXPECT_EQ(greedy(kLogits, {}, 0, &mask).chosen.token, 2);
  mask.assign(6, false);
  EXPECT_THROW(greedy(kLogits, {}, 0, &mask), UserError);
  EXPECT_THROW(greedy(std::vector<float>{1, std::nanf("")}, {}, 0), InternalError);
  EXPECT_EQ(greedy(std::vector<float>{-INFINITY, -5}, {}, 0).chosen.token, 1);
}

TEST(Sampling, MasksHoldForEveryDraw) {
  const TokenMask mask{true, false, false, true, false, true};
  const std::vector<double> got = frequencies({.temperature = 2}, kLogits, &mask);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i] > 0, mask[i]) << i;
}

TEST(Sampling, PenaltiesAndBiasChangeWhatIsLikeliest) {
  const std::vector<TokenId> tokens{1, 4, 4};
  EXPECT_EQ(Sampler({.repetition_penalty = 2})(kLogits, tokens, 3).chosen.token, 2) << "of the prompt too";
  EXPECT_EQ(Sampler({.presence_penalty = 2})(kLogits, tokens, 3).chosen.token, 1)
      << "of what was written only";
  EXPECT_EQ(Sampler({.presence_penalty = 2})(kLogits, tokens, 0).chosen.token, 2);
  EXPECT_EQ(Sampler({.frequency_penalty = 0.4})(kLogits, tokens, 0).chosen.token, 1);
  EXPECT_EQ(Sampler({.frequency_penalty = 1.1})(kLogits, tokens, 0).chosen.token, 2);
  EXPECT_EQ(Sampler({.bias = {{5, 100}}})(kLogits, {}, 0).chosen.token, 5);
  // A negative logit gets smaller.
  EXPECT_EQ(
      Sampler({.repetition_penalty = 3})(std::vector<float>{-1, -2}, std::vector<TokenId>{0}, 1).chosen.token,
      1);
}

TEST(Sampling, LogProbabilitiesAreThoseOfTheModel) {
  const Choice choice = Sampler({.bias = {{3, 50}}})(kLogits, {}, 0, nullptr, 3);
  const std::vector<double> chances = softmax(kLogits, 1, std::vector<bool>(6, true));
  EXPECT_EQ(choice.chosen.token, 3);
  EXPECT_NEAR(choice.chosen.logprob, std::log(chances[3]), 1e-9);
  ASSERT_EQ(choice.likeliest.size(), 3U);
  const TokenId order[] = {1, 4, 2};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(choice.likeliest[i].token, order[i]);
    EXPECT_NEAR(choice.likeliest[i].logprob, std::log(chances[static_cast<std::size_t>(order[i])]), 1e-9);
  }
}

TEST(Sampling, ASeedAndAPlaceAreOneNumber) {
  EXPECT_EQ(random_at(1, 5), random_at(1, 5));
  EXPECT_NE(random_at(1, 5), random_at(1, 6));
  EXPECT_NE(random_at(1, 5), random_at(2, 5));
  double sum = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const double x = random_at(7, i);
    ASSERT_TRUE(x >= 0 && x < 1);
    sum += x;
  }
  EXPECT_NEAR(sum / 1000, 0.5, 0.05);
}

TEST(Sampling, OptionsOutOfRangeAreNamed) {
  const auto refused = [](const SamplingOptions& o, std::string_view what) {
    try {
      check(o);
      ADD_FAILURE() << what << " was taken";
    } catch (const UserError& error) {
      EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
    }
  };
  refused({.temperature = -1}, "temperature is -1");
  refused({.temperature = std::nan("")}, "temperature");
  refused({.top_k = -1}, "top_k");
  refused({.top_p = 0}, "top_p");
  refused({.top_p = 1.5}, "top_p");
  refused({.min_p = 2}, "min_p");
  refused({.repetition_penalty = 0}, "repetition_penalty");
  refused({.presence_penalty = INFINITY}, "presence_penalty");
  refused({.bias = {{1, NAN}}}, "logit_bias");
}

// All ways in which a text can come in pieces give what is before the first stop sequence, and at no time
// more.
TEST(StopText, NoPartOfAStopSequenceIsShown) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const auto word = [&](std::size_t most) {
      std::string out(1 + random() % most, 'a');
      for (char& c : out) c = static_cast<char>('a' + random() % 2);
      return out;
    };
    const std::vector<std::string> stops{word(4), word(3)};
    const std::string text = word(24);
    std::size_t end = std::string::npos;  // of the text that is shown: before the stop that is complete first
    for (std::size_t size = 1; size <= text.size() && end == std::string::npos; ++size)
      for (const std::string& stop : stops)
        if (text.substr(0, size).ends_with(stop)) end = std::min(end, size - stop.size());
    const std::string want = text.substr(0, end);
    StopText stop(stops);
    std::string got;
    for (std::size_t at = 0; at < text.size() && !stop.stopped();) {
      const std::size_t size = 1 + random() % 3;
      got += stop.push(std::string_view(text).substr(at, size));
      ASSERT_TRUE(want.starts_with(got) || end == std::string::npos) << text << " shown " << got;
      at += size;
    }
    got += stop.finish();
    ASSERT_EQ(got, want) << text << " stops " << stops[0] << " " << stops[1];
    ASSERT_EQ(stop.stopped(), end != std::string::npos);
  }
}

TEST(StopText, AnEmptySequenceIsRefused) {
  EXPECT_THROW(StopText({""}), UserError);
  EXPECT_EQ(StopText({}).push("all of it"), "all of it");
}

}  // namespace
}  // namespace lathe::llm
