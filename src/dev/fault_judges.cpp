// Which check of Lathe notices which planted fault: each is asked by itself, in processes that have the
// fault.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"
#include "dev/fault_subjects.h"
#include "investigate/command.h"

namespace lathe::dev {
namespace {

using investigate::Judge;

constexpr Judge kPlanCheck{"plan check", "a memory plan in which live buffers share bytes (LATHE_VERIFY=1)"};
constexpr Judge kVectorClock{"vector clock", "work in the executor's log that has no order"};
constexpr Judge kFreshRun{"fresh run", "a replay that differs from the captured function"};

constexpr Judge kJudges[] = {investigate::kVerifier,
                             investigate::kReference,
                             investigate::kBoundsProof,
                             investigate::kRaceDetector,
                             investigate::kFirstUse,
                             investigate::kFences,
                             kPlanCheck,
                             kVectorClock,
                             kFreshRun};

// Who must notice every fault of a class: one of these. What is malformed after a step, REF need not take.
struct Duty {
  std::string_view part;
  const Judge& judge;
};
constexpr Duty kDuties[] = {
    {"rule", investigate::kReference},
    {"option", investigate::kReference},
    {"option", investigate::kRaceDetector},
    {"step", investigate::kReference},
    {"step", investigate::kVerifier},
    {"scoping", investigate::kReference},
    {"barrier", investigate::kRaceDetector},
    {"gate", investigate::kBoundsProof},
    {"wait", kVectorClock},
    {"printer", investigate::kFirstUse},
    {"printer", investigate::kFences},
    {"vector width", investigate::kReference},
    {"32-bit overflow", investigate::kReference},
    {"uninitialised accumulator", investigate::kReference},
    {"memory plan", kPlanCheck},
    {"capture", kFreshRun},
};

// Subjects that are shown to the judges, of those that fail.
constexpr std::int64_t kMostSubjects = 8;
// Of one run of a command.
constexpr double kCommandSeconds = 30;

class Trial {
 public:
  explicit Trial(const PlantedFault& fault) : planted_(fault) {
    judged_.fault = fault;
    judged_.missed_by = judges_of(fault.part);
  }

  JudgedFault on_files(const std::vector<std::string>& files) {
    for (const std::string& path : files) {
      if (!investigate::is_failure(outcome_of(judged_.fault, path, laboratory_))) continue;
      ++judged_.subjects;
      if (investigate::is_graph_file(path))
        note(investigate::kReference.name, "the schedule of a graph");
      else
        for (const investigate::Opinion& opinion :
             laboratory_.judges(read_subject_for(judged_.fault, path), {}))
          note(opinion.judge, opinion.says);
      if (judged_.missed_by.empty() || judged_.subjects == kMostSubjects) break;
    }
    return judged_;
  }

  JudgedFault on_commands(const std::vector<std::vector<std::string>>& commands) {
    for (const std::vector<std::string>& command : commands) {
      const auto run = [&](const char* flag, const char* value) {
        return investigate::run_command(
            command, {{"LATHE_CACHE", "off"}, {"LATHE_CHECK", "off"}, {flag, value}}, kCommandSeconds);
      };
      const investigate::CommandRun plain = run("LATHE_DELAY", "3000"), verified = run("LATHE_VERIFY", "1"),
                                    strict = run("LATHE_CHECK", "strict");
      const bool fails = !plain.ok();
      judged_.subjects += fails;
      note_line(kVectorClock, plain, std::string(kRaceHead));
      note_line(kPlanCheck, verified, "lathe: memory plan: ");
      note_line(investigate::kReference, verified, "lathe: verify: ");
      note_line(investigate::kFirstUse, strict, "lathe: check: ");
      if (!run("LATHE_CAPTURE", "1").ok() && run("LATHE_CAPTURE", "0").ok())
        note(kFreshRun.name, "right with LATHE_CAPTURE=0");
    }
    return judged_;
  }

 private:
  void note(std::string_view judge, const std::string& says) {
    if (std::ranges::find(judged_.missed_by, judge) != judged_.missed_by.end()) judged_.missed_by.clear();
    const bool known = std::ranges::any_of(judged_.caught, [&](const auto& c) { return c.first == judge; });
    if (!known) judged_.caught.emplace_back(judge, says);
  }
  void note_line(const Judge& judge, const investigate::CommandRun& run, const std::string& head) {
    const std::string all = run.output + run.errors;
    const std::size_t at = all.find(head);
    if (at != std::string::npos) note(judge.name, all.substr(at, all.find('\n', at) - at));
  }

  const PlantedScope planted_;
  JudgedFault judged_;
  investigate::WorkerLaboratory laboratory_;
};

}  // namespace

std::vector<FaultJudge> fault_judges() {
  std::vector<FaultJudge> out;
  for (const Judge& judge : kJudges) out.push_back({std::string(judge.name), std::string(judge.notices)});
  return out;
}

std::vector<std::string> judges_of(const std::string& part) {
  std::vector<std::string> out;
  for (const Duty& duty : kDuties)
    if (duty.part == part) out.emplace_back(duty.judge.name);
  return out;
}

JudgedFault judge_fault(const PlantedFault& fault, const std::vector<std::string>& subjects,
                        const std::vector<std::vector<std::string>>& commands) {
  Trial trial(fault);
  return is_around_kernels(fault) ? trial.on_commands(commands) : trial.on_files(subjects);
}

}  // namespace lathe::dev
