#include "lathe/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace lathe {
namespace {

using Batches = std::vector<std::vector<double>>;

// Samples are their own numbers; some take longer than others.
std::vector<Tensor> slow(std::span<const std::int64_t> samples) {
  std::this_thread::sleep_for(std::chrono::microseconds(samples[0] % 3 * 500));
  return {Tensor(std::vector<std::int64_t>(samples.begin(), samples.end()))};
}

Batches epoch(DataLoader& loader) {
  Batches out;
  while (auto batch = loader.next()) out.push_back((*batch)[0].tolist());
  return out;
}

TEST(Loader, GivesEverySampleOnceInOrder) {
  DataLoader loader(7, slow, {.batch_size = 3});
  EXPECT_EQ(loader.batches(), 3);
  EXPECT_EQ(epoch(loader), (Batches{{0, 1, 2}, {3, 4, 5}, {6}}));
  DataLoader whole(7, slow, {.batch_size = 3, .drop_last = true});
  EXPECT_EQ(epoch(whole), (Batches{{0, 1, 2}, {3, 4, 5}}));
  DataLoader none(0, slow);
  EXPECT_EQ(epoch(none), Batches{});
}

TEST(Loader, TheOrderDoesNotDependOnTheNumberOfWorkers) {
  Batches first, second;
  for (std::int64_t workers : {0, 1, 2, 8}) {
    DataLoader loader(50, slow, {.batch_size = 4, .shuffle = true, .workers = workers, .seed = 5});
    const Batches one = epoch(loader), two = epoch(loader);
    if (workers == 0) {
      first = one;
      second = two;
      std::vector<double> all;
      for (const auto& batch : one) all.insert(all.end(), batch.begin(), batch.end());
      std::sort(all.begin(), all.end());
      for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<double>(i));
      ASSERT_EQ(all.size(), 50U);
    }
    EXPECT_EQ(one, first) << workers << " workers";
    EXPECT_EQ(two, second) << workers << " workers";
  }
  EXPECT_NE(first, second) << "each epoch has an order of its own";
}

TEST(Loader, ResumingEqualsNotStopping) {
  for (std::int64_t workers : {0, 3}) {
    const LoaderOptions options{.batch_size = 4, .shuffle = true, .workers = workers};
    DataLoader loader(30, slow, options);
    epoch(loader);
    loader.next();
    loader.next();
    const DataLoader::Position at = loader.position();
    EXPECT_EQ(at, (DataLoader::Position{1, 2}));
    const Batches rest = epoch(loader), following = epoch(loader);
    DataLoader again(30, slow, options);
    again.next();
    again.resume(at);
    EXPECT_EQ(epoch(again), rest);
    EXPECT_EQ(epoch(again), following);
  }
}

TEST(Loader, ProcessesShareAnEpochWithoutOverlap) {
  std::vector<double> all;
  for (std::int64_t process : {0, 1, 2}) {
    DataLoader loader(20, slow, {.batch_size = 3, .shuffle = true, .process = process, .processes = 3});
    for (const auto& batch : epoch(loader)) all.insert(all.end(), batch.begin(), batch.end());
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), 20U);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(all[i], static_cast<double>(i));
}

TEST(Loader, AnErrorComesInThePlaceOfItsBatch) {
  for (std::int64_t workers : {0, 2}) {
    DataLoader loader(6,
                      [](std::span<const std::int64_t> samples) -> std::vector<Tensor> {
                        if (samples[0] == 2) throw UserError("sample", "is broken");
                        return slow(samples);
                      },
                      {.batch_size = 2, .workers = workers});
    EXPECT_TRUE(loader.next().has_value());
    EXPECT_THROW(loader.next(), UserError);
    EXPECT_EQ((*loader.next())[0].tolist(), (std::vector<double>{4, 5}));
    EXPECT_FALSE(loader.next().has_value());
  }
}

TEST(Loader, RefusesOptionsThatMakeNoSense) {
  EXPECT_THROW(DataLoader(5, slow, {.batch_size = 0}), UserError);
  EXPECT_THROW(DataLoader(5, slow, {.process = 2, .processes = 2}), UserError);
  EXPECT_THROW(DataLoader(5, {}, {}), UserError);
  DataLoader loader(5, slow);
  EXPECT_THROW(loader.resume({0, 6}), UserError);
}

TEST(Loader, StopsItsWorkersWhenItIsDestroyedEarly) {
  std::atomic<int> calls = 0;
  {
    DataLoader loader(1000,
                      [&](std::span<const std::int64_t> samples) {
                        ++calls;
                        return slow(samples);
                      },
                      {.workers = 4});
    loader.next();
  }
  const int at_the_end = calls;
  EXPECT_LT(at_the_end, 1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(calls, at_the_end);
}

}  // namespace
}  // namespace lathe
