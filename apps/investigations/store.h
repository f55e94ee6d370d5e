// What is known of the investigations of one project, in one SQLite file that is the truth: sessions with
// every state they were in, hypotheses, observations, scenarios, environment and events, and hints from
// elsewhere. Each call is on the disk when it returns, so a session goes on where a killed process left it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/investigations/sqlite.h"
#include "apps/investigations/states.h"
#include "lathe/dev/investigation.h"

namespace lathe::investigations {

using Environment = std::map<std::string, std::string>;
Environment this_environment();

// What is investigated, and how much may be spent on it.
struct Input {
  std::string kind;                  // of the table of investigators: "command", "words", ...
  std::vector<std::string> command;  // the one that fails
  std::string path;                  // of what was saved
  std::string words;
  std::string directory;           // where the command runs
  std::vector<std::string> tests;  // a command that runs the other tests
  double seconds = 60;             // for all of it
  double scenario_seconds = 0;     // for one run of the command; 0: by how long the first one took
  std::int64_t memory = std::int64_t{4} << 30U;  // bytes for one run
  std::int64_t carry = std::int64_t{1} << 30U;   // bytes of ignored files that are taken along
  int jobs = 0;                                  // scenarios at a time; 0: one per CPU
  std::string adviser, adviser_model;            // an OpenAI-compatible endpoint
};

struct Session {
  std::string id;
  State state = State::Queued;
  Input input;
  std::string signature;                // what the failure looks like, without what differs from run to run
  std::string error;                    // the line of output that says what is wrong
  std::int64_t started = 0, ended = 0;  // milliseconds since 1970; 0 while it has not ended
  int owner = 0;                        // process that runs it, 0 if none does
  bool interrupted = false;             // it is running, but its process is gone
  bool cancel = false;                  // somebody asked for its end
  std::int64_t scenarios = 0;
  dev::Finding finding;
};

struct Transition {
  std::int64_t time = 0;
  State before = State::Queued, after = State::Queued;
  std::string reason;
};

struct Observation {
  std::int64_t number = 0, time = 0;
  std::string who, text, effect;
};

struct Event {
  std::int64_t time = 0;
  std::string kind, text;
};

struct ScenarioRow {
  std::int64_t number = 0, time = 0;
  std::string label, command, ending, output;
  int status = 0;
  double seconds = 0;
  std::int64_t peak = 0;
};

// What others believed of a failure and nobody tested here: never a cause, at most a hint where to look
// first.
struct Hint {
  std::string source, title, kind, error,
      text;  // kind: "section" (of a whole session) or "record" (a hypothesis)
  std::int64_t scenarios = 0;
  double seconds = 0;
};

std::int64_t now_ms();

class Store {
 public:
  // The folder is made, for the user alone.
  explicit Store(std::string folder);
  const std::string& folder() const { return folder_; }
  std::string session_folder(const std::string& id) const;  // made if need be

  Session create(const Input& input, const Environment& environment);
  Session session(const std::string& id);  // throws UserError where there is none
  std::vector<Session> sessions();         // latest first
  Environment environment(const std::string& id);

  // Throws UserError where the state may not follow.
  void move(const std::string& id, State to, const std::string& reason);
  std::vector<Transition> transitions(const std::string& id);
  // Makes this process the one that runs it, unless another one does.
  bool claim(const std::string& id, const std::string& reason);
  void change_input(const std::string& id, const Input& input);
  // Who runs it stops at once. One that nobody runs is cancelled by this call.
  void request_cancel(const std::string& id, const std::string& reason);
  bool cancel_requested(const std::string& id);

  void set_failure(const std::string& id, const std::string& signature, const std::string& error);
  void set_finding(const std::string& id, const dev::Finding& finding);
  void add_hypothesis(const std::string& id, const dev::Hypothesis& hypothesis);
  std::vector<dev::Hypothesis> hypotheses(const std::string& id);
  std::vector<std::int64_t> hypothesis_times(const std::string& id);
  void forget_hypotheses(const std::string& id);  // before it is begun again
  void add_observation(const std::string& id, const std::string& who, const std::string& text);
  void set_effect(const std::string& id, std::int64_t observation, const std::string& effect);
  std::vector<Observation> observations(const std::string& id);
  std::int64_t add_scenario(const std::string& id, const ScenarioRow& scenario);
  std::vector<ScenarioRow> scenarios(const std::string& id);
  void add_event(const std::string& id, const std::string& kind, const std::string& text);
  std::vector<Event> events(const std::string& id);

  // Results of experiments by their inputs, so that a resumed session repeats none.
  void remember(const std::string& id, const std::string& key, const std::string& value);
  std::optional<std::string> recall(const std::string& id, const std::string& key);

  // Sessions with the same failure and a verified cause, latest first.
  std::vector<Session> known(const std::string& signature, const std::string& but_for);
  std::vector<Session> same_failure(const std::string& signature, const std::string& but_for);
  void replace_hints(const std::string& source, const std::vector<Hint>& hints);
  std::vector<Hint> hints();

 private:
  Session read(Statement& statement);
  void move_inside(const std::string& id, State to, const std::string& reason);  // a transaction

  std::string folder_;
  std::recursive_mutex mutex_;
  std::optional<Database> database_;
};

// The store's folder for a directory: below `root`, else below the user's state folder, by the repository the
// directory is in, or by itself.
std::string store_folder(const std::string& directory, const std::string& root = "");

// When a process began, in clock ticks since the machine did; 0 where there is no such process.
std::int64_t process_start(int pid);

std::string to_json(const dev::Finding& finding);
dev::Finding finding_from_json(const std::string& text);
std::string to_json(const Input& input);
Input input_from_json(const std::string& text);
std::string_view name(dev::Verdict verdict);
dev::Verdict verdict_named(std::string_view name);

}  // namespace lathe::investigations
