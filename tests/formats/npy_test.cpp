#include "formats/support.h"

namespace lathe::state {
namespace {

using test::little;

std::string npy(const std::string& header, const std::string& data = "", int version = 1) {
  return "\x93NUMPY" + little(version, 1) + little(0, 1) + little(header.size(), version == 1 ? 2 : 4) +
         header + data;
}

class Npy : public test::InFolder {
 protected:
  std::string load_refusal(const std::string& bytes) const {
    const auto file = write("bad.npy", bytes);
    return refusal([&] { load_npy(file); });
  }
};

TEST_F(Npy, ReadsBothOrdersAndBothByteOrders) {
  const std::string data("\x01\0\x02\0\x03\0\x04\0\x05\0\x06\0", 12),
      turned("\0\x01\0\x02\0\x03\0\x04\0\x05\0\x06", 12);
  auto values = [&](const char* descr, const char* fortran, const std::string& bytes, int version = 1) {
    const Tensor t =
        load_npy(write("a.npy", npy(std::string("{'descr': '") + descr + "', 'fortran_order': " + fortran +
                                        ", 'shape': (2, 3), }   \n",
                                    bytes, version)));
    EXPECT_EQ(t.dtype(), dtypes::int16);
    EXPECT_EQ(to_string(t.shape()), "(2, 3)");
    return t.tolist();
  };
  const std::vector<double> rows = {1, 2, 3, 4, 5, 6}, columns = {1, 3, 5, 2, 4, 6};
  EXPECT_EQ(values("<i2", "False", data), rows);
  EXPECT_EQ(values("<i2", "True", data), columns);
  EXPECT_EQ(values(">i2", "False", turned), rows);
  EXPECT_EQ(values(">i2", "True", turned), columns);
  EXPECT_EQ(values("=i2", "False", data, 2), rows);
  EXPECT_EQ(values("<i2", "False", data, 3), rows);
}

TEST_F(Npy, WhatIsSavedComesBack) {
  for (const Shape& shape : {Shape{}, Shape{12}, Shape{3, 4}, Shape{0, 2}, Shape{2, 3, 2}})
    for (DataType dtype :
         {dtypes::float32, dtypes::float16, dtypes::bool_, dtypes::uint8, dtypes::int64, dtypes::float64}) {
      std::int64_t count = 1;
      for (const Size& s : shape) count *= s.value();
      const Tensor t = Tensor::arange(Number(count), {.dtype = dtypes::int32}).cast(dtype).reshape(shape);
      save_npy(t, folder_ / "t.npy");
      const Tensor back = load_npy(folder_ / "t.npy");
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(to_string(back.shape()), to_string(shape));
      EXPECT_EQ(back.bytes(), t.bytes());
    }
  EXPECT_NE(refusal([&] {
              save_npy(Tensor(1.0).cast(dtypes::bfloat16), folder_ / "b.npy");
            }).find("bfloat16, which has no npy dtype"),
            std::string::npos);
}

TEST_F(Npy, ArchivesHoldArraysByName) {
  const StateDict saved = {
      {"w", Tensor::arange(6).reshape({2, 3})}, {"b", Tensor({1.5, 2.5})}, {"e", Tensor::zeros({0})}};
  for (bool compressed : {false, true}) {
    save_npz(saved, folder_ / "all.npz", compressed);
    const StateDict loaded = load_npz(folder_ / "all.npz");
    ASSERT_EQ(loaded.size(), 3U);
    for (std::size_t i = 0; i < saved.size(); ++i) {
      EXPECT_EQ(loaded[i].first, saved[i].first);
      EXPECT_EQ(loaded[i].second.dtype(), saved[i].second.dtype());
      EXPECT_EQ(loaded[i].second.tolist(), saved[i].second.tolist());
    }
    EXPECT_EQ(loaded[0].second.device().starts_with("DISK:"), !compressed);
  }
}

TEST_F(Npy, RefusesWhatIsNoArray) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n";
  EXPECT_EQ(load_refusal(npy(good, "1234")), "accepted");
  EXPECT_EQ(load_refusal("PK"),
            "lathe: load_npy: bad.npy: at byte 0: the file is truncated: the start of an npy file takes 8 "
            "bytes, 2 are left");
  EXPECT_NE(load_refusal("12345678").find("is not an npy file"), std::string::npos);
  EXPECT_NE(load_refusal(npy(good, "1234", 4)).find("version 4"), std::string::npos);
  EXPECT_NE(
      load_refusal(npy(good, "123")).find("is truncated: 3 bytes of elements, shape (1,) of float32 takes 4"),
      std::string::npos);
  EXPECT_NE(load_refusal(npy(good, "12345")).find("is too long"), std::string::npos);
  EXPECT_NE(
      load_refusal("\x93NUMPY\x02" + std::string(1, '\0') + little(0xffffffff, 4)).find("the most is 65536"),
      std::string::npos);
  auto header = [&](const std::string& text) { return load_refusal(npy(text, "1234")); };
  EXPECT_NE(header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }").find("objects are pickles"),
            std::string::npos);
  EXPECT_NE(header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }").find("records"),
            std::string::npos);
  EXPECT_NE(header("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }").find("has no dtype here"),
            std::string::npos);
  EXPECT_NE(header("{'descr': '<f4', 'fortran_order': 1, 'shape': (1,), }").find("neither True nor False"),
            std::string::npos);
  EXPECT_NE(header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }").find("negative"),
            std::string::npos);
  EXPECT_NE(
      header("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }").find("63 bits"),
      std::string::npos);
  EXPECT_NE(header("{'descr': '<f4', 'fortran_order': False, 'shape': __import__('os'), }").find("is where"),
            std::string::npos);
  EXPECT_NE(header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }")
                .find("does not belong here"),
            std::string::npos);
  EXPECT_NE(header("{'descr': '<f4', 'shape': (1,), }").find("lacks"), std::string::npos);
}

TEST_F(Npy, ReadsWhatNumpyWritesAndNumpyReadsWhatIsWritten) {
  save_npy(Tensor::arange(6).reshape({2, 3}), folder_ / "ours.npy");
  save_npz({{"a", Tensor({1.0, 2.0})}, {"b", Tensor({true, false})}}, folder_ / "ours.npz");
  save_npz({{"a", Tensor({1.0, 2.0})}}, folder_ / "packed.npz", true);
  const bool ran = python("numpy", R"(
import numpy as np
a = np.load("ours.npy"); assert a.dtype == np.int32 and (a == np.arange(6).reshape(2, 3)).all()
z = np.load("ours.npz"); assert sorted(z) == ["a", "b"] and (z["a"] == [1, 2]).all() and z["b"].tolist() == [True, False]
assert (np.load("packed.npz")["a"] == [1, 2]).all()
x = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
arrays = {"x": x, "f": np.asfortranarray(x), "big": x.astype(">f4"), "half": x.astype(np.float16), "s": np.float32(2), "e": x[:0]}
np.savez("theirs.npz", **arrays)
np.savez_compressed("theirs_packed.npz", **arrays)
)");
  if (!ran) GTEST_SKIP() << "the distribution's Python has no numpy";
  for (const char* name : {"theirs.npz", "theirs_packed.npz"}) {
    const StateDict loaded = load_npz(folder_ / name);
    ASSERT_EQ(loaded.size(), 6U);
    for (const auto& [key, tensor] : loaded) {
      if (key == "s") {
        EXPECT_EQ(tensor.item(), 2);
      } else if (key == "e") {
        EXPECT_EQ(to_string(tensor.shape()), "(0, 3, 4)");
      } else {
        EXPECT_EQ(to_string(tensor.shape()), "(2, 3, 4)") << key;
        EXPECT_EQ(tensor.tolist(), Tensor::arange(24).tolist()) << key;
      }
    }
  }
}

}  // namespace
}  // namespace lathe::state
