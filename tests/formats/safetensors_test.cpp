#include "formats/support.h"

namespace lathe::state {
namespace {

using test::little;
using test::safetensors;

class Safetensors : public test::InFolder {
 protected:
  std::string load_refusal(const std::string& bytes) const {
    const auto file = write("bad", bytes);
    return refusal([&] { safe_load(file); });
  }
};

TEST_F(Safetensors, ReadsNamesShapesDtypesAndValuesInTheOrderOfTheHeader) {
  const auto file = write("a", safetensors(R"({"b":{"dtype":"I16","shape":[2,1],"data_offsets":[4,8]},)"
                                           R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                                           std::string("\0\0\x80\x3f\x01\0\xff\xff", 8)));
  const StateDict tensors = safe_load(file);
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0].first, "b");
  EXPECT_EQ(tensors[0].second.dtype(), dtypes::int16);
  EXPECT_EQ(to_string(tensors[0].second.shape()), "(2, 1)");
  EXPECT_EQ(tensors[0].second.tolist(), (std::vector<double>{1, -1}));
  EXPECT_EQ(tensors[1].second.item(), 1);
}

TEST_F(Safetensors, WhatIsSavedComesBackBitForBitInEveryDtype) {
  StateDict saved;
  for (DataType dtype : dtypes::all()) {
    const Tensor bits = Tensor::arange(Number(64), {.dtype = dtypes::uint8});
    const Tensor t = dtype.is_bool() ? (bits % 3) == 0 : bits.bitcast(dtype);
    saved.emplace_back(std::string(dtype.name()), t.reshape({2, -1}));
  }
  saved.emplace_back("empty", Tensor::zeros({0, 3}));
  saved.emplace_back("scalar", Tensor(2.5));
  saved.emplace_back("transposed", Tensor::arange(6).reshape({2, 3}).T());
  saved.emplace_back("a \"name\"\n\xc3\xa4", Tensor(1));
  safe_save(saved, folder_ / "all", {{"by", "Lathe"}, {"note", "a\tb"}});
  EXPECT_EQ(safe_load_metadata(folder_ / "all"), (Metadata{{"by", "Lathe"}, {"note", "a\tb"}}));
  const StateDict loaded = safe_load(folder_ / "all");
  ASSERT_EQ(loaded.size(), saved.size());
  for (const auto& [name, tensor] : saved) {
    const Tensor* back = nn::find(loaded, name);
    ASSERT_NE(back, nullptr) << name;
    EXPECT_EQ(back->dtype(), tensor.dtype()) << name;
    EXPECT_EQ(back->shape(), tensor.shape()) << name;
    EXPECT_EQ(back->bytes(), tensor.bytes()) << name;
  }
}

TEST_F(Safetensors, TensorsStayOnDiskUntilTheyAreUsed) {
  safe_save({{"w", Tensor::arange(12).reshape({3, 4}).cast(dtypes::float32)}}, folder_ / "w");
  const Tensor w = safe_load(folder_ / "w")[0].second;
  EXPECT_TRUE(w.device().starts_with("DISK:")) << w.device();
  const Tensor here = w.T().to("CPU");
  EXPECT_EQ(here.matmul(w.to("CPU"))[0].tolist(), (std::vector<double>{80, 92, 104, 116}));
  EXPECT_EQ((w[Slice{{}, {}, -1}][0].tolist()), (std::vector<double>{8, 9, 10, 11}));
}

TEST_F(Safetensors, ElementsNeedNoAlignment) {
  const auto file = write("odd", safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[3,11]},)"
                                             R"("b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
                                             "abc" + std::string("\0\0\x80\x3f\0\0\0\x40", 8)));
  EXPECT_EQ(safe_load(file)[0].second.tolist(), (std::vector<double>{1, 2}));
}

TEST_F(Safetensors, AFileThatIsReplacedWhileItsTensorsLiveKeepsTheirValues) {
  safe_save({{"w", Tensor({1.0, 2.0})}}, folder_ / "w");
  const Tensor before = safe_load(folder_ / "w")[0].second;
  safe_save({{"w", before.to("CPU") * 10}}, folder_ / "w");
  const Tensor after = safe_load(folder_ / "w")[0].second;
  EXPECT_EQ(before.tolist(), (std::vector<double>{1, 2}));
  EXPECT_EQ(after.tolist(), (std::vector<double>{10, 20}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1)
      << "no temporary file is left";
}

TEST_F(Safetensors, BytesInMemoryAreReadLikeAFile) {
  safe_save({{"w", Tensor({1.0, 2.0})}}, folder_ / "w");
  const Tensor bytes = Tensor(folder_ / "w").to("CPU");
  EXPECT_EQ(safe_load(bytes)[0].second.tolist(), (std::vector<double>{1, 2}));
  EXPECT_NE(refusal([] { safe_load(Tensor({1.0})); }).find("is not a list of bytes"), std::string::npos);
}

TEST_F(Safetensors, RefusesHeadersThatAreNoHeaders) {
  EXPECT_EQ(refusal([&] { safe_load(folder_ / "none"); }),
            "lathe: safe_load: none cannot be opened: No such file or directory");
  EXPECT_EQ(refusal([&] { safe_load(folder_); }).find("is not a regular file") != std::string::npos, true);
  EXPECT_EQ(load_refusal("abc"),
            "lathe: safe_load: bad: at byte 0: the file is truncated: the header's length takes 8 bytes, 3 "
            "are left");
  EXPECT_EQ(load_refusal(little(99, 8) + "{}"),
            "lathe: safe_load: bad: at byte 8: the file is truncated: the header takes 99 bytes, 2 are left");
  EXPECT_NE(load_refusal(little(std::uint64_t(-1), 8) + "{}").find("the most is 100000000"),
            std::string::npos);
  EXPECT_EQ(load_refusal(safetensors("[]")),
            "lathe: safe_load: bad: at byte 8: the header does not begin with \"{\"");
  EXPECT_EQ(load_refusal(safetensors("{} x")),
            "lathe: safe_load: bad: at byte 11: in the header, something follows the end of the text");
  EXPECT_EQ(load_refusal(safetensors(R"({"a":)")),
            "lathe: safe_load: bad: at byte 13: in the header, the text ends where an object is expected");
  EXPECT_NE(load_refusal(safetensors(R"({"a":)" + std::string(100000, '['))).find("is expected"),
            std::string::npos);
}

TEST_F(Safetensors, RefusesEntriesThatAreWrong) {
  auto entry = [&](const std::string& text, const std::string& data = "1234") {
    return load_refusal(safetensors("{\"a\":{" + text + "}}", data));
  };
  EXPECT_EQ(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4])"), "accepted");
  EXPECT_EQ(entry(R"("dtype":"C64","shape":[1],"data_offsets":[0,4])"),
            "lathe: safe_load: bad: at byte 27: in the header, there is no dtype \"C64\" here");
  EXPECT_EQ(entry(R"("dtype":"F32","shape":[1])"),
            "lathe: safe_load: bad: at byte 40: in the header, tensor \"a\" has no data_offsets");
  EXPECT_NE(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1)").find("a tensor has no \"x\""),
            std::string::npos);
  EXPECT_EQ(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"),
            "lathe: safe_load: bad: at byte 13: tensor \"a\" is float32 of shape (2,), which takes 8 bytes, "
            "but its "
            "place has 4");
  EXPECT_NE(entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])").find("a size is negative"),
            std::string::npos);
  EXPECT_NE(entry(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])").find("an integer is expected"),
            std::string::npos);
  EXPECT_NE(
      entry(R"("dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4])").find("does not fit 64"),
      std::string::npos);
  EXPECT_NE(entry(R"("dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4])").find("63 bits"),
            std::string::npos)
      << "sizes whose product is a small number in 64 bits";
  EXPECT_NE(
      entry(R"("dtype":"F32","shape":[0,4611686018427387904,4],"data_offsets":[0,0])", "").find("63 bits"),
      std::string::npos);
  EXPECT_EQ(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,8])"),
            "lathe: safe_load: bad: at byte 13: tensor \"a\" lies at 4 to 8 of the file's 4 bytes of data");
  EXPECT_NE(entry(R"("dtype":"F32","shape":[0],"data_offsets":[4,0])").find("lies at 4 to 0"),
            std::string::npos);
  EXPECT_NE(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])").find("two numbers"),
            std::string::npos);
}

TEST_F(Safetensors, RefusesDataThatIsSharedOrNobodys) {
  auto two = [&](const char* a, const char* b, const std::string& data) {
    return load_refusal(safetensors(std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + a +
                                        R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                                    data));
  };
  EXPECT_EQ(two("[0,4]", "[4,8]", "12345678"), "accepted");
  EXPECT_NE(two("[0,4]", "[2,6]", "123456")
                .find("tensor \"b\" begins at 2 of the data, inside another that ends at 4"),
            std::string::npos);
  EXPECT_NE(two("[0,4]", "[0,4]", "1234").find("inside another"), std::string::npos);
  EXPECT_NE(two("[0,4]", "[5,9]", "123456789").find("bytes 4 to there belong to none"), std::string::npos);
  EXPECT_NE(two("[0,4]", "[4,8]", "123456789").find("take 8 bytes of data, the file has 9"),
            std::string::npos);
  EXPECT_NE(load_refusal(safetensors(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                     R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"))
                .find("the key \"a\" occurs twice"),
            std::string::npos);
  EXPECT_NE(load_refusal(safetensors(R"({"__metadata__":{"a":1}})")).find("a string is expected"),
            std::string::npos);
  EXPECT_NE(load_refusal(safetensors("{\"\xff\":{}}")).find("not UTF-8"), std::string::npos);
}

TEST_F(Safetensors, SavingRefusesWhatTheFormatDoesNotHold) {
  const auto file = folder_ / "out";
  EXPECT_EQ(refusal([&] { safe_save({{"a", Tensor(1)}, {"a", Tensor(2)}}, file); }),
            "lathe: safe_save: two tensors have the name \"a\"");
  EXPECT_EQ(refusal([&] { safe_save({{"__metadata__", Tensor(1)}}, file); }),
            "lathe: safe_save: \"__metadata__\" cannot be the name of a tensor");
  EXPECT_EQ(refusal([&] { safe_save({{"a", Tensor()}}, file); }), "lathe: safe_save: a has no tensor");
  EXPECT_NE(refusal([&] { safe_save({{"a", Tensor(1)}}, folder_ / "no" / "such"); }).find("cannot be made"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(Safetensors, BoolsAreTrueForEveryByteThatIsNotZero) {
  const auto file = write("bools", safetensors(R"({"a":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})",
                                               std::string("\0\x01\x02\xff", 4)));
  const Tensor a = safe_load(file)[0].second;
  EXPECT_EQ(a.tolist(), (std::vector<double>{0, 1, 1, 1}));
  const Tensor here = a.to("CPU");
  EXPECT_EQ(here.cast(dtypes::int32).sum().item(), 3);
  EXPECT_EQ(here.where(1, 0).tolist(), (std::vector<double>{0, 1, 1, 1}));
  EXPECT_EQ(here.logical_not().tolist(), (std::vector<double>{1, 0, 0, 0}));
}

TEST_F(Safetensors, ReadsRealModels) {
  if (test::real_data().empty()) GTEST_SKIP() << "the data folder is not beside the source";
  const StateDict story = safe_load(test::real_data() / "tinystories-656k" / "model.safetensors");
  const Tensor* norm = nn::find(story, "model.norm.weight");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->dtype(), dtypes::float32);
  EXPECT_TRUE(norm->device().starts_with("DISK:"));
  double elements = 0;
  for (const auto& [name, tensor] : story) elements += static_cast<double>(tensor.numel().value());
  EXPECT_EQ(elements, 656000);
  const StateDict use = safe_load(test::real_data() / "use-lite" / "model.safetensors");
  EXPECT_EQ(use[0].second.dtype(), dtypes::float16);
  safe_save(use, folder_ / "copy");
  const StateDict copy = safe_load(folder_ / "copy");
  for (const auto& [name, tensor] : use) EXPECT_EQ(nn::find(copy, name)->bytes(), tensor.bytes()) << name;
}

}  // namespace
}  // namespace lathe::state
