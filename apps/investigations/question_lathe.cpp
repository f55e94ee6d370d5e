// Is it a program of Lathe, and is something that Lathe made of it wrong: a kernel, a schedule, the memory
// plan, a wait? The compiler's own investigation answers that, in one more copy of the user's tree.
#include <fmt/format.h>

#include <filesystem>

#include "apps/investigations/questions.h"
#include "lathe/dev/investigate_kernel.h"

namespace lathe::investigations {
namespace {

namespace fs = std::filesystem;

// The rest of the budget is for the other questions.
constexpr double kShareOfBudget = 0.6;

// The user's command, in a copy of the tree and with the variables it had; what Lathe's investigation adds
// to the environment stays.
std::vector<std::string> in_tree(Lab& lab, const std::string& tree) {
  Repository& repository = lab.repository();
  std::vector<std::string> words{"env", "-C", tree + "/" + repository.prefix()};
  for (const auto& [name, value] : lab.running().environment())
    if (!name.starts_with("LATHE_")) words.push_back(name + "=" + repository.moved(value, tree));
  for (const std::string& word : lab.command()) words.push_back(repository.moved(word, tree));
  return words;
}

}  // namespace

// It saves them where it is told to.
bool uses_lathe(Lab& lab) {
  Case& running = lab.running();
  constexpr const char* kKnown = "uses lathe";
  if (const auto known = running.store().recall(running.id(), kKnown)) return *known == "yes";
  const std::string saved = running.scratch() + "/saved-kernels";
  fs::create_directories(saved);
  lab.judge({"with LATHE_SAVE", "", {}, {{"LATHE_SAVE", saved}, {"LATHE_CACHE", "off"}}, {}});
  // One that is refused before it makes any says who refuses.
  const bool uses = !fs::is_empty(saved) || lab.failing().output.find("lathe: ") != std::string::npos;
  running.store().remember(running.id(), kKnown, uses ? "yes" : "no");
  return uses;
}

void ask_lathe(Lab& lab) {
  if (!uses_lathe(lab)) return;
  Case& running = lab.running();
  const std::string tree = lab.repository().worktree(lab.repository().snapshot());
  dev::InvestigationLimits limits;
  limits.seconds = running.seconds_left() * kShareOfBudget;
  limits.run_seconds = lab.limit();
  limits.jobs = running.input().jobs;
  limits.folder = running.folder();
  const dev::Finding finding =
      dev::investigate_program(in_tree(lab, tree), limits, [&](const dev::Hypothesis& hypothesis) {
        running.add(hypothesis);
        return running.early() == Early::No;
      });
  Repository::drop(tree);
  running.check();
  if (finding.kind.empty()) return;
  Cause cause;
  cause.kind = finding.kind;
  cause.name = finding.cause;
  cause.summary = finding.summary;
  if (const std::vector<Place> places = places_of(lab.failing().output);
      finding.kind == "devices" && !places.empty())
    cause.summary += fmt::format(" It is at {}:{}.", places.back().file, places.back().line);
  if (!finding.repro.empty()) cause.summary += fmt::format(" It is saved in {}.", finding.repro);
  cause.way_out = finding.way_out;
  cause.before = finding.before;
  cause.after = finding.after;
  if (finding.way_out.find('=') != std::string::npos) {
    cause.remedy = "set";
    cause.argument = finding.way_out;
    bool possible = false;
    const Probe with = lab.with_remedy(cause, possible);
    if (possible) lab.verify(cause, with);
  }
  lab.causes.push_back(cause);
}

}  // namespace lathe::investigations
