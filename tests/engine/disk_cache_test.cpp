#include "engine/disk_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/atomic_file.h"
#include "base/env.h"
#include "engine/engine.h"
#include "graphs.h"

namespace lathe::engine {
namespace {

namespace fs = std::filesystem;

class Caches : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/lathe-cache-test-XXXXXX";
    root = mkdtemp(pattern);
    folder = root + "/cache";
  }
  void TearDown() override { fs::remove_all(root); }
  std::string root, folder;
};

TEST_F(Caches, GivesBackWhatWasStored) {
  DiskCache cache(folder);
  EXPECT_EQ(cache.get("kernel", "a key"), std::nullopt);
  const std::string value("with\0zeros", 10);
  cache.put("kernel", "a key", value);
  cache.put("kernel", "another key", "");
  EXPECT_EQ(cache.get("kernel", "a key"), value);
  EXPECT_EQ(cache.get("kernel", "another key"), "");
  EXPECT_EQ(cache.get("schedule", "a key"), std::nullopt) << "kinds are apart";
  EXPECT_EQ(DiskCache(folder).get("kernel", "a key"), value) << "another process finds it";
}

TEST_F(Caches, TheFolderIsPrivate) {
  DiskCache cache(folder);
  cache.put("kernel", "k", "v");
  struct stat info{};
  ASSERT_EQ(stat(folder.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(Caches, AFolderOthersMayWriteIsNotTrusted) {
  fs::create_directory(folder);
  chmod(folder.c_str(), 0777);
  DiskCache cache(folder);
  cache.put("kernel", "k", "v");
  EXPECT_EQ(cache.get("kernel", "k"), std::nullopt);
  EXPECT_TRUE(fs::is_empty(folder));
}

// Every way to damage an entry: each bit flip and each truncation must give "nothing" and never another
// value.
TEST_F(Caches, ADamagedEntryIsIgnoredWhateverTheDamage) {
  DiskCache cache(folder);
  const std::string value = "the machine code";
  cache.put("kernel", "key", value);
  const std::string path = cache.path_of("kernel", "key");
  const std::string good = *read_file(path);
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    write_file_atomic(path, bad, Sync::No);
    EXPECT_EQ(cache.get("kernel", "key"), std::nullopt) << "byte " << i;
    write_file_atomic(path, good.substr(0, i), Sync::No);
    EXPECT_EQ(cache.get("kernel", "key"), std::nullopt) << "cut to " << i;
  }
  cache.put("kernel", "key", value);
  EXPECT_EQ(cache.get("kernel", "key"), value) << "and is written anew";
}

TEST_F(Caches, TheLastWholeNoteComesWithItsEntry) {
  DiskCache cache(folder);
  cache.add_note("kernel", "key", "of nothing");
  EXPECT_EQ(cache.get("kernel", "key"), std::nullopt) << "a note makes no entry";
  cache.put("kernel", "key", "code");
  std::string note = "what was there";
  EXPECT_EQ(cache.get("kernel", "key", &note), "code");
  EXPECT_EQ(note, "");
  cache.add_note("kernel", "key", "first");
  const std::string path = cache.path_of("kernel", "key");
  const std::size_t whole = read_file(path)->size();
  cache.add_note("kernel", "key", "second");
  EXPECT_EQ(cache.get("kernel", "key", &note), "code");
  EXPECT_EQ(note, "second");
  // Cut or damaged, it says nothing, and the entry stays what it was.
  const std::string good = *read_file(path);
  for (std::size_t i = whole; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    write_file_atomic(path, bad, Sync::No);
    EXPECT_EQ(cache.get("kernel", "key", &note), "code");
    EXPECT_EQ(note, "first") << "byte " << i;
    write_file_atomic(path, good.substr(0, i), Sync::No);
    EXPECT_EQ(cache.get("kernel", "key", &note), "code");
    EXPECT_EQ(note, "first") << "cut to " << i;
  }
  cache.put("kernel", "key", "other code");
  EXPECT_EQ(cache.get("kernel", "key", &note), "other code");
  EXPECT_EQ(note, "") << "which was of the code before";
}

TEST_F(Caches, AnUnreadableFolderIsAWarningAndNotAnError) {
  std::ofstream(root + "/file") << "in the way";
  DiskCache cache(root + "/file");
  cache.put("kernel", "k", "v");
  EXPECT_EQ(cache.get("kernel", "k"), std::nullopt);
}

TEST_F(Caches, TheEntriesNotUsedForLongestGoFirst) {
  DiskCache cache(folder);
  const std::string value(1000, 'x');
  for (int i = 0; i < 20; ++i) {
    const std::string key = "key " + std::to_string(i);
    cache.put("kernel", key, value);
    fs::last_write_time(cache.path_of("kernel", key),
                        fs::file_time_type::clock::now() - std::chrono::hours(100 - i));
  }
  EXPECT_TRUE(cache.get("kernel", "key 0")) << "a use renews it";
  EXPECT_LE(cache.shrink_to(10000), 10000u);
  EXPECT_TRUE(cache.get("kernel", "key 0"));
  EXPECT_TRUE(cache.get("kernel", "key 19"));
  EXPECT_FALSE(cache.get("kernel", "key 1"));
}

TEST_F(Caches, StaysUnderItsCapByItself) {
  DiskCache cache(folder, 100000);
  const std::string value(5000, 'x');
  for (int i = 0; i < 200; ++i) cache.put("kernel", std::to_string(i), value);
  std::uint64_t total = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) total += entry.file_size();
  EXPECT_LE(total, 120000u);
  EXPECT_TRUE(cache.get("kernel", "199"));
}

std::string value_for(int key) {
  return std::string(20000, static_cast<char>('a' + key % 26)) + std::to_string(key);
}

// Several writers are killed in the middle of their work, again and again; whatever a reader finds is whole.
TEST_F(Caches, KillingWritersAtAnyMomentLeavesAValidStore) {
  DiskCache cache(folder);
  cache.put("kernel", "first", "made the folder");
  int found = 0;
  for (int round = 0; round < 30; ++round) {
    pid_t children[3];
    for (int c = 0; c < 3; ++c) {
      children[c] = fork();
      if (children[c] == 0) {
        DiskCache mine(folder);
        for (int i = 0;; ++i) {
          const int key = (i * 7 + round * 13 + c) % 50;
          mine.put("kernel", std::to_string(key), value_for(key));
        }
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2 + round % 7));
    for (const pid_t child : children) kill(child, SIGKILL);
    for (const pid_t child : children) waitpid(child, nullptr, 0);
    for (int key = 0; key < 50; ++key)
      if (const auto value = cache.get("kernel", std::to_string(key))) {
        EXPECT_EQ(*value, value_for(key));
        ++found;
      }
  }
  EXPECT_GT(found, 0);
}

TEST_F(Caches, KernelsAreFoundOnDiskByTheNextProcess) {
  const Scope scope;
  const FlagScope here(Flag::Cache, folder);
  const NodeRef a = test::floats({1, 2, 3, 4, 5, 6, 7});
  const Node three = number(dtypes::Float32, 3);
  reset_counters();
  EXPECT_EQ(test::read(test::realize(a.node() * a.node() + three))[6], 52);
  EXPECT_EQ(counters().compiles, 1u);
  drop_caches();  // as in a new process
  reset_counters();
  const NodeRef b = test::floats({2, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(test::read(test::realize(b.node() * b.node() + three))[0], 7);
  EXPECT_EQ(counters().compiles, 0u);
  // Broken objects are compiled again.
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) std::ofstream(entry.path()) << "broken";
  drop_caches();
  reset_counters();
  const NodeRef c = test::floats({3, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(test::read(test::realize(c.node() * c.node() + three))[0], 12);
  EXPECT_EQ(counters().compiles, 1u);
}

}  // namespace
}  // namespace lathe::engine
