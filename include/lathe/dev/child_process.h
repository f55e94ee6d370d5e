// Another program that answers a line with a line and may crash or hang. Unstable: for tools.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lathe::dev {

class ChildProcess {
 public:
  // The variables are set on top of this process's own.
  explicit ChildProcess(std::vector<std::string> command,
                        const std::vector<std::pair<std::string, std::string>>& variables = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  struct Answer {
    bool ok = false;
    std::string text;  // the line, or what happened to the child: "crashed: Segmentation fault"
  };
  // Sends a line and waits for one. A child that ends, or is silent for that many seconds, is gone
  // afterwards.
  Answer ask(const std::string& line, double seconds);
  Answer next_line(double seconds);  // waits for one more
  bool alive() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The full path of another program of this build or installation, else as the shell would find it; empty
// where there is none.
std::string find_program(const std::string& name);

}  // namespace lathe::dev
