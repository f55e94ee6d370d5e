#include "base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;

class AtomicFile : public testing::Test {
 protected:
  AtomicFile() { fs::create_directories(folder_); }
  ~AtomicFile() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  fs::path folder_ = fs::temp_directory_path() / ("lathe-atomic-file-" + std::to_string(getpid()));
};

TEST_F(AtomicFile, WhatIsWrittenIsReadAndNothingElseIsLeft) {
  const std::string bytes("a\0b\n", 4);
  for (Sync sync : {Sync::No, Sync::Yes}) {
    write_file_atomic(path("deep/er/file"), bytes, sync);
    EXPECT_EQ(read_file(path("deep/er/file")), bytes);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(path("deep/er")), {}), 1);
}

TEST_F(AtomicFile, APrivateFileIsForTheUserAloneWhateverTheUmask) {
  const mode_t before = umask(0);
  write_file_atomic(path("private"), "x", Sync::No, Readers::Private);
  write_file_atomic(path("usual"), "x", Sync::No);
  umask(before);
  EXPECT_EQ(fs::status(path("private")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(fs::status(path("usual")).permissions() & fs::perms::others_read, fs::perms::others_read);
}

TEST_F(AtomicFile, AMissingFileIsNothingAndAFolderIsAnError) {
  EXPECT_EQ(read_file(path("absent")), std::nullopt);
  EXPECT_THROW(read_file(folder_.string()), DeviceError);
  std::ofstream(path("plain")) << "x";
  EXPECT_THROW(write_file_atomic(path("plain/below"), "x"), DeviceError);
}

TEST_F(AtomicFile, AReaderNeverSeesAHalfWrittenFileEvenWhenWritersAreKilled) {
  const std::string target = path("shared");
  const std::string a(1 << 20, 'a'), b(1 << 20, 'b');
  write_file_atomic(target, a, Sync::No);
  for (int round = 0; round < 20; round++) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0;; i++) write_file_atomic(target, i % 2 ? a : b, Sync::No);
    }
    for (int look = 0; look < 20; look++) {
      const auto bytes = read_file(target);
      ASSERT_TRUE(bytes == a || bytes == b) << "size " << bytes->size();
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const auto bytes = read_file(target);
    ASSERT_TRUE(bytes == a || bytes == b);
  }
  remove_stale_temporaries(folder_.string(), 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(AtomicFile, OnlyStaleTemporariesAreRemoved) {
  std::ofstream(path("kernel.tmp-1-0")) << "x";
  std::ofstream(path("kernel")) << "x";
  EXPECT_EQ(remove_stale_temporaries(folder_.string(), 3600), 0);
  EXPECT_EQ(remove_stale_temporaries(folder_.string(), 0), 1);
  EXPECT_TRUE(fs::exists(path("kernel")));
}

TEST_F(AtomicFile, ALockIsExclusiveAndDiesWithItsProcess) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FileLock lock(path("lock"));
    const char ready = 'r';
    if (write(pipes[1], &ready, 1) != 1) _exit(1);
    pause();
  }
  char ready = 0;
  ASSERT_EQ(read(pipes[0], &ready, 1), 1);
  EXPECT_FALSE(FileLock::try_lock(path("lock")).has_value());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(FileLock::try_lock(path("lock")).has_value());
  close(pipes[0]);
  close(pipes[1]);
}

}  // namespace
}  // namespace lathe
