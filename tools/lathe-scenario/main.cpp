// `lathe-scenario`: runs one command of an investigation so that it can be ended whole, whatever it does.
//   lathe-scenario SECONDS MEMORY_BYTES DIRECTORY OUTPUT COMMAND...
// It leads a process group, adopts what the command leaves behind, and ends all of it when the command ends,
// overruns its time or memory, when a line comes on standard input, or when standard input closes, which is
// what the death of an investigation looks like from here. Standard output has a line `alive BYTES` every 50
// ms and at the end one line `end HOW STATUS SECONDS PEAK_BYTES`; HOW is exited, signalled, timeout, memory,
// stopped, unstarted. The output of the command, its first and its last mebibyte, is in the file OUTPUT.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBeatMilliseconds = 50;
constexpr int kBeatsPerCount = 4;                     // memory is counted at every fourth beat
constexpr std::size_t kKept = std::size_t{1} << 20U;  // of the output: so much at either end

// The first and last bytes of something long.
class Ends {
 public:
  void add(const char* bytes, std::size_t count) {
    const std::size_t head = std::min(count, kKept - head_.size());
    head_.append(bytes, head);
    tail_.append(bytes + head, count - head);
    if (tail_.size() > 2 * kKept) {
      dropped_ += tail_.size() - kKept;
      tail_.erase(0, tail_.size() - kKept);
    }
  }
  std::string text() const {
    std::string all = head_;
    if (dropped_ > 0) all += "\n[... " + std::to_string(dropped_) + " bytes ...]\n";
    return all + tail_;
  }

 private:
  std::string head_, tail_;
  std::size_t dropped_ = 0;
};

struct Process {
  pid_t pid = 0, parent = 0;
  std::uint64_t resident = 0;  // bytes
};

std::vector<Process> all_processes() {
  std::vector<Process> found;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return found;
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  while (const dirent* entry = readdir(folder)) {
    const int pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    std::ifstream file("/proc/" + std::string(entry->d_name) + "/stat");
    std::string line;
    if (!std::getline(file, line)) continue;
    const std::size_t name_end = line.rfind(')');  // a name may hold blanks and brackets
    if (name_end == std::string::npos) continue;
    std::istringstream fields(line.substr(name_end + 1));
    std::string state, skipped;
    Process p{pid, 0, 0};
    fields >> state >> p.parent;
    for (int i = 5; i < 24; ++i) fields >> skipped;
    fields >> p.resident;
    p.resident *= page;
    found.push_back(p);
  }
  closedir(folder);
  return found;
}

// Children, grandchildren and so on of this process.
std::vector<Process> descendants() {
  const std::vector<Process> all = all_processes();
  std::vector<Process> below;
  std::vector<pid_t> parents{getpid()};
  while (!parents.empty()) {
    const pid_t parent = parents.back();
    parents.pop_back();
    for (const Process& p : all)
      if (p.parent == parent) {
        below.push_back(p);
        parents.push_back(p.pid);
      }
  }
  return below;
}

std::uint64_t resident_bytes() {
  std::uint64_t sum = 0;
  for (const Process& p : descendants()) sum += p.resident;
  return sum;
}

// Whatever is orphaned meanwhile becomes a child of this process, so that in the end nothing is left.
void end_all() {
  while (true) {
    for (const Process& p : descendants()) kill(p.pid, SIGKILL);
    int status = 0;
    const pid_t got = waitpid(-1, &status, 0);
    if (got < 0 && errno == ECHILD) return;
  }
}

struct Limits {
  double seconds = 0;
  std::uint64_t bytes = 0;
  const char* directory = nullptr;
};

pid_t start(const Limits& limits, char** command, int output, const sigset_t& usual) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigprocmask(SIG_SETMASK, &usual, nullptr);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) signal(number, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  if (chdir(limits.directory) != 0) {
    dprintf(STDERR_FILENO, "%s: %s\n", limits.directory, strerror(errno));
    _exit(126);
  }
  execvp(command[0], command);
  dprintf(STDERR_FILENO, "%s: %s\n", command[0], errno == ENOENT ? "command not found" : strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

void drain(int from, Ends& output) {
  std::array<char, 65536> part{};
  for (ssize_t got = 0; (got = read(from, part.data(), part.size())) > 0;)
    output.add(part.data(), static_cast<std::size_t>(got));
}

int supervise(const Limits& limits, const char* output_path, char** command) {
  // A command that signals its own group would otherwise end the one that reports on it.
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) signal(number, SIG_IGN);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t child_ended, usual;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_ended, &usual);
  const int ended = signalfd(-1, &child_ended, SFD_CLOEXEC | SFD_NONBLOCK);
  std::array<int, 2> pipes{};
  if (pipe2(pipes.data(), O_CLOEXEC) != 0) return 1;
  fcntl(pipes[0], F_SETFL, O_NONBLOCK);

  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const pid_t pid = start(limits, command, pipes[1], usual);
  close(pipes[1]);
  const char* how = pid < 0 ? "unstarted" : nullptr;
  int status = 0;
  std::uint64_t peak = 0;
  Ends output;
  auto beat = begin;
  std::uint64_t now = 0;
  bool open = true;
  for (std::int64_t beats = 0; how == nullptr;) {
    std::array<pollfd, 3> events{
        pollfd{STDIN_FILENO, POLLIN, 0}, {ended, POLLIN, 0}, {open ? pipes[0] : -1, POLLIN, 0}};
    poll(events.data(), events.size(), kBeatMilliseconds);
    drain(pipes[0], output);
    if ((events[2].revents & (POLLHUP | POLLIN)) == POLLHUP) open = false;  // it goes on without output
    std::array<char, sizeof(signalfd_siginfo)> ignored{};
    while (read(ended, ignored.data(), ignored.size()) > 0) continue;
    // The command itself has a status to report; what it left to us has not.
    int its = 0;
    for (pid_t got = 0; (got = waitpid(-1, &its, WNOHANG)) > 0;)
      if (got == pid) {
        how = WIFSIGNALED(its) ? "signalled" : "exited";
        status = WIFSIGNALED(its) ? WTERMSIG(its) : WEXITSTATUS(its);
      }
    if (how != nullptr) break;
    if (events[0].revents != 0) how = "stopped";
    if (limits.seconds > 0 && elapsed() > limits.seconds) how = "timeout";
    if (Clock::now() >= beat) {
      beat = Clock::now() + std::chrono::milliseconds(kBeatMilliseconds);
      if (beats++ % kBeatsPerCount == 0) now = resident_bytes();
      peak = std::max(peak, now);
      if (limits.bytes > 0 && now > limits.bytes) how = "memory";
      if (dprintf(STDOUT_FILENO, "alive %llu\n", static_cast<unsigned long long>(now)) < 0) how = "stopped";
    }
  }
  const double seconds = elapsed();
  end_all();
  drain(pipes[0], output);
  std::ofstream(output_path, std::ios::binary) << output.text();
  dprintf(STDOUT_FILENO, "end %s %d %.6f %llu\n", how, status, seconds,
          static_cast<unsigned long long>(peak));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    fputs("usage: lathe-scenario SECONDS MEMORY_BYTES DIRECTORY OUTPUT COMMAND...\n", stderr);
    return 2;
  }
  const Limits limits{std::atof(argv[1]), std::strtoull(argv[2], nullptr, 10), argv[3]};
  return supervise(limits, argv[4], argv + 5);
}
