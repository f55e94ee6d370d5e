#include <gtest/gtest.h>

#include "base/env.h"
#include "base/error.h"
#include "fake_device.h"
#include "ir/build.h"
#include "runtime/devices.h"
#include "runtime/storage.h"

namespace lathe {
namespace {

class Memories : public testing::Test {
 protected:
  void SetUp() override {
    fake::add_fake_backends();
    device = &open_device("FAKE:9");
    device->pool.trim();
    device->pool.reset_peak();
  }
  OpenDevice* device = nullptr;
};

TEST_F(Memories, ABlockComesBackFromThePoolAndNotFromTheDevice) {
  const Memory first = device->pool.take(1000);
  EXPECT_EQ(first.bytes, 1024u);
  device->pool.give(first);
  const std::int64_t allocated = fake::settings().allocated;
  const Memory second = device->pool.take(1010);
  EXPECT_EQ(second.handle, first.handle);
  EXPECT_EQ(fake::settings().allocated, allocated);
  device->pool.give(second);
  device->pool.trim();
  EXPECT_EQ(device->pool.kept(), 0u);
}

TEST_F(Memories, UsedAndPeakAreCounted) {
  const std::size_t before = device->pool.used();
  const Memory a = device->pool.take(4096), b = device->pool.take(256);
  EXPECT_EQ(device->pool.used(), before + 4352);
  device->pool.give(a);
  device->pool.give(b);
  EXPECT_EQ(device->pool.used(), before);
  EXPECT_EQ(device->pool.peak(), before + 4352);
}

TEST_F(Memories, TheLimitIsATypedErrorThatSaysWhatIsInUse) {
  const FlagScope limit(Flag::MemoryLimit, "1M");
  const Memory half = device->pool.take(768 << 10);
  try {
    device->pool.take(512 << 10);
    FAIL() << "more than the limit was handed out";
  } catch (const OutOfMemory& error) {
    EXPECT_STREQ(error.what(),
                 "lathe: memory: FAKE:9 has no room for 512.0 KiB: 768.0 KiB of 1.0 MiB are in use\n"
                 "  note: LATHE_MEMORY_LIMIT is 1M");
  }
  device->pool.give(half);
  const Memory now = device->pool.take(512 << 10);  // kept blocks give way
  EXPECT_LE(device->pool.used() + device->pool.kept(), std::size_t{1} << 20);
  device->pool.give(now);
}

TEST_F(Memories, ABufferHasMemoryFromFirstUseUntilItsNodeDies) {
  const std::size_t before = device->pool.used();
  {
    NodeRef buffer;
    {
      const Scope scope;
      buffer = new_buffer(dtypes::Float32, 1000, "FAKE:9");
    }
    EXPECT_FALSE(has_memory(buffer));
    const Place place = place_of(buffer);
    EXPECT_EQ(place.span.bytes, 4000u);
    EXPECT_EQ(place_of(buffer).span.memory.handle, place.span.memory.handle);
    EXPECT_EQ(device->pool.used(), before + MemoryPool::rounded(4000));
  }
  EXPECT_EQ(device->pool.used(), before);
}

TEST_F(Memories, ImportedMemoryIsReleasedWhenItsBufferDies) {
  std::vector<float> data(16, 2.0f);
  bool released = false;
  NodeRef buffer;
  {
    const Scope scope;
    buffer = new_buffer(dtypes::Float32, 16, "FAKE:9");
  }
  import_memory(buffer, data.data(), 64, [&] { released = true; });
  EXPECT_EQ(place_of(buffer).span.memory.host, data.data());
  EXPECT_FALSE(released);
  buffer = NodeRef();
  EXPECT_TRUE(released);
}

TEST_F(Memories, LiveMemoryNamesThePlaceThatMadeIt) {
  NodeRef leak;
  {
    const Scope scope;
    const MadeAt here("train.cpp:41");
    leak = new_buffer(dtypes::Float32, 1 << 16, "FAKE:9");
    place_of(leak);
  }
  const std::vector<LiveBuffer> live = live_buffers();
  ASSERT_FALSE(live.empty());
  EXPECT_EQ(live[0].made, "train.cpp:41");
  EXPECT_EQ(live[0].bytes, std::size_t{4} << 16);
  EXPECT_EQ(live[0].device, "FAKE:9");
  EXPECT_NE(memory_report().find("256.0 KiB =    1 x 256.0 KiB  FAKE:9   train.cpp:41"), std::string::npos)
      << memory_report();
}

}  // namespace
}  // namespace lathe
