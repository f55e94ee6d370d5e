#include "search/workers.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <sstream>
#include <thread>

#include "base/cpus.h"
#include "base/error.h"
#include "search/worker.h"

namespace lathe::search {
namespace {

constexpr double kStartSeconds = 60;

// A worker keeps nothing on disk, shows nothing and never searches itself.
const ChildProcess::Variables kVariables{{"LATHE_BEAM", "0"}, {"LATHE_CACHE", "off"}, {"LATHE_DEBUG", "0"},
                                         {"LATHE_SAVE", ""},  {"LATHE_VERIFY", "0"},  {"LATHE_NOOPT", "0"},
                                         {"LATHE_DEVICE", ""}};

std::vector<std::string> command_of(const Limits& limits) {
  if (!limits.worker.empty()) return limits.worker;
  const std::string found = find_program("lathe-worker", {LATHE_INSTALLED_PROGRAMS});
  if (found.empty())
    throw UserError("search", "lathe-worker, which runs the candidates of a search, is missing")
        .help("it is built and installed with lathe; its folder may also be on PATH");
  return {found};
}

Report report_of(const ChildProcess::Answer& answer) {
  if (answer.outcome == ChildProcess::Outcome::Silent) return {Fate::Hung, {}, answer.text};
  if (answer.outcome == ChildProcess::Outcome::Crashed) return {Fate::Crashed, {}, answer.text};
  std::istringstream in(answer.text);
  std::string word;
  in >> word;
  if (word != "ok") return {Fate::Refused, {}, answer.text};
  Report report{Fate::Ok, {}, answer.text};
  for (double number = 0; in >> number;) report.numbers.push_back(number);
  return report;
}

}  // namespace

std::string_view name(Fate fate) {
  switch (fate) {
    case Fate::Ok: return "ok";
    case Fate::Refused: return "refused";
    case Fate::Crashed: return "crashed";
    case Fate::Hung: return "hung";
    case Fate::Wrong: return "wrong";
  }
  return "";
}

Workers::Workers(const Limits& limits, std::string folder)
    : limits_(limits),
      folder_(std::move(folder)),
      command_(command_of(limits)),
      run_seconds_(limits.candidate_seconds) {
  const int count = limits.compile_processes > 0 ? limits.compile_processes : usable_cpus();
  children_.resize(static_cast<std::size_t>(std::max(count, 1)));
  for (std::size_t i = 0; i < children_.size(); ++i) start(i);
}

// Always on the thread that made this object: a worker ends with the thread that started it.
void Workers::start(std::size_t which) {
  children_[which] = std::make_unique<ChildProcess>(command_, kVariables);
  const ChildProcess::Answer answer = children_[which]->ask("open " + folder_, kStartSeconds);
  if (!answer.ok() || answer.text.rfind("ok ", 0) != 0)
    throw DeviceError("search", fmt::format("{} {}", command_[0], answer.text));
  if (answer.text.substr(3) != code_version())
    throw UserError("search", fmt::format("{} is of another build than this program", command_[0]))
        .help("build both, or install them together");
}

Report Workers::ask(std::size_t which, const std::string& question, double seconds) {
  return report_of(children_[which]->ask(question, seconds));
}

Report Workers::ask(const std::string& question, double more_seconds) {
  if (!children_[0]->alive()) start(0);
  return ask(0, question, run_seconds_ + more_seconds);
}

std::vector<Report> Workers::compile(const std::vector<Candidate>& batch) {
  std::vector<Report> reports(batch.size(), {Fate::Refused, {}, "not tried"});
  std::atomic<std::size_t> next{0};
  auto work = [&](std::size_t which) {
    // One whose worker is lost goes to the others; the worker is replaced below, on the right thread.
    while (children_[which]->alive()) {
      const std::size_t i = next++;
      if (i >= batch.size()) return;
      reports[i] = ask(which, fmt::format("compile {} {}", batch[i].number, batch[i].options),
                       limits_.candidate_seconds);
    }
  };
  while (next < batch.size()) {
    for (std::size_t i = 0; i < children_.size(); ++i)
      if (!children_[i]->alive()) start(i);
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < children_.size(); ++i) others.emplace_back(work, i);
    work(0);
    for (std::thread& other : others) other.join();
  }
  return reports;
}

}  // namespace lathe::search
