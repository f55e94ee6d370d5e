#include "apps/investigations/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <regex>
#include <sstream>

namespace lathe::investigations {
namespace {

constexpr std::size_t kLongestLine = 400;  // longer lines are data, and std::regex is slow on them

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    // Colours.
    std::string plain;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
        while (i < line.size() && std::isalpha(static_cast<unsigned char>(line[i])) == 0) ++i;
        continue;
      }
      if (line[i] != '\r') plain += line[i];
    }
    if (plain.size() > kLongestLine) plain.resize(kLongestLine);
    lines.push_back(std::move(plain));
  }
  return lines;
}

// How well a line says what is wrong: the first row that matches decides, and the last line of the best rank
// is taken, or the first, for compilers, whose later errors follow from it.
struct ErrorRow {
  int rank;
  bool first;
  std::regex pattern;
};
const std::vector<ErrorRow>& error_rows() {
  static const std::vector<ErrorRow> rows = [] {
    const auto r = [](const char* text) { return std::regex(text, std::regex::optimize); };
    return std::vector<ErrorRow>{
        {1, false, r(R"(\b(AddressSanitizer|ThreadSanitizer|LeakSanitizer|UndefinedBehaviorSanitizer): .*)")},
        {1, true, r(R"(: (fatal )?error: .*)")},  // compilers
        {1, true, r(R"(undefined reference to .*)")},
        {1, false,
         r(R"(^(E +)?([\w.]+\.)?[A-Z]\w*(Error|Exception|Interrupt|Exit|Warning)\b(: .*| \[.*\]: .*|$))")},
        {1, false, r(R"(^\s*(Uncaught )?\w*Error( \[\w+\])?: .*)")},  // node
        {1, false, r(R"(terminate called|what\(\): .*)")},
        {1, false, r(R"([Aa]ssertion .*failed|Assertion failed.*)")},
        {1, false,
         r(R"(: (line )?\d+: .*(command not found|not found|No such file|unbound variable|syntax error).*)")},
        {2, false, r(R"(command not found|No such file or directory|Permission denied)")},
        {2, false, r(R"(\bpanicked at\b.*|^panic: .*|Segmentation fault.*)")},
        {3, false, r(R"(^(FAIL|FAILED|not ok|\[ +FAILED +\]).*)")},
        {4, false, r(R"(\b([Ee]rror|ERROR|[Ff]ailure|[Ff]ail(ed)?|FAIL(ED)?|mismatch|[Ee]xpected)\b)")},
    };
  }();
  return rows;
}

std::string trimmed(std::string text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  text.erase(0, begin);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  return text;
}

std::string error_line(const std::vector<std::string>& lines) {
  int best = 100;
  std::string chosen, last;
  for (const std::string& line : lines) {
    if (trimmed(line).empty()) continue;
    last = line;
    for (const ErrorRow& row : error_rows()) {
      if (row.rank > best || !std::regex_search(line, row.pattern)) continue;
      if (row.rank < best || !row.first) chosen = line;
      best = row.rank;
      break;
    }
  }
  std::string text = trimmed(best < 100 ? chosen : last);
  if (text.rfind("E   ", 0) == 0) text = trimmed(text.substr(4));  // pytest
  return text;
}

}  // namespace

std::string without_noise(const std::string& text, const std::vector<std::string>& roots) {
  std::string plain = text;
  for (const std::string& root : roots)
    for (std::size_t at = 0; !root.empty() && (at = plain.find(root, at)) != std::string::npos;)
      plain.erase(at, root.size());
  static const std::regex kFolder(R"((/[\w.+-]+)+/)"), kAddress(R"(0x[0-9a-fA-F]+)"), kNumber(R"(\d+)"),
      kBlanks(R"(\s+)");
  if (plain.size() > kLongestLine) plain.resize(kLongestLine);
  plain = std::regex_replace(plain, kFolder, "");
  plain = std::regex_replace(plain, kAddress, "#");
  plain = std::regex_replace(plain, kNumber, "#");
  plain = std::regex_replace(plain, kBlanks, " ");
  return trimmed(plain);
}

Failure failure_of(const Outcome& outcome, const std::vector<std::string>& roots) {
  Failure failure;
  if (outcome.passed()) return failure;
  const std::vector<std::string> lines = lines_of(outcome.output);
  failure.error =
      outcome.ending == Ending::Exited || outcome.ending == Ending::Signalled ? error_line(lines) : "";
  std::string how = outcome.ending == Ending::Exited ? "exit" : std::string(name(outcome.ending));
  if (outcome.ending == Ending::Signalled) how += fmt::format(" {}", outcome.status);
  std::string what = without_noise(failure.error, roots);
  // Values that are compared differ from commit to commit and from run to run.
  static const std::regex kCompared(R"(AssertionError|[Aa]ssert|[Ee]xpected|!=|==)"),
      kQuoted(R"re('[^']*'|"[^"]*")re");
  if (std::regex_search(what, kCompared)) what = std::regex_replace(what, kQuoted, "'#'");
  failure.likeness = how + ": " + what;
  failure.signature = failure.likeness;
  const std::vector<Place> places = places_of(outcome.output);
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    const bool ours = place->file[0] != '/' ||
                      std::any_of(roots.begin(), roots.end(),
                                  [&](const std::string& root) { return place->file.rfind(root, 0) == 0; });
    if (!ours) continue;
    const std::size_t slash = place->file.rfind('/');
    failure.signature += " in " + (slash == std::string::npos ? place->file : place->file.substr(slash + 1));
    break;
  }
  if (failure.error.empty()) failure.error = outcome.words();
  return failure;
}

namespace {

struct MissingRow {
  Missing::Kind kind;
  std::regex pattern;
  int name, file, line;  // groups; 0: not said
};
const std::vector<MissingRow>& missing_rows() {
  using Kind = Missing::Kind;
  static const std::vector<MissingRow> rows = [] {
    const auto r = [](const char* text) { return std::regex(text, std::regex::optimize); };
    return std::vector<MissingRow>{
        {Kind::Name, r(R"(NameError: (?:global )?name '(\w+)' is not defined)"), 1, 0, 0},
        {Kind::Name, r(R"(ImportError: cannot import name '(\w+)')"), 1, 0, 0},
        {Kind::Module, r(R"(ModuleNotFoundError: No module named '([\w.]+)')"), 1, 0, 0},
        {Kind::Name, r(R"(AttributeError: .* has no attribute '(\w+)')"), 1, 0, 0},
        {Kind::Name, r(R"(ReferenceError: (\w+) is not defined)"), 1, 0, 0},
        {Kind::Name, r(R"(TypeError: (?:[\w.]+\.)?(\w+) is not a function)"), 1, 0, 0},
        {Kind::File, r(R"(Cannot find module '([^']+)')"), 1, 0, 0},
        {Kind::File, r(R"(FileNotFoundError: .*No such file or directory: '([^']+)')"), 1, 0, 0},
        {Kind::File, r(R"(ENOENT: no such file or directory, \w+ '([^']+)')"), 1, 0, 0},
        {Kind::File, r(R"(^([^\s:]+):(\d+):\d+: fatal error: ([^:]+): No such file)"), 3, 1, 2},
        {Kind::Name,
         r(R"(^([^\s:]+):(\d+):\d+: error: '([\w:]+)' (?:was not declared|is not a member|does not name|has not been declared))"),
         3, 1, 2},
        {Kind::Name, r(R"(^([^\s:]+):(\d+):\d+: error: .*has no member named '(\w+)')"), 3, 1, 2},
        {Kind::Name, r(R"(^([^\s:]+):(\d+):\d+: error: use of undeclared identifier '(\w+)')"), 3, 1, 2},
        {Kind::Name, r(R"(undefined reference to [`'](\w+))"), 1, 0, 0},
        {Kind::Name, r(R"(^(\S+): line (\d+): (\w+): unbound variable)"), 3, 1, 2},
        {Kind::Command, r(R"(^(\S+): (?:line )?(\d+): ([\w.+/-]+): (?:command )?not found)"), 3, 1, 2},
        {Kind::File, r(R"(^(\S+): (?:line )?(\d+): ([^\s:]+): No such file or directory)"), 3, 1, 2},
        {Kind::Command, r(R"(^([\w.+/-]+): command not found)"), 1, 0, 0},
        {Kind::File, r(R"((?:cannot open|can't open|cannot access|cannot stat)[^'"]*['"]([^'"]+)['"])"), 1, 0,
         0},
        {Kind::File, r(R"(^\w+: ([^\s:]+): No such file or directory)"), 1, 0, 0},
    };
  }();
  return rows;
}

const std::regex& place_pattern() {
  static const std::regex pattern(
      R"RE(File "([^"]+)", line (\d+)|\(?((?:/|\./|\w)[\w./+-]*\.\w+):(\d+)(?::\d+)?|^(\S+): line (\d+):)RE",
      std::regex::optimize);
  return pattern;
}

}  // namespace

std::vector<Place> places_of(const std::string& output) {
  std::vector<Place> all;
  for (const std::string& line : lines_of(output))
    for (std::sregex_iterator at(line.begin(), line.end(), place_pattern()), end; at != end; ++at)
      for (const int group : {1, 3, 5})
        if ((*at)[static_cast<std::size_t>(group)].matched)
          all.push_back({(*at)[static_cast<std::size_t>(group)].str(),
                         std::atoi((*at)[static_cast<std::size_t>(group) + 1].str().c_str())});
  return all;
}

std::optional<Missing> missing_of(const std::string& output) {
  std::vector<Place> places;
  for (const std::string& line : lines_of(output)) {
    for (const MissingRow& row : missing_rows()) {
      std::smatch match;
      if (!std::regex_search(line, match, row.pattern)) continue;
      const auto group = [&](int index) {
        return index == 0 ? "" : match[static_cast<std::size_t>(index)].str();
      };
      Missing missing{row.kind, group(row.name), group(row.file), std::atoi(group(row.line).c_str())};
      if (missing.file.empty()) {  // an interpreter names the place before the error, node also after it
        const std::vector<Place> all = places.empty() ? places_of(output) : places;
        if (!all.empty()) {
          const Place& place =
              line.find("ReferenceError") != std::string::npos || line.find("TypeError") != std::string::npos
                  ? all.front()
                  : all.back();
          missing.file = place.file;
          missing.line = place.line;
        }
      }
      return missing;
    }
    for (const Place& place : places_of(line)) places.push_back(place);
  }
  return std::nullopt;
}

namespace {

bool uses(const std::vector<std::string>& command, const std::string& word) {
  return std::any_of(command.begin(), command.end(), [&](const std::string& w) {
    const std::size_t slash = w.rfind('/');
    return (slash == std::string::npos ? w : w.substr(slash + 1)).rfind(word, 0) == 0;
  });
}

// Words before the first that names what to run, and options.
std::vector<std::string> without_paths(const std::vector<std::string>& command, const std::string& runner) {
  std::vector<std::string> kept;
  bool after = false;
  for (const std::string& w : command) {
    const bool path = after && w.rfind("-", 0) != 0;
    if (!path) kept.push_back(w);
    if (uses({w}, runner)) after = true;
  }
  return kept;
}

}  // namespace

std::vector<FailedTest> failed_tests(const std::string& output, const std::vector<std::string>& command) {
  static const std::regex kPytest(R"(^(?:FAILED|ERROR) (\S+\.py(?:::\S+)?)( - .*)?$)");
  static const std::regex kUnittest(R"(^(?:FAIL|ERROR): (\w+) \(([\w.]+)\))");
  static const std::regex kGoogle(R"(^\[ +FAILED +\] ([\w/]+\.[\w/]+)(?:,.*| \(\d+ ms\))?$)");
  static const std::regex kTap(R"(^\s*not ok \d+ - (.*?)( # .*)?$)");
  std::vector<FailedTest> all;
  const auto add = [&](FailedTest test) {
    if (std::none_of(all.begin(), all.end(), [&](const FailedTest& t) { return t.name == test.name; }))
      all.push_back(std::move(test));
  };
  for (const std::string& line : lines_of(output)) {
    std::smatch m;
    if (uses(command, "pytest") && std::regex_search(line, m, kPytest)) {
      std::vector<std::string> one = without_paths(command, "pytest");
      one.push_back(m[1].str());
      add({m[1].str(), one});
    } else if (uses(command, "unittest") && std::regex_search(line, m, kUnittest)) {
      std::string id = m[2].str();  // since 3.11 with the method's name
      if (id.size() < m[1].str().size() || id.substr(id.size() - m[1].str().size()) != m[1].str())
        id += "." + m[1].str();
      add({id, {command[0], "-m", "unittest", id}});
    } else if (std::regex_search(line, m, kGoogle)) {
      std::vector<std::string> one = command;
      one.push_back("--gtest_filter=" + m[1].str());
      add({m[1].str(), one});
    } else if (uses(command, "node") && uses(command, "--test") && std::regex_search(line, m, kTap)) {
      std::string escaped;
      for (const char c : m[1].str()) {
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != ' ' && c != '_') escaped += '\\';
        escaped += c;
      }
      std::vector<std::string> one = command;
      one.insert(one.begin() + 1, "--test-name-pattern=^" + escaped + "$");
      add({m[1].str(), one});
    }
  }
  return all;
}

}  // namespace lathe::investigations
