// Batches for training, prepared ahead of time by worker threads. The order of samples depends only on the
// seed and the epoch, not on the number of workers or on where a run was stopped and resumed.
//
//   DataLoader loader(set.count, [&](std::span<const std::int64_t> some) { ... return tensors; },
//                     {.batch_size = 64, .shuffle = true, .workers = 2});
//   while (auto batch = loader.next()) train(*batch);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lathe/tensor.h"

namespace lathe {

struct LoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;     // drop an incomplete last batch
  std::int64_t workers = 0;   // threads; 0: next() prepares each batch itself
  std::int64_t prefetch = 2;  // most batches prepared ahead per worker
  std::uint64_t seed = 0;
  std::int64_t process = 0, processes = 1;  // each process gets its own disjoint part of every epoch
};

class DataLoader {
 public:
  // Returns the tensors of the samples with these numbers. Workers call it from several threads at once.
  using Prepare = std::function<std::vector<Tensor>(std::span<const std::int64_t> samples)>;

  DataLoader(std::int64_t samples, Prepare prepare, const LoaderOptions& options = {});
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  // The next batch, or nothing at the end of an epoch; the call after that begins the next epoch. An
  // exception of the prepare function is rethrown here, in place of its batch.
  std::optional<std::vector<Tensor>> next();

  std::int64_t batches() const;  // in an epoch

  // The loader's position. A new loader resumed at it returns the same batches from there on.
  struct Position {
    std::int64_t epoch = 0, batch = 0;
    bool operator==(const Position&) const = default;
  };
  Position position() const;
  void resume(Position position);

  // The samples of a batch of an epoch, without preparing it.
  std::vector<std::int64_t> samples_of(Position position) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe
