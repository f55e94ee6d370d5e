#include "base/child_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/spawn_words.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

// A pair of sockets instead of pipes: writing to a child that is gone is then an error and no signal.
ChildProcess::ChildProcess(std::vector<std::string> command, const Variables& variables) {
  std::array<int, 2> down{}, up{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, down.data()) != 0) return;
  if (pipe2(up.data(), O_CLOEXEC) != 0) {
    close(down[0]);
    close(down[1]);
    return;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, down[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, up[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> environment = environment_with(variables);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, command[0].c_str(), &actions, &attributes,
                                  word_pointers(command).data(), word_pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
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
  // One that has ended by itself keeps its own status; its group may hold others that have not.
  const bool by_itself = waitpid(pid_, &status, WNOHANG) == pid_;
  kill(-pid_, SIGKILL);
  if (!by_itself) waitpid(pid_, &status, 0);
  pid_ = -1;
  if (!by_itself) return "was stopped";
  if (WIFSIGNALED(status)) return fmt::format("crashed: {}", strsignal(WTERMSIG(status)));
  return fmt::format("ended with status {}", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

// Its status follows its last byte; one that closed its output but lives on is stopped.
ChildProcess::Answer ChildProcess::ended() {
  for (int i = 0; i < 100; ++i) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == pid_)
      break;
    usleep(2000);
  }
  return {Outcome::Crashed, stop()};
}

ChildProcess::Answer ChildProcess::ask(const std::string& line, double seconds) {
  if (pid_ <= 0) return {Outcome::Crashed, "is not running"};
  const std::string text = line + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t now = ::send(to_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return ended();
    sent += static_cast<std::size_t>(now);
  }
  return next_line(seconds);
}

ChildProcess::Answer ChildProcess::next_line(double seconds) {
  if (pid_ <= 0) return {Outcome::Crashed, "is not running"};
  const auto begin = Clock::now();
  while (true) {
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      Answer answer{Outcome::Line, pending_.substr(0, end)};
      pending_.erase(0, end + 1);
      return answer;
    }
    const double left = seconds - since(begin);
    pollfd ready{from_, POLLIN, 0};
    const int events = left <= 0 ? 0 : poll(&ready, 1, static_cast<int>(left * 1e3) + 1);
    if (events < 0 && errno == EINTR) continue;
    if (events <= 0) {
      stop();
      return {Outcome::Silent, fmt::format("gave no answer in {:.3g} s", seconds)};
    }
    std::array<char, 4096> part{};
    const ssize_t got = read(from_, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return ended();
    pending_.append(part.data(), static_cast<std::size_t>(got));
  }
}

std::string program_folder() {
  std::error_code failed;
  const fs::path self = fs::read_symlink("/proc/self/exe", failed);
  return failed ? "" : self.parent_path().string();
}

std::string find_program(const std::string& name, const std::vector<std::string>& more) {
  std::vector<std::string> homes{program_folder()}, folders;
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&find_program), &info) != 0 && info.dli_fname != nullptr)
    homes.push_back(fs::path(info.dli_fname).parent_path().string());
  for (const std::string& home : homes)
    for (const char* from : {"", "/../bin", "/../../bin"})  // build/python/lathe and lib/lathe are two below
      if (!home.empty()) folders.push_back(home + from);
  folders.insert(folders.end(), more.begin(), more.end());
  const char* path = std::getenv("PATH");
  for (std::string rest = path == nullptr ? "" : path; !rest.empty();) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    folders.push_back(rest.substr(0, end));
    rest.erase(0, end + 1);
  }
  for (const std::string& folder : folders) {
    const std::string full = folder + "/" + name;
    if (!folder.empty() && access(full.c_str(), X_OK) == 0) return full;
  }
  return "";
}

}  // namespace lathe
