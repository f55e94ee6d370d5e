// A child process that answers each line with a line and may be killed at any time: Lathe uses it to run
// untrusted work (candidates of a search, peers of a benchmark). It is spawned, never forked, into its own
// process group, so that everything it started ends with it. Every failure is returned as text, never thrown.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lathe {

class ChildProcess {
 public:
  // Variables are set on top of this process's own; one without a value is removed.
  using Variables = std::vector<std::pair<std::string, std::string>>;
  explicit ChildProcess(std::vector<std::string> command, const Variables& variables = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  enum class Outcome : std::uint8_t { Line, Crashed, Silent };
  struct Answer {
    Outcome outcome = Outcome::Line;
    std::string text;  // the line, or what happened: "crashed: Segmentation fault"
    bool ok() const { return outcome == Outcome::Line; }
  };
  // Sends a line and waits for one. A child that ends, or is silent for that many seconds, is gone
  // afterwards.
  Answer ask(const std::string& line, double seconds);
  // Waits for one more line.
  Answer next_line(double seconds);

  bool alive() const { return pid_ > 0; }
  int pid() const { return pid_; }

 private:
  std::string stop();  // ends it and says how it ended
  Answer ended();

  int pid_ = -1, to_ = -1, from_ = -1;
  std::string pending_;
};

// The folder the running program is in, and the full path of another program: beside it or beside the library
// this code is in (a wheel), in the folder `bin` next to or above either (an installation, a build), in one
// of `more`, or as the shell would find it; empty where there is none.
std::string program_folder();
std::string find_program(const std::string& name, const std::vector<std::string>& more = {});

}  // namespace lathe
