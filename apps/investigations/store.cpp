#include "apps/investigations/store.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/investigations/git.h"
#include "lathe/error.h"

namespace lathe::investigations {
namespace {

namespace fs = std::filesystem;
using Lock = std::lock_guard<std::recursive_mutex>;

constexpr int kSchema = 1;

// Numbers are those of the session, from 1; times are milliseconds since 1970.
constexpr const char* kTables = R"(
CREATE TABLE IF NOT EXISTS session(
  id TEXT PRIMARY KEY, state TEXT NOT NULL, input TEXT NOT NULL, signature TEXT NOT NULL DEFAULT '',
  error TEXT NOT NULL DEFAULT '', started INTEGER NOT NULL, ended INTEGER NOT NULL DEFAULT 0,
  owner INTEGER NOT NULL DEFAULT 0, owner_start INTEGER NOT NULL DEFAULT 0, cancel INTEGER NOT NULL DEFAULT 0,
  verified INTEGER NOT NULL DEFAULT 0, finding TEXT NOT NULL DEFAULT '{}');
CREATE INDEX IF NOT EXISTS session_signature ON session(signature);
CREATE TABLE IF NOT EXISTS transition(
  session TEXT NOT NULL REFERENCES session(id), time INTEGER NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL,
  reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS hypothesis(
  session TEXT NOT NULL REFERENCES session(id), number INTEGER NOT NULL, time INTEGER NOT NULL, claim TEXT NOT NULL,
  experiment TEXT NOT NULL, evidence TEXT NOT NULL, verdict TEXT NOT NULL, milliseconds REAL NOT NULL,
  PRIMARY KEY(session, number));
CREATE TABLE IF NOT EXISTS observation(
  session TEXT NOT NULL REFERENCES session(id), number INTEGER NOT NULL, time INTEGER NOT NULL, who TEXT NOT NULL,
  text TEXT NOT NULL, effect TEXT NOT NULL DEFAULT '', PRIMARY KEY(session, number));
CREATE TABLE IF NOT EXISTS scenario(
  session TEXT NOT NULL REFERENCES session(id), number INTEGER NOT NULL, time INTEGER NOT NULL, label TEXT NOT NULL,
  command TEXT NOT NULL, ending TEXT NOT NULL, status INTEGER NOT NULL, seconds REAL NOT NULL, peak INTEGER NOT NULL,
  output TEXT NOT NULL, PRIMARY KEY(session, number));
CREATE TABLE IF NOT EXISTS event(
  session TEXT NOT NULL REFERENCES session(id), time INTEGER NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS environment(
  session TEXT NOT NULL REFERENCES session(id), name TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY(session, name));
CREATE TABLE IF NOT EXISTS result(
  session TEXT NOT NULL REFERENCES session(id), key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY(session, key));
CREATE TABLE IF NOT EXISTS hint(
  source TEXT NOT NULL, title TEXT NOT NULL, kind TEXT NOT NULL, error TEXT NOT NULL, text TEXT NOT NULL,
  scenarios INTEGER NOT NULL, seconds REAL NOT NULL);
)";

constexpr const char* kSession =
    "SELECT id, state, input, signature, error, started, ended, owner, owner_start, cancel, finding, "
    "(SELECT count(*) FROM scenario WHERE scenario.session = session.id) FROM session ";

UserError no_session(const std::string& id) {
  return UserError("investigate", "there is no investigation " + id)
      .help("lathe investigate list lists those of this project");
}

// FNV-1a; names of folders, not secrets.
std::string digest(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return fmt::format("{:016x}", hash);
}

void make_private(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw DeviceError("investigate", fmt::format("{}: {}", folder, failed.message()));
  chmod(folder.c_str(), S_IRWXU);
}

}  // namespace

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Environment this_environment() {
  Environment all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t end = text.find('=');
    if (end != std::string_view::npos) all.emplace(text.substr(0, end), text.substr(end + 1));
  }
  return all;
}

std::int64_t process_start(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line) || line.rfind(')') == std::string::npos) return 0;
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string word;
  fields >> word;
  if (word == "Z" || word == "X") return 0;  // dead, and not yet waited for
  for (int field = 4; field <= 22; ++field) fields >> word;
  return std::atoll(word.c_str());
}

std::string store_folder(const std::string& directory, const std::string& root) {
  std::string base = root;
  if (base.empty()) {
    const char* state = std::getenv("XDG_STATE_HOME");
    const char* home = std::getenv("HOME");
    if (state != nullptr && *state == '/')
      base = std::string(state) + "/lathe";
    else if (home != nullptr && *home == '/')
      base = std::string(home) + "/.local/state/lathe";
    else
      throw UserError("investigate",
                      "neither XDG_STATE_HOME nor HOME is set, so there is no folder for records")
          .help("give a folder with --store");
  }
  std::error_code failed;
  const std::optional<std::string> repository = git_common_folder(directory);
  const fs::path project = fs::weakly_canonical(repository ? *repository : directory, failed);
  return fmt::format("{}/investigations/{}", fs::absolute(base).lexically_normal().string(),
                     digest(project.string()));
}

Store::Store(std::string folder) : folder_(std::move(folder)) {
  make_private(folder_);
  const std::string file = folder_ + "/store.sqlite";
  database_.emplace(file);
  chmod(file.c_str(), S_IRUSR | S_IWUSR);
  database_->together([&] {
    Statement version = database_->query("PRAGMA user_version");
    version.next();
    if (version.integer(0) > kSchema)
      throw UserError("investigate", file + " was written by a later version of Lathe")
          .help("--store names another folder");
    database_->run(kTables);
    database_->run(fmt::format("PRAGMA user_version = {}", kSchema));
  });
}

std::string Store::session_folder(const std::string& id) const {
  std::string folder = folder_ + "/" + id;
  make_private(folder);
  return folder;
}

Session Store::create(const Input& input, const Environment& environment) {
  const Lock lock(mutex_);
  std::string id;
  database_->together([&] {
    std::int64_t start = now_ms();
    const auto taken = [&] {
      id = fmt::format("session-{}", start);
      return database_->query("SELECT 1 FROM session WHERE id = ?").with(id).next();
    };
    while (taken()) ++start;
    database_->run("INSERT INTO session(id, state, input, started) VALUES(?, 'queued', ?, ?)", id,
                   to_json(input), start);
    database_->run("INSERT INTO transition VALUES(?, ?, '', 'queued', 'started')", id, start);
    for (const auto& [name, value] : environment)
      database_->run("INSERT INTO environment VALUES(?, ?, ?)", id, name, value);
  });
  return session(id);
}

Session Store::read(Statement& s) {
  Session session;
  session.id = s.text(0);
  session.state = state_named(s.text(1)).value_or(State::Failed);
  session.input = input_from_json(s.text(2));
  session.signature = s.text(3);
  session.error = s.text(4);
  session.started = s.integer(5);
  session.ended = s.integer(6);
  const int owner = static_cast<int>(s.integer(7));
  if (owner != 0 && process_start(owner) == s.integer(8)) session.owner = owner;
  session.interrupted = session.state == State::Running && session.owner == 0;
  session.cancel = s.integer(9) != 0;
  session.finding = finding_from_json(s.text(10));
  session.scenarios = s.integer(11);
  return session;
}

Session Store::session(const std::string& id) {
  const Lock lock(mutex_);
  Statement s = database_->query(std::string(kSession) + "WHERE id = ?");
  if (!s.with(id).next()) throw no_session(id);
  Session session = read(s);
  session.finding.hypotheses = hypotheses(id);
  return session;
}

std::vector<Session> Store::sessions() {
  const Lock lock(mutex_);
  std::vector<Session> all;
  Statement s = database_->query(std::string(kSession) + "ORDER BY started DESC, id DESC");
  while (s.next()) all.push_back(read(s));
  return all;
}

Environment Store::environment(const std::string& id) {
  const Lock lock(mutex_);
  Environment all;
  Statement s = database_->query("SELECT name, value FROM environment WHERE session = ?");
  for (s.with(id); s.next();) all.emplace(s.text(0), s.text(1));
  return all;
}

void Store::move(const std::string& id, State to, const std::string& reason) {
  const Lock lock(mutex_);
  database_->together([&] { move_inside(id, to, reason); });
}

void Store::move_inside(const std::string& id, State to, const std::string& reason) {
  Statement s = database_->query("SELECT state FROM session WHERE id = ?");
  if (!s.with(id).next()) throw no_session(id);
  const State before = state_named(s.text(0)).value_or(State::Failed);
  if (!may_follow(before, to))
    throw UserError("investigate",
                    fmt::format("{} is {} and cannot become {}", id, row(before).name, row(to).name))
        .help("lathe investigate show prints how it ended");
  const std::int64_t now = now_ms();
  database_->run("INSERT INTO transition VALUES(?, ?, ?, ?, ?)", id, now, row(before).name, row(to).name,
                 reason);
  database_->run(
      "UPDATE session SET state = ?, ended = ?, owner = CASE WHEN ? = 'running' THEN owner ELSE 0 END WHERE "
      "id = ?",
      row(to).name, row(to).over ? now : std::int64_t{0}, row(to).name, id);
  if (to == State::Queued) database_->run("UPDATE session SET cancel = 0 WHERE id = ?", id);
}

std::vector<Transition> Store::transitions(const std::string& id) {
  const Lock lock(mutex_);
  std::vector<Transition> all;
  Statement s =
      database_->query("SELECT time, before, after, reason FROM transition WHERE session = ? ORDER BY rowid");
  for (s.with(id); s.next();)
    all.push_back({s.integer(0), state_named(s.text(1)).value_or(State::Queued),
                   state_named(s.text(2)).value_or(State::Failed), s.text(3)});
  return all;
}

bool Store::claim(const std::string& id, const std::string& reason) {
  const Lock lock(mutex_);
  bool mine = false;
  database_->together([&] {
    Statement s = database_->query(std::string(kSession) + "WHERE id = ?");
    if (!s.with(id).next()) throw no_session(id);
    const Session now = read(s);
    if (now.owner != 0 && now.owner != getpid()) return;
    if (now.state != State::Running && !may_follow(now.state, State::Running)) return;
    const std::int64_t time = now_ms();
    if (now.state == State::Running)  // its process died: the state it is in says so
      database_->run(
          "INSERT INTO transition VALUES(?, ?, 'running', 'queued', 'the process that ran it is gone')", id,
          time);
    database_->run("INSERT INTO transition VALUES(?, ?, ?, 'running', ?)", id, time,
                   now.state == State::Running ? row(State::Queued).name : row(now.state).name, reason);
    database_->run("UPDATE session SET state = 'running', owner = ?, owner_start = ?, ended = 0 WHERE id = ?",
                   static_cast<std::int64_t>(getpid()), process_start(getpid()), id);
    mine = true;
  });
  return mine;
}

void Store::change_input(const std::string& id, const Input& input) {
  const Lock lock(mutex_);
  database_->run("UPDATE session SET input = ? WHERE id = ?", to_json(input), id);
}

void Store::request_cancel(const std::string& id, const std::string& reason) {
  const Lock lock(mutex_);
  database_->together([&] {  // no other process starts it meanwhile
    const Session now = session(id);
    if (row(now.state).over)
      throw UserError("investigate", fmt::format("{} is {} already", id, row(now.state).name));
    database_->run("UPDATE session SET cancel = 1 WHERE id = ?", id);
    if (now.owner == 0) move_inside(id, State::Cancelled, reason);
  });
}

bool Store::cancel_requested(const std::string& id) {
  const Lock lock(mutex_);
  Statement s = database_->query("SELECT cancel FROM session WHERE id = ?");
  return s.with(id).next() && s.integer(0) != 0;
}

void Store::set_failure(const std::string& id, const std::string& signature, const std::string& error) {
  const Lock lock(mutex_);
  database_->run("UPDATE session SET signature = ?, error = ? WHERE id = ?", signature, error, id);
}

void Store::set_finding(const std::string& id, const dev::Finding& finding) {
  const Lock lock(mutex_);
  database_->run("UPDATE session SET finding = ?, verified = ? WHERE id = ?", to_json(finding),
                 static_cast<std::int64_t>(finding.way_out_verified), id);
}

void Store::add_hypothesis(const std::string& id, const dev::Hypothesis& h) {
  const Lock lock(mutex_);
  database_->run(
      "INSERT INTO hypothesis VALUES(?, (SELECT count(*) + 1 FROM hypothesis WHERE session = ?), ?, ?, ?, ?, "
      "?, ?)",
      id, id, now_ms(), h.claim, h.experiment, h.evidence, name(h.verdict), h.milliseconds);
}

std::vector<dev::Hypothesis> Store::hypotheses(const std::string& id) {
  const Lock lock(mutex_);
  std::vector<dev::Hypothesis> all;
  Statement s = database_->query(
      "SELECT claim, experiment, evidence, verdict, milliseconds FROM hypothesis WHERE session = ? ORDER BY "
      "number");
  for (s.with(id); s.next();)
    all.push_back({s.text(0), s.text(1), s.text(2), verdict_named(s.text(3)), s.real(4)});
  return all;
}

std::vector<std::int64_t> Store::hypothesis_times(const std::string& id) {
  const Lock lock(mutex_);
  std::vector<std::int64_t> all;
  Statement s = database_->query("SELECT time FROM hypothesis WHERE session = ? ORDER BY number");
  for (s.with(id); s.next();) all.push_back(s.integer(0));
  return all;
}

void Store::forget_hypotheses(const std::string& id) {
  const Lock lock(mutex_);
  database_->run("DELETE FROM hypothesis WHERE session = ?", id);
}

void Store::add_observation(const std::string& id, const std::string& who, const std::string& text) {
  const Lock lock(mutex_);
  session(id);
  database_->run(
      "INSERT INTO observation(session, number, time, who, text) "
      "VALUES(?, (SELECT count(*) + 1 FROM observation WHERE session = ?), ?, ?, ?)",
      id, id, now_ms(), who, text);
}

void Store::set_effect(const std::string& id, std::int64_t observation, const std::string& effect) {
  const Lock lock(mutex_);
  database_->run("UPDATE observation SET effect = ? WHERE session = ? AND number = ?", effect, id,
                 observation);
}

std::vector<Observation> Store::observations(const std::string& id) {
  const Lock lock(mutex_);
  std::vector<Observation> all;
  Statement s = database_->query(
      "SELECT number, time, who, text, effect FROM observation WHERE session = ? ORDER BY number");
  for (s.with(id); s.next();) all.push_back({s.integer(0), s.integer(1), s.text(2), s.text(3), s.text(4)});
  return all;
}

std::int64_t Store::add_scenario(const std::string& id, const ScenarioRow& r) {
  const Lock lock(mutex_);
  std::int64_t number = 0;
  database_->together([&] {
    Statement s = database_->query("SELECT count(*) + 1 FROM scenario WHERE session = ?");
    s.with(id).next();
    number = s.integer(0);
    database_->run("INSERT INTO scenario VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", id, number, now_ms(), r.label,
                   r.command, r.ending, r.status, r.seconds, r.peak, r.output);
  });
  return number;
}

std::vector<ScenarioRow> Store::scenarios(const std::string& id) {
  const Lock lock(mutex_);
  std::vector<ScenarioRow> all;
  Statement s = database_->query(
      "SELECT number, time, label, command, ending, output, status, seconds, peak FROM scenario WHERE "
      "session = ? "
      "ORDER BY number");
  for (s.with(id); s.next();)
    all.push_back({s.integer(0), s.integer(1), s.text(2), s.text(3), s.text(4), s.text(5),
                   static_cast<int>(s.integer(6)), s.real(7), s.integer(8)});
  return all;
}

void Store::add_event(const std::string& id, const std::string& kind, const std::string& text) {
  const Lock lock(mutex_);
  database_->run("INSERT INTO event VALUES(?, ?, ?, ?)", id, now_ms(), kind, text);
}

std::vector<Event> Store::events(const std::string& id) {
  const Lock lock(mutex_);
  std::vector<Event> all;
  Statement s = database_->query("SELECT time, kind, text FROM event WHERE session = ? ORDER BY rowid");
  for (s.with(id); s.next();) all.push_back({s.integer(0), s.text(1), s.text(2)});
  return all;
}

void Store::remember(const std::string& id, const std::string& key, const std::string& value) {
  const Lock lock(mutex_);
  database_->run("INSERT OR REPLACE INTO result VALUES(?, ?, ?)", id, key, value);
}

std::optional<std::string> Store::recall(const std::string& id, const std::string& key) {
  const Lock lock(mutex_);
  Statement s = database_->query("SELECT value FROM result WHERE session = ? AND key = ?");
  if (!s.with(id, key).next()) return std::nullopt;
  return s.text(0);
}

std::vector<Session> Store::known(const std::string& signature, const std::string& but_for) {
  std::vector<Session> all = same_failure(signature, but_for);
  std::erase_if(all, [](const Session& s) { return s.state != State::Found || !s.finding.way_out_verified; });
  return all;
}

std::vector<Session> Store::same_failure(const std::string& signature, const std::string& but_for) {
  const Lock lock(mutex_);
  std::vector<Session> all;
  if (signature.empty()) return all;
  Statement s = database_->query(std::string(kSession) +
                                 "WHERE signature = ? AND id <> ? ORDER BY started DESC, id DESC");
  for (s.with(signature, but_for); s.next();) all.push_back(read(s));
  return all;
}

void Store::replace_hints(const std::string& source, const std::vector<Hint>& hints) {
  const Lock lock(mutex_);
  database_->together([&] {
    database_->run("DELETE FROM hint WHERE source = ?", source);
    for (const Hint& h : hints)
      database_->run("INSERT INTO hint VALUES(?, ?, ?, ?, ?, ?, ?)", source, h.title, h.kind, h.error, h.text,
                     h.scenarios, h.seconds);
  });
}

std::vector<Hint> Store::hints() {
  const Lock lock(mutex_);
  std::vector<Hint> all;
  Statement s = database_->query(
      "SELECT source, title, kind, error, text, scenarios, seconds FROM hint ORDER BY rowid");
  while (s.next())
    all.push_back({s.text(0), s.text(1), s.text(2), s.text(3), s.text(4), s.integer(5), s.real(6)});
  return all;
}

}  // namespace lathe::investigations
