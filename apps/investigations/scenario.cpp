#include "apps/investigations/scenario.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <thread>

#include "apps/investigations/store.h"
#include "lathe/dev/child_process.h"
#include "lathe/error.h"

namespace lathe::investigations {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMark = "SCENARIO_OF_LATHE";  // a variable of every process that is a scenario's
constexpr double kSilence = 20;  // seconds without a beat after which the watcher counts as lost

constexpr std::array<std::pair<Ending, std::string_view>, 6> kEndings{{{Ending::Exited, "exited"},
                                                                       {Ending::Signalled, "signalled"},
                                                                       {Ending::TimedOut, "timeout"},
                                                                       {Ending::OutOfMemory, "memory"},
                                                                       {Ending::Stopped, "stopped"},
                                                                       {Ending::Lost, "lost"}}};

std::string watcher() {
  static const std::string path = dev::find_program("lathe-scenario");
  if (path.empty())
    throw UserError("investigate", "lathe-scenario, which runs the commands of an investigation, is missing")
        .help("it is built and installed with lathe");
  return path;
}

// Changes that make this process's variables those.
std::vector<std::pair<std::string, std::string>> changes_to(const Environment& wanted) {
  std::vector<std::pair<std::string, std::string>> changes;
  const Environment mine = this_environment();
  for (const auto& [name, value] : mine)
    if (!wanted.contains(name)) changes.emplace_back(name, "");
  for (const auto& [name, value] : wanted) {
    const auto found = mine.find(name);
    if (found == mine.end() || found->second != value) changes.emplace_back(name, value);
  }
  return changes;
}

std::string whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

}  // namespace

std::string_view name(Ending ending) {
  for (const auto& [value, word] : kEndings)
    if (value == ending) return word;
  return "lost";
}
Ending ending_named(std::string_view name) {
  for (const auto& [value, word] : kEndings)
    if (word == name) return value;
  return Ending::Lost;
}

std::string Outcome::words() const {
  switch (ending) {
    case Ending::Exited: return fmt::format("exit status {}", status);
    case Ending::Signalled: return strsignal(status);
    case Ending::TimedOut: return fmt::format("no end within {:.3g} s", seconds);
    case Ending::OutOfMemory: return fmt::format("more than {} MiB of memory", peak >> 20);
    case Ending::Stopped: return "stopped";
    case Ending::Lost: break;
  }
  return "lost: its supervisor process was killed";
}

Outcome run_scenario(const Scenario& scenario, const std::string& mark, const std::string& scratch,
                     const Stop& stop) {
  static std::atomic<std::int64_t> count{0};
  const std::string output = fmt::format("{}/output-{}-{}", scratch, getpid(), ++count);
  const std::string own_mark = fmt::format("{}/{}-{}", mark, getpid(), count.load());
  Environment environment = scenario.environment;
  environment[kMark] = own_mark;
  std::vector<std::string> command{watcher(), fmt::format("{:.3f}", scenario.seconds),
                                   std::to_string(scenario.memory), scenario.directory, output};
  command.insert(command.end(), scenario.command.begin(), scenario.command.end());

  Outcome outcome;
  {
    dev::ChildProcess child(command, changes_to(environment));
    bool told = false;
    while (true) {
      dev::ChildProcess::Answer answer;
      if (!told && stop()) {
        told = true;
        answer = child.ask("stop", kSilence);
      } else {
        answer = child.next_line(kSilence);
      }
      if (!answer.ok) break;
      std::istringstream line(answer.text);
      std::string word, how;
      line >> word;
      if (word != "end") continue;
      line >> how >> outcome.status >> outcome.seconds >> outcome.peak;
      outcome.ending = ending_named(how);
      break;
    }
  }
  // What the watcher could not end because it was killed itself.
  if (outcome.ending == Ending::Lost) end_marked(own_mark);
  outcome.output = whole_file(output);
  std::error_code ignored;
  fs::remove(output, ignored);
  return outcome;
}

std::vector<Outcome> run_scenarios(const std::vector<Scenario>& scenarios, int jobs, const std::string& mark,
                                   const std::string& scratch, const Stop& stop,
                                   const std::function<bool(std::size_t, const Outcome&)>& done) {
  watcher();  // throws here, not in a thread
  std::vector<Outcome> outcomes(scenarios.size());
  for (Outcome& o : outcomes) o.ending = Ending::Stopped;
  std::atomic<std::size_t> next{0};
  std::atomic<bool> enough{false};
  std::mutex one_at_a_time;
  std::exception_ptr failed;
  const auto work = [&] {
    for (std::size_t i = next++; i < scenarios.size() && !enough && !stop(); i = next++) {
      try {
        outcomes[i] = run_scenario(scenarios[i], mark, scratch, [&] { return enough || stop(); });
        const std::lock_guard lock(one_at_a_time);
        if (done && outcomes[i].ending != Ending::Stopped && !done(i, outcomes[i])) enough = true;
      } catch (...) {
        const std::lock_guard lock(one_at_a_time);
        failed = std::current_exception();
        enough = true;
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    const auto count = std::min<std::size_t>(static_cast<std::size_t>(std::max(jobs, 1)), scenarios.size());
    for (std::size_t i = 1; i < count; ++i) threads.emplace_back(work);
    work();
  }
  if (failed) std::rethrow_exception(failed);
  return outcomes;
}

int end_marked(const std::string& mark) {
  const std::string wanted = std::string(kMark) + "=" + mark;
  int ended = 0;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator("/proc", failed)) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == getpid()) continue;
    const std::string variables = whole_file(entry.path().string() + "/environ");
    for (std::size_t at = 0; at < variables.size(); at = variables.find('\0', at) + 1) {
      if (variables.compare(at, wanted.size(), wanted) == 0) {
        const char after = at + wanted.size() < variables.size() ? variables[at + wanted.size()] : '\0';
        // The mark itself, or one that begins with it: "session-1" is not "session-12".
        if ((after == '\0' || after == '/') && kill(pid, SIGKILL) == 0) ++ended;
      }
      if (variables.find('\0', at) == std::string::npos) break;
    }
  }
  return ended;
}

Ran run_command(std::vector<std::string> command, const std::map<std::string, std::string>& changes,
                const std::string& input) {
  std::array<int, 2> in{}, out{}, err{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.data()) != 0 ||
      pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0)
    throw DeviceError("investigate", fmt::format("no pipe for {}: {}", command[0], strerror(errno)));
  Environment all = this_environment();
  for (const auto& [name, value] : changes) {
    if (value.empty())
      all.erase(name);
    else
      all[name] = value;
  }
  std::vector<std::string> texts;
  texts.reserve(all.size());
  for (const auto& [name, value] : all) texts.push_back(name + "=" + value);
  std::vector<char*> environment, words;
  for (std::string& text : texts) environment.push_back(text.data());
  for (std::string& word : command) words.push_back(word.data());
  environment.push_back(nullptr);
  words.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, words[0], &actions, nullptr, words.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  close(err[1]);
  Ran ran;
  if (failed != 0) {
    for (const int fd : {in[1], out[0], err[0]}) close(fd);
    ran.status = 127;
    ran.errors = strerror(failed);
    return ran;
  }
  std::size_t sent = 0;
  int writing = in[1];
  std::array<std::pair<int, std::string*>, 2> reading{{{out[0], &ran.output}, {err[0], &ran.errors}}};
  while (reading[0].first >= 0 || reading[1].first >= 0) {
    if (writing >= 0 && sent == input.size()) {
      close(writing);
      writing = -1;
    }
    std::array<pollfd, 3> events{
        pollfd{reading[0].first, POLLIN, 0}, {reading[1].first, POLLIN, 0}, {writing, POLLOUT, 0}};
    if (poll(events.data(), events.size(), -1) < 0 && errno != EINTR) break;
    for (std::size_t i = 0; i < reading.size(); ++i) {
      if (events[i].revents == 0) continue;
      std::array<char, 65536> part{};
      const ssize_t got = read(reading[i].first, part.data(), part.size());
      if (got > 0) {
        reading[i].second->append(part.data(), static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        close(reading[i].first);
        reading[i].first = -1;
      }
    }
    if (writing >= 0 && events[2].revents != 0) {
      const ssize_t now =
          send(writing, input.data() + sent, input.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (now > 0)
        sent += static_cast<std::size_t>(now);
      else if (errno != EINTR && errno != EAGAIN)
        sent = input.size();  // it does not read on
    }
  }
  if (writing >= 0) close(writing);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

}  // namespace lathe::investigations
