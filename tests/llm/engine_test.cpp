// The engine: requests in any company give what they give alone, and every page comes back.
#include "lathe/llm/engine.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "apps/llm/pages.h"
#include "lathe/error.h"
#include "support/fuzz.h"
#include "tests/llm/data.h"

namespace lathe::llm {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<TokenId>;
using tests::test_data;

Checkpoint story_model() { return load_checkpoint(test_data() / "stories260K/stories260K.bin"); }
#define LATHE_NEEDS_STORIES() LATHE_NEEDS_DATA("stories260K/stories260K.bin")

// Random holders of pages against a list of who holds what.
TEST(Pages, APromptIsFoundAgainUntilItsMemoryIsNeeded) {
  Pages pages(4, 2);
  const Ids text{1, 2, 3, 4, 5}, other{1, 2, 9, 9};
  std::vector<PageId> held{*pages.take(), *pages.take()};
  pages.remember(held, text);
  EXPECT_EQ(pages.remembered(), 2);
  EXPECT_EQ(pages.find(text), held) << "held by two now";
  EXPECT_EQ(pages.find(other), (std::vector<PageId>{held[0]}));
  EXPECT_EQ(pages.held(), 2);
  for (const PageId page : {held[0], held[0], held[0], held[1], held[1]}) pages.release(page);
  EXPECT_EQ(pages.held(), 0);
  EXPECT_THROW(pages.release(held[0]), InternalError);
  const std::vector<PageId> fresh{*pages.take(), *pages.take()};  // those that hold nothing go first
  EXPECT_EQ(pages.remembered(), 2);
  EXPECT_EQ(pages.find(text), held);
  for (const PageId page : held) pages.release(page);
  pages.take();
  EXPECT_EQ(pages.remembered(), 1);
  EXPECT_TRUE(pages.find(text).empty()) << "its first page holds something else";
  pages.take();
  EXPECT_FALSE(pages.take().has_value());
}

TEST(Pages, RandomHoldersNeverSeeAnothersText) {
  const std::uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Pages pages(12, 2);
  std::map<PageId, Ids> contents;  // the text up to the end of each page that somebody wrote
  struct Holder {
    Ids text;
    std::vector<PageId> pages;
  };
  std::vector<Holder> holders;
  for (int round = 0; round < 5000; ++round) {
    if (!holders.empty() && (random() % 2 == 0 || holders.size() > 4)) {
      const std::size_t i = random() % holders.size();
      for (const PageId page : holders[i].pages) pages.release(page);
      holders.erase(holders.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    Holder h;
    for (std::size_t i = 0; i < 2 + random() % 8; ++i) h.text.push_back(static_cast<TokenId>(random() % 2));
    h.pages = pages.find(h.text);
    for (std::size_t i = 0; i < h.pages.size(); ++i)
      ASSERT_EQ(contents[h.pages[i]],
                Ids(h.text.begin(), h.text.begin() + static_cast<std::ptrdiff_t>(2 * i + 2)));
    while (2 * (h.pages.size() + 1) <= h.text.size()) {
      const std::optional<PageId> page = pages.take();
      if (!page) break;
      for (const Holder& other : holders)
        ASSERT_EQ(std::count(other.pages.begin(), other.pages.end(), *page), 0);
      h.pages.push_back(*page);
      contents[*page] = Ids(h.text.begin(), h.text.begin() + static_cast<std::ptrdiff_t>(2 * h.pages.size()));
    }
    pages.remember(h.pages, std::span(h.text).first(2 * h.pages.size()));
    holders.push_back(std::move(h));
  }
  for (const Holder& h : holders)
    for (const PageId page : h.pages) pages.release(page);
  EXPECT_EQ(pages.held(), 0);
}

TEST(Engine, WritesThePublishedStories) {
  LATHE_NEEDS_STORIES();
  Engine engine(story_model(), {.model = {.sequences = 2, .chunk = 32}});
  const Json expected = Json::parse(tests::read_file(test_data() / "stories260K/expected_greedy.json"));
  for (const Json& one : expected.at("cases")) {
    const auto prompt = one.at("prompt_ids").get<Ids>(), wanted = one.at("greedy_ids").get<Ids>();
    std::string streamed;
    const Generated got = engine.generate(
        {.prompt = prompt, .max_tokens = static_cast<std::int64_t>(wanted.size() - prompt.size())},
        [&](const std::string& text) { streamed += text; });
    Ids ids = prompt;
    ids.insert(ids.end(), got.ids.begin(), got.ids.end());
    EXPECT_EQ(ids, Ids(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(ids.size())));
    EXPECT_EQ(streamed, got.text);
  }
  EXPECT_EQ(engine.stats().pages_held, 0);
}

struct Case {
  Request request;
  Generated alone;
};

// Random requests come, go and are cancelled; few pages, so sequences give theirs back and are computed
// again.
void check_crowd(std::uint64_t seed, EngineStats& stats) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  const ModelOptions model{.context = 96, .page_tokens = 8, .pages = 20, .sequences = 4, .chunk = 32};
  Engine alone(story_model(), {.model = model}), busy(story_model(), {.model = model});
  const std::vector<std::string> beginnings{"Once upon a time", "Lily and Tom", "The big dog"};
  std::vector<Case> cases;
  for (int i = 0; i < 12; ++i) {
    std::string prompt = beginnings[random() % 3];
    for (std::size_t w = 0; w < random() % 12; ++w) prompt += " the dog ran";
    Case c{{.prompt = alone.tokenizer().encode(prompt),
            .max_tokens = static_cast<std::int64_t>(1 + random() % 50)},
           {}};
    if (random() % 2 == 0)
      c.request.sampling = {.temperature = 0.9, .top_k = 20, .top_p = 0.95, .seed = random()};
    if (random() % 3 == 0) c.request.stop = {"."};
    c.alone = alone.generate(c.request);
    cases.push_back(std::move(c));
  }
  struct Running {
    const Case* expected;
    std::string text;
    Ids ids;
    std::optional<Update> last;
    bool cancelled = false;
  };
  std::deque<Running> all;
  std::map<Engine::Ticket, Running*> tickets;
  for (int i = 0; i < 60; ++i) {
    Running& r = all.emplace_back(Running{&cases[random() % cases.size()], "", {}, std::nullopt, false});
    tickets[busy.submit(r.expected->request, [&r](const Update& u) {
      ASSERT_FALSE(r.last.has_value());
      r.text += u.text;
      r.ids.insert(r.ids.end(), u.ids.begin(), u.ids.end());
      if (u.finish) r.last = u;
    })] = &r;
    for (std::size_t s = 0; s < random() % 12; ++s) busy.step();
    if (random() % 6 == 0) {
      auto any = tickets.begin();
      std::advance(any, random() % tickets.size());
      any->second->cancelled = true;
      busy.cancel(any->first);
    }
  }
  while (busy.step()) {
  }
  for (const Running& r : all) {
    ASSERT_TRUE(r.last.has_value());
    if (*r.last->finish == Finish::Cancelled) {
      EXPECT_TRUE(r.cancelled);
      EXPECT_TRUE(r.expected->alone.text.starts_with(r.text) || r.expected->request.stop.size() == 1);
      continue;
    }
    EXPECT_EQ(r.text, r.expected->alone.text);
    EXPECT_EQ(r.ids, r.expected->alone.ids);
    EXPECT_EQ(*r.last->finish, r.expected->alone.finish);
  }
  stats = busy.stats();
  EXPECT_EQ(stats.pages_held, 0);
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_EQ(stats.finished + stats.cancelled, 60);
  EXPECT_EQ(stats.failed, 0);
}

TEST(Engine, EveryAnswerIsThatOfItsRequestAlone) {
  LATHE_NEEDS_STORIES();
  std::int64_t preempted = 0, cached = 0;
  for (test::FuzzSeeds seeds(3); seeds.next() && !HasFatalFailure();) {
    EngineStats stats;
    check_crowd(seeds.seed(), stats);
    preempted += stats.preempted;
    cached += stats.cached_tokens;
  }
  EXPECT_GT(preempted, 0) << "the test is for too few pages";
  EXPECT_GT(cached, 0) << "and for prompts that begin alike";
}

TEST(Engine, RequestsThatCannotBeServedAreRefused) {
  LATHE_NEEDS_STORIES();
  Engine engine(story_model(), {.model = {.context = 64, .sequences = 1}, .queue = 2});
  const Receiver nothing = [](const Update&) {};
  const Ids prompt = engine.tokenizer().encode("Once");
  EXPECT_THROW(engine.submit({}, nothing), UserError);
  EXPECT_THROW(engine.submit({.prompt = {512}}, nothing), UserError);
  EXPECT_THROW(engine.submit({.prompt = Ids(64, 1)}, nothing), ContextFull);
  EXPECT_THROW(engine.submit({.prompt = prompt, .max_tokens = 0}, nothing), UserError);
  EXPECT_THROW(engine.submit({.prompt = prompt, .sampling = {.top_p = 0}}, nothing), UserError);
  EXPECT_THROW(engine.submit({.prompt = prompt, .stop = {""}}, nothing), UserError);
  EXPECT_THROW(engine.submit({.prompt = prompt, .json_schema = "{"}, nothing), UserError);
  EXPECT_THROW(
      engine.submit({.prompt = prompt, .json_schema = R"({"type": "string", "pattern": "a+"})"}, nothing),
      UserError);
  engine.submit({.prompt = prompt, .max_tokens = 2}, nothing);
  engine.submit({.prompt = prompt, .max_tokens = 2}, nothing);
  EXPECT_THROW(engine.submit({.prompt = prompt}, nothing), QueueFull);
  while (engine.step()) {
  }
  EXPECT_EQ(engine.stats().finished, 2);
  // A listener that throws ends its request and nothing else.
  EXPECT_THROW(
      engine.generate({.prompt = prompt}, [](const std::string&) { throw std::runtime_error("enough"); }),
      std::runtime_error);
  EXPECT_EQ(engine.stats().pages_held, 0);
  EXPECT_EQ(engine.generate({.prompt = prompt, .max_tokens = 500, .ignore_end = true}).finish,
            Finish::Length);
}

TEST(Engine, JsonIsJsonWhateverTheModelWouldSay) {
  LATHE_NEEDS_STORIES();
  Engine engine(story_model(), {.model = {.sequences = 1}});
  const Ids prompt = engine.tokenizer().encode("Once upon a time");
  const std::string schema = R"({"type": "object", "properties": {
      "name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}, "kind": {"enum": ["cat", "dög", 7, null]},
      "tags": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
      "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/point"}]}},
      "required": ["name", "kind", "tags", "next"],
      "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"], "additionalProperties": false}}})";
  int whole = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Request request{.prompt = prompt,
                    .max_tokens = 300,
                    .sampling = {.temperature = 1, .seed = seed},
                    .json_schema = schema};
    const Generated got = engine.generate(request);
    if (got.finish != Finish::Stop) continue;
    ++whole;
    const Json json = Json::parse(got.text, nullptr, false);
    ASSERT_TRUE(json.is_object()) << got.text;
    EXPECT_TRUE(json.at("name").is_string());
    EXPECT_TRUE(json.at("kind") == "cat" || json.at("kind") == "dög" || json.at("kind") == 7 ||
                json.at("kind").is_null())
        << got.text;
    EXPECT_TRUE(json.at("tags").size() >= 1 && json.at("tags").size() <= 3) << got.text;
    EXPECT_TRUE(json.at("next").is_null() || json.at("next").at("x").is_number()) << got.text;
  }
  EXPECT_GT(whole, 4);
}

}  // namespace
}  // namespace lathe::llm
