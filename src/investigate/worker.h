// Experiments in a process of their own: what crashes or hangs is an outcome like any other. `lathe-worker
// investigate` answers them one by one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "investigate/experiment.h"
#include "investigate/graph_subject.h"

namespace lathe::investigate {

// Where experiments are done.
class Laboratory {
 public:
  Laboratory() = default;
  virtual ~Laboratory() = default;
  Laboratory(const Laboratory&) = delete;
  Laboratory& operator=(const Laboratory&) = delete;

  virtual DeviceRun device(const Subject& subject, const Conditions& conditions, int runs) = 0;
  virtual StepsRun steps(const Subject& subject, const Conditions& conditions) = 0;
  virtual StepsRun schedule(const GraphSubject& subject, const Conditions& conditions) = 0;
};

// In this process: where nothing crashes, and what this thread experiments with counts.
class LocalLaboratory : public Laboratory {
 public:
  DeviceRun device(const Subject& subject, const Conditions& conditions, int runs) override {
    return run_on_device(subject, conditions, runs);
  }
  StepsRun steps(const Subject& subject, const Conditions& conditions) override {
    return run_steps_on_ref(subject, conditions);
  }
  StepsRun schedule(const GraphSubject& subject, const Conditions& conditions) override {
    return run_schedule_on_ref(subject, conditions);
  }
};

// In a worker, which is replaced when it has crashed or hung.
class WorkerLaboratory : public Laboratory {
 public:
  // Throws UserError where there is no lathe-worker.
  WorkerLaboratory();
  ~WorkerLaboratory() override;

  DeviceRun device(const Subject& subject, const Conditions& conditions, int runs) override;
  StepsRun steps(const Subject& subject, const Conditions& conditions) override;
  StepsRun schedule(const GraphSubject& subject, const Conditions& conditions) override;

 private:
  struct Reply {
    Outcome outcome = Outcome::Unknown;  // Crashed or Hung, else what the fields say
    std::vector<std::string> fields;
  };
  Reply ask(const std::string& question, const std::string& subject, const Conditions& conditions);
  StepsRun ask_steps(const std::string& question, const std::string& subject, const Conditions& conditions);

  std::vector<std::string> command_;
  std::string folder_;
  std::unique_ptr<ChildProcess> child_;
};

// The other side: reads questions and prints answers until there are no more.
int worker_main();

}  // namespace lathe::investigate
