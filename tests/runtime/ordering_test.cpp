#include "runtime/ordering.h"

#include <gtest/gtest.h>

#include <random>

#include "runtime/race_check.h"

namespace lathe {
namespace {

ByteRange bytes(std::uint64_t begin, std::uint64_t end, std::uint64_t space = 0) {
  return {space, begin, end};
}

// Enters works and writes the log an executor would write.
struct Scene {
  Ordering ordering;
  std::vector<WorkRecord> log;

  explicit Scene(int queues) {
    for (int i = 0; i < queues; ++i) ordering.add_queue();
  }
  std::vector<WorkPoint> work(int queue, std::vector<ByteRange> reads, std::vector<ByteRange> writes) {
    Ordering::Entered entered = ordering.enter(queue, reads, writes);
    log.push_back({false, entered.point, entered.after, std::move(reads), std::move(writes), "work"});
    return entered.after;
  }
  void host_wait(WorkPoint point) {
    ordering.host_waited(point);
    log.push_back({true, point, {}, {}, {}, {}});
  }
};

using Points = std::vector<WorkPoint>;

std::string str(const WorkPoint& point) {
  return std::to_string(point.queue) + ":" + std::to_string(point.number);
}

TEST(Ordering, ReadersOfTheSameBytesDoNotWaitForEachOther) {
  Scene scene(3);
  EXPECT_EQ(scene.work(0, {}, {bytes(0, 8)}), Points{});
  EXPECT_EQ(scene.work(1, {bytes(0, 8)}, {}), (Points{{0, 1}}));
  EXPECT_EQ(scene.work(2, {bytes(4, 8)}, {}), (Points{{0, 1}}));
}

TEST(Ordering, AWriterWaitsForReadersAndForTheWriterBefore) {
  Scene scene(3);
  scene.work(0, {bytes(0, 8)}, {});
  scene.work(1, {bytes(0, 8)}, {});
  EXPECT_EQ(scene.work(2, {}, {bytes(7, 9)}), (Points{{0, 1}, {1, 1}}));
  EXPECT_EQ(scene.work(0, {}, {bytes(8, 12)}), (Points{{2, 1}}));
}

TEST(Ordering, NeighbouringBytesAndOtherSpacesDoNotConflict) {
  Scene scene(2);
  scene.work(0, {}, {bytes(0, 8)});
  EXPECT_EQ(scene.work(1, {}, {bytes(8, 16)}), Points{});
  EXPECT_EQ(scene.work(1, {}, {bytes(0, 8, 1)}), Points{});
  EXPECT_EQ(scene.work(1, {}, {bytes(3, 3)}), Points{}) << "an empty range touches nothing";
}

TEST(Ordering, ImpliedWaitsAreLeftOut) {
  Scene scene(3);
  scene.work(0, {}, {bytes(0, 8)});
  EXPECT_EQ(scene.work(1, {bytes(0, 8)}, {bytes(8, 16)}), (Points{{0, 1}}));
  EXPECT_EQ(scene.work(2, {bytes(0, 16)}, {}), (Points{{1, 1}})) << "0:1 ended before 1:1 began";
  EXPECT_EQ(scene.work(2, {bytes(0, 16)}, {}), Points{}) << "the queue has waited before";
}

TEST(Ordering, WhatTheHostHasSeenEndNeedsNoWait) {
  Scene scene(2);
  scene.work(0, {}, {bytes(0, 8)});
  scene.work(0, {}, {bytes(8, 16)});
  scene.host_wait({0, 1});
  EXPECT_EQ(scene.work(1, {bytes(0, 8)}, {}), Points{});
  EXPECT_EQ(scene.work(1, {bytes(8, 16)}, {}), (Points{{0, 2}}));
  EXPECT_EQ(scene.ordering.users(bytes(0, 16), false), (Points{{0, 2}}));
  EXPECT_EQ(scene.ordering.users(bytes(0, 16), true), (Points{{0, 2}, {1, 2}}));
}

TEST(Ordering, ForgetsBytesWhoseWorkHasEnded) {
  Scene scene(2);
  for (std::uint64_t i = 0; i < 100000; ++i) {
    scene.ordering.enter(static_cast<int>(i % 2), {}, std::vector{bytes(16 * i, 16 * i + 8)});
    if (i % 100 == 99) {
      scene.ordering.host_waited(scene.ordering.last(0));
      scene.ordering.host_waited(scene.ordering.last(1));
    }
  }
  EXPECT_LT(scene.ordering.segments(), 4096u);
}

TEST(RaceCheck, NamesTheTwoWorksAndTheBytes) {
  Scene scene(2);
  scene.work(0, {}, {bytes(0, 8)});
  scene.work(1, {bytes(4, 12)}, {});
  EXPECT_TRUE(find_races(scene.log).empty());
  scene.log[1].after.clear();
  const std::vector<Race> races = find_races(scene.log);
  ASSERT_EQ(races.size(), 1u);
  EXPECT_EQ(to_string(races[0], scene.log),
            "work (queue 1, work 1) and work (queue 0, work 1) access bytes 4..8 of space 0 unordered");
}

Scene random_scene(unsigned seed) {
  std::mt19937 random(seed);
  auto up_to = [&](unsigned n) { return static_cast<int>(random() % n); };
  Scene scene(1 + up_to(6));
  const int works = 5 + up_to(40);
  for (int i = 0; i < works; ++i) {
    auto some = [&](unsigned most) {
      std::vector<ByteRange> ranges(static_cast<std::size_t>(up_to(most)));
      for (ByteRange& range : ranges) {
        const auto begin = static_cast<std::uint64_t>(up_to(24));
        range =
            bytes(begin, begin + static_cast<std::uint64_t>(up_to(6)), static_cast<std::uint64_t>(up_to(2)));
      }
      return ranges;
    };
    auto reads = some(4), writes = some(3);
    scene.work(up_to(static_cast<unsigned>(scene.ordering.queues())), std::move(reads), std::move(writes));
    if (up_to(8) == 0) {
      const WorkPoint point = scene.ordering.last(up_to(static_cast<unsigned>(scene.ordering.queues())));
      if (point.number != 0) scene.host_wait(point);
    }
  }
  return scene;
}

TEST(RaceCheck, FindsNoRaceInWhatIsEnteredAndFindsEveryRemovedWait) {
  int removed = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    Scene scene = random_scene(seed);
    ASSERT_TRUE(find_races(scene.log).empty()) << "seed " << seed;
    for (WorkRecord& record : scene.log) {
      const std::vector<WorkPoint> all = record.after;
      for (std::size_t i = 0; i < all.size(); ++i, ++removed) {
        record.after = all;
        record.after.erase(record.after.begin() + static_cast<std::ptrdiff_t>(i));
        ASSERT_FALSE(find_races(scene.log).empty())
            << "seed " << seed << ": the wait of " << str(record.point) << " for " << str(all[i])
            << " is not needed";
      }
      record.after = all;
    }
  }
  EXPECT_GT(removed, 10000);
}

}  // namespace
}  // namespace lathe
