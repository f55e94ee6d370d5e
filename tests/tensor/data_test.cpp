// Host data in and out, files, devices, and what realizing does to values that need no work.
#include <filesystem>
#include <fstream>

#include "engine/engine.h"
#include "tensor/values.h"

namespace lathe {
namespace {

using testing::expect_shape;
using testing::expect_values;
using testing::message_of;

TEST(Data, ListsGiveTheDtypeTheirElementsHave) {
  EXPECT_EQ(Tensor({1, 2}).dtype(), dtypes::int32);
  EXPECT_EQ(Tensor({1, 2.5}).dtype(), dtypes::float32);
  EXPECT_EQ(Tensor({true, false}).dtype(), dtypes::bool_);
  EXPECT_EQ(Tensor(std::vector<std::int64_t>{1}).dtype(), dtypes::int64);
  EXPECT_EQ(Tensor(2.5).dtype(), dtypes::float32);
  expect_shape(Tensor({{{1, 2}}, {{3, 4}}}), {2, 1, 2});
}

TEST(Data, EveryDtypeComesBackAsItWentIn) {
  for (DataType d : dtypes::all()) {
    Tensor x({0, 1, 3}, {.dtype = d});
    EXPECT_EQ(x.dtype(), d);
    expect_values(x + Tensor::zeros({3}, {.dtype = d}),
                  d.is_bool() ? std::vector<double>{0, 1, 1} : std::vector<double>{0, 1, 3});
  }
}

TEST(Data, ItemAndDataConvert) {
  Tensor x({1.75, -2.0});
  EXPECT_EQ(x.data<std::int32_t>(), (std::vector<std::int32_t>{1, -2}));
  EXPECT_EQ(x.data<float>(), (std::vector<float>{1.75F, -2.0F}));
  EXPECT_EQ(x[0].item<float>(), 1.75F);
  EXPECT_EQ(Tensor(std::vector<std::int64_t>{1LL << 60}).item<std::int64_t>(), 1LL << 60);
  EXPECT_EQ(x.data<bool>(), (std::vector<bool>{true, true}));
}

TEST(Data, BytesAndBlobs) {
  const float values[] = {1, 2, 3, 4};
  Tensor x = Tensor::from_bytes(values, sizeof values, {2, 2}, dtypes::float32);
  expect_values(x.T(), {1, 3, 2, 4});
  EXPECT_EQ(x.bytes().size(), 16u);
  EXPECT_EQ(x.nbytes(), 16);
  std::vector<std::int32_t> mine{5, 6, 7};
  bool released = false;
  {
    Tensor blob = Tensor::from_blob(mine.data(), {3}, {.dtype = dtypes::int32}, [&] { released = true; });
    expect_values(blob + 1, {6, 7, 8});
  }
  synchronize();
  EXPECT_TRUE(released);
  EXPECT_EQ(message_of([&] { Tensor::from_bytes(values, 3, {2}, dtypes::float32); }),
            "from_bytes: 3 bytes do not fill (2,) float32");
}

TEST(Data, BitcastReadsTheSameBits) {
  Tensor x({1.0, -2.0});
  EXPECT_EQ(x.bitcast(dtypes::uint32).data<std::uint32_t>(),
            (std::vector<std::uint32_t>{0x3f800000u, 0xc0000000u}));
  expect_shape(x.bitcast(dtypes::uint8), {8});
  expect_values(x.bitcast(dtypes::uint8).bitcast(dtypes::float32), {1, -2});
}

TEST(Data, ABitcastViewIsWrittenThrough) {
  Tensor x = Tensor({1.0, 2.0, 3.0, 4.0}).contiguous().realize();
  x.bitcast(dtypes::uint32)
      .assign(Tensor({0x3f800000, 0x40000000, 0, 0x40800000}, {.dtype = dtypes::uint32}));
  expect_values(x, {1, 2, 0, 4});
  x.reshape({2, 2}).bitcast(dtypes::int32).T().setitem({1}, Tensor({0x40a00000, 0}));  // elements 1 and 3
  expect_values(x, {1, 5, 0, 0});
  x.bitcast(dtypes::uint32) += 0x800000;  // twice as much, but for 0
  expect_values(x.shrink({{0, 2}}), {2, 10});
  // Elements of another width: the whole view only.
  x.bitcast(dtypes::uint8).assign(Tensor({0.5, 1.5, 2.5, 3.5}).bitcast(dtypes::uint8));
  expect_values(x, {0.5, 1.5, 2.5, 3.5});
  x.shrink({{2, 4}}).bitcast(dtypes::uint64).assign(Tensor({7.0, 8.0}).bitcast(dtypes::uint64));
  expect_values(x, {0.5, 1.5, 7, 8});
  EXPECT_NE(message_of([&] { x.bitcast(dtypes::uint8).shrink({{0, 4}}).assign(0); }).find("another width"),
            std::string::npos);
}

TEST(Data, AFileIsATensor) {
  std::filesystem::path file = std::filesystem::temp_directory_path() / "lathe_tensor_data_test.bin";
  std::ofstream(file, std::ios::binary) << "abcdefgh";
  {
    Tensor disk(file);
    EXPECT_EQ(disk.dtype(), dtypes::uint8);
    expect_shape(disk, {8});
    expect_values(disk[Slice{2, 5}], {'c', 'd', 'e'});
    expect_values(disk.reshape({2, 4}).T()[1].to(default_device()), {'b', 'f'});
    expect_values(disk.to(default_device()) + 1, {'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'});
  }
  {
    Tensor disk(file);
    const Tensor words = disk.bitcast(dtypes::uint32).reshape({2, 1});
    expect_values(words.bitcast(dtypes::uint8)[1], {'e', 'f', 'g', 'h'});
    expect_values(words.bitcast(dtypes::uint16).to("CPU").reshape({-1}), {0x6261, 0x6463, 0x6665, 0x6867});
  }
  std::filesystem::remove(file);
  EXPECT_NE(message_of([&] { Tensor missing(file); }).find("cannot be opened"), std::string::npos);
}

TEST(Data, CopiesBetweenDevicesKeepValuesAndGradients) {
  Tensor x({1.0, 2.0}, {.requires_grad = true});
  Tensor there = x.to("CPU:1");
  EXPECT_EQ(there.device(), "CPU:1");
  expect_values(there * 2, {2, 4});
  (there * there).sum().to(x.device()).backward();
  expect_values(*x.grad(), {2, 4});
  EXPECT_EQ(x.grad()->device(), x.device());
}

TEST(Data, ConstantsAndViewsNeedNoKernel) {
  engine::reset_counters();
  Tensor zeros = Tensor::zeros({4, 4}).realize();
  expect_values(zeros[0], {0, 0, 0, 0});
  Tensor x({{1, 2}, {3, 4}});
  Tensor turned = x.T().realize();
  expect_values(turned, {1, 3, 2, 4});
  expect_values(x.expand({2, 2, 2}).realize()[1], {1, 2, 3, 4});
  EXPECT_EQ(engine::counters().kernels, 0u);
}

TEST(Data, AComputedValueIsComputedOnce) {
  Tensor x({1.0, 2.0}), y = (x * 3).contiguous(), z = y + 1;
  y.realize();
  engine::reset_counters();
  y.realize();
  expect_values(y, {3, 6});
  EXPECT_EQ(engine::counters().kernels, 0u);
  expect_values(z, {4, 7});
  EXPECT_EQ(engine::counters().kernels, 1u);
}

TEST(Data, ATensorDescribesItself) {
  EXPECT_EQ(Tensor({{1, 2}}, {.device = "CPU"}).str(), "Tensor (1, 2) int32 on CPU");
  EXPECT_EQ(Tensor().str(), "Tensor (empty)");
}

}  // namespace
}  // namespace lathe
