// Records hypotheses as they are tested, with their times, and reports them to the caller.
#pragma once

#include <chrono>
#include <string>

#include "lathe/dev/investigation.h"

namespace lathe::investigate {

// Thrown if the caller wants to stop, or the time is over.
struct Stopped {};

class Notebook {
 public:
  Notebook(dev::Finding& finding, double seconds, const dev::OnHypothesis& told)
      : finding_(finding), seconds_(seconds), told_(told) {}

  void tell(std::string claim, std::string experiment, std::string evidence, dev::Verdict verdict) {
    const Clock::time_point now = Clock::now();
    const std::chrono::duration<double, std::milli> took = now - last_;
    last_ = now;
    finding_.hypotheses.push_back(
        {std::move(claim), std::move(experiment), std::move(evidence), verdict, took.count()});
    if (told_ && !told_(finding_.hypotheses.back())) throw Stopped();
    if (seconds_left() <= 0) throw Stopped();
  }
  double seconds_left() const {
    return seconds_ - std::chrono::duration<double>(Clock::now() - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  dev::Finding& finding_;
  double seconds_;
  dev::OnHypothesis told_;
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
};

}  // namespace lathe::investigate
