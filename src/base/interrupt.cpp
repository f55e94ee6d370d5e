#include "base/interrupt.h"

#include <atomic>

#include <fmt/format.h>

#include "base/error.h"

namespace lathe {
namespace {

thread_local bool interruptible = false;
std::atomic<Interrupt> wanted{Interrupt::None};
std::atomic<void (*)()> watcher{nullptr};
static_assert(std::atomic<Interrupt>::is_always_lock_free, "set by a signal handler");

}  // namespace

void request_interrupt(Interrupt whom) { wanted.store(whom); }
void mark_interruptible(bool on) { interruptible = on; }
void forget_interrupt() {
  Interrupt marked = Interrupt::Marked;
  wanted.compare_exchange_strong(marked, Interrupt::None);
}

bool take_interrupt() {
  const Interrupt whom = wanted.load(std::memory_order_relaxed);
  if (whom == Interrupt::None || (whom == Interrupt::Marked && !interruptible)) return false;
  if (whom == Interrupt::Watched) {
    if (auto* look = watcher.load()) look();
    return false;
  }
  return wanted.exchange(Interrupt::None) != Interrupt::None;
}

void watch_interrupt_checks(void (*look)()) {
  watcher.store(look);
  wanted.store(look != nullptr ? Interrupt::Watched : Interrupt::None);
}

void stop_before(std::string_view done, std::string_view kernel) {
  if (take_interrupt()) throw UserError("interrupted", fmt::format("before kernel {} was {}", kernel, done));
}

}  // namespace lathe
