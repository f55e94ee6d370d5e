#include "apps/investigations/bank.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "lathe/error.h"

namespace lathe::investigations {

extern const char* const kErrorPage;  // docs/reference/errors.md

namespace {

namespace fs = std::filesystem;

std::string whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

std::string begin_mark(const std::string& id) { return fmt::format("<!-- {} -->", id); }
std::string end_mark(const std::string& id) { return fmt::format("<!-- /{} -->", id); }

std::string progress_of(Store& store, const Session& s) {
  const dev::Finding& f = s.finding;
  std::string text = fmt::format("## {} - {}\n\nError: {}\nStatus: {}\n", s.id, time_text(s.started),
                                 one_line(s.error.empty() ? s.input.words : s.error), row(s.state).name);
  if (!f.summary.empty()) text += fmt::format("Verdict: {}\n", one_line(f.summary));
  if (f.way_out_verified)
    text += fmt::format("Verified cause: {}: {}\nVerified way out: {}\n", f.kind, one_line(f.cause),
                        one_line(f.way_out));
  for (const Observation& o : store.observations(s.id))
    text += fmt::format("Observation ({}): {} - {}\n", o.who, one_line(o.text), one_line(o.effect));
  const auto same = store.same_failure(s.signature, s.id);
  for (const Session& other : same)
    if (other.started < s.started) {
      text += fmt::format("Same failure as: {}\n", other.id);
      break;
    }
  text += fmt::format("Scenarios run: {}\n", s.scenarios);
  const std::int64_t end = s.ended > 0 ? s.ended : 0;
  if (end > 0) text += fmt::format("Duration: {:.1f}s\n", static_cast<double>(end - s.started) / 1000);
  return text;
}

std::string context_of(Store& store, const Session& s) {
  std::string text;
  const std::vector<dev::Hypothesis> all = store.hypotheses(s.id);
  const std::vector<std::int64_t> times = store.hypothesis_times(s.id);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const dev::Hypothesis& h = all[i];
    text += fmt::format(
        "### {} - {}\n\nError: {}\nHypothesis: {}\nExperiment: {}\nEvidence: {}\nVerdict: {} ({:.0f} ms)\n\n",
        s.id, time_text(i < times.size() ? times[i] : 0), one_line(s.error), one_line(h.claim),
        one_line(h.experiment), one_line(h.evidence), name(h.verdict), h.milliseconds);
  }
  return text;
}

// A page made again: blocks between marks are remade; lines that people wrote, outside or inside of them,
// stay where they are, or right behind their block.
std::string remade(Store& store, const std::string& page, const std::string& before, const std::string& title,
                   const std::vector<Session>& sessions,
                   const std::function<std::string(const Session&)>& block_of) {
  std::map<std::string, const Session*> open;
  for (const Session& s : sessions) open[s.id] = &s;
  std::string result;
  const auto add_block = [&](const Session& s, const std::vector<std::string>& found) {
    const std::string block = block_of(s);
    const std::string key = "block " + page;
    // What is in the block and was not made by us is a note.
    std::set<std::string> made;
    for (const std::string& line : split_lines(store.recall(s.id, key).value_or(""))) made.insert(line);
    for (const std::string& line : split_lines(block)) made.insert(line);
    std::string notes;
    for (const std::string& line : found)
      if (!line.empty() && !made.contains(line)) notes += line + "\n";
    result += begin_mark(s.id) + "\n" + block + end_mark(s.id) + "\n";
    if (!notes.empty()) result += "\n" + notes + "\n";
    if (store.recall(s.id, key) != block) store.remember(s.id, key, block);
  };
  const std::vector<std::string> lines = split_lines(
      before.empty() ? "# " + title + "\n\nMade from store.sqlite. What you write here stays.\n" : before);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Session* session = nullptr;
    if (lines[i].rfind("<!-- session-", 0) == 0)
      for (const auto& [id, s] : open)
        if (lines[i] == begin_mark(id)) session = s;
    if (session == nullptr) {
      result += lines[i] + "\n";
      continue;
    }
    std::vector<std::string> found;
    std::size_t at = i + 1;
    while (at < lines.size() && lines[at] != end_mark(session->id)) found.push_back(lines[at++]);
    if (at == lines.size()) {  // somebody removed the end: all that follows is theirs
      found.clear();
      at = i;
    }
    add_block(*session, found);
    open.erase(session->id);
    i = at;
  }
  for (const Session& s : sessions)  // oldest first
    if (open.contains(s.id)) {
      result += "\n";
      add_block(s, {});
    }
  return result;
}

void write_whole(const std::string& path, const std::string& text) {
  const std::string temporary = fmt::format("{}.{}", path, getpid());
  {
    std::ofstream file(temporary, std::ios::binary);
    file << text;
    file.flush();
    if (!file) throw DeviceError("investigate", path + ": cannot be written").help("is the disk full?");
  }
  chmod(temporary.c_str(), S_IRUSR | S_IWUSR);
  fs::rename(temporary, path);
}

}  // namespace

std::string time_text(std::int64_t ms) {
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), ms % 1000);
}

void write_bank(Store& store) {
  const int lock =
      open((store.folder() + "/bank.lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (lock >= 0) flock(lock, LOCK_EX);
  std::vector<Session> sessions = store.sessions();
  std::reverse(sessions.begin(), sessions.end());
  const auto write = [&](const char* page, const char* title,
                         const std::function<std::string(const Session&)>& block_of) {
    const std::string path = store.folder() + "/" + page;
    const std::string before = whole_file(path);
    const std::string after = remade(store, page, before, title, sessions, block_of);
    if (after != before) write_whole(path, after);
  };
  try {
    write("progress.md", "Investigations", [&](const Session& s) { return progress_of(store, s); });
    write("activeContext.md", "Hypotheses, as they were tested",
          [&](const Session& s) { return context_of(store, s); });
  } catch (...) {
    if (lock >= 0) close(lock);
    throw;
  }
  if (lock >= 0) close(lock);
}

namespace {

// "Error: text" at the start of a line; the first of the names that is there, or the last where `last`.
std::string field(const std::vector<std::string>& lines, const std::vector<std::string>& names,
                  bool last = false) {
  std::string value;
  for (const std::string& line : lines)
    for (const std::string& name : names)
      if (line.rfind(name + ":", 0) == 0) {
        const std::size_t begin = line.find_first_not_of(' ', name.size() + 1);
        value = begin == std::string::npos ? "" : line.substr(begin);
        if (!last) return value;
      }
  return value;
}

// Parts of a page that begin with a line of some form.
std::vector<std::vector<std::string>> parts_of(const std::string& page,
                                               const std::function<bool(const std::string&)>& begins) {
  std::vector<std::vector<std::string>> parts;
  for (const std::string& line : split_lines(page)) {
    if (begins(line)) parts.emplace_back();
    if (!parts.empty()) parts.back().push_back(line);
  }
  return parts;
}

std::string with_ends(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

Imported import_bank(Store& store, const std::string& path) {
  std::error_code failed;
  const fs::path given = fs::absolute(path, failed).lexically_normal();
  std::vector<fs::path> pages;
  if (fs::is_directory(given, failed))
    for (const char* name : {"activeContext.md", "progress.md"}) pages.push_back(given / name);
  else
    pages.push_back(given);
  Imported imported;
  std::vector<Hint> hints;
  for (const fs::path& page : pages) {
    const std::string text = whole_file(page);
    for (const auto& lines :
         parts_of(text, [](const std::string& l) { return l == "AUTOMATED HYPOTHESIS RECORD"; })) {
      hints.push_back({given.string(), field(lines, {"Timestamp"}), "record",
                       field(lines, {"Error", "Initial Error"}), with_ends(lines), 0, 0});
      ++imported.records;
    }
    for (const auto& lines :
         parts_of(text, [](const std::string& l) { return l.rfind("## Debug Session ", 0) == 0; })) {
      Hint hint{given.string(),
                lines[0].substr(3),
                "section",
                field(lines, {"Error", "Initial Error"}),
                with_ends(lines),
                0,
                0};
      hint.scenarios = std::atoll(field(lines, {"Scenarios Run", "Scenarios Spawned"}, true).c_str());
      hint.seconds = std::atof(field(lines, {"Duration"}, true).c_str());
      ++imported.sections;
      imported.scenarios.push_back(hint.scenarios);
      imported.seconds.push_back(hint.seconds);
      hints.push_back(std::move(hint));
    }
  }
  if (hints.empty())
    throw UserError("investigate import",
                    fmt::format("{} has no records of hypotheses and no sections of sessions", path))
        .help("a bank is a folder with activeContext.md and progress.md");
  store.replace_hints(given.string(), hints);
  return imported;
}

namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    if (word.size() > 2) words.insert(word);
    word.clear();
  }
  return {words.begin(), words.end()};
}

// A page of errors by its headings and entries.
std::vector<Match> error_entries() {
  std::vector<Match> entries;
  for (const auto& lines : parts_of(kErrorPage, [](const std::string& l) {
         return l.rfind("## ", 0) == 0 || l.rfind("### ", 0) == 0;
       })) {
    const std::string title = lines[0].substr(lines[0].find(' ') + 1);
    // Long sections by paragraph, so that a match names a message and not a chapter.
    std::string paragraph;
    for (std::size_t i = 1; i <= lines.size(); ++i) {
      if (i < lines.size() && !lines[i].empty()) {
        paragraph += lines[i] + "\n";
        continue;
      }
      if (!paragraph.empty()) entries.push_back({"docs/reference/errors.md", title, paragraph, 0});
      paragraph.clear();
    }
  }
  return entries;
}

}  // namespace

std::vector<Match> search_bank(Store& store, const std::string& words, std::size_t count) {
  std::vector<Match> all = error_entries();
  for (const Session& s : store.sessions())
    if (!s.error.empty())
      all.push_back({s.id, s.error,
                     fmt::format("{}: {} {}", row(s.state).name, s.finding.summary, s.finding.way_out), 0});
  for (const Hint& h : store.hints()) all.push_back({"hint, untested: " + h.title, h.error, h.text, 0});
  // Words that few entries have say more.
  std::vector<std::vector<std::string>> entry_words;
  std::map<std::string, int> entries_with;
  for (const Match& m : all) {
    entry_words.push_back(words_of(m.title + " " + m.text));
    for (const std::string& w : entry_words.back()) ++entries_with[w];
  }
  const std::vector<std::string> wanted = words_of(words);
  double possible = 0;
  const auto weight = [&](const std::string& w) {
    return std::log(1 + static_cast<double>(all.size()) / std::max(1, entries_with[w]));
  };
  for (const std::string& w : wanted) possible += weight(w);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const std::string& w : wanted)
      if (std::binary_search(entry_words[i].begin(), entry_words[i].end(), w)) all[i].score += weight(w);
    all[i].score /= std::max(possible, 1e-9);
  }
  constexpr double kResembles = 0.3;  // of the weight of the words
  std::erase_if(all, [](const Match& m) { return m.score < kResembles; });
  std::stable_sort(all.begin(), all.end(), [](const Match& a, const Match& b) { return a.score > b.score; });
  if (all.size() > count) all.resize(count);
  return all;
}

}  // namespace lathe::investigations
