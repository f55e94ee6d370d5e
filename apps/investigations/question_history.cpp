// Since when does it fail? The first bad commit, then the part of it that matters.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "apps/investigations/minimize.h"
#include "apps/investigations/questions.h"

namespace lathe::investigations {
namespace {

constexpr std::size_t kMostHunks = 400;  // of a change that is taken apart

// Commits, latest first, and what is known of them. The user's uncommitted changes or some of their files are
// taken along where the failure does not show without.
class Search {
 public:
  Search(Lab& lab, std::vector<Commit> chain) : lab_(lab), chain_(std::move(chain)), known_(chain_.size()) {}

  void take_along(std::string patch) {
    patch_ = std::move(patch);
    known_.assign(chain_.size(), std::nullopt);
  }
  void take_along(std::map<std::string, std::optional<std::string>> files) {
    files_ = std::move(files);
    known_.assign(chain_.size(), std::nullopt);
  }

  std::string variant(const Commit& commit) {
    Repository& repository = lab_.repository();
    std::string id = commit.id;
    if (!files_.empty()) id = repository.edited(id, files_);
    if (!patch_.empty()) id = repository.patched(id, patch_, false).value_or("");
    return id;
  }

  void test(const std::vector<std::size_t>& indices) {
    std::vector<Probe> probes;
    std::vector<std::size_t> which;
    for (const std::size_t i : indices) {
      if (known_[i]) continue;
      const std::string id = variant(chain_[i]);
      if (id.empty()) {  // the changes do not fit there
        known_[i] = Result::Differs;
        continue;
      }
      probes.push_back({"at " + chain_[i].label(), id, {}, {}, {}});
      which.push_back(i);
    }
    const std::vector<Judged> judged = lab_.judge(probes);
    for (std::size_t p = 0; p < which.size(); ++p) known_[which[p]] = judged[p].result;
    tested_ += which.size();
  }
  void set(std::size_t index, Result result) { known_[index] = result; }
  Result at(std::size_t index) {
    test({index});
    return *known_[index];
  }

  // Back in growing steps until one passes, then between those that cannot be judged and those that fail.
  std::optional<std::size_t> find_good() {
    const auto jobs = static_cast<std::size_t>(lab_.running().jobs());
    std::size_t step = 1;
    std::size_t bad = 0;
    for (std::size_t at = 1; bad + 1 < chain_.size();) {
      std::vector<std::size_t> wave;
      while (wave.size() < jobs && at < chain_.size()) {
        wave.push_back(at);
        step *= 2;
        at = at + 1 == chain_.size() ? chain_.size() : std::min(at + step, chain_.size() - 1);
      }
      if (wave.empty()) break;
      test(wave);
      for (const std::size_t i : wave) {
        if (known_[i] == Result::Passes) return i;
        if (known_[i] == Result::Fails) bad = i;
      }
    }
    // The command or its test is younger than the oldest commits.
    std::size_t other = chain_.size();
    for (std::size_t i = bad + 1; i < chain_.size(); ++i)
      if (known_[i] == Result::Differs) {
        other = i;
        break;
      }
    while (other < chain_.size() && other - bad > 1) {
      const std::size_t middle = bad + (other - bad) / 2;
      switch (at(middle)) {
        case Result::Passes: return middle;
        case Result::Fails: bad = middle; break;
        case Result::Differs: other = middle; break;
      }
    }
    return std::nullopt;
  }

  // Between a bad and a good one, several at a time. The result is those that may be the first bad one, the
  // likeliest first: more than one where some between could not be judged.
  std::vector<std::size_t> first_bad(std::size_t good) {
    const auto jobs = static_cast<std::size_t>(lab_.running().jobs());
    std::size_t bad = 0;
    while (true) {
      for (std::size_t i = 0; i < good; ++i)
        if (known_[i] == Result::Fails) bad = i;
      for (std::size_t i = good; i-- > bad + 1;)
        if (known_[i] == Result::Passes) good = i;
      std::vector<std::size_t> open;
      for (std::size_t i = bad + 1; i < good; ++i)
        if (!known_[i]) open.push_back(i);
      if (open.empty()) break;
      std::vector<std::size_t> wave;
      for (std::size_t k = 1; k <= jobs; ++k) {
        const std::size_t i = open[std::min(open.size() * k / (jobs + 1), open.size() - 1)];
        if (std::find(wave.begin(), wave.end(), i) == wave.end()) wave.push_back(i);
      }
      test(wave);
    }
    std::vector<std::size_t> candidates;
    for (std::size_t i = bad; i < good; ++i) candidates.push_back(i);
    good_ = good;
    return candidates;
  }

  const Commit& commit(std::size_t index) const { return chain_[index]; }
  std::size_t size() const { return chain_.size(); }
  std::size_t tested() const { return tested_; }
  std::size_t good() const { return good_; }

 private:
  Lab& lab_;
  std::vector<Commit> chain_;
  std::vector<std::optional<Result>> known_;
  std::string patch_;
  std::map<std::string, std::optional<std::string>> files_;
  std::size_t tested_ = 0, good_ = 0;
};

// Files of the user's tree that the command names or the failure is in: where older commits lack them, their
// absence is no pass and no failure.
std::map<std::string, std::optional<std::string>> files_of_the_command(Lab& lab) {
  Repository& repository = lab.repository();
  std::set<std::string> names;
  const auto add = [&](const std::string& word) {
    if (const auto path = repository.path_of(word.substr(0, word.find("::")))) names.insert(*path);
  };
  for (const std::string& word : lab.command()) {
    add(word);
    std::istringstream parts(word);  // sh -c "python tests/run.py"
    for (std::string part; parts >> part;) add(part);
  }
  std::map<std::string, std::optional<std::string>> files;
  for (const std::string& name : names) files[name] = repository.file(repository.snapshot(), name);
  return files;
}

// Tries each candidate by taking it back from the user's tree; what helps is guilty beyond the order of
// commits.
bool blame_commit(Lab& lab, const Commit& guilty, bool certain, const std::string& how) {
  Cause cause;
  cause.kind = "commit";
  cause.name = guilty.label();
  cause.summary = fmt::format("It fails since commit {}.", guilty.label());
  if (certain) lab.causes.push_back(cause);  // stays where the budget ends before more is known
  const bool reverted = !guilty.parents.empty() && blame_change(lab, guilty.parents[0], guilty.id, cause);
  if (!reverted && !certain) return false;
  if (!reverted) cause.summary += " Reverting it in the present tree does not help or is no longer possible.";
  lab.running().add(
      {"the first bad commit is " + guilty.label(), how,
       reverted ? fmt::format("its parent passes, and so does the present tree without {}", cause.name)
                : "its parent passes; reverting it in the present tree did not make the command pass",
       reverted ? dev::Verdict::Confirmed : dev::Verdict::Partial, 0});
  if (certain) lab.causes.pop_back();
  lab.causes.push_back(cause);
  return true;
}

}  // namespace

bool blame_change(Lab& lab, const std::string& before, const std::string& after, Cause& cause) {
  Timer timer;
  Repository& repository = lab.repository();
  Case& running = lab.running();
  const auto reverted = [&](const std::string& patch) {
    return repository.patched(repository.snapshot(), patch, true);
  };
  const std::string whole = repository.change(before, after);
  const auto without = reverted(whole);
  std::vector<Hunk> all = repository.hunks(before, after);
  if (all.empty() || all.size() > kMostHunks) {
    if (!without || !lab.passes({"without the whole change", *without, {}, {}, {}})) return false;
    all.clear();
  } else if (!without || !lab.passes({"without the whole change", *without, {}, {}, {}})) {
    // Later changes may have been made over a part of it that does not matter.
    std::vector<Hunk> fitting;
    for (const Hunk& h : all)
      if (reverted(h.text())) fitting.push_back(h);
    const auto partly =
        fitting.empty() || fitting.size() == all.size() ? std::nullopt : reverted(joined(fitting));
    if (!partly || !lab.passes({"without the parts of the change that can be reverted", *partly, {}, {}, {}}))
      return false;
    all = std::move(fitting);
  }
  std::string patch = whole;
  std::vector<Hunk> guilty = all;
  if (!all.empty()) {
    const auto chosen = [&](const Part& part) {
      std::vector<Hunk> some;
      for (const std::size_t i : part) some.push_back(all[i]);
      return some;
    };
    const Part part = smallest_part(
        all.size(),
        [&](const std::vector<Part>& parts) {
          std::vector<bool> holds(parts.size(), false);
          std::vector<Probe> probes;
          std::vector<std::size_t> which;
          for (std::size_t i = 0; i < parts.size(); ++i)
            if (const auto tree = reverted(joined(chosen(parts[i])))) {
              probes.push_back(
                  {fmt::format("without {} of {} parts of the change", parts[i].size(), all.size()),
                   *tree,
                   {},
                   {},
                   {}});
              which.push_back(i);
            }
          const std::vector<Judged> judged = lab.judge(probes);
          for (std::size_t i = 0; i < which.size(); ++i) holds[which[i]] = judged[i].result == Result::Passes;
          return holds;
        },
        [&] { return running.seconds_left() > 0; });
    guilty = chosen(part);
    patch = joined(guilty);
  }
  const auto fixed = reverted(patch);
  if (!fixed) return false;
  std::string places;
  for (const Hunk& h : guilty) {
    if (places.size() > 200) break;
    places += (places.empty() ? "" : ", ") + h.place();
  }
  if (!places.empty()) cause.name += ", " + places;
  for (const Hunk& h : guilty) {
    std::istringstream lines(h.body);
    std::string line;
    std::getline(lines, line);
    cause.before += h.path + "\n";
    cause.after += h.path + "\n";
    while (std::getline(lines, line)) {
      if (line.empty() || line[0] != '+') cause.before += (line.empty() ? "" : line.substr(1)) + "\n";
      if (line.empty() || line[0] != '-') cause.after += (line.empty() ? "" : line.substr(1)) + "\n";
    }
  }
  const std::string file = running.folder() + "/way-out.patch";
  cause.remedy = "patch";
  cause.argument = repository.change(repository.snapshot(), *fixed);
  std::ofstream(file) << cause.argument;
  cause.way_out = "git apply " + file;
  lab.verify(cause, {"", *fixed, {}, {}, {}});
  return cause.verified;
}

void ask_uncommitted(Lab& lab) {
  Repository& repository = lab.repository();
  if (!repository.changed() || repository.head().empty()) return;
  Timer timer;
  const Judged clean = lab.judge({"without uncommitted changes", repository.head(), {}, {}, {}});
  if (clean.result != Result::Passes) {
    lab.running().add({"uncommitted changes are the cause", "the command at HEAD, without them",
                       "without them the command " + clean.words(), dev::Verdict::Refuted,
                       timer.milliseconds()});
    return;
  }
  Cause cause;
  cause.kind = "uncommitted change";
  cause.name = "uncommitted";
  const bool found = blame_change(lab, repository.head(), repository.snapshot(), cause);
  cause.summary = fmt::format("It fails because of uncommitted changes ({}).", cause.name);
  lab.running().add(
      {"uncommitted changes are the cause", "the command at HEAD, without them",
       "without them the command " + clean.words() + (found ? "; what matters is " + cause.name : ""),
       dev::Verdict::Confirmed, timer.milliseconds()});
  lab.causes.push_back(cause);
}

void search_history(Lab& lab, const std::string& path) {
  Repository& repository = lab.repository();
  Case& running = lab.running();
  const std::string claim = path.empty()
                                ? "an older commit passes"
                                : fmt::format("an older commit passes, of those that touch {}", path);
  if (repository.head().empty()) return;
  Timer timer;
  std::vector<Commit> chain = repository.first_parents(repository.head());
  if (!path.empty()) {
    std::vector<Commit> some;
    for (std::size_t i = 0; i < chain.size(); ++i) {
      if (repository.touches(chain[i], path)) some.push_back(chain[i]);
      // What was before it is what decides whether it is guilty.
      if (!some.empty() && some.back().id == chain[i].id && i + 1 < chain.size() &&
          !repository.touches(chain[i + 1], path))
        some.push_back(chain[i + 1]);
    }
    chain = std::move(some);
  }
  if (chain.size() < 2) {
    running.add({claim, "git log", "there is no older commit", dev::Verdict::Refuted, timer.milliseconds()});
    return;
  }
  Search search(lab, chain);
  if (repository.changed()) {
    const Result clean = search.at(0);
    if (clean == Result::Differs) {
      search.take_along(repository.change(repository.head(), repository.snapshot()));
    } else if (clean == Result::Passes) {
      // New files alone, as a test that was just written, may show what an older commit broke.
      std::map<std::string, std::optional<std::string>> added;
      for (const std::string& name : repository.files(repository.snapshot()))
        if (!repository.file(repository.head(), name))
          added[name] = repository.file(repository.snapshot(), name);
      if (added.empty()) return;
      search.take_along(added);
    }
  }
  if (search.at(0) != Result::Fails) {
    if (path.empty())
      running.add({claim, "the command at HEAD", "it does not fail there in the same way as in the tree",
                   dev::Verdict::Unknown, timer.milliseconds()});
    return;
  }
  std::optional<std::size_t> good = search.find_good();
  if (!good) {
    const auto files = files_of_the_command(lab);
    if (!files.empty()) {
      search.take_along(files);
      if (search.at(0) == Result::Fails) good = search.find_good();
    }
  }
  if (!good) {
    running.add({claim, fmt::format("the command at {} of {} commits", search.tested(), search.size()),
                 "none passes: either the failure is as old as the command, or what the command runs is not "
                 "built from the commit",
                 dev::Verdict::Refuted, timer.milliseconds()});
    return;
  }
  std::vector<std::size_t> candidates = search.first_bad(*good);
  // A failure that turns out to be flaky would have made a bad commit pass: the last good one is asked once
  // more.
  if (!lab.flaky()) {
    constexpr int kOnceMore = 6;
    const std::string id = search.variant(search.commit(search.good()));
    if (!id.empty()) lab.judge({"the last good commit again", id, {}, {}, {}}, kOnceMore);
  }
  const std::string how = fmt::format("the command at {} of {} commits", search.tested(), search.size());
  if (candidates.size() > 1)
    running.event(
        "history",
        fmt::format("{} commits cannot be distinguished: the command fails in another way between them",
                    candidates.size()));
  std::reverse(candidates.begin(), candidates.end());  // the oldest begins what follows
  for (const std::size_t index : candidates) {
    Commit guilty = search.commit(index);
    // What a merge brought is searched like the rest.
    if (guilty.parents.size() > 1) {
      std::vector<Commit> side = repository.merged(guilty);
      Search inside(lab, side);
      if (!side.empty() && inside.at(0) == Result::Fails) {
        const std::optional<std::size_t> passing = side.size() > 1 ? inside.find_good() : std::nullopt;
        guilty = passing ? inside.commit(inside.first_bad(*passing).front()) : side.back();
      }
    }
    if (blame_commit(lab, guilty, candidates.size() == 1, how)) return;
  }
  std::string names;
  for (const std::size_t index : candidates)
    names += (names.empty() ? "" : ", ") + search.commit(index).label();
  running.add({"the first bad commit is one of " + names, how, "the command cannot be judged between them",
               dev::Verdict::Partial, timer.milliseconds()});
}

void ask_history(Lab& lab) { search_history(lab, ""); }

}  // namespace lathe::investigations
