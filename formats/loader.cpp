#include "lathe/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "lathe/datasets.h"

namespace lathe {

struct DataLoader::Impl {
  std::int64_t samples;
  Prepare prepare;
  LoaderOptions options;
  std::vector<std::int64_t> order;  // this process's part of the epoch
  std::int64_t order_epoch = -1;

  struct Slot {
    std::vector<Tensor> tensors;
    std::exception_ptr error;
  };
  std::mutex mutex;
  std::condition_variable changed;
  Position at;
  std::int64_t claimed = 0;            // the next batch of the epoch that no worker has
  std::uint64_t generation = 0;        // grows when the position is moved: late results are dropped
  std::map<std::int64_t, Slot> ready;  // by batch
  bool over = false;
  std::vector<std::thread> threads;

  std::int64_t own_samples() const {
    return (samples - options.process + options.processes - 1) / options.processes;
  }
  std::int64_t batches() const {
    const std::int64_t own = own_samples(), full = own / options.batch_size;
    return full + (own % options.batch_size != 0 && !options.drop_last ? 1 : 0);
  }
  std::vector<std::int64_t> order_of(std::int64_t epoch) const {
    std::vector<std::int64_t> all;
    if (options.shuffle) {
      // Seeds of neighbouring epochs must not be neighbours of other runs' seeds.
      all =
          datasets::shuffled(samples, options.seed * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(epoch));
    } else {
      for (std::int64_t i = 0; i < samples; ++i) all.push_back(i);
    }
    std::vector<std::int64_t> own;
    for (std::int64_t i = options.process; i < samples; i += options.processes)
      own.push_back(all[static_cast<std::size_t>(i)]);
    return own;
  }
  // Under the mutex.
  std::vector<std::int64_t> samples_of(std::int64_t batch) {
    if (order_epoch != at.epoch) {
      order = order_of(at.epoch);
      order_epoch = at.epoch;
    }
    const auto begin = std::min<std::int64_t>(batch * options.batch_size, own_samples()),
               end = std::min<std::int64_t>(begin + options.batch_size, own_samples());
    return {order.begin() + begin, order.begin() + end};
  }
  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] {
        return over || (claimed < batches() && claimed < at.batch + options.workers * options.prefetch);
      });
      if (over) return;
      const std::int64_t batch = claimed++;
      const std::uint64_t mine = generation;
      const std::vector<std::int64_t> some = samples_of(batch);
      lock.unlock();
      Slot slot;
      try {
        slot.tensors = prepare(some);
      } catch (...) {
        slot.error = std::current_exception();
      }
      lock.lock();
      if (mine != generation) continue;
      ready.emplace(batch, std::move(slot));
      changed.notify_all();
    }
  }
  void move_to(Position position) {
    at = position;
    claimed = position.batch;
    ++generation;
    ready.clear();
    changed.notify_all();
  }
};

DataLoader::DataLoader(std::int64_t samples, Prepare prepare, const LoaderOptions& options)
    : impl_(std::make_unique<Impl>()) {
  auto positive = [](const char* what, std::int64_t value, std::int64_t least) {
    if (value < least)
      throw UserError("DataLoader", fmt::format("{} is {}, the least is {}", what, value, least));
  };
  positive("the number of samples", samples, 0);
  positive("batch_size", options.batch_size, 1);
  positive("workers", options.workers, 0);
  positive("prefetch", options.prefetch, 1);
  positive("processes", options.processes, 1);
  if (options.process < 0 || options.process >= options.processes)
    throw UserError("DataLoader",
                    fmt::format("this is process {} of {}", options.process, options.processes));
  if (!prepare) throw UserError("DataLoader", "there is no function that prepares a batch");
  impl_->samples = samples;
  impl_->prepare = std::move(prepare);
  impl_->options = options;
  for (std::int64_t i = 0; i < options.workers; ++i) impl_->threads.emplace_back([this] { impl_->work(); });
}

DataLoader::~DataLoader() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->over = true;
  }
  impl_->changed.notify_all();
  for (std::thread& thread : impl_->threads) thread.join();
}

std::optional<std::vector<Tensor>> DataLoader::next() {
  std::unique_lock lock(impl_->mutex);
  const std::int64_t batch = impl_->at.batch;
  if (batch >= impl_->batches()) {
    impl_->move_to({impl_->at.epoch + 1, 0});
    return std::nullopt;
  }
  if (impl_->threads.empty()) {
    const std::vector<std::int64_t> some = impl_->samples_of(batch);
    ++impl_->at.batch;
    lock.unlock();
    return impl_->prepare(some);
  }
  impl_->changed.wait(lock, [&] { return impl_->ready.contains(batch); });
  Impl::Slot slot = std::move(impl_->ready.at(batch));
  impl_->ready.erase(batch);
  ++impl_->at.batch;
  impl_->changed.notify_all();
  if (slot.error) std::rethrow_exception(slot.error);
  return std::move(slot.tensors);
}

std::int64_t DataLoader::batches() const { return impl_->batches(); }

DataLoader::Position DataLoader::position() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->at;
}

void DataLoader::resume(Position position) {
  if (position.epoch < 0 || position.batch < 0 || position.batch > impl_->batches())
    throw UserError("DataLoader", fmt::format("there is no batch {} in epoch {}: an epoch has {}",
                                              position.batch, position.epoch, impl_->batches()));
  std::lock_guard lock(impl_->mutex);
  impl_->move_to(position);
}

std::vector<std::int64_t> DataLoader::samples_of(Position position) const {
  const std::vector<std::int64_t> order = impl_->order_of(position.epoch);
  const auto size = static_cast<std::int64_t>(order.size());
  const std::int64_t begin = std::clamp<std::int64_t>(position.batch * impl_->options.batch_size, 0, size),
                     end = std::min(begin + impl_->options.batch_size, size);
  return {order.begin() + begin, order.begin() + end};
}

}  // namespace lathe
