#include "runtime/registry.h"

#include <gtest/gtest.h>

#include "base/env.h"
#include "base/error.h"
#include "fake_device.h"

namespace lathe {
namespace {

class DeviceNames : public testing::Test {
 protected:
  void SetUp() override {
    fake::add_fake_backends();
    if (registry().find("FILE") == nullptr) {
      Backend file;
      file.name = "FILE";
      file.open_path = [](const std::string&) -> std::unique_ptr<Device> { return nullptr; };
      add_backend(std::move(file));
    }
  }

  static std::string refusal(std::string_view name) {
    try {
      parse_device_name(name);
    } catch (const UserError& error) {
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(DeviceNames, EverySpellingOfADeviceIsOneDevice) {
  for (const char* spelling : {"FAKE", "fake", "Fake:0", "FAKE:0", "fake:000"}) {
    EXPECT_EQ(parse_device_name(spelling).str(), "FAKE") << spelling;
    EXPECT_EQ(parse_device_name(spelling), parse_device_name("FAKE")) << spelling;
  }
  EXPECT_EQ(parse_device_name("fake:3").str(), "FAKE:3");
  const FlagScope one(Flag::OneDevice, "1");
  EXPECT_EQ(parse_device_name("fake:3").str(), "FAKE");
}

TEST_F(DeviceNames, ATargetOrAPathMayFollowTheColon) {
  EXPECT_EQ(parse_device_name("fake:plain").target, "plain");
  EXPECT_EQ(parse_device_name("FAKE:plain").str(), "FAKE:plain");
  EXPECT_EQ(parse_device_name("file:/data/Weights.bin").target, "/data/Weights.bin");
  EXPECT_EQ(parse_device_name("file:7").target, "7");
}

TEST_F(DeviceNames, AnUnknownNameIsRefusedWithTheKnownOnes) {
  EXPECT_EQ(refusal("FAKR:1"),
            "lathe: device: no device \"FAKR:1\": this build knows FAKE, ISLE, REEF, FILE\n"
            "  help: did you mean FAKE?");
  EXPECT_EQ(refusal("FAKE:fancy"),
            "lathe: device: \"FAKE:fancy\" is neither a number nor a target of FAKE\n"
            "  help: targets of FAKE are plain");
  EXPECT_EQ(refusal("FAKE:99999"),
            "lathe: device: device number 99999 in \"FAKE:99999\" is too large: the most is 4095");
}

TEST(Registry, RefusesTwoBackendsOfOneName) {
  Registry rows;
  Backend backend;
  backend.name = "ONE";
  rows.add(backend);
  backend.name = "one";
  EXPECT_THROW(rows.add(backend), InternalError);
}

}  // namespace
}  // namespace lathe
