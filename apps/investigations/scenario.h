// One run of a command in processes of its own: a process group with limits of time and memory, that ends
// whole when the command ends, when it is stopped, and when this process dies. How it ended is evidence,
// never an exception.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lathe::investigations {

enum class Ending : std::uint8_t {
  Exited,       // with the status
  Signalled,    // by the signal that is the status
  TimedOut,     // it ran longer than it may
  OutOfMemory,  // it used more than it may
  Stopped,      // by this process
  Lost,         // what watched over it was killed
};
std::string_view name(Ending ending);
Ending ending_named(std::string_view name);

struct Scenario {
  std::string label;
  std::vector<std::string> command;
  std::string directory;
  std::map<std::string, std::string> environment;  // all of it
  double seconds = 0;                              // 0: as long as it takes
  std::int64_t memory = 0;                         // bytes of all its processes; 0: any
};

struct Outcome {
  Ending ending = Ending::Lost;
  int status = 0;
  double seconds = 0;
  std::int64_t peak = 0;  // bytes
  std::string output;     // standard output and error, the middle left out where it is long

  bool passed() const { return ending == Ending::Exited && status == 0; }
  std::string words() const;  // "exit status 1", "Segmentation fault", "no end within 3 s"
};

// Asked many times a second; true ends the run.
using Stop = std::function<bool()>;

// `mark` is told apart from all other runs: what is left of it can be found by it.
Outcome run_scenario(const Scenario& scenario, const std::string& mark, const std::string& scratch,
                     const Stop& stop);

// Runs them side by side, at most `jobs` at a time; the callback gets each outcome as it comes, from any
// thread but one at a time, and ends what still runs by returning false. Those that did not run are Stopped.
std::vector<Outcome> run_scenarios(const std::vector<Scenario>& scenarios, int jobs, const std::string& mark,
                                   const std::string& scratch, const Stop& stop,
                                   const std::function<bool(std::size_t, const Outcome&)>& done = {});

// Ends all processes that bear the mark: what two killed parents have left.
int end_marked(const std::string& mark);

// A command that is trusted to end by itself, as git is: its standard output, or what it said went wrong.
struct Ran {
  int status = -1;
  std::string output, errors;
  bool ok() const { return status == 0; }
};
Ran run_command(std::vector<std::string> command, const std::map<std::string, std::string>& changes = {},
                const std::string& input = "");

}  // namespace lathe::investigations
