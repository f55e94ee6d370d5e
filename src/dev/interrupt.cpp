#include "lathe/dev/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "base/interrupt.h"

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

thread_local int scopes = 0;
struct sigaction before = {};  // of the main thread's outermost scope
std::atomic<bool> watching{false};

void pass_on(int number, siginfo_t* info, void* context) {
  request_interrupt(Interrupt::Marked);
  if ((before.sa_flags & SA_SIGINFO) != 0)
    before.sa_sigaction(number, info, context);
  else
    before.sa_handler(number);
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == pass_on;
}

bool on_main_thread() {
  thread_local const bool main = getpid() == gettid();
  return main;
}

}  // namespace

InterruptibleScope::InterruptibleScope() {
  if (scopes++ > 0 || !on_main_thread()) return;
  if (sigaction(SIGINT, nullptr, &before) != 0 || before.sa_handler == SIG_DFL ||
      before.sa_handler == SIG_IGN)
    return;
  struct sigaction action = before;
  action.sa_flags |= SA_SIGINFO;
  action.sa_sigaction = pass_on;
  mark_interruptible(true);
  watching = sigaction(SIGINT, &action, nullptr) == 0;
}

InterruptibleScope::~InterruptibleScope() {
  if (--scopes > 0 || !on_main_thread() || !watching.exchange(false)) return;
  struct sigaction now = {};
  sigaction(SIGINT, &before, &now);
  if (!is_ours(now)) sigaction(SIGINT, &now, nullptr);  // the program put in another one meanwhile
  mark_interruptible(false);
  forget_interrupt();
}

void stop_compiles_on_interrupt() {
  struct sigaction action = {};
  action.sa_handler = stop;
  sigaction(SIGINT, &action, nullptr);
  action.sa_handler = give_up;
  sigaction(SIGALRM, &action, nullptr);
}

bool was_interrupted() { return seen.load(); }

}  // namespace lathe::dev
