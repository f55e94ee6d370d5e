#include "base/small_vector.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace lathe {
namespace {

template <class T, std::size_t N>
std::vector<T> as_vector(const SmallVector<T, N>& list) {
  return {list.begin(), list.end()};
}

TEST(SmallVector, StaysInlineUpToItsCapacityAndGoesToTheHeapBeyond) {
  SmallVector<int, 4> list = {1, 2, 3, 4};
  EXPECT_TRUE(list.is_inline());
  list.push_back(5);
  EXPECT_FALSE(list.is_inline());
  EXPECT_EQ(as_vector(list), (std::vector<int>{1, 2, 3, 4, 5}));
}

TEST(SmallVector, MovingLeavesTheOtherEmptyAndReusable) {
  for (int count : {2, 9}) {
    SmallVector<std::string, 4> from(static_cast<std::size_t>(count),
                                     "text long enough to need its own memory");
    SmallVector<std::string, 4> to = std::move(from);
    EXPECT_EQ(to.size(), static_cast<std::size_t>(count));
    EXPECT_TRUE(from.empty());
    from.push_back("again");
    to = std::move(from);
    EXPECT_EQ(as_vector(to), std::vector<std::string>{"again"});
  }
}

TEST(SmallVector, AnElementMayBeAppendedToItsOwnVector) {
  SmallVector<std::string, 2> list = {"a long string that lives on the heap", "b"};
  list.push_back(list[0]);
  EXPECT_EQ(list[2], list[0]);
  list.resize(9, list[0]);
  EXPECT_EQ(list[8], list[0]);
}

TEST(SmallVector, HoldsElementsThatOnlyMove) {
  SmallVector<std::unique_ptr<int>, 2> list;
  for (int i = 0; i < 5; i++) list.push_back(std::make_unique<int>(i));
  SmallVector<std::unique_ptr<int>, 2> other = std::move(list);
  other.erase(other.begin() + 1);
  ASSERT_EQ(other.size(), 4u);
  EXPECT_EQ(*other[1], 2);
}

TEST(SmallVector, ComparesLikeAVector) {
  using List = SmallVector<int, 2>;
  EXPECT_EQ((List{1, 2, 3}), (List{1, 2, 3}));
  EXPECT_NE((List{1, 2}), (List{1, 2, 3}));
  EXPECT_LT((List{1, 2}), (List{1, 2, 3}));
  EXPECT_LT((List{1, 2, 9}), (List{1, 3}));
}

TEST(SmallVector, RandomOperationsMatchStdVector) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; round++) {
    SmallVector<std::string, 3> list;
    std::vector<std::string> model;
    for (int step = 0; step < 60; step++) {
      const std::string word(random() % 40, static_cast<char>('a' + random() % 26));
      const std::size_t at = model.empty() ? 0 : random() % model.size();
      const auto offset = static_cast<std::ptrdiff_t>(at);
      switch (random() % 8) {
        case 0:
        case 1:
        case 2: list.push_back(word), model.push_back(word); break;
        case 3: list.insert(list.begin() + offset, word), model.insert(model.begin() + offset, word); break;
        case 4:
          if (!model.empty()) list.erase(list.begin() + offset), model.erase(model.begin() + offset);
          break;
        case 5:
          if (!model.empty()) list.pop_back(), model.pop_back();
          break;
        case 6: list.resize(at), model.resize(at); break;
        case 7: {
          SmallVector<std::string, 3> copy = list;
          list = std::move(copy);
          break;
        }
      }
      ASSERT_EQ(as_vector(list), model) << "round " << round << " step " << step;
    }
  }
}

}  // namespace
}  // namespace lathe
