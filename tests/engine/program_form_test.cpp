// Programs of one form: what may be an argument, and what has to be equal.
#include "engine/program_form.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ir/text.h"

namespace lathe::engine {
namespace {

// out[i] = in[i * stride + offset] * factor for n elements, with an array of `held` elements on the way.
Program scaled(int n, int stride, int offset, double factor, int held = 8, int shift = 2) {
  return parse_program(
      fmt::format("program \"scaled\"\n"
                  "param 0 f32 {0} -w\n"
                  "param 1 f32 {5} r-\n"
                  "counts 0 0 0\n"
                  "let %1 = Const.i32 {0} ()\n"
                  "%2 = Range.i32 [0, loop] (%1)\n"
                  "  let %3 = Const.i32 {1} ()\n"
                  "  %4 = Mul.i32 (%2, %3)\n"
                  "  let %5 = Const.i32 {2} ()\n"
                  "  %6 = Add.i32 (%4, %5)\n"
                  "  let %20 = Const.i32 {7} ()\n"
                  "  %21 = Shl.i32 (%2, %20)\n"
                  "  let %7 = Param.f32 [1, {5}] ()\n"
                  "  %8 = Load.f32 (%7, %6)\n"
                  "  let %9 = Const.f32 {3} ()\n"
                  "  %10 = Mul.f32 (%8, %9)\n"
                  "  %11 = Define.f32 [0, {4}, register] ()\n"
                  "  let %12 = Const.i32 1 ()\n"
                  "  %13 = Store.void (%11, %12, %10)\n"
                  "  let %14 = Param.f32 [0, {0}] ()\n"
                  "  %15 = Store.void (%14, %2, %10)\n"
                  "%16 = End.void (%2)\n",
                  n, stride, offset, factor, held, n * stride + offset, 0, shift));
}

TEST(ProgramForm, ProgramsThatDifferInNumbersHaveEqualWords) {
  const Scope scope;
  const auto x = form_of(scaled(40, 3, 40, 0.25)), y = form_of(scaled(41, 3, 41, 0.5));
  ASSERT_TRUE(x && y);
  EXPECT_EQ(x->words, y->words);
  EXPECT_EQ(x->numbers.size(), y->numbers.size());
}

TEST(ProgramForm, ASharedProgramTakesTheSizesThatDifferInItsArgumentsOnly) {
  const Scope scope;
  const Program second = scaled(41, 3, 41, 0.5);
  const auto x = form_of(scaled(40, 3, 40, 0.25)), y = form_of(second);
  ASSERT_TRUE(x && y);
  const auto open = open_program(second, *y, x->numbers);
  ASSERT_TRUE(open);
  // The extent and the offset are one number; the factor's bits are another.
  EXPECT_EQ(open->program.variables.size(), 2u);
  const auto taken = [&](const Program& program) {
    const auto form = form_of(program);
    return form && form->words == y->words && arguments_for(*open, form->numbers).has_value();
  };
  EXPECT_TRUE(taken(second));
  EXPECT_TRUE(taken(scaled(40, 3, 40, 0.25)));
  EXPECT_TRUE(taken(scaled(200, 3, 200, 7)));
  EXPECT_FALSE(taken(scaled(200, 3, 199, 7))) << "what was one number is now two";
  EXPECT_FALSE(taken(scaled(200, 4, 200, 7))) << "the stride is not an argument";
  EXPECT_FALSE(taken(scaled(1 << 20, 3, 1 << 20, 7))) << "beyond the room of the argument";
  EXPECT_FALSE(taken(scaled(200, 3, 200, 7, 64))) << "more memory of its own than is there";
  EXPECT_FALSE(taken(scaled(200, 3, 200, 7, 8, 3))) << "the amount of a shift is never an argument";
}

TEST(ProgramForm, ArgumentsTakeTheValuesOfTheSize) {
  const Scope scope;
  const Program second = scaled(41, 3, 41, 0.5);
  const auto x = form_of(scaled(40, 3, 40, 0.5)), y = form_of(second), z = form_of(scaled(77, 3, 77, 0.5));
  const auto open = open_program(second, *y, x->numbers);
  ASSERT_TRUE(open && z);
  EXPECT_EQ(arguments_for(*open, z->numbers), std::vector<std::int64_t>{77});
}

}  // namespace
}  // namespace lathe::engine
