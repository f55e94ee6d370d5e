// A child process that answers each line with a line, and may crash or hang. Unstable: for tools.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lathe::dev {

class ChildProcess {
 public:
  // Starts the command. `variables` are added to this process's environment.
  explicit ChildProcess(std::vector<std::string> command,
                        const std::vector<std::pair<std::string, std::string>>& variables = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  struct Answer {
    bool ok = false;
    std::string text;  // the line, or what happened to the child: "crashed: Segmentation fault"
  };
  // Sends a line and waits for the answer. A child that ends, or gives no answer within `seconds`, is killed
  // and not restarted.
  Answer ask(const std::string& line, double seconds);
  Answer next_line(double seconds);  // waits for one more line
  bool alive() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The full path of another program of this build or installation, else of the one on PATH; empty if there is
// none.
std::string find_program(const std::string& name);

}  // namespace lathe::dev
