#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "lathe/datasets.h"

#if LATHE_HAVE_ZLIB
#include <zlib.h>
#endif

namespace lathe::datasets {
namespace {

using Bytes = std::vector<std::uint8_t>;
namespace fs = std::filesystem;

// A folder of this test alone, gone when it is over.
class Idx : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("lathe_idx_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const Bytes& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return folder_ / name;
  }
  // What read_idx says, without the folder's name.
  std::string refusal(const fs::path& file) const {
    return text_of([&] { read_idx(file); });
  }
  template <class F>
  std::string text_of(F&& f) const {
    try {
      f();
    } catch (const UserError& error) {
      std::string text = error.what();
      const std::string prefix = folder_.string() + "/";
      for (std::size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
      return text;
    }
    return "accepted";
  }

  fs::path folder_;
};

TEST_F(Idx, ReadsShapeDtypeAndElementsHighByteFirst) {
  const IdxArray a = read_idx(write("a", {0, 0, 0x0b, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0x01, 0x02, 0xff, 0xfe}));
  EXPECT_EQ(a.dtype, dtypes::int16);
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(a.count(), 2);
  std::int16_t values[2];
  std::memcpy(values, a.bytes.data(), 4);
  EXPECT_EQ(values[0], 0x0102);
  EXPECT_EQ(values[1], -2);
}

TEST_F(Idx, RefusesWhatIsNoIdxFile) {
  EXPECT_EQ(refusal(folder_ / "none"), "lathe: read_idx: none cannot be opened: No such file or directory");
  EXPECT_EQ(refusal(write("short", {0, 0, 8})), "lathe: read_idx: short has 3 bytes, an IDX header needs 4");
  EXPECT_EQ(refusal(write("text", {'h', 'e', 'l', 'l', 'o'})),
            "lathe: read_idx: text is not an IDX file: it starts with 68 65, not with two zero bytes");
  EXPECT_EQ(refusal(write("kind", {0, 0, 7, 1, 0, 0, 0, 0})),
            "lathe: read_idx: kind is not an IDX file: 0x07 is not an element type");
}

TEST_F(Idx, RefusesFilesThatAreCutOffOrTooLong) {
  EXPECT_EQ(refusal(write("header", {0, 0, 8, 2, 0, 0, 0, 2})),
            "lathe: read_idx: header is truncated: 8 bytes of a header of 12");
  EXPECT_EQ(refusal(write("cut", {0, 0, 8, 1, 0, 0, 0, 3, 1, 2})),
            "lathe: read_idx: cut is truncated: 2 bytes of elements, shape (3,) of uint8 needs 3");
  EXPECT_EQ(refusal(write("long", {0, 0, 8, 1, 0, 0, 0, 1, 1, 2})),
            "lathe: read_idx: long is too long: 2 bytes of elements, shape (1,) of uint8 needs 1");
  Bytes huge = {0, 0, 0x0e, 3};
  for (int i = 0; i < 12; ++i) huge.push_back(0xff);
  EXPECT_NE(refusal(write("huge", huge)).find("is truncated"), std::string::npos)
      << "sizes whose product does not fit";
}

Bytes labels(std::initializer_list<std::uint8_t> values) {
  Bytes bytes = {0, 0, 8, 1, 0, 0, 0, static_cast<std::uint8_t>(values.size())};
  bytes.insert(bytes.end(), values);
  return bytes;
}

// Images of 2x2 whose pixels count up.
Bytes images(std::uint8_t count) {
  Bytes bytes = {0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 2, 0, 0, 0, 2};
  for (std::uint8_t i = 0; i < 4 * count; ++i) bytes.push_back(i);
  return bytes;
}

TEST_F(Idx, AFolderBecomesImagesAndLabels) {
  write("train-images-idx3-ubyte", images(3));
  write("train-labels-idx1-ubyte", labels({2, 0, 1}));
  write("t10k-images-idx3-ubyte", images(2));
  write("t10k-labels-idx1-ubyte", labels({1, 2}));
  const ImageSet set = load_idx_folder(folder_);
  EXPECT_EQ(set.classes, 3);
  EXPECT_EQ(set.class_names, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(set.train.count, 3);
  EXPECT_EQ(set.train.image_size(), 4);
  EXPECT_EQ(set.test.labels, (Bytes{1, 2}));
}

TEST_F(Idx, AFolderWithFilesThatDoNotBelongTogetherIsRefused) {
  EXPECT_EQ(text_of([&] { load_idx_folder(folder_ / "absent"); }),
            "lathe: load_idx_folder: there is no folder absent");
  write("train-images-idx3-ubyte", images(3));
  write("train-labels-idx1-ubyte", labels({2, 0}));
  EXPECT_NE(text_of([&] { load_idx_folder(folder_); }).find("has 3 train images but 2 labels"),
            std::string::npos);
  write("train-labels-idx1-ubyte", labels({2, 0, 1}));
  EXPECT_NE(text_of([&] { load_idx_folder(folder_); }).find("has no t10k-images-idx3-ubyte"),
            std::string::npos);
  write("train-images-idx3-ubyte", labels({1, 2, 3}));
  EXPECT_EQ(text_of([&] { load_idx_folder(folder_); }),
            "lathe: load_idx_folder: train-images-idx3-ubyte holds uint8 of shape (3,), 3 axes of uint8 are "
            "needed");
}

#if LATHE_HAVE_ZLIB
fs::path compress(const fs::path& to, const Bytes& bytes) {
  gzFile out = gzopen(to.c_str(), "wb");
  gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(out);
  return to;
}

TEST_F(Idx, ReadsCompressedFilesLargerThanOnePiece) {
  Bytes bytes = {0, 0, 8, 1, 0, 0x30, 0, 0};  // 3 MiB of elements
  for (std::size_t i = 0; i < 0x300000; ++i)
    bytes.push_back(static_cast<std::uint8_t>(i * 2654435761U >> 24));
  const IdxArray a = read_idx(compress(folder_ / "a.gz", bytes));
  ASSERT_EQ(a.bytes.size(), 0x300000U);
  EXPECT_EQ(std::memcmp(a.bytes.data(), bytes.data() + 8, a.bytes.size()), 0);
}

TEST_F(Idx, RefusesCompressedFilesThatAreCutOffOrDamaged) {
  Bytes bytes = labels({});
  bytes[6] = 1;  // 256 elements
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<std::uint8_t>(i * 37));
  const fs::path whole = compress(folder_ / "whole.gz", bytes);
  std::ifstream in(whole, std::ios::binary);
  Bytes packed{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(refusal(write("cut.gz", Bytes(packed.begin(), packed.end() - 20))),
            "lathe: read_idx: cut.gz is truncated: its compressed data ends early");
  EXPECT_EQ(refusal(write("start.gz", {0x1f, 0x8b})),
            "lathe: read_idx: start.gz is truncated: its compressed data ends early");
  packed[packed.size() - 8] ^= 0xff;  // the checksum
  EXPECT_NE(refusal(write("damaged.gz", packed)).find("damaged.gz is damaged"), std::string::npos);
}
#endif

TEST(Datasets, ShufflingIsAPermutationThatDependsOnTheSeedAlone) {
  const std::vector<std::int64_t> a = shuffled(100, 1);
  EXPECT_EQ(std::set<std::int64_t>(a.begin(), a.end()).size(), 100U);
  EXPECT_EQ(a, shuffled(100, 1));
  EXPECT_NE(a, shuffled(100, 2));
  EXPECT_TRUE(shuffled(0, 1).empty());
}

TEST(Datasets, ABatchHoldsTheChosenImages) {
  Images set;
  set.count = 3;
  set.height = set.width = 2;
  for (std::uint8_t i = 0; i < 12; ++i) set.pixels.push_back(i);
  set.labels = {7, 8, 9};
  const std::int64_t chosen[] = {2, 0};
  const auto [images, classes] = set.batch(chosen);
  EXPECT_EQ(to_string(images.shape()), "(2, 1, 2, 2)");
  EXPECT_EQ(images.dtype(), dtypes::uint8);
  EXPECT_EQ(images.tolist(), (std::vector<double>{8, 9, 10, 11, 0, 1, 2, 3}));
  EXPECT_EQ(classes.tolist(), (std::vector<double>{9, 7}));
  EXPECT_THROW(set.range(2, 4), UserError);
}

TEST(Datasets, FashionMnistHasTenClassesWhereItIsInstalled) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const ImageSet set = fashion_mnist();
  EXPECT_EQ(set.train.count, 60000);
  EXPECT_EQ(set.test.count, 10000);
  EXPECT_EQ(set.train.image_size(), 28 * 28);
  EXPECT_EQ(set.class_names[9], "boot");
}

}  // namespace
}  // namespace lathe::datasets
