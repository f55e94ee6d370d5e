// Experiments in a process of their own: what crashes or hangs is an outcome like any other. `lathe-worker
// investigate` answers them one by one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "investigate/experiment.h"
#include "investigate/graph_subject.h"
#include "investigate/judges.h"

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
  virtual std::vector<Opinion> judges(const Subject& subject, const Conditions& conditions) = 0;

  // How many experiments go on side by side, and an experiment for each number below `count` so: each has a
  // laboratory of its own.
  virtual std::size_t side_by_side() const { return 1; }
  using Numbered = std::function<void(Laboratory&, std::size_t)>;
  virtual void for_each(std::size_t count, const Numbered& experiment) {
    for (std::size_t i = 0; i < count; ++i) experiment(*this, i);
  }
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
  std::vector<Opinion> judges(const Subject& subject, const Conditions& conditions) override {
    std::vector<Opinion> out = ask_judges(subject, conditions);
    for (Opinion& opinion : opinions_of(steps(subject, conditions))) out.push_back(std::move(opinion));
    for (Opinion& opinion : ask_on_device(subject, conditions)) out.push_back(std::move(opinion));
    return out;
  }
};

// The path of lathe-worker. Throws UserError where there is none.
std::string worker_program();

// In a worker, which is replaced when it has crashed or hung.
class WorkerLaboratory : public Laboratory {
 public:
  // So many workers at a time, 0 for one per CPU. Throws UserError where there is no lathe-worker.
  explicit WorkerLaboratory(int jobs = 1);
  ~WorkerLaboratory() override;

  DeviceRun device(const Subject& subject, const Conditions& conditions, int runs) override;
  StepsRun steps(const Subject& subject, const Conditions& conditions) override;
  StepsRun schedule(const GraphSubject& subject, const Conditions& conditions) override;
  std::vector<Opinion> judges(const Subject& subject, const Conditions& conditions) override;
  std::size_t side_by_side() const override { return jobs_; }
  void for_each(std::size_t count, const Numbered& experiment) override;

 private:
  struct Reply {
    Outcome outcome = Outcome::Unknown;  // Crashed or Hung, else what the fields say
    std::vector<std::string> fields;
  };
  Reply ask(const std::string& question, const std::string& subject, const Conditions& conditions);
  StepsRun ask_steps(const std::string& question, const std::string& subject, const Conditions& conditions);

  std::vector<std::string> command_;
  std::string folder_;
  std::size_t jobs_;
  std::unique_ptr<ChildProcess> child_;
  std::vector<std::unique_ptr<WorkerLaboratory>> beside_;
};

// The other side: reads questions and prints answers until there are no more.
int worker_main();

}  // namespace lathe::investigate
