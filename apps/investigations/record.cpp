#include "apps/investigations/record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "apps/investigations/bank.h"
#include "apps/investigations/case.h"
#include "lathe/error.h"

namespace lathe::investigations {

using Json = nlohmann::json;

Json summary_of(Store& store, const std::string& id) {
  const Session s = store.session(id);
  const dev::Finding& f = s.finding;
  const std::int64_t end = s.ended > 0 ? s.ended : now_ms();
  Json json{{"id", s.id},
            {"state", row(s.state).name},
            {"interrupted", s.interrupted},
            {"started", time_text(s.started)},
            {"seconds", static_cast<double>(end - s.started) / 1000},
            {"kind", s.input.kind},
            {"command", s.input.command},
            {"path", s.input.path},
            {"words", s.input.words},
            {"directory", s.input.directory},
            {"error", s.error},
            {"signature", s.signature},
            {"scenarios", s.scenarios},
            {"folder", store.folder() + "/" + id},
            {"verdict",
             {{"summary", f.summary},
              {"kind", f.kind},
              {"cause", f.cause},
              {"way_out", f.way_out},
              {"way_out_verified", f.way_out_verified},
              {"repro", f.repro},
              {"repro_command", f.repro_command},
              {"repro_nodes", f.repro_nodes}}}};
  json["hypotheses"] = Json::array();
  for (const dev::Hypothesis& h : store.hypotheses(id))
    json["hypotheses"].push_back({{"claim", h.claim},
                                  {"experiment", h.experiment},
                                  {"evidence", h.evidence},
                                  {"verdict", name(h.verdict)},
                                  {"ms", h.milliseconds}});
  return json;
}

Json record_of(Store& store, const std::string& id) {
  Json json = summary_of(store, id);
  for (const char* list : {"transitions", "observations", "runs", "events", "environment", "same_failure"})
    json[list] = Json::array();
  for (const Transition& t : store.transitions(id))
    json["transitions"].push_back({{"time", time_text(t.time)},
                                   {"before", row(t.before).name},
                                   {"after", row(t.after).name},
                                   {"reason", t.reason}});
  for (const Observation& o : store.observations(id))
    json["observations"].push_back(
        {{"time", time_text(o.time)}, {"who", o.who}, {"text", o.text}, {"effect", o.effect}});
  for (const ScenarioRow& r : store.scenarios(id))
    json["runs"].push_back({{"label", r.label},
                            {"command", r.command},
                            {"ending", r.ending},
                            {"status", r.status},
                            {"seconds", r.seconds},
                            {"peak_bytes", r.peak},
                            {"output", r.output}});
  for (const Event& e : store.events(id))
    json["events"].push_back({{"time", time_text(e.time)}, {"kind", e.kind}, {"text", e.text}});
  for (const auto& [name, value] : store.environment(id)) json["environment"].push_back(name);
  const Session session = store.session(id);
  for (const Session& other : store.same_failure(session.signature, id))
    json["same_failure"].push_back(other.id);
  return json;
}

std::string text_of(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

int start_in_background(const Store& store, const std::string& program, const std::string& id) {
  // The store is named by its folder, so that the process need not be in the project's.
  std::vector<std::string> words{program,         "investigate", "resume",          id,
                                 "--only-queued", "--quiet",     "--project-store", store.folder()};
  std::vector<char*> pointers;
  for (std::string& w : words) pointers.push_back(w.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const std::string log = store.session_folder(id) + "/log.txt";
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, program.c_str(), &actions, &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? pid : 0;
}

void cancel_session(Store& store, const std::string& id, const std::string& reason) {
  constexpr int kPatience = 100;  // times 50 ms
  const int owner = store.session(id).owner;
  store.request_cancel(id, reason);
  for (int i = 0; i < kPatience; ++i) {
    const Session now = store.session(id);
    if (row(now.state).over) return;
    if (now.owner == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  // It hangs, or died meanwhile.
  if (owner != 0 && store.session(id).owner == owner) kill(owner, SIGKILL);
  end_marked(id);
  for (int i = 0; i < kPatience && store.session(id).owner != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (!row(store.session(id).state).over) store.move(id, State::Cancelled, reason);
  write_bank(store);
}

}  // namespace lathe::investigations
