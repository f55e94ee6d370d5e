#include "runtime/fork_guard.h"

#include <pthread.h>

#include <atomic>

#include "base/error.h"

namespace lathe {
namespace {

std::atomic<bool> forked_child{false};

}  // namespace

void mark_device_process() {
  static const int once = pthread_atfork(nullptr, nullptr, [] { forked_child.store(true); });
  check_internal(once == 0, "fork guard", "the fork handler could not be installed");
}

bool in_forked_child() { return forked_child.load(std::memory_order_relaxed); }

void refuse_in_forked_child() {
  if (!in_forked_child()) return;
  throw DeviceError(
      "device", "this process was forked from one that had opened a device, and devices do not survive that")
      .help("start workers as new processes (spawn, exec), or open devices only after forking");
}

}  // namespace lathe
