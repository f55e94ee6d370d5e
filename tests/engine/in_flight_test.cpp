// Threads that compute at the same time.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <thread>

#include "base/env.h"
#include "graphs.h"
#include "named_backend.h"
#include "runtime/registry.h"

namespace lathe::engine {
namespace {

using test::floats;
using test::read;

std::atomic<int> launches{0};
std::promise<void>* started = nullptr;
std::shared_future<void> may_end;

// Each of its kernels fills its first buffer with 42, and runs until it may end.
class PatientDevice : public Device {
 public:
  Memory alloc(std::size_t bytes) override { return {0, bytes, new char[bytes]()}; }
  Memory import(void* data, std::size_t bytes, Owner) override { return {0, bytes, data}; }
  void free(Memory memory) override { delete[] static_cast<char*>(memory.host); }
  std::unique_ptr<Kernel> load(const Binary&) override { return std::make_unique<Kernel>(); }
  Event copy(Queue, Span to, Span from, std::span<const Event>) override {
    std::memcpy(at(to), at(from), to.bytes);
    return {0, ++count_};
  }
  Event launch(Queue, Kernel&, const Grid&, std::span<const Arg> args, std::span<const Event>) override {
    left_ = args[0].span;
    return {0, left_event_ = ++count_};
  }
  void run_left(Event event) override {
    if (event.value != left_event_) return;
    left_event_ = 0;
    const Span to = left_;
    ++launches;
    if (started != nullptr) std::exchange(started, nullptr)->set_value();
    if (may_end.valid()) may_end.wait();
    const float value = 42;
    for (std::size_t i = 0; i + 4 <= to.bytes; i += 4) std::memcpy(at(to) + i, &value, 4);
  }
  void wait(Event) override {}
  double elapsed_ns(Event, Event) override { return 0; }

 private:
  static char* at(const Span& span) { return static_cast<char*>(span.memory.host) + span.offset; }
  Span left_;
  std::atomic<std::uint64_t> count_{0}, left_event_{0};
};

void add_patient_backend() {
  test::add_named_backend("PATIENT", [] { return std::make_unique<PatientDevice>(); });
}

// A setting of flags holds for one thread.
NodeRef unchecked_realize(Node node) {
  const FlagScope unchecked(Flag::Check, "off");
  return test::realize(node);
}

// Begins to compute a node on another thread; its kernel runs when this returns, and ends when told to.
class Running {
 public:
  explicit Running(const NodeRef& node) {
    std::promise<void> begun;
    started = &begun;
    may_end = end_.get_future().share();
    thread_ = std::thread([this, node] { result_ = unchecked_realize(node); });
    begun.get_future().wait();
  }
  void release() { end_.set_value(); }
  NodeRef result() {
    thread_.join();
    may_end = {};
    return result_;
  }

 private:
  std::promise<void> end_;
  std::thread thread_;
  NodeRef result_;
};

TEST(InFlight, AnotherComputationDoesNotWaitForOneThatRuns) {
  const Scope scope;
  add_patient_backend();
  const NodeRef far = floats({1, 2, 3}, "PATIENT"), near = floats({1, 2, 3});
  Running running(far.node() + far.node());
  EXPECT_EQ(read(test::realize(near.node() + near.node())), (std::vector<float>{2, 4, 6}));
  running.release();
  EXPECT_EQ(read(running.result()), (std::vector<float>{42, 42, 42}));
}

TEST(InFlight, AValueThatIsBeingComputedIsComputedOnce) {
  const Scope scope;
  add_patient_backend();
  const NodeRef far = floats({1, 2, 3, 4}, "PATIENT");
  const NodeRef twice = far.node() + far.node();
  launches = 0;
  Running running(twice);
  NodeRef second;
  std::thread other([&] { second = unchecked_realize(twice); });
  running.release();
  const NodeRef first = running.result();
  other.join();
  EXPECT_EQ(launches, 1);
  EXPECT_EQ(first, second);
}

// The second thread reads memory that the first is writing: it gets what was written.
TEST(InFlight, MemoryThatIsBeingWrittenIsReadAfterwards) {
  const Scope scope;
  add_patient_backend();
  const NodeRef memory = floats({1, 2, 3, 4, 5}, "PATIENT");
  const NodeRef next = test::assign(memory, memory.node() + memory.node());
  launches = 0;
  Running running(next);
  NodeRef copy;
  std::thread other([&] { copy = unchecked_realize(next.node() * next.node()); });
  running.release();
  running.result();
  other.join();
  EXPECT_EQ(launches, 2) << "the memory was written twice, or read before";
}

}  // namespace
}  // namespace lathe::engine
