// NULL compiles and runs nothing; DISK is a file's bytes.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "cpu/harness.h"
#include "runtime/registry.h"

namespace lathe::test {
namespace {

Memory host_memory(void* data, std::size_t bytes) { return {0, bytes, data}; }

std::string temporary_path(const char* name) {
  return (std::filesystem::temp_directory_path() / (std::string(name) + std::to_string(::getpid()))).string();
}

TEST(NullDevice, CompilesForATargetByItsOwnBackend) {
  Scope scope;
  EXPECT_EQ(backend("NULL").compiler("x86-64-v3")->target().name, "x86-64-v3");
  EXPECT_EQ(backend("NULL").compiler("")->target().name, backends::host_target().name);
  EXPECT_THROW(backend("NULL").compiler("z80"), UserError);
  EXPECT_EQ(parse_device_name("null:x86-64-v4").str(), "NULL:x86-64-v4");
}

TEST(NullDevice, RunsNothingAndHasNoValues) {
  auto device = backend("NULL").open(0);
  Memory memory = device->alloc(64);
  EXPECT_EQ(memory.host, nullptr);
  auto kernel = device->load({"any", "", ""});
  device->wait(device->launch(0, *kernel, {}, {}, {}));
  char byte = 7;
  device->copy(0, {memory, 0, 1}, {host_memory(&byte, 1), 0, 1}, {});
  EXPECT_THROW(device->copy(0, {host_memory(&byte, 1), 0, 1}, {memory, 0, 1}, {}), DeviceError);
  EXPECT_EQ(byte, 7);
}

TEST(DiskDevice, ReadsAFileThatIsThereAndNeverWritesIt) {
  std::string path = temporary_path("lathe-disk-read");
  write_file_atomic(path, "hello", Sync::No);
  {
    auto device = backend("DISK").open_path(path);
    Memory memory = device->alloc(5);
    char text[6] = {};
    device->copy(0, {host_memory(text, 5), 0, 5}, {memory, 0, 5}, {});
    EXPECT_STREQ(text, "hello");
    EXPECT_THROW(device->copy(0, {memory, 0, 5}, {host_memory(text, 5), 0, 5}, {}), DeviceError);
    EXPECT_THROW(device->alloc(1 << 20), UserError);
    EXPECT_THROW(device->load({"kernel", "", ""}), DeviceError);
    device->free(memory);
  }
  EXPECT_EQ(read_file(path), "hello");
  std::filesystem::remove(path);
}

TEST(DiskDevice, MakesANewFileOfExactlyWhatWasCopiedToIt) {
  std::string path = temporary_path("lathe-disk-write");
  std::filesystem::remove(path);
  {
    auto device = backend("DISK").open_path(path);
    Memory memory = device->alloc(256);
    char text[] = "seven b";
    device->copy(0, {memory, 0, 7}, {host_memory(text, 7), 0, 7}, {});
    device->free(memory);
  }
  EXPECT_EQ(read_file(path), "seven b");
  std::filesystem::remove(path);
}

TEST(DiskDevice, IsCurrentUntilAnotherFileTakesItsName) {
  std::string path = temporary_path("lathe-disk-current");
  std::filesystem::remove(path);
  {
    auto made = backend("DISK").open_path(path);
    EXPECT_TRUE(made->is_current());
    Memory memory = made->alloc(256);
    char text[] = "seven b";
    made->copy(0, {memory, 0, 7}, {host_memory(text, 7), 0, 7}, {});
    EXPECT_TRUE(made->is_current()) << "it wrote the file itself";
    auto found = backend("DISK").open_path(path);
    EXPECT_TRUE(found->is_current());
    write_file_atomic(path, "another", Sync::No);
    EXPECT_FALSE(made->is_current());
    EXPECT_FALSE(found->is_current());
    EXPECT_THROW(found->alloc(7), DeviceError);
    made->free(memory);
  }
  std::filesystem::remove(path);
}

TEST(DiskDevice, APathThatCannotBeOpenedSaysWhy) {
  EXPECT_THROW(backend("DISK").open_path(""), UserError);
  auto device = backend("DISK").open_path("/nonexistent-folder/file");
  EXPECT_THROW(device->alloc(4), DeviceError);
}

}  // namespace
}  // namespace lathe::test
