#include "investigate/command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include <fmt/format.h>

#include "base/spawn_words.h"

namespace lathe::investigate {
namespace {

using Clock = std::chrono::steady_clock;

// Kept of each stream: its end.
constexpr std::size_t kMostKept = std::size_t{1} << 20;

// What there is to read, into `text`; false at the end of the stream.
bool read_some(int from, std::string& text) {
  std::array<char, 16384> part{};
  const ssize_t got = read(from, part.data(), part.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  text.append(part.data(), static_cast<std::size_t>(got));
  if (text.size() > 2 * kMostKept) text.erase(0, text.size() - kMostKept);
  return got > 0;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const std::size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? -1 : static_cast<std::ptrdiff_t>(begin)));
}

}  // namespace

std::string CommandRun::text() const {
  const std::string said = last_line(errors.empty() ? output : errors);
  const std::string tail = said.empty() ? "" : ": " + said;
  switch (end) {
    case End::Status: return fmt::format("ended with status {}{}", code, tail);
    case End::Signal: return fmt::format("ended by signal {} ({}){}", code, strsignal(code), tail);
    case End::Hung: return "did not end in time" + tail;
    case End::NotStarted: return fmt::format("cannot be started: {}", strerror(code));
  }
  return "";
}

CommandRun run_command(const std::vector<std::string>& command, const Variables& variables, double seconds) {
  CommandRun run;
  std::array<int, 2> out{}, err{};
  if (command.empty() || pipe2(out.data(), O_CLOEXEC) != 0) {
    run.end = CommandRun::End::NotStarted;
    run.code = command.empty() ? EINVAL : errno;
    return run;
  }
  if (pipe2(err.data(), O_CLOEXEC) != 0) {
    run.end = CommandRun::End::NotStarted;
    run.code = errno;
    close(out[0]);
    close(out[1]);
    return run;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<std::string> words = command, environment = environment_with(variables);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, words[0].c_str(), &actions, &attributes, word_pointers(words).data(),
                                  word_pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  if (failed != 0) {
    close(out[0]);
    close(err[0]);
    run.end = CommandRun::End::NotStarted;
    run.code = failed;
    return run;
  }
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  std::array<pollfd, 2> streams{pollfd{out[0], POLLIN, 0}, pollfd{err[0], POLLIN, 0}};
  std::array<std::string*, 2> texts{&run.output, &run.errors};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const double left = std::chrono::duration<double>(until - Clock::now()).count();
    if (left <= 0) {
      run.end = CommandRun::End::Hung;
      break;
    }
    if (poll(streams.data(), streams.size(), static_cast<int>(std::min(left, 1e6) * 1e3) + 1) < 0 &&
        errno != EINTR)
      break;
    for (std::size_t i = 0; i < streams.size(); ++i)
      if (streams[i].fd >= 0 && streams[i].revents != 0 && !read_some(streams[i].fd, *texts[i]))
        streams[i].fd = -1;
  }
  int status = 0;
  if (run.end == CommandRun::End::Hung) {
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
  } else {
    waitpid(pid, &status, 0);
    kill(-pid, SIGKILL);  // what it left behind
    run.end = WIFSIGNALED(status) ? CommandRun::End::Signal : CommandRun::End::Status;
    run.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  }
  close(out[0]);
  close(err[0]);
  return run;
}

}  // namespace lathe::investigate
