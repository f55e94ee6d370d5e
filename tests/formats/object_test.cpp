#include <cmath>
#include <limits>

#include "formats/support.h"

namespace lathe {
namespace {

using Kind = Object::Kind;

class SavedObject : public test::InFolder {};

TEST_F(SavedObject, ATreeComesBackAsItWas) {
  const double odd = 0.1 + 0.2;
  const Object tree = Object::Entries{
      {"model", Object::Entries{{"w", Tensor({1.0, 2.0})}, {"b", Tensor(3)}}},
      {"step", 7},
      {"rates", Object::Items{odd, std::nan(""), -std::numeric_limits<double>::infinity(), -0.0}},
      {Object(std::int64_t{5}),
       Object::Tuple{{true, Object(), "text \"\n\xc3\xa4", Object::Bytes{{std::byte{0}, std::byte{255}}}}}},
      {"model.w", Tensor(9)},
      {"none", Object::Items{}},
  };
  save(tree, folder_ / "tree");
  const Object back = load(folder_ / "tree");
  EXPECT_EQ(back["model"]["w"].tensor().tolist(), (std::vector<double>{1, 2}));
  EXPECT_EQ(back["model"]["b"].tensor().dtype(), dtypes::int32);
  EXPECT_EQ(back["model.w"].tensor().item(), 9) << "names that are equal once they are joined";
  EXPECT_EQ(back["step"].integer(), 7);
  EXPECT_EQ(back["rates"].items()[0].number(), odd);
  EXPECT_TRUE(std::isnan(back["rates"].items()[1].number()));
  EXPECT_EQ(back["rates"].items()[2].number(), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::signbit(back["rates"].items()[3].number()));
  const auto& [key, tuple] = back.entries()[3];
  EXPECT_EQ(key.integer(), 5);
  ASSERT_TRUE(tuple.is(Kind::Tuple));
  EXPECT_TRUE(tuple.items()[0].boolean());
  EXPECT_TRUE(tuple.items()[1].is(Kind::None));
  EXPECT_EQ(tuple.items()[2].string(), "text \"\n\xc3\xa4");
  EXPECT_EQ(tuple.items()[3].bytes()[1], std::byte{255});
  EXPECT_TRUE(back["none"].items().empty());
  EXPECT_TRUE(back["model"]["w"].tensor().device().starts_with("DISK:"));
}

TEST_F(SavedObject, AStateDictIsAPlainSafetensorsFile) {
  save(Object::Entries{{"w", Tensor({1.0})}}, folder_ / "plain");
  EXPECT_TRUE(state::safe_load_metadata(folder_ / "plain").empty());
  EXPECT_EQ(load(folder_ / "plain")["w"].tensor().item(), 1);
  save(Tensor({4.0}), folder_ / "one");
  EXPECT_EQ(load(folder_ / "one").tensor().item(), 4);
  save("just text", folder_ / "text");
  EXPECT_EQ(load(folder_ / "text").string(), "just text");
}

TEST_F(SavedObject, TreesThatAreWrongAreRefused) {
  auto refused = [&](const std::string& tree) {
    state::safe_save({}, folder_ / "bad", {{"lathe.tree", tree}});
    return refusal([&] { load(folder_ / "bad"); });
  };
  EXPECT_EQ(refused("{\"l\":[1,true,null]}"), "accepted");
  EXPECT_EQ(refused("{\"t\":\"w\"}"),
            "lathe: load: bad: at 8 of the metadata lathe.tree, the tree names a tensor that is not there");
  EXPECT_NE(refused("{\"x\":1}").find("the tree has no \"x\""), std::string::npos);
  EXPECT_NE(refused("{}").find("has no tag"), std::string::npos);
  EXPECT_NE(refused("{\"l\":[],\"u\":[]}").find("two tags"), std::string::npos);
  EXPECT_NE(refused("{\"d\":[[1]]}").find("a key and a value"), std::string::npos);
  EXPECT_NE(refused("{\"f\":\"one\"}").find("is not a float"), std::string::npos);
  EXPECT_NE(refused("{\"b\":\"0\"}").find("pairs of hexadecimal digits"), std::string::npos);
  EXPECT_NE(refused("1 2").find("something follows"), std::string::npos);
  std::string deep;
  for (int i = 0; i < 10000; ++i) deep += "{\"l\":[";
  EXPECT_NE(refused(deep).find("nested deeper than 100"), std::string::npos);
  Object nest;
  for (int i = 0; i < 200; ++i) nest = Object::Items{nest};
  EXPECT_NE(refusal([&] { save(nest, folder_ / "deep"); }).find("nested deeper"), std::string::npos);
}

TEST_F(SavedObject, AskingForAnotherKindSaysWhatIsThere) {
  EXPECT_EQ(refusal([] { Object(1).string(); }), "lathe: object: a int is where a string is needed");
  EXPECT_EQ(refusal([] { Object("x").tensor(); }), "lathe: object: a string is where a tensor is needed");
  EXPECT_EQ(Object(3).number(), 3.0);
}

}  // namespace
}  // namespace lathe
