// An investigation while it runs: what investigators are given. It writes everything into the store, ends
// scenarios and the investigation when somebody cancels it, when its budget is used up or its process is
// asked to end, and hands out what people observe meanwhile.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "apps/investigations/scenario.h"
#include "apps/investigations/store.h"

namespace lathe::investigations {

// Why an investigation ends before its investigator has. No errors: nobody did anything wrong.
enum class Early : std::uint8_t { No, Cancelled, Interrupted, OutOfBudget };

struct EndedEarly {
  Early why;
};

class Case {
 public:
  // `tell` gets each line for people; it is called from one thread at a time.
  using Tell = std::function<void(const std::string&)>;
  Case(Store& store, const std::string& id, Tell tell);
  ~Case();
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  Store& store() { return store_; }
  const std::string& id() const { return id_; }
  const Input& input() const { return input_; }
  const Environment& environment() const { return environment_; }
  std::string folder() const { return store_.session_folder(id_); }
  std::string scratch() const;  // made if need be, removed when the session is over
  int jobs() const;
  double seconds_left() const;

  Early early() const { return early_; }
  void check() const {
    if (const Early why = early(); why != Early::No) throw EndedEarly{why};
  }
  void end(Early why);  // from a signal's watcher
  // Called before it is destroyed: for watchers that know of it.
  void when_over(std::function<void()> act) { over_ = std::move(act); }

  void add(const dev::Hypothesis& hypothesis);
  void event(const std::string& kind, const std::string& text);
  void tell(const std::string& line);
  const std::vector<dev::Hypothesis>& hypotheses() const { return hypotheses_; }

  // Each outcome is recorded; a memory of earlier ones is the caller's. Throws EndedEarly.
  std::vector<Outcome> run(const std::vector<Scenario>& scenarios,
                           const std::function<bool(std::size_t, const Outcome&)>& done = {});

  // Those that came since the last call.
  std::vector<Observation> new_observations();
  void forget_observations() { observations_seen_ = 0; }  // they come once more

 private:
  void watch(const std::stop_token& over);

  Store& store_;
  std::string id_;
  Input input_;
  Environment environment_;
  Tell tell_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<Early> early_{Early::No};
  std::mutex telling_;
  std::vector<dev::Hypothesis> hypotheses_;
  double pages_written_at_ = 1e300;  // by seconds_left
  std::int64_t observations_seen_ = 0;
  std::function<void()> over_;
  std::jthread watcher_;
};

// Measures the time of one experiment.
class Timer {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

std::string joined_words(const std::vector<std::string>& words);  // as a shell would read them

}  // namespace lathe::investigations
