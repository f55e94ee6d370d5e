#include "lathe/dev/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "rewrite/rewriter.h"

namespace lathe::dev {
namespace {

std::atomic<bool> seen{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set by a signal handler");

void give_up(int) { _exit(kInterruptedStatus); }

void stop(int) {
  if (seen.exchange(true)) _exit(kInterruptedStatus);
  request_interrupt();
  alarm(1);
}

}  // namespace

void stop_compiles_on_interrupt() {
  struct sigaction action = {};
  action.sa_handler = stop;
  sigaction(SIGINT, &action, nullptr);
  action.sa_handler = give_up;
  sigaction(SIGALRM, &action, nullptr);
}

bool was_interrupted() { return seen.load(); }

}  // namespace lathe::dev
