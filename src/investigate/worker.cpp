#include "investigate/worker.h"

#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/atomic_file.h"
#include "base/cpus.h"
#include "base/error.h"

namespace lathe::investigate {
namespace {

namespace fs = std::filesystem;

// An experiment that takes longer hangs.
constexpr double kMostSeconds = 20;
// Between fields of a line, and in place of its line feeds.
constexpr char kField = '\x1f', kLine = '\x1e';

// A worker keeps nothing on disk, shows nothing, and nothing hides what is wrong.
const ChildProcess::Variables kVariables{
    {"LATHE_BEAM", "0"},  {"LATHE_CACHE", "off"}, {"LATHE_DEBUG", "0"},
    {"LATHE_SAVE", ""},   {"LATHE_VERIFY", "0"},  {"LATHE_CHECK", "off"},
    {"LATHE_DEVICE", ""}, {"LATHE_NOOPT", "0"},   {"LATHE_PROGRESS", "0"}};

std::string line_of(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) {
    if (!line.empty()) line += kField;
    line += field;
  }
  std::replace(line.begin(), line.end(), '\n', kLine);
  return line;
}

std::vector<std::string> fields_of(std::string line) {
  std::replace(line.begin(), line.end(), kLine, '\n');
  std::vector<std::string> fields;
  for (std::size_t at = 0;;) {
    const std::size_t end = line.find(kField, at);
    fields.push_back(line.substr(at, end - at));
    if (end == std::string::npos) return fields;
    at = end + 1;
  }
}

std::string number(Outcome outcome) { return fmt::format("{}", static_cast<int>(outcome)); }
Outcome outcome_of(const std::string& text) { return static_cast<Outcome>(std::atoi(text.c_str())); }

// ---- what the worker answers

std::vector<std::string> answer_device(const Subject& subject, const Conditions& conditions, int runs) {
  const DeviceRun run = run_on_device(subject, conditions, runs);
  return {"ok",
          number(run.outcome),
          run.text,
          run.same_bits ? "1" : "0",
          fmt::format("{}", run.passed),
          fmt::format("{}", run.failed),
          to_word(run.difference)};
}

std::vector<std::string> answer_steps(const StepsRun& run) {
  std::vector<std::string> fields{"ok",
                                  number(run.outcome),
                                  run.text,
                                  run.before,
                                  run.after,
                                  to_word(run.difference),
                                  fmt::format("{}", run.steps.size())};
  for (const StepVerdict& step : run.steps)
    for (const std::string& field :
         {step.part, step.name, std::string(step.optional ? "1" : "0"), number(step.outcome), step.text})
      fields.push_back(field);
  for (const RuleUse& rule : run.rules)
    for (const std::string& field : {rule.name, rule.table, fmt::format("{}", rule.times),
                                     std::string(rule.changes_value ? "1" : "0"), rule.example})
      fields.push_back(field);
  return fields;
}

std::vector<std::string> answer_judges(const std::vector<Opinion>& opinions) {
  std::vector<std::string> fields{"ok"};
  for (const Opinion& opinion : opinions)
    for (const std::string& field : {opinion.judge, opinion.says}) fields.push_back(field);
  return fields;
}

std::vector<std::string> answer(std::istringstream& in) {
  std::string question, path, word;
  in >> question >> path;
  Conditions conditions;
  int runs = 1;
  while (in >> word) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals),
                      value = equals == word.npos ? "" : word.substr(equals + 1);
    if (key == "without") conditions.without.push_back(value);
    if (key == "printer") conditions.printer = value;
    if (key == "nooptions") conditions.without_options = true;
    if (key == "runs") runs = std::atoi(value.c_str());
  }
  const Scope scope;
  if (question == "schedule") return answer_steps(run_schedule_on_ref(read_graph(path), conditions));
  const Subject subject = read_subject(path);
  if (question == "device") return answer_device(subject, conditions, runs);
  if (question == "steps") return answer_steps(run_steps_on_ref(subject, conditions));
  if (question == "judges") return answer_judges(ask_judges(subject, conditions));
  if (question == "on_device") return answer_judges(ask_on_device(subject, conditions));
  throw UserError("worker", "unknown question " + question);
}

}  // namespace

int worker_main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // what hangs must not outlive the investigation
  std::string line;
  while (std::getline(std::cin, line)) {
    std::vector<std::string> fields;
    try {
      std::istringstream in(line);
      fields = answer(in);
    } catch (const std::exception& error) {
      fields = {"error", error.what()};
    }
    std::cout << line_of(fields) << std::endl;
  }
  return 0;
}

std::string worker_program() {
  std::string found = find_program("lathe-worker", {LATHE_INSTALLED_PROGRAMS});
  if (found.empty())
    throw UserError("investigate", "lathe-worker, which runs the experiments of an investigation, is missing")
        .help("it is built and installed with lathe; its folder may also be on PATH");
  return found;
}

WorkerLaboratory::WorkerLaboratory(int jobs)
    : jobs_(static_cast<std::size_t>(jobs > 0 ? jobs : usable_cpus())) {
  command_ = {worker_program(), "investigate"};
  const fs::path base = fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
  folder_ = (base / "lathe-investigate-XXXXXX").string();
  if (mkdtemp(folder_.data()) == nullptr)
    throw DeviceError("investigate", "cannot make a folder in " + base.string());
}

WorkerLaboratory::~WorkerLaboratory() {
  child_.reset();
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void WorkerLaboratory::for_each(std::size_t count, const Numbered& experiment) {
  const std::size_t threads = std::min(jobs_, count);
  while (beside_.size() + 1 < threads) beside_.push_back(std::make_unique<WorkerLaboratory>());
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failed;
  const auto work = [&](Laboratory& laboratory) {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        experiment(laboratory, i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failed = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < threads; ++t)
      others.emplace_back([&work, &laboratory = *beside_[t - 1]] { work(laboratory); });
    work(*this);
  }
  if (failed) std::rethrow_exception(failed);
}

WorkerLaboratory::Reply WorkerLaboratory::ask(const std::string& question, const std::string& subject,
                                              const Conditions& conditions) {
  const std::string path = folder_ + "/subject.txt";
  write_file_atomic(path, subject, Sync::No);
  std::string line = fmt::format("{} {}", question.substr(0, question.find(' ')), path);
  if (const std::size_t rest = question.find(' '); rest != question.npos) line += question.substr(rest);
  for (const std::string& name : conditions.without) line += " without=" + name;
  if (!conditions.printer.empty()) line += " printer=" + conditions.printer;
  if (conditions.without_options) line += " nooptions";
  if (child_ == nullptr || !child_->alive()) child_ = std::make_unique<ChildProcess>(command_, kVariables);
  const ChildProcess::Answer answer = child_->ask(line, kMostSeconds);
  if (answer.outcome == ChildProcess::Outcome::Silent) return {Outcome::Hung, {answer.text}};
  if (answer.outcome == ChildProcess::Outcome::Crashed) return {Outcome::Crashed, {answer.text}};
  std::vector<std::string> fields = fields_of(answer.text);
  const bool ok = fields[0] == "ok";
  fields.erase(fields.begin());
  return {ok ? Outcome::Right : Outcome::Refused, std::move(fields)};
}

DeviceRun WorkerLaboratory::device(const Subject& subject, const Conditions& conditions, int runs) {
  const Reply reply = ask(fmt::format("device runs={}", runs), to_text(subject), conditions);
  DeviceRun run;
  run.outcome = reply.outcome;
  if (reply.outcome != Outcome::Right || reply.fields.size() < 6) {
    if (!reply.fields.empty()) run.text = reply.fields[0];
    return run;
  }
  run.outcome = outcome_of(reply.fields[0]);
  run.text = reply.fields[1];
  run.same_bits = reply.fields[2] == "1";
  run.passed = std::atoll(reply.fields[3].c_str());
  run.failed = std::atoll(reply.fields[4].c_str());
  run.difference = rows_of_word(reply.fields[5]);
  return run;
}

StepsRun WorkerLaboratory::steps(const Subject& subject, const Conditions& conditions) {
  return ask_steps("steps", to_text(subject), conditions);
}

StepsRun WorkerLaboratory::schedule(const GraphSubject& subject, const Conditions& conditions) {
  return ask_steps("schedule", to_text(subject), conditions);
}

// A worker that crashes or hangs has no opinions.
std::vector<Opinion> WorkerLaboratory::judges(const Subject& subject, const Conditions& conditions) {
  std::vector<Opinion> opinions = opinions_of(steps(subject, conditions));
  for (const char* question : {"judges", "on_device"}) {
    const Reply reply = ask(question, to_text(subject), conditions);
    if (reply.outcome != Outcome::Right) continue;
    for (std::size_t at = 0; at + 2 <= reply.fields.size(); at += 2)
      opinions.push_back({reply.fields[at], reply.fields[at + 1]});
  }
  return opinions;
}

StepsRun WorkerLaboratory::ask_steps(const std::string& question, const std::string& subject,
                                     const Conditions& conditions) {
  const Reply reply = ask(question, subject, conditions);
  StepsRun run;
  run.outcome = reply.outcome;
  if (reply.outcome != Outcome::Right || reply.fields.size() < 6) {
    if (!reply.fields.empty()) run.text = reply.fields[0];
    return run;
  }
  const std::vector<std::string>& fields = reply.fields;
  run.outcome = outcome_of(fields[0]);
  run.text = fields[1];
  run.before = fields[2], run.after = fields[3];
  run.difference = rows_of_word(fields[4]);
  const auto count = static_cast<std::size_t>(std::atoll(fields[5].c_str()));
  std::size_t at = 6;
  for (std::size_t i = 0; i < count && at + 5 <= fields.size(); ++i, at += 5)
    run.steps.push_back(
        {fields[at], fields[at + 1], fields[at + 2] == "1", outcome_of(fields[at + 3]), fields[at + 4]});
  for (; at + 5 <= fields.size(); at += 5)
    run.rules.push_back({fields[at], fields[at + 1], std::atoll(fields[at + 2].c_str()),
                         fields[at + 3] == "1", fields[at + 4]});
  return run;
}

}  // namespace lathe::investigate
