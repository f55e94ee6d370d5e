// `lathe investigate`: why something fails, by experiment (docs/investigate.md).
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <stop_token>
#include <thread>

#include "lathe/error.h"
#include "tools/lathe/commands.h"

#if LATHE_HAVE_INVESTIGATIONS
#include "apps/investigations/bank.h"
#include "apps/investigations/investigators.h"
#include "apps/investigations/page.h"
#include "apps/investigations/record.h"
#include "lathe/dev/child_process.h"
#include "lathe/dev/investigate_kernel.h"
#include "lathe/dev/terminal.h"
#endif

namespace lathe::tool {

#if LATHE_HAVE_INVESTIGATIONS
namespace {

using namespace lathe::investigations;
namespace fs = std::filesystem;

// What scripts read off the end of a command.
constexpr int kFound = 0, kFailed = 1, kNotFound = 3, kNeedsInput = 4, kCancelled = 5, kInterrupted = 130;

int status_of(State state) {
  switch (state) {
    case State::Found: return kFound;
    case State::NotFound: return kNotFound;
    case State::NeedsInput: return kNeedsInput;
    case State::Cancelled: return kCancelled;
    case State::Queued:
    case State::Running: return kInterrupted;
    case State::Failed: break;
  }
  return kFailed;
}

struct Options {
  std::vector<std::string> words;
  Input input;
  std::string tests, store, project_store, id, text, who = "person", path;
  double slower_than = 0;
  std::int64_t memory_mib = 4096, carry_mib = 1024;
  bool json = false, open = false, quiet = false, all = false;
  bool only_queued = false;  // one that somebody cancelled before it began stays so
};

std::unique_ptr<Store> opened(const Options& o) {
  const std::string folder =
      o.project_store.empty() ? store_folder(fs::current_path().string(), o.store) : o.project_store;
  return std::make_unique<Store>(folder);
}

// The one that is named, or the latest.
std::string id_of(Store& store, const Options& o) {
  if (!o.id.empty()) return store.session(o.id).id;
  const std::vector<Session> all = store.sessions();
  if (all.empty())
    throw UserError("investigate", "this project has no investigation yet")
        .help("start one with lathe investigate -- COMMAND");
  return all.front().id;
}

Input input_of(const Options& o) {
  Input input = o.input;
  input.command = words_after_dashes();
  input.directory = fs::current_path().string();
  input.memory = o.memory_mib << 20;
  input.carry = o.carry_mib << 20;
  if (o.slower_than > 0) {
    input.scenario_seconds = o.slower_than;
    input.jobs = 1;  // side by side they would take longer
  }
  if (!o.tests.empty()) input.tests = {"sh", "-c", o.tests};
  if (!input.command.empty() && !o.words.empty())
    throw UserError("investigate", fmt::format("{} is before --", o.words.front()))
        .help("give a command after --, or a path, or a description");
  std::error_code failed;
  if (o.words.size() == 1 && fs::exists(o.words[0], failed)) {
    input.path = fs::absolute(o.words[0]).string();
  } else {
    for (const std::string& word : o.words) input.words += (input.words.empty() ? "" : " ") + word;
  }
  input.kind = kind_of(input);
  return input;
}

void show_page(Store& store, const std::string& id) {
  const std::string page = write_page(store, id);
  fmt::print("{}\n", page);
  std::fflush(stdout);
  const std::string viewer = dev::find_program("xdg-open");
  if (!viewer.empty() && std::getenv("DISPLAY") != nullptr) run_command({viewer, page});
}

void print_session(Store& store, const std::string& id, const Options& o) {
  if (o.json) {
    fmt::print("{}\n", text_of(o.all ? record_of(store, id) : summary_of(store, id)));
    return;
  }
  const Session s = store.session(id);
  fmt::print("{}  {}{}\n", s.id, row(s.state).name,
             s.interrupted ? " (its process has ended; continue with lathe investigate resume)" : "");
  const auto line = [](const char* what, const std::string& text) {
    if (!text.empty()) fmt::print("{}\n", folded(text, 11, what));
  };
  line("input", s.input.command.empty() ? s.input.path + s.input.words : joined_words(s.input.command));
  line("error", s.error);
  line("verdict", s.finding.summary);
  line("cause", s.finding.cause.empty() ? "" : s.finding.kind + ": " + s.finding.cause);
  line("way out", s.finding.way_out.empty()
                      ? ""
                      : s.finding.way_out +
                            (s.finding.way_out_verified ? "  (verified both ways)" : "  (not verified)"));
  line("repro", s.finding.repro);
  line("run it", s.finding.repro_command);
  line("look at", dev::inspect_command(s.finding));
  if (!s.finding.cause.empty()) line("page", fmt::format("lathe investigate show {} --open", s.id));
  std::vector<std::vector<std::string>> rows{{"verdict", "ms", "hypothesis"}};
  for (const dev::Hypothesis& h : store.hypotheses(id))
    rows.push_back({std::string(name(h.verdict)), fmt::format("{:.0f}", h.milliseconds), h.claim});
  if (rows.size() > 1) print_table(rows);
  if (o.all) {
    for (const Transition& t : store.transitions(id))
      fmt::print("{} {}: {}\n", time_text(t.time), row(t.after).name, t.reason);
    for (const Observation& ob : store.observations(id))
      fmt::print("{} {}: {} ({})\n", time_text(ob.time), ob.who, ob.text, ob.effect);
    for (const Event& e : store.events(id)) fmt::print("{} {}: {}\n", time_text(e.time), e.kind, e.text);
    for (const ScenarioRow& r : store.scenarios(id))
      fmt::print("{:4} {:9} {:3} {:7.2f} s  {}\n", r.number, r.ending, r.status, r.seconds, r.label);
  }
}

volatile std::sig_atomic_t signal_number = 0;

int run(Store& store, const std::string& id, const Options& o) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    std::signal(number, [](int came) { signal_number = came; });
  std::jthread watch;
  const auto tell = [&](const std::string& line) {
    if (!o.quiet) fmt::print(stderr, "{}\n", line);
  };
  if (!o.quiet) fmt::print(stderr, "{}\n", id);
  const State state = run_session(store, id, tell, [&](Case& running) {
    watch = std::jthread([&running](const std::stop_token& over) {
      while (!over.stop_requested() && signal_number == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (signal_number != 0) running.end(Early::Interrupted);
    });
    running.when_over([&watch] {
      watch.request_stop();
      watch.join();
    });
  });
  print_session(store, id, o);
  if (o.open) show_page(store, id);
  if (state == State::Queued)
    fmt::print(stderr, "interrupted; continue with lathe investigate resume {}\n", id);
  return status_of(state);
}

int begin(const Options& o) {
  const Input input = input_of(o);
  const auto store = opened(o);
  return run(*store, store->create(input, this_environment()).id, o);
}

int start(const Options& o) {
  const Input input = input_of(o);
  const auto store = opened(o);
  const std::string id = store->create(input, this_environment()).id;
  if (start_in_background(*store, fs::read_symlink("/proc/self/exe").string(), id) == 0)
    throw DeviceError("investigate", "a process could not be started");
  if (o.json)
    fmt::print("{}\n", text_of(summary_of(*store, id)));
  else
    fmt::print("{}\n", id);
  return 0;
}

int list(const Options& o) {
  const auto store = opened(o);
  if (o.json) {
    nlohmann::json all = nlohmann::json::array();
    for (const Session& s : store->sessions()) all.push_back(summary_of(*store, s.id));
    fmt::print("{}\n", text_of(all));
    return 0;
  }
  std::vector<std::vector<std::string>> rows{{"id", "state", "scenarios", "error"}};
  for (const Session& s : store->sessions())
    rows.push_back({s.id, s.interrupted ? "interrupted" : std::string(row(s.state).name),
                    std::to_string(s.scenarios), s.error.substr(0, 60)});
  print_table(rows);
  return 0;
}

int show(const Options& o) {
  const auto store = opened(o);
  const std::string id = id_of(*store, o);
  print_session(*store, id, o);
  if (o.open) show_page(*store, id);
  return status_of(store->session(id).state);
}

int observe(const Options& o) {
  const auto store = opened(o);
  const std::string id = store->session(o.id).id;
  store->add_observation(id, o.who, o.text);
  if (row(store->session(id).state).over)
    fmt::print("recorded; lathe investigate resume {} takes it into account\n", id);
  return 0;
}

int cancel(const Options& o) {
  const auto store = opened(o);
  cancel_session(*store, store->session(o.id).id, "cancelled from the command line");
  return 0;
}

int resume(const Options& o) {
  const auto store = opened(o);
  const std::string id = id_of(*store, o);
  const Session before = store->session(id);
  if (!words_after_dashes().empty()) {
    Input input = before.input;
    input.command = words_after_dashes();
    input.directory = fs::current_path().string();
    input.kind = kind_of(input);
    store->change_input(id, input);
  }
  if (o.only_queued && before.state != State::Queued) return status_of(before.state);
  if (row(before.state).over || (before.state == State::NeedsInput && before.owner == 0)) {
    if (before.state == State::NeedsInput && words_after_dashes().empty())
      throw UserError("investigate", id + " needs input")
          .help(fmt::format("lathe investigate resume {} -- COMMAND", id));
    store->move(id, State::Queued, "resumed");
  }
  return run(*store, id, o);
}

int import(const Options& o) {
  const auto store = opened(o);
  const Imported imported = import_bank(*store, o.path);
  if (o.json) {
    fmt::print("{}\n", text_of({{"records", imported.records},
                                {"sections", imported.sections},
                                {"scenarios", imported.scenarios},
                                {"seconds", imported.seconds}}));
    return 0;
  }
  fmt::print("imported {} records and {} sections as hints; none of them was tested here\n", imported.records,
             imported.sections);
  return 0;
}

void add_store(CLI::App& app, Options& o) {
  app.add_option("--store", o.store, "folder for records (the user's state folder)");
  app.add_option("--project-store", o.project_store, "the folder of one project's records")->group("");
}

void add_limits(CLI::App& app, Options& o) {
  add_store(app, o);
  app.add_option("--budget", o.input.seconds, "total time in seconds (60)")->check(above_zero());
  app.add_option("--jobs", o.input.jobs, "scenarios to run at once (one per CPU)")->check(between(1, 1024));
  app.add_option("--scenario-seconds", o.input.scenario_seconds,
                 "time limit of one run (default: from the time of the first run)")
      ->check(above_zero());
  app.add_option("--slower-than", o.slower_than,
                 "a run that takes longer, in seconds, fails; runs one at a time")
      ->check(above_zero());
  app.add_option("--memory-mib", o.memory_mib, "memory limit of one run with all its processes (4096)")
      ->check(between(16, 1 << 24));
  app.add_option("--carry-mib", o.carry_mib, "size limit of git-ignored files copied to scenarios (1024)")
      ->check(between(0, 1 << 24));
  app.add_option("--tests", o.tests, "a shell command that runs the other tests, to check the way out with");
  app.add_option("--adviser", o.input.adviser,
                 "URL of an OpenAI-compatible endpoint that may propose experiments");
  app.add_option("--adviser-model", o.input.adviser_model, "the model to request there");
  app.add_flag("--json", o.json, "print the record as JSON");
}

}  // namespace

std::vector<Command> add_investigate(CLI::App& app) {
  CLI::App* command = app.add_subcommand("investigate", "find out by experiments why a command fails");
  const auto o = std::make_shared<Options>();
  command->require_subcommand(0, 1);
  command->add_option("input", o->words, "a description of the failure; or -- and a command that fails");
  add_limits(*command, *o);
  command->add_flag("--open", o->open, "also open the page");
  command->add_flag("--quiet", o->quiet, "print nothing while it runs");
  command->footer(
      "exit status: 0 cause verified, 3 not found, 4 input needed, 5 cancelled,\n1 failed, 2 wrong use, 130 "
      "interrupted");
  std::vector<Command> commands;
  const auto verb = [&](const char* name, const char* what, int (*run)(const Options&)) {
    CLI::App* sub = command->add_subcommand(name, what);
    commands.push_back({sub, [o, run] { return run(*o); }});
    return sub;
  };
  const auto with_id = [&](CLI::App* sub, bool needed) {
    CLI::Option* id = sub->add_option("id", o->id, needed ? "session-..." : "session-... (the latest)");
    if (needed) id->required();
    return sub;
  };
  CLI::App* started = verb("start", "start a session in the background and print its id", start);
  started->add_option("input", o->words, "as for lathe investigate");
  add_limits(*started, *o);
  CLI::App* listed = verb("list", "list the sessions of this project, latest first", list);
  CLI::App* shown = with_id(verb("show", "show a session, running or finished", show), false);
  CLI::App* checked = with_id(verb("check", "the same as show", show), false);
  for (CLI::App* sub : {shown, checked}) {
    sub->add_flag("--all", o->all, "include states, observations, events and runs");
    sub->add_flag("--open", o->open, "also open the page");
  }
  CLI::App* observed = with_id(
      verb("observe", "report an observation to a session, which reorders its experiments", observe), true);
  observed->add_option("text", o->text, "\"not the environment, look at src/a.py\"")->required();
  observed->add_option("--who", o->who, "who observed it");
  CLI::App* cancelled = with_id(verb("cancel", "stop a session and everything it runs", cancel), true);
  CLI::App* resumed = with_id(
      verb("resume", "continue an interrupted session, or give it a command after --", resume), false);
  resumed->add_flag("--open", o->open, "also open the page");
  resumed->add_flag("--quiet", o->quiet, "print nothing while it runs");
  resumed->add_flag("--only-queued", o->only_queued, "")->group("");
  CLI::App* imported = verb("import", "import notes as untested hints", import);
  imported->add_option("path", o->path, "folder with activeContext.md and progress.md")
      ->required()
      ->check(existing_path());
  for (CLI::App* sub : {listed, shown, checked, observed, cancelled, resumed, imported}) {
    add_store(*sub, *o);
    if (sub != observed && sub != cancelled) sub->add_flag("--json", o->json, "print JSON");
  }
  commands.push_back({command, [o] { return begin(*o); }});  // last: its verbs were chosen with it
  return commands;
}

#else

std::vector<Command> add_investigate(CLI::App&) { return {}; }

#endif

}  // namespace lathe::tool
