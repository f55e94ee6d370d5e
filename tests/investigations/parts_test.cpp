// The parts of an investigation that are plain functions.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "apps/investigations/bank.h"
#include "apps/investigations/failure.h"
#include "apps/investigations/investigators.h"
#include "apps/investigations/minimize.h"
#include "apps/investigations/page.h"
#include "apps/investigations/states.h"
#include "apps/investigations/store.h"
#include "lathe/error.h"

namespace lathe::investigations {
namespace {

class Folder {
 public:
  Folder() {
    std::string name = "/tmp/lathe-investigate-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(SmallestPart, IsWhatHasThePropertyWhereverItLies) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    const std::size_t count = 1 + random() % 60;
    std::set<std::size_t> needed;
    for (std::size_t i = 0, n = 1 + random() % 4; i < n; ++i) needed.insert(random() % count);
    const Part part = smallest_part(count, [&](const std::vector<Part>& parts) {
      std::vector<bool> holds;
      for (const Part& p : parts) {
        std::set<std::size_t> left = needed;
        for (const std::size_t i : p) left.erase(i);
        holds.push_back(left.empty());
      }
      return holds;
    });
    EXPECT_EQ(std::set<std::size_t>(part.begin(), part.end()), needed) << count;
  }
}

TEST(States, EveryRowNamesStatesThatThereAre) {
  for (const StateRow& from : kStates) {
    EXPECT_EQ(state_named(from.name), from.state);
    EXPECT_EQ(&row(from.state), &from);
    std::size_t following = 0;
    for (const StateRow& to : kStates) following += may_follow(from.state, to.state) ? 1 : 0;
    const auto words =
        static_cast<std::size_t>(std::count(from.following.begin(), from.following.end(), ' '));
    EXPECT_EQ(following, from.following.empty() ? 0 : words + 1) << from.name;
  }
}

TEST(Store, RefusesTransitionsThatMayNotFollowAndKeepsTheOthers) {
  const Folder folder;
  Store store(folder.path() + "/store");
  const std::string id = store.create({}, {{"A", "b"}}).id;
  EXPECT_THROW(store.move(id, State::Found, "too early"), UserError);
  EXPECT_TRUE(store.claim(id, "begun"));
  store.move(id, State::Found, "it was");
  EXPECT_THROW(store.move(id, State::Running, "again"), UserError);
  EXPECT_FALSE(store.claim(id, "again"));
  EXPECT_THROW(store.session("session-0"), UserError);
  ASSERT_EQ(store.transitions(id).size(), 3U);
  EXPECT_EQ(store.transitions(id)[2].reason, "it was");
  EXPECT_EQ(store.environment(id).at("A"), "b");
}

TEST(Store, GivesBackFindingsAndInputsAsTheyWere) {
  dev::Finding f;
  f.summary = "a \"quoted\" text\nof two lines";
  f.kind = "rule";
  f.way_out_verified = true;
  f.repro_nodes = 7;
  f.difference = {{0, 1.5}, {2, 3}};
  const dev::Finding g = finding_from_json(to_json(f));
  EXPECT_EQ(g.summary, f.summary);
  EXPECT_EQ(g.kind, f.kind);
  EXPECT_TRUE(g.way_out_verified);
  EXPECT_EQ(g.repro_nodes, 7);
  EXPECT_EQ(g.difference, f.difference);
  Input i;
  i.command = {"a", "b c"};
  i.seconds = 1.25;
  EXPECT_EQ(input_from_json(to_json(i)).command, i.command);
  EXPECT_EQ(input_from_json(to_json(i)).seconds, 1.25);
  EXPECT_EQ(finding_from_json("no JSON").kind, "");
}

TEST(Store, ManyWritersLoseNothing) {
  const Folder folder;
  Store one(folder.path()), other(folder.path());
  std::vector<std::string> ids;
  for (int i = 0; i < 20; ++i) {
    ids.push_back(one.create({}, {}).id);
    ids.push_back(other.create({}, {}).id);
  }
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 40U);
  EXPECT_EQ(one.sessions().size(), 40U);
}

Outcome failed_with(const std::string& output) {
  Outcome o;
  o.ending = Ending::Exited;
  o.status = 1;
  o.output = output;
  return o;
}

TEST(Failure, IsTheSameWhateverDiffersFromRunToRun) {
  struct Row {
    const char *one, *other;
    bool same;
  };
  const Row rows[] = {
      {"/tmp/a1/x.py:3: error: bad value 17", "/home/b/x.py:9: error: bad value 4", true},
      {"NameError: name 'nn' is not defined", "NameError: name 'np' is not defined", false},
      {"AssertionError: 'b' != 'a'", "AssertionError: 'c' != 'a'", true},
      {"crash at 0xdeadbeef\nSegmentation fault", "crash at 0x12\nSegmentation fault", true},
      {"ValueError: too many", "KeyError: 'x'", false},
  };
  for (const Row& row : rows)
    EXPECT_EQ(
        failure_of(failed_with(row.one), {}).likeness == failure_of(failed_with(row.other), {}).likeness,
        row.same)
        << row.one << "\n"
        << row.other;
}

TEST(Failure, TheLineThatSaysWhatIsWrongIsFound) {
  struct Row {
    const char *output, *error;
  };
  const Row rows[] = {
      {"Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    x\nNameError: name 'x' "
       "is not defined\n",
       "NameError: name 'x' is not defined"},
      {"a.cpp:1:2: error: expected ';'\na.cpp:9:9: error: something later\n",
       "a.cpp:1:2: error: expected ';'"},
      {"/r/t.js:4\n  x();\n  ^\n\nReferenceError: x is not defined\n    at Object.<anonymous> "
       "(/r/t.js:4:3)\n\nNode.js v20\n",
       "ReferenceError: x is not defined"},
      {"fine\n\x1b[31mE   ValueError: no\x1b[0m\n=== 1 failed ===\n", "ValueError: no"},
      {"just a last line\n\n", "just a last line"},
  };
  for (const Row& row : rows) EXPECT_EQ(failure_of(failed_with(row.output), {}).error, row.error);
}

TEST(Failure, WhatIsMissingIsReadFromWhatToolsPrint) {
  struct Row {
    const char* output;
    Missing::Kind kind;
    const char *name, *file;
    int line;
  };
  const Row rows[] = {
      {"  File \"t.py\", line 7, in f\nNameError: name 'nn' is not defined", Missing::Kind::Name, "nn",
       "t.py", 7},
      {"ModuleNotFoundError: No module named 'a.b'", Missing::Kind::Module, "a.b", "", 0},
      {"main.cpp:4:19: error: 'sum_below' was not declared in this scope", Missing::Kind::Name, "sum_below",
       "main.cpp", 4},
      {"x.cpp:1:10: fatal error: util.h: No such file or directory", Missing::Kind::File, "util.h", "x.cpp",
       1},
      {"./run.sh: line 3: frobnicate: command not found", Missing::Kind::Command, "frobnicate", "./run.sh",
       3},
      {"run.sh: 3: frobnicate: not found", Missing::Kind::Command, "frobnicate", "run.sh", 3},
      {"/r/a.js:2\nx\n^\nReferenceError: later is not defined\n at /r/b.js:1:1", Missing::Kind::Name, "later",
       "/r/a.js", 2},
      {"FileNotFoundError: [Errno 2] No such file or directory: 'data/x.csv'", Missing::Kind::File,
       "data/x.csv", "", 0},
  };
  for (const Row& row : rows) {
    const auto missing = missing_of(row.output);
    ASSERT_TRUE(missing) << row.output;
    EXPECT_EQ(missing->kind, row.kind) << row.output;
    EXPECT_EQ(missing->name, row.name) << row.output;
    EXPECT_EQ(missing->file, row.file) << row.output;
    EXPECT_EQ(missing->line, row.line) << row.output;
  }
  EXPECT_FALSE(missing_of("AssertionError: 3 != 4"));
}

TEST(Failure, TheCommandOfOneTestIsMadeFromTheCommandOfAll) {
  const auto pytest =
      failed_tests("FAILED tests/a.py::test_b - assert 0\n", {"python3", "-m", "pytest", "-q", "tests"});
  ASSERT_EQ(pytest.size(), 1U);
  EXPECT_EQ(pytest[0].command,
            (std::vector<std::string>{"python3", "-m", "pytest", "-q", "tests/a.py::test_b"}));
  const auto google = failed_tests("[  FAILED  ] A.B (3 ms)\n[  FAILED  ] A.B\n", {"./t"});
  ASSERT_EQ(google.size(), 1U);
  EXPECT_EQ(google[0].command.back(), "--gtest_filter=A.B");
  EXPECT_TRUE(failed_tests("FAILED tests/a.py::test_b\n", {"make", "test"}).empty());
}

TEST(Investigators, WhatTheFacadeFindsIsRecordedAsItComes) {
  const Folder folder;
  Store store(folder.path());
  struct Row {
    const char* kind;
    State state;
  };
  for (const Row& row : {Row{"rule", State::Found}, Row{"", State::NotFound}}) {
    const std::string id = store.create({}, {}).id;
    store.claim(id, "begun");
    Case running(store, id, {});
    const Answer answer =
        answer_of(running, [&](const dev::InvestigationLimits& limits, const dev::OnHypothesis& on) {
          EXPECT_GT(limits.seconds, 0);
          EXPECT_TRUE(on({"one", "a", "b", dev::Verdict::Refuted, 1}));
          running.end(Early::Cancelled);
          EXPECT_FALSE(on({"two", "c", "d", dev::Verdict::Confirmed, 2}));
          dev::Finding finding;
          finding.kind = row.kind;
          return finding;
        });
    EXPECT_EQ(answer.state, row.state);
    ASSERT_EQ(store.hypotheses(id).size(), 2U);
    EXPECT_EQ(store.hypotheses(id)[1].claim, "two");
  }
  EXPECT_THROW(kind_of({}), UserError);
}

TEST(Page, EscapesWhatItShowsAndDrawsDifferences) {
  const Folder folder;
  Store store(folder.path());
  const std::string id = store.create({}, {}).id;
  store.claim(id, "begun");
  dev::Finding f;
  f.summary = "<script>alert(1)</script> & more";
  f.before = "a\nb\n";
  f.after = "a\nc\n";
  f.difference = {{0, 1}, {2, std::numeric_limits<double>::quiet_NaN()}};
  store.set_finding(id, f);
  const std::string page = page_of(store, id);
  EXPECT_EQ(page.find("<script>"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;"), std::string::npos);
  EXPECT_NE(page.find("<span class=\"changed\">c</span>"), std::string::npos);
  EXPECT_NE(page.find("id=\"heat\""), std::string::npos);
  EXPECT_NE(page.find("#8e44ad"), std::string::npos);  // the value that is not finite
}

TEST(Bank, SearchesThePageOfErrors) {
  const Folder folder;
  Store store(folder.path());
  const std::vector<Match> found = search_bank(store, "the inner sizes of a matmul differ");
  ASSERT_FALSE(found.empty());
  EXPECT_NE((found[0].title + found[0].text).find("matmul"), std::string::npos);
  EXPECT_TRUE(search_bank(store, "zebra giraffe").empty());
}

}  // namespace
}  // namespace lathe::investigations
