// What is the smallest that still fails: one test of many, a few lines of an input? And does the way out
// break what worked?
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "apps/investigations/minimize.h"
#include "apps/investigations/questions.h"

namespace lathe::investigations {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostInput = std::size_t{1} << 20U;  // bytes of an input that is made smaller
constexpr double kShareForInput = 0.5;                     // of what is left of the budget

bool is_program(const std::string& path) {
  static const std::set<std::string> kSources{
      ".py", ".js",  ".mjs", ".cjs", ".ts",   ".sh", ".rb", ".pl", ".lua", ".c",     ".cc",   ".cpp",
      ".h",  ".hpp", ".rs",  ".go",  ".java", ".so", ".a",  ".o",  ".mk",  ".cmake", ".toml", ".lock"};
  return kSources.contains(fs::path(path).extension());
}

}  // namespace

void ask_tests(Lab& lab) {
  const std::vector<FailedTest> tests = failed_tests(lab.failing().output, lab.command());
  if (tests.empty()) return;
  Timer timer;
  std::vector<Probe> probes;
  for (const FailedTest& t : tests) {
    if (probes.size() == 8) break;
    probes.push_back({"the test " + t.name + " alone", "", t.command, {}, {}});
  }
  const std::vector<Judged> judged = lab.judge(probes);
  for (std::size_t i = 0; i < judged.size(); ++i) {
    const bool alone = !judged[i].outcome.passed();
    if (!alone) continue;
    lab.smallest_command = tests[i].command;
    lab.running().add({"the test " + tests[i].name + " fails alone", joined_words(tests[i].command),
                       fmt::format("it {}; {} of the command's tests fail", judged[i].words(), tests.size()),
                       dev::Verdict::Confirmed, timer.milliseconds()});
    return;
  }
  lab.running().add({"the failing test also fails alone", fmt::format("{} tests, one by one", probes.size()),
                     "every test passes alone, so the failure depends on the tests that run before it",
                     dev::Verdict::Refuted, timer.milliseconds()});
}

void ask_input(Lab& lab) {
  Repository& repository = lab.repository();
  // A file that the command names and that is no program: data.
  std::string path, text;
  for (std::size_t i = 1; i < lab.command().size(); ++i) {
    const auto named = repository.path_of(lab.command()[i]);
    if (!named || is_program(*named)) continue;
    const auto content = repository.file(repository.snapshot(), *named);
    if (!content || content->size() > kMostInput || content->find('\0') != std::string::npos) continue;
    if (content->rfind("#!", 0) == 0) continue;
    path = *named;
    text = *content;
  }
  if (path.empty()) return;
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1);
    lines.push_back(text.substr(begin, end + 1 - begin));
    begin = end + 1;
  }
  if (lines.size() < 2) return;
  Timer timer;
  const double end = lab.running().seconds_left() * (1 - kShareForInput);
  const auto of = [&](const Part& part) {
    std::string some;
    for (const std::size_t i : part) some += lines[i];
    return some;
  };
  const Part part = smallest_part(
      lines.size(),
      [&](const std::vector<Part>& parts) {
        std::vector<Probe> probes;
        for (const Part& p : parts)
          probes.push_back({fmt::format("{} with {} of {} lines", path, p.size(), lines.size()),
                            repository.edited(repository.snapshot(), {{path, of(p)}}),
                            {},
                            {},
                            {}});
        std::vector<bool> holds;
        for (const Judged& j : lab.judge(probes)) holds.push_back(j.result == Result::Fails);
        return holds;
      },
      [&] { return lab.running().seconds_left() > end; });
  const std::string file = lab.running().folder() + "/smallest-input";
  std::ofstream(file) << of(part);
  lab.smallest_input = file;
  std::string shown = of(part);
  if (shown.size() > 200) shown = shown.substr(0, 200) + "...";
  while (!shown.empty() && shown.back() == '\n') shown.pop_back();
  lab.running().add({fmt::format("a part of {} is enough for it to fail", path),
                     "removed lines as long as the failure stays the same",
                     fmt::format("{} of {} lines: {}", part.size(), lines.size(), shown),
                     part.size() < lines.size() ? dev::Verdict::Confirmed : dev::Verdict::Refuted,
                     timer.milliseconds()});
}

namespace {

// How the other tests are run, where the user did not say.
std::vector<std::string> tests_of(Lab& lab) {
  if (!lab.running().input().tests.empty()) return lab.running().input().tests;
  Repository& repository = lab.repository();
  const std::vector<std::string>& command = lab.command();
  const auto has = [&](const char* name, const char* text) {
    const auto file = repository.file(repository.snapshot(), repository.prefix() + name);
    return file && file->find(text) != std::string::npos;
  };
  const auto pytest = std::find_if(command.begin(), command.end(), [](const std::string& w) {
    return w.find("pytest") != std::string::npos;
  });
  if (pytest != command.end()) return {command.begin(), pytest + 1};
  if (has("package.json", "\"test\":")) return {"npm", "test", "--silent"};
  if (has("Makefile", "\ntest:") || has("Makefile", "\ntest ")) return {"make", "test"};
  if (has("Makefile", "\ncheck:")) return {"make", "check"};
  if (has("run_tests.sh", "#!")) return {"./run_tests.sh"};
  return {};
}

}  // namespace

void ask_other_tests(Lab& lab) {
  if (lab.causes.empty() || !lab.causes.front().verified) return;
  const std::vector<std::string> tests = tests_of(lab);
  if (tests.empty() || tests == lab.command()) return;
  bool possible = false;
  Probe with = lab.with_remedy(lab.causes.front(), possible);
  if (!possible) return;
  Timer timer;
  with.label = "the other tests with the way out";
  with.command = tests;
  const std::vector<Judged> judged =
      lab.judge({with, {"the other tests without the way out", "", tests, {}, {}}});
  // What failed before may fail still; nothing else may.
  std::set<std::string> before;
  for (const FailedTest& t : failed_tests(judged[1].outcome.output, tests)) before.insert(t.name);
  std::string broken;
  for (const FailedTest& t : failed_tests(judged[0].outcome.output, tests))
    if (!before.contains(t.name)) broken += (broken.empty() ? "" : ", ") + t.name;
  const bool unclear = broken.empty() && !judged[0].outcome.passed() && judged[1].outcome.passed();
  const bool fine = broken.empty() && !unclear;
  lab.running().add({"the way out does not break other tests", joined_words(tests),
                     fmt::format("with it: {}; without it: {}{}", judged[0].outcome.words(),
                                 judged[1].outcome.words(), broken.empty() ? "" : "; broken: " + broken),
                     fine ? dev::Verdict::Confirmed : dev::Verdict::Refuted, timer.milliseconds()});
  if (!fine) {
    lab.causes.front().verified = false;
    lab.causes.front().summary += " The way out breaks other tests.";
  }
}

}  // namespace lathe::investigations
