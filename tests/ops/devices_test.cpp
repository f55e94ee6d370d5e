// Every op case on a device that is not the default: the result stays there, and mixing devices is refused
// with both tensors named.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "cases.h"
#include "ir/device_of.h"
#include "tensor/impl.h"

namespace lathe::test {
namespace {

// Realized inputs on the devices of a list, one after the other.
class Placed : public Maker {
 public:
  Placed(DataType dtype, std::vector<std::string> devices) : dtype_(dtype), devices_(std::move(devices)) {}

  Tensor operator()(const Shape& shape, double low, double high) override {
    std::vector<double> v(count(shape));
    for (double& x : v) {
      x = low + static_cast<double>(hash_all(seed_++, std::uint64_t{7}) >> 11) * 0x1p-53 * (high - low);
      if (!dtype_.is_float()) x = std::floor(x + 0.5);
      if (dtype_.is_unsigned()) x = std::fabs(x);
    }
    return Tensor(v, shape, {dtypes::float64, next_device()}).cast(dtype_).realize();
  }
  Tensor index(const Shape& shape, std::int64_t low, std::int64_t high) override {
    std::vector<std::int32_t> v(count(shape));
    for (auto& x : v)
      x = static_cast<std::int32_t>(low + static_cast<std::int64_t>(hash_all(seed_++, std::uint64_t{7}) %
                                                                    static_cast<std::uint64_t>(high - low)));
    return Tensor(v, shape, {dtypes::int32, next_device()});
  }

  TensorOptions options() const override { return {dtype_, devices_[0]}; }

  std::size_t made = 0;

 private:
  static std::size_t count(const Shape& shape) {
    std::size_t n = 1;
    for (const Size& s : shape) n *= static_cast<std::size_t>(s.bound_value());
    return n;
  }
  std::string next_device() { return devices_[made++ % devices_.size()]; }

  DataType dtype_;
  std::vector<std::string> devices_;
  std::uint64_t seed_ = 1;
};

DataType dtype_of(const Case& c) {
  return c.kinds.find('f') != std::string::npos   ? dtypes::float32
         : c.kinds.find('i') != std::string::npos ? dtypes::int32
                                                  : dtypes::bool_;
}
Shape shape_of(const Case& c) { return c.shapes == Case::Shapes::Own ? Shape{} : Shape{2, 3}; }

// The device under test of the rest of the suite is not what these are about.
class Devices : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override { set_default_device("CPU"); }
  void TearDown() override { set_default_device(""); }
  const Case& row() const { return cases()[GetParam()]; }
};

TEST_P(Devices, AResultStaysOnTheDeviceOfItsTensors) {
  const Case& c = row();
  ASSERT_EQ(default_device(), "CPU");
  Placed here(dtype_of(c), {"CPU"}), there(dtype_of(c), {"CPU:1"});
  Tensor want = c.build(here, shape_of(c)), got = c.build(there, shape_of(c));
  if (there.made == 0) return;  // made of constants alone
  EXPECT_EQ(got.device(), "CPU:1");
  got.realize();
  want.realize();  // as the same graph: how a sum is split depends on what is asked for
  Scope scope;
  const std::string home = device_of(node_of(got));
  EXPECT_TRUE(home == "CPU:1" || home.empty()) << home;
  if (c.random) return;
  EXPECT_EQ(got.to("CPU").bytes(), want.bytes());
}

TEST_P(Devices, MixingThemIsRefusedByName) {
  const Case& c = row();
  Placed mixed(dtype_of(c), {"CPU:1", "CPU:2"});
  std::string said;
  try {
    c.build(mixed, shape_of(c)).realize();
  } catch (const UserError& e) {
    said = e.what();
  }
  if (mixed.made < 2 || c.name == "replace") return;  // which takes the other's memory, wherever that is
  EXPECT_NE(said.find("CPU:1"), std::string::npos) << said;
  EXPECT_NE(said.find("CPU:2"), std::string::npos) << said;
}

INSTANTIATE_TEST_SUITE_P(All, Devices, testing::Range(std::size_t{0}, cases().size()),
                         [](const auto& p) { return cases()[p.param].name; });

TEST(DeviceMixing, ANumberGoesWhereTheOtherIs) {
  const Tensor x(std::vector<float>{1, 2, 3}, {.device = "CPU:1"}), one = Tensor::full({}, 1);
  for (const Tensor& sum : {x + one, one + x, (one * 2 + x) - one, (x > 0).where(x + one, one)}) {
    EXPECT_EQ(sum.device(), "CPU:1");
    EXPECT_EQ(sum.tolist(), (std::vector<double>{2, 3, 4}));
  }
  EXPECT_THROW(x + Tensor::ones({3}), UserError);
  EXPECT_THROW(x + Tensor::full({}, 1, {.device = "CPU:2"}), UserError);
  EXPECT_THROW(x + Tensor(std::vector<float>{1, 2, 3}), UserError);
}

TEST(DeviceMixing, WhatIsAssignedToStaysWhereItIs) {
  Tensor x(std::vector<float>{1, 2, 3}, {.device = "CPU:1"}), y = Tensor::zeros({3});
  x.assign(Tensor::full({}, 1));
  EXPECT_EQ(x.device(), "CPU:1");
  EXPECT_EQ(x.tolist(), (std::vector<double>{1, 1, 1}));
  EXPECT_THROW(y.assign(x), UserError);
}

TEST(DeviceMixing, AConstantStoredForTwoDevicesIsMadeOnEach) {
  auto line = [](const char* device) {
    return Tensor::arange(Size(64), {.device = device}).cumsum(0).contiguous();
  };
  const Tensor a(std::vector<float>(64, 1.0f), {.device = "CPU:1"});
  const Tensor b(std::vector<float>(64, 2.0f), {.device = "CPU:2"});
  Tensor x = a + line("CPU:1"), y = b + line("CPU:2");  // one node: it names no device
  Tensor::realize_all(std::vector<Tensor>{x, y});
  EXPECT_EQ(x.device(), "CPU:1");
  EXPECT_EQ(y.device(), "CPU:2");
  EXPECT_EQ((x.to("CPU") + 1).tolist(), y.to("CPU").tolist());
}

TEST(DeviceMixing, OneDeviceHasSeveralSpellings) {
  const Tensor x(std::vector<float>{1}, {.device = "cpu:0"}), y(std::vector<float>{2}, {.device = "CPU"});
  EXPECT_EQ(x.device(), y.device());
  EXPECT_EQ((x + y).item(), 3);
}

TEST(DeviceMixing, MixedKindsOfDevicesAreRefusedToo) {
  const Tensor x(std::vector<float>{1}, {.device = "REF"}), y(std::vector<float>{2}, {.device = "CPU"});
  EXPECT_THROW(x + y, UserError);
  EXPECT_THROW(x.to("NULL") + y, UserError);
  EXPECT_EQ((x + y.to("REF")).device(), "REF");
}

}  // namespace
}  // namespace lathe::test
