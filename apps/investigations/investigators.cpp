#include "apps/investigations/investigators.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <array>
#include <filesystem>
#include <thread>

#include "apps/investigations/bank.h"
#include "apps/investigations/page.h"
#include "lathe/dev/investigate_kernel.h"
#include "lathe/dev/machine.h"
#include "lathe/error.h"

namespace lathe::investigations {

const std::vector<Investigator>& investigators() {
  static const std::vector<Investigator> rows{
      {"command", "a command that fails, after --", [](const Input& i) { return !i.command.empty(); },
       investigate_command},
      {"kernel", "a kernel or a graph that LATHE_SAVE or the first-use check wrote",
       [](const Input& i) { return !i.path.empty(); }, investigate_saved},
      {"words", "words that describe the failure", [](const Input& i) { return !i.words.empty(); },
       investigate_words},
  };
  return rows;
}

const Investigator* investigator(std::string_view kind) {
  for (const Investigator& row : investigators())
    if (row.kind == kind) return &row;
  return nullptr;
}

std::string kind_of(const Input& input) {
  for (const Investigator& row : investigators())
    if (row.takes(input)) return std::string(row.kind);
  std::string kinds;
  for (const Investigator& row : investigators())
    kinds += (kinds.empty() ? "" : ", or ") + std::string(row.input);
  if (!input.path.empty())
    throw UserError("investigate", input.path + " cannot be investigated").help("investigate " + kinds);
  throw UserError("investigate", "there is nothing to investigate").help("give " + kinds);
}

Answer answer_of(Case& running, const Investigate& investigate) {
  dev::InvestigationLimits limits;
  limits.seconds = running.seconds_left();
  limits.jobs = running.input().jobs;
  Answer answer;
  answer.finding = investigate(limits, [&](const dev::Hypothesis& hypothesis) {
    running.add(hypothesis);
    return running.early() == Early::No;
  });
  // A cause is named only where it was verified.
  answer.state = answer.finding.kind.empty() ? State::NotFound : State::Found;
  return answer;
}

Answer investigate_saved(Case& running) {
  return answer_of(running, [&](dev::InvestigationLimits limits, const dev::OnHypothesis& told) {
    limits.folder = running.folder();
    return dev::investigate_kernel(running.input().path, limits, told);
  });
}

// Words cannot be tested; what resembles them can be read, and what has to come can be said.
Answer investigate_words(Case& running) {
  Timer timer;
  Answer answer;
  answer.state = State::NeedsInput;
  running.store().set_failure(running.id(), "", running.input().words);
  const std::vector<Match> matches = search_bank(running.store(), running.input().words);
  for (const Match& m : matches) {
    std::string text = m.text.substr(0, 300);
    for (char& c : text)
      if (c == '\n') c = ' ';
    running.add({fmt::format("it is this: {}", m.title), "a search of the bank and the page of errors",
                 fmt::format("{} ({:.0f} % of the words): {}", m.from, m.score * 100, text),
                 dev::Verdict::Unknown, timer.milliseconds()});
  }
  answer.finding.hypotheses = running.hypotheses();
  answer.finding.summary = fmt::format(
      "Words alone cannot be tested; {} entries of the bank and the page of errors resemble them. "
      "Needed: a command that fails (lathe investigate resume {} -- COMMAND).",
      matches.size(), running.id());
  return answer;
}

namespace {
// What the environment does not say: the system and what Lathe is built with.
std::string machine() {
  utsname names{};
  uname(&names);
  std::string text = fmt::format("{} {} {}, {} CPUs", names.sysname, names.release, names.machine,
                                 std::thread::hardware_concurrency());
  for (const auto& [name, version] : dev::versions()) text += fmt::format(", {} {}", name, version);
  return text;
}

dev::Finding without_cause(const std::string& summary, const Case& running) {
  dev::Finding finding;
  finding.summary = summary;
  finding.hypotheses = running.hypotheses();
  return finding;
}
}  // namespace

State run_session(Store& store, const std::string& id, const Case::Tell& tell,
                  const std::function<void(Case&)>& started) {
  const Session before = store.session(id);
  if (before.interrupted) {
    // What two killed parents have left, before anything runs again.
    const int ended = end_marked(id);
    if (ended > 0)
      store.add_event(id, "scenario",
                      fmt::format("{} processes of the earlier run were still running", ended));
    std::error_code ignored;
    std::filesystem::remove_all(store.session_folder(id) + "/scratch", ignored);
  }
  if (!store.claim(id, before.interrupted ? "resumed" : "begun"))
    throw UserError("investigate",
                    fmt::format("{} is {}{}", id, row(before.state).name,
                                before.owner != 0 ? fmt::format(" in process {}", before.owner) : ""))
        .help("lathe investigate show has details");
  State state = State::Failed;
  std::string reason;
  std::optional<dev::Finding> finding;
  {
    Case running(store, id, tell);
    running.event("machine", machine());
    if (started) started(running);
    const Session session = store.session(id);
    try {
      const Investigator* row = investigator(session.input.kind);
      if (row == nullptr)
        throw UserError("investigate", "this build cannot investigate: " + session.input.kind);
      Answer answer = row->run(running);
      if (running.early() == Early::Cancelled || running.early() == Early::Interrupted) running.check();
      state = answer.state;
      finding = std::move(answer.finding);
      reason = state == State::Found        ? "a cause was verified"
               : state == State::NeedsInput ? "words alone cannot be tested"
                                            : "no cause was verified";
    } catch (const EndedEarly& end) {
      static constexpr std::array<std::pair<State, std::string_view>, 4> kEnds{
          {{State::NotFound, "it ended"},
           {State::Cancelled, "somebody cancelled it"},
           {State::Queued, "its process was told to stop"},
           {State::NotFound, "the budget was used up"}}};
      const auto& [to, why] = kEnds[static_cast<std::size_t>(end.why)];
      state = to;
      reason = why;
      if (state == State::NotFound) finding = without_cause("The budget was used up.", running);
    } catch (const std::exception& error) {
      reason = error.what();
      running.event("error", reason);
      finding = without_cause("The investigation itself failed: " + reason, running);
    }
  }
  if (finding) store.set_finding(id, *finding);
  try {
    store.move(id, state, reason);
  } catch (const UserError&) {  // whoever cancelled it did not wait for this process
    state = store.session(id).state;
  }
  if (state != State::Queued) {
    std::error_code ignored;
    std::filesystem::remove_all(store.session_folder(id) + "/scratch", ignored);
  }
  write_page(store, id);
  write_bank(store);
  return state;
}

}  // namespace lathe::investigations
