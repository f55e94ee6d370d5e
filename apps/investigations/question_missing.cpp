// Is a name or a file missing? What the repository knows under that name, now or in its history, is tried in
// its place.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "apps/investigations/questions.h"
#include "lathe/dev/terminal.h"

namespace lathe::investigations {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostRepairs = 12;

// One edit that may be all that is missing.
struct Repair {
  std::string words;  // "line 3 of a.py: import nn"
  std::map<std::string, std::optional<std::string>> files;
};

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}
std::string with_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::size_t after_head(const std::vector<std::string>& lines) {
  std::size_t at = 0;
  if (at < lines.size() && lines[at].rfind("#!", 0) == 0) ++at;
  // A docstring and `from __future__` stay first.
  while (at < lines.size() && (lines[at].empty() || lines[at][0] == '#')) ++at;
  if (at < lines.size() && (lines[at].rfind("\"\"\"", 0) == 0 || lines[at].rfind("'use strict'", 0) == 0)) {
    const bool closed = lines[at].size() > 3 && lines[at].find("\"\"\"", 3) != std::string::npos;
    if (lines[at][0] == '"' && !closed)
      while (++at < lines.size() && lines[at].find("\"\"\"") == std::string::npos) continue;
    ++at;
  }
  while (at < lines.size() && lines[at].rfind("from __future__", 0) == 0) ++at;
  return std::min(at, lines.size());
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Lines of other files that bring the name in: imports, includes, requires.
std::vector<std::string> importing_lines(Lab& lab, const std::string& name) {
  Repository& repository = lab.repository();
  std::map<std::string, int> counts;
  const Ran found = repository.git({"grep", "-h", "-I", "-w", "-F", "-e", name, repository.snapshot()});
  static const std::regex kImport(
      R"(^\s*(from\s+\S+\s+import\s+.*|import\s+.*|(const|let|var)\s+.*\brequire\(.*|#include\s+.*|using\s+.*;|export\s+\w+=.*|source\s+.*|\.\s+\S+)$)");
  for (const std::string& line : split_lines(found.output))
    if (line.size() < 300 && std::regex_match(line, kImport))
      ++counts[line.substr(line.find_first_not_of(" \t"))];
  std::vector<std::string> lines;
  for (const auto& [line, count] : counts) lines.push_back(line);
  std::stable_sort(lines.begin(), lines.end(),
                   [&](const auto& a, const auto& b) { return counts[a] > counts[b]; });
  return lines;
}

std::vector<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  std::string word;
  for (const char c : text + " ") {
    if (is_word(c)) {
      word += c;
      continue;
    }
    if (word.size() > 1) words.insert(word);
    word.clear();
  }
  return {words.begin(), words.end()};
}

std::string replaced_word(const std::string& line, const std::string& from, const std::string& to) {
  std::string result = line;
  for (std::size_t at = 0; (at = result.find(from, at)) != std::string::npos; at += to.size()) {
    const bool whole = (at == 0 || !is_word(result[at - 1])) &&
                       (at + from.size() >= result.size() || !is_word(result[at + from.size()]));
    if (!whole) {
      at += from.size() > to.size() ? from.size() - to.size() : 1;
      continue;
    }
    result.replace(at, from.size(), to);
  }
  return result;
}

std::vector<Repair> repairs_of_name(Lab& lab, const Missing& missing, const std::string& path) {
  Repository& repository = lab.repository();
  const std::vector<std::string> lines = split_lines(*repository.file(repository.snapshot(), path));
  std::vector<Repair> repairs;
  const auto insert = [&](const std::string& added) {
    std::vector<std::string> changed = lines;
    const std::size_t at = after_head(lines);
    changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(at), added);
    repairs.push_back({fmt::format("{}:{}: {}", path, at + 1, added), {{path, with_lines(changed)}}});
  };
  for (const std::string& line : importing_lines(lab, missing.name)) insert(line);
  const std::string extension = fs::path(path).extension();
  if (extension == ".py") insert("import " + missing.name);
  if (extension == ".js" || extension == ".cjs")
    insert(fmt::format("const {0} = require('{0}');", missing.name));
  // A misspelt name: the nearest one of the same file, then of the repository.
  std::vector<std::string> candidates = words_of(with_lines(lines));
  std::erase(candidates, missing.name);
  for (int i = 0; i < 2; ++i) {
    const auto near = dev::nearest_word(missing.name, candidates);
    if (!near) break;
    std::vector<std::string> changed = lines;
    for (std::string& line : changed) line = replaced_word(line, missing.name, *near);
    repairs.push_back({fmt::format("{}:{}: {} instead of {}", path, missing.line, *near, missing.name),
                       {{path, with_lines(changed)}}});
    std::erase(candidates, *near);
  }
  std::string everything;
  for (const std::string& file : repository.files(repository.snapshot()))
    if (file != path && fs::path(file).extension() == extension && everything.size() < (1U << 20U))
      everything += repository.file(repository.snapshot(), file).value_or("");
  std::vector<std::string> elsewhere = words_of(everything);
  std::erase(elsewhere, missing.name);
  for (int i = 0; i < 2; ++i) {
    const auto near = dev::nearest_word(missing.name, elsewhere);
    if (!near) break;
    std::vector<std::string> changed = lines;
    for (std::string& line : changed) line = replaced_word(line, missing.name, *near);
    repairs.push_back({fmt::format("{}:{}: {} instead of {}", path, missing.line, *near, missing.name),
                       {{path, with_lines(changed)}}});
    std::erase(elsewhere, *near);
  }
  return repairs;
}

// A file that the history has, or one of nearly that name.
std::vector<Repair> repairs_of_file(Lab& lab, const Missing& missing,
                                    const std::optional<std::string>& wanted_by) {
  Repository& repository = lab.repository();
  std::vector<Repair> repairs;
  std::string name = missing.name;
  if (name.rfind(repository.root() + "/", 0) == 0) name.erase(0, repository.root().size() + 1);
  if (missing.kind == Missing::Kind::Module) std::replace(name.begin(), name.end(), '.', '/');
  while (name.rfind("./", 0) == 0) name.erase(0, 2);
  while (name.rfind("../", 0) == 0) name.erase(0, 3);
  const std::string last = fs::path(name).filename();
  if (last.empty()) return repairs;
  // Deleted or moved by some commit: the commit before has it.
  const Ran log = repository.git({"log", "--diff-filter=D", "--no-renames", "--name-only", "--format=%x00%H",
                                  repository.snapshot(), "--", fmt::format(":(glob)**/{}", last),
                                  fmt::format(":(glob)**/{}.*", last)});
  std::string commit;
  for (const std::string& line : split_lines(log.output)) {
    if (!line.empty() && line[0] == '\0') {
      commit = line.substr(1);
    } else if (!line.empty() && !commit.empty()) {
      const auto text = repository.file(commit + "^", line);
      if (text && !repository.file(repository.snapshot(), line))
        repairs.push_back({fmt::format("{} as before commit {}", line, repository.commit(commit).label()),
                           {{line, *text}}});
    }
    if (repairs.size() >= 3) break;
  }
  if (!wanted_by) return repairs;
  // Misspelt where it is wanted.
  const std::string source = *repository.file(repository.snapshot(), *wanted_by);
  std::vector<std::string> names;
  for (const std::string& file : repository.files(repository.snapshot()))
    names.push_back(fs::path(file).filename());
  std::erase(names, last);
  for (int i = 0; i < 2; ++i) {
    const auto near = dev::nearest_word(last, names);
    if (!near || source.find(last) == std::string::npos) break;
    std::string changed = source;
    for (std::size_t at = 0; (at = changed.find(last, at)) != std::string::npos; at += near->size())
      changed.replace(at, last.size(), *near);
    repairs.push_back(
        {fmt::format("{}: {} instead of {}", *wanted_by, *near, last), {{*wanted_by, changed}}});
    std::erase(names, *near);
  }
  return repairs;
}

constexpr std::array<std::string_view, 4> kKinds{"name", "module", "file", "command"};

}  // namespace

void ask_missing(Lab& lab) {
  const std::optional<Missing> missing = missing_of(lab.failing().output);
  if (!missing) return;
  Timer timer;
  Repository& repository = lab.repository();
  std::optional<std::string> path = missing->file.empty() ? std::nullopt : repository.path_of(missing->file);
  if (!path)  // the place may be a library's: the last of ours is meant
    for (const Place& place : places_of(lab.failing().output))
      if (const auto ours = repository.path_of(place.file)) path = ours;
  const std::string kind(kKinds[static_cast<std::size_t>(missing->kind)]);
  const std::string claim =
      fmt::format("the {} {} is missing{}", kind, missing->name, path ? fmt::format(" in {}", *path) : "");
  std::vector<Repair> repairs;
  if (missing->kind != Missing::Kind::Name) repairs = repairs_of_file(lab, *missing, path);
  if (path && missing->kind != Missing::Kind::File)
    for (Repair& r : repairs_of_name(lab, *missing, *path)) repairs.push_back(std::move(r));
  if (repairs.size() > kMostRepairs) repairs.resize(kMostRepairs);
  std::vector<Probe> probes;
  for (const Repair& r : repairs)
    probes.push_back({"with " + r.words, repository.edited(repository.snapshot(), r.files), {}, {}, {}});
  const std::vector<Judged> judged = lab.judge(probes);
  for (std::size_t i = 0; i < judged.size(); ++i) {
    if (judged[i].result != Result::Passes) continue;
    Cause cause;
    cause.kind = "missing " + kind;
    cause.name = repairs[i].words;
    cause.summary =
        fmt::format("The {} {} is missing; with {} it passes.", kind, missing->name, repairs[i].words);
    cause.remedy = "patch";
    cause.argument = repository.change(repository.snapshot(), probes[i].commit);
    for (const auto& [file, text] : repairs[i].files) {
      cause.before += file + "\n" + repository.file(repository.snapshot(), file).value_or("");
      cause.after += file + "\n" + text.value_or("");
    }
    const std::string file = lab.running().folder() + "/way-out.patch";
    std::ofstream(file) << cause.argument;
    cause.way_out = "git apply " + file;
    lab.running().add({claim, fmt::format("{} repairs", repairs.size()),
                       fmt::format("with {} it {}", repairs[i].words, judged[i].words()),
                       dev::Verdict::Confirmed, timer.milliseconds()});
    lab.verify(cause, probes[i]);
    lab.causes.push_back(cause);
    return;
  }
  lab.running().add(
      {claim,
       fmt::format("{} repairs: files of that name or a similar one that the repository has or had",
                   repairs.size()),
       lab.failure().error + (repairs.empty() ? "" : "; with none of them it passes"), dev::Verdict::Partial,
       timer.milliseconds()});
}

}  // namespace lathe::investigations
