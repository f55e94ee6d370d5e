// Contenders of `lathe bench cpu` as processes: the parent's side (ChildProcess) and the child's
// (serve_contender). A question and an answer are a line of JSON each:
//   {"do": "prepare", "row": {...}, "folder": "..."} -> {"version": "..."} or {"skip": "why it cannot"}
//   {"do": "run", "seconds": 0.05}                    -> {"best": seconds, "runs": n}
//   {"do": "result", "places": [0, 5, ...]}           -> {"values": [...]}
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <stdexcept>

#include "tools/lathe/bench_cpu.h"

namespace lathe::tool {
namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool changed = std::any_of(changes.begin(), changes.end(), [&](const auto& change) {
      return text.substr(0, text.find('=')) == change.first;
    });
    if (!changed) all.emplace_back(text);
  }
  for (const auto& [name, value] : changes) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

Json answer(Contender& contender, const Json& question) {
  const std::string what = question.at("do");
  if (what == "prepare") {
    const std::string why = contender.prepare(row_from_json(question.at("row")), question.at("folder"));
    return why.empty() ? Json{{"version", contender.version()}} : Json{{"skip", why}};
  }
  if (what == "run") {
    const double seconds = question.at("seconds");
    double best = 1e30;
    int runs = 0;
    for (const auto begin = Clock::now(); runs == 0 || since(begin) < seconds; ++runs) {
      const auto start = Clock::now();
      contender.run();
      best = std::min(best, since(start));
    }
    return {{"best", best}, {"runs", runs}};
  }
  if (what == "result") return {{"values", contender.result(question.at("places"))}};
  return {{"error", "unknown question " + what}};
}

}  // namespace

int serve_contender(Contender& contender) {
  std::string line;
  while (std::getline(std::cin, line)) {
    Json reply;
    try {
      reply = answer(contender, Json::parse(line));
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}};
    }
    std::cout << reply.dump() << std::endl;
  }
  return 0;
}

ChildProcess::ChildProcess(std::string name, std::vector<std::string> command,
                           std::vector<std::pair<std::string, std::string>> environment)
    : name_(std::move(name)) {
  std::array<int, 2> down{}, up{};
  if (pipe2(down.data(), O_CLOEXEC) != 0) return;
  if (pipe2(up.data(), O_CLOEXEC) != 0) {
    close(down[0]);
    close(down[1]);
    return;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, down[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, up[1], STDOUT_FILENO);
  std::vector<std::string> variables = environment_with(environment);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, command[0].c_str(), &actions, nullptr, pointers(command).data(),
                                  pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  close(down[0]);
  close(up[1]);
  to_ = down[1];
  from_ = up[0];
  if (failed == 0) pid_ = pid;
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) stop();
  if (to_ >= 0) close(to_);
  if (from_ >= 0) close(from_);
}

std::string ChildProcess::stop() {
  int status = 0;
  // One that has ended by itself keeps its own status.
  if (waitpid(pid_, &status, WNOHANG) == 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, &status, 0);
    status = 0;
  }
  pid_ = -1;
  if (WIFSIGNALED(status)) return fmt::format("crashed: {}", strsignal(WTERMSIG(status)));
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
    return fmt::format("ended with status {}", WEXITSTATUS(status));
  return "was stopped";
}

Json ChildProcess::ask(const Json& question, double seconds) {
  if (pid_ <= 0) return {{"error", "is not running"}};
  const std::string line = question.dump() + "\n";
  const auto begin = Clock::now();
  if (write(to_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    usleep(20'000);
    return {{"error", stop()}};
  }
  while (true) {
    const std::size_t end = pending_.find('\n');
    if (end != std::string::npos) {
      const std::string text = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      Json reply = Json::parse(text, nullptr, false);
      if (!reply.is_discarded() && reply.is_object()) return reply;
      continue;  // a library's own chatter
    }
    const double left = seconds - since(begin);
    pollfd ready{from_, POLLIN, 0};
    if (left <= 0 || poll(&ready, 1, static_cast<int>(left * 1e3) + 1) == 0) {
      stop();
      return {{"error", fmt::format("gave no answer in {:.0f} s", seconds)}};
    }
    std::array<char, 4096> part{};
    const ssize_t got = read(from_, part.data(), part.size());
    if (got <= 0) {
      usleep(20'000);  // its status follows its last byte
      return {{"error", stop()}};
    }
    pending_.append(part.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace lathe::tool
