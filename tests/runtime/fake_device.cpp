#include "fake_device.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "base/error.h"
#include "runtime/registry.h"

namespace lathe::fake {
namespace {

class FakeDevice : public Device {
 public:
  FakeDevice(int index, bool host_reaches, Progress& progress)
      : host_reaches_(host_reaches), progress_(progress) {
    for (int q = 0; q < kQueues; ++q)
      queues_.push_back(std::make_unique<Worker>(index * kQueues + q, progress));
  }

  Memory alloc(std::size_t bytes) override {
    auto* block = new char[bytes];
    std::memset(block, 0x5a, bytes);
    ++settings().allocated;
    return {reinterpret_cast<std::uintptr_t>(block), bytes, host_reaches_ ? block : nullptr};
  }
  Memory import(void* data, std::size_t bytes, Owner owner) override {
    std::lock_guard lock(mutex_);
    owners_[reinterpret_cast<std::uintptr_t>(data)] = std::move(owner);
    return {reinterpret_cast<std::uintptr_t>(data), bytes, data};
  }
  void free(Memory memory) override {
    ++settings().freed;
    std::unique_lock lock(mutex_);
    if (auto found = owners_.find(memory.handle); found != owners_.end()) {
      Owner owner = std::move(found->second);
      owners_.erase(found);
      lock.unlock();
      if (owner) owner();
      return;
    }
    delete[] reinterpret_cast<char*>(memory.handle);
  }
  std::unique_ptr<Kernel> load(const Binary&) override { return std::make_unique<FakeKernel>(); }

  Event copy(Queue queue, Span to, Span from, std::span<const Event> after) override {
    return push(queue, after, [to, from] { std::memcpy(address(to), address(from), to.bytes); });
  }
  Event launch(Queue queue, Kernel& kernel, const Grid&, std::span<const Arg> args,
               std::span<const Event> after) override {
    ++settings().launches;
    std::vector<void*> spans;
    for (const Arg& arg : args)
      if (arg.kind == Arg::Kind::Span) spans.push_back(address(arg.span));
    auto* fake = static_cast<FakeKernel*>(&kernel);
    return push(queue, after, [fake, spans] { fake->body(spans); });
  }
  void wait(Event event) override { progress_.wait(event); }
  double elapsed_ns(Event, Event) override { return 1000; }
  int queues() const override { return kQueues; }

 private:
  static char* address(const Span& span) {
    void* base = span.memory.host != nullptr ? span.memory.host : reinterpret_cast<void*>(span.memory.handle);
    return static_cast<char*>(base) + span.offset;
  }

  struct Task {
    Event event;
    std::vector<Event> after;
    std::function<void()> body;
  };
  struct Worker {
    int number;
    Progress& progress;
    std::mutex mutex;
    std::condition_variable given;
    std::deque<Task> tasks;
    std::uint64_t value = 0;
    std::thread thread;

    Worker(int n, Progress& p) : number(n), progress(p), thread([this] { run(); }) { thread.detach(); }
    void run() {
      std::minstd_rand random(static_cast<unsigned>(number) + 1);
      while (true) {
        std::unique_lock lock(mutex);
        given.wait(lock, [&] { return !tasks.empty(); });
        Task task = std::move(tasks.front());
        tasks.pop_front();
        lock.unlock();
        if (!settings().drop_waits)
          for (const Event& event : task.after) progress.wait(event);
        if (const int most = settings().most_delay_us; most > 0 && random() % 4 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<unsigned>(most)));
        task.body();
        progress.finish(task.event);
        --settings().pending;
        settings().pending.notify_all();
      }
    }
  };

  Event push(Queue queue, std::span<const Event> after, std::function<void()> body) {
    Worker& worker = *queues_[static_cast<std::size_t>(queue)];
    std::lock_guard lock(worker.mutex);
    const Event event{worker.number, ++worker.value};
    ++settings().pending;
    worker.tasks.push_back({event, {after.begin(), after.end()}, std::move(body)});
    worker.given.notify_one();
    return event;
  }

  bool host_reaches_;
  Progress& progress_;
  std::mutex mutex_;
  std::unordered_map<std::uintptr_t, Owner> owners_;
  std::vector<std::unique_ptr<Worker>> queues_;
};

Backend make_backend(const std::string& name, bool host_reaches) {
  auto* progress = new Progress;  // threads use it until the process ends
  Backend backend;
  backend.name = name;
  backend.targets = [] { return std::vector<std::string>{"plain"}; };
  backend.open = [=](int index) -> std::unique_ptr<Device> {
    return std::make_unique<FakeDevice>(index, host_reaches, *progress);
  };
  return backend;
}

}  // namespace

Settings& settings() {
  static auto* all = new Settings;
  return *all;
}

void wait_until_idle() {
  for (std::int64_t left; (left = settings().pending) > 0;) settings().pending.wait(left);
}

void add_fake_backends() {
  static const bool once = [] {
    add_backend(make_backend("FAKE", true));
    add_backend(make_backend("ISLE", false));
    add_backend(make_backend("REEF", false));
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace lathe::fake
