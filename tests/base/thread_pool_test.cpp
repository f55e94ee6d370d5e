#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/cpus.h"

namespace lathe {
namespace {

TEST(ThreadPool, EveryPartRunsExactlyOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (std::int64_t parts : {0, 1, 2, 3, 100, 5000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(parts));
      pool.parallel_for(parts, [&](std::int64_t part) { runs[static_cast<std::size_t>(part)]++; });
      for (const auto& count : runs) ASSERT_EQ(count, 1) << threads << " threads, " << parts << " parts";
    }
  }
}

TEST(ThreadPool, ManyShortJobsInARowGiveTheRightSum) {
  ThreadPool pool(4);
  for (int round = 0; round < 20000; round++) {
    std::atomic<std::int64_t> sum{0};
    pool.parallel_for(4, [&](std::int64_t part) { sum += part; });
    ASSERT_EQ(sum, 6);
  }
}

TEST(ThreadPool, ThePartsOfOneJobRunSideBySide) {
  // Each part waits for the other: this ends only if two threads take part, also after the workers went to
  // sleep.
  ThreadPool pool(2);
  for (int round = 0; round < 5; round++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> arrived{0};
    pool.parallel_for(2, [&](std::int64_t) {
      arrived++;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_EQ(arrived, 2);
  }
}

TEST(ThreadPool, SeveralThreadsMayAskAtOnce) {
  ThreadPool pool(3);
  std::vector<std::int64_t> sums(4);
  std::vector<std::thread> askers;
  for (std::int64_t& total : sums) {
    askers.emplace_back([&pool, &total] {
      for (int round = 0; round < 500; round++) {
        std::atomic<std::int64_t> sum{0};
        pool.parallel_for(7, [&](std::int64_t part) { sum += part; });
        total += sum;
      }
    });
  }
  for (std::thread& asker : askers) asker.join();
  for (std::int64_t total : sums) EXPECT_EQ(total, 500 * 21);
}

TEST(ThreadPool, APartMayAskForMore) {
  ThreadPool pool(3);
  std::atomic<int> leaves{0};
  pool.parallel_for(6, [&](std::int64_t) {
    pool.parallel_for(6, [&](std::int64_t) { pool.parallel_for(6, [&](std::int64_t) { leaves++; }); });
  });
  EXPECT_EQ(leaves, 216);
}

TEST(ThreadPool, TheFirstExceptionReachesTheAskerAndThePoolLivesOn) {
  ThreadPool pool(3);
  for (int round = 0; round < 50; round++) {
    EXPECT_THROW(pool.parallel_for(100,
                                   [](std::int64_t part) {
                                     if (part % 3 == 1) throw std::runtime_error("part failed");
                                   }),
                 std::runtime_error);
  }
  std::atomic<int> runs{0};
  pool.parallel_for(10, [&](std::int64_t) { runs++; });
  EXPECT_EQ(runs, 10);
}

TEST(ThreadPool, NoMoreThreadsThanTheLimitWorkOnAJob) {
  ThreadPool pool(6);
  std::atomic<int> now{0}, most{0};
  pool.parallel_for(
      200,
      [&](std::int64_t) {
        const int inside = ++now;
        for (int seen = most; inside > seen && !most.compare_exchange_weak(seen, inside);) {
        }
        std::this_thread::yield();
        now--;
      },
      2);
  EXPECT_LE(most, 2);
}

TEST(Cpus, AtLeastOneAndNoMoreThanTheMachineHas) {
  EXPECT_GE(usable_cpus(), 1);
  EXPECT_LE(usable_cpus(), static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(Cpus, TheStrictestGroupOnThePathDecides) {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("lathe-cgroup-" + std::to_string(::getpid()));
  const auto put = [&](const char* file, const char* text) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  };
  put("cpu.max", "max 100000\n");
  put("a/cpu.max", "250000 100000\n");
  put("a/b/cpu.max", "400000 100000\n");
  put("cpu/x/cpu.cfs_quota_us", "50000\n");
  put("cpu/x/cpu.cfs_period_us", "100000\n");
  put("cpu/y/cpu.cfs_quota_us", "-1\n");
  put("cpu/y/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_limit("0::/a/b\n", root.string()), 3);
  EXPECT_EQ(cgroup_cpu_limit("0::/\n", root.string()), 0);
  EXPECT_EQ(cgroup_cpu_limit("0::/not/visible/here\n", root.string()), 0);
  EXPECT_EQ(cgroup_cpu_limit("3:cpu,cpuacct:/x\n2:memory:/a\n", root.string()), 1);
  EXPECT_EQ(cgroup_cpu_limit("3:cpu:/y\n0::/a\n", root.string()), 3);
  fs::remove_all(root);
}

}  // namespace
}  // namespace lathe
