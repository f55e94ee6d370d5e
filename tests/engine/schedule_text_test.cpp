#include "engine/schedule_text.h"

#include <gtest/gtest.h>

#include "graphs.h"

namespace lathe::engine {
namespace {

TEST(ScheduleText, AScheduleReadsBackAsItWas) {
  const Scope scope;
  const Node a = buffer_with_id(-1, dtypes::Float32, 64, "CPU"),
             b = buffer_with_id(-2, dtypes::Float32, 64, "CPU");
  const Node product = test::matmul(test::shaped(a, {8, 8}), test::shaped(b, {8, 8}), 8, 8, 8);
  const Node targets[] = {test::matmul(product, test::shaped(b, {8, 8}), 8, 8, 8), copy_to(a + b, "CPU:1"),
                          test::assign(a, a + a)};
  const Schedule made = schedule(targets);
  const Node slots[] = {a, b};
  const std::string text = print_schedule(made, slots);
  const std::optional<Schedule> back = parse_schedule(text);
  ASSERT_TRUE(back.has_value());
  ASSERT_EQ(back->steps.size(), made.steps.size());
  ASSERT_EQ(back->results.size(), made.results.size());
  bool copies = false;
  for (std::size_t i = 0; i < made.steps.size(); ++i) {
    EXPECT_EQ(back->steps[i].ast, made.steps[i].ast) << "the very same interned kernel";
    EXPECT_EQ(back->steps[i].name, made.steps[i].name);
    EXPECT_EQ(back->steps[i].device, made.steps[i].device);
    EXPECT_EQ(back->steps[i].origin, made.steps[i].origin);
    EXPECT_EQ(back->steps[i].buffers.size(), made.steps[i].buffers.size());
    copies |= made.steps[i].is_copy();
    for (const NodeRef& buffer : back->steps[i].buffers)
      EXPECT_LT(buffer_id(buffer), 0) << "no user's buffer";
  }
  EXPECT_TRUE(copies);
  EXPECT_EQ(print_schedule(*back, slots), text);
}

TEST(ScheduleText, OtherTextIsNotASchedule) {
  EXPECT_FALSE(parse_schedule("").has_value());
  EXPECT_FALSE(parse_schedule("%0 = Const.idx 16 ()\n").has_value());
  EXPECT_FALSE(parse_schedule("not a graph").has_value());
}

}  // namespace
}  // namespace lathe::engine
