// Integers and bool: every decomposed op equals `evaluate` on extreme and random operands.
#include <gtest/gtest.h>

#include <random>

#include "decompose/support.h"
#include "ir/value.h"
#include "ir/walk.h"

namespace lathe::testing {
namespace {

const DType kIntegers[] = {dtypes::Int8,  dtypes::UInt8,  dtypes::Int16, dtypes::UInt16,
                           dtypes::Int32, dtypes::UInt32, dtypes::Int64, dtypes::UInt64};

std::uint64_t mask_of(DType dtype) {
  return dtype.bits() == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << dtype.bits()) - 1;
}
Element element(DType dtype, std::uint64_t raw) { return {wrap(dtype, static_cast<std::int64_t>(raw)), 0}; }

Node bit_and_with(Node x, std::int64_t mask) { return apply(Op::And, x, int_const(x.dtype(), mask)); }

std::vector<std::uint64_t> interesting(DType dtype) {
  std::vector<std::uint64_t> v;
  std::uint64_t top = std::uint64_t{1} << (dtype.bits() - 1);
  for (std::uint64_t x :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}, std::uint64_t{7},
        std::uint64_t{8}, std::uint64_t{31}, std::uint64_t{32}, std::uint64_t{33}, std::uint64_t{63},
        std::uint64_t{64}, std::uint64_t{100}, top, top - 1, top + 1})
    v.insert(v.end(), {x & mask_of(dtype), (0 - x) & mask_of(dtype)});
  return v;
}

void expect_equal(Op op, DType dtype, const Block& x, const Block& y, const Block& got) {
  bool boolean = info(op).result == ResultKind::Boolean;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Element want = evaluate(op, dtype, element(dtype, x[i]), element(dtype, y[i]));
    std::uint64_t bits = boolean || dtype.is_bool() ? static_cast<std::uint64_t>(want.i)
                                                    : static_cast<std::uint64_t>(want.i) & mask_of(dtype);
    ASSERT_EQ(got[i], bits) << info(op).name << " on " << dtype.name() << " of " << x[i] << " and " << y[i];
  }
}

// Ops that a machine traps on or leaves open; the evaluator under test must never see those operands.
TEST(Integer, DivisionAndShiftsAreRightForAllOperands) {
  std::mt19937_64 random(3);  // seed 3
  for (DType dtype : kIntegers) {
    Block x, y;
    for (std::uint64_t a : interesting(dtype))
      for (std::uint64_t b : interesting(dtype)) x.push_back(a), y.push_back(b);
    for (int i = 0; i < 20000; ++i) {
      x.push_back(random() & mask_of(dtype));
      y.push_back(random() >> (random() % 64) & mask_of(dtype));
    }
    const DType two[] = {dtype, dtype};
    const Block inputs[] = {x, y};
    for (Op op : {Op::FloorDiv, Op::FloorMod, Op::TruncDiv, Op::TruncMod, Op::Shl, Op::Shr})
      expect_equal(op, dtype, x, y, evaluate_decomposed(two, bare_target(true), inputs, [&](auto& v) {
                     return apply(op, v[0], v[1]);
                   }));
  }
}

TEST(Integer, DivisionByConstantsIsRight) {
  std::mt19937_64 random(4);  // seed 4
  for (DType dtype : kIntegers)
    for (std::int64_t c : {1, 2, 3, 7, 8, 64, 100, -1, -2, -7, 0}) {
      if (c < 0 && dtype.is_unsigned()) continue;
      Block x, y;
      for (std::uint64_t a : interesting(dtype)) x.push_back(a);
      for (int i = 0; i < 2000; ++i) x.push_back(random() & mask_of(dtype));
      y.assign(x.size(), static_cast<std::uint64_t>(c));
      for (Op op : {Op::FloorDiv, Op::FloorMod, Op::TruncDiv, Op::TruncMod})
        expect_equal(op, dtype, x, y,
                     evaluate_decomposed({&dtype, 1}, bare_target(true), {&x, 1},
                                         [&](auto& v) { return apply(op, v[0], int_const(dtype, c)); }));
    }
}

// After the pass no node divides by something that may be zero or shifts by something that may be the width.
TEST(Integer, WhatIsLeftIsWhatMachinesAgreeOn) {
  Scope scope;
  for (DType dtype : kIntegers)
    for (Op op : {Op::FloorDiv, Op::FloorMod, Op::TruncDiv, Op::TruncMod, Op::Shl, Op::Shr})
      for (Node n : toposort(decompose(apply(op, leaf(dtype, 0), leaf(dtype, 1)), bare_target(true)))) {
        EXPECT_FALSE(n.is(Op::FloorDiv) || n.is(Op::FloorMod));
        if (n.is(Op::TruncDiv) || n.is(Op::TruncMod)) {
          EXPECT_TRUE(n.arg(1).is(Op::Where)) << dtype.name();
        }
        if ((n.is(Op::Shl) || n.is(Op::Shr)) && dtype.scalar != Scalar::UInt64) {
          EXPECT_TRUE(n.arg(1).lo() >= 0 && n.arg(1).hi() < dtype.bits()) << dtype.name();
        }
      }
}

TEST(Integer, KnownBoundsCostNothing) {
  Scope scope;
  Node x = bit_and_with(leaf(dtypes::Int32), 1023),
       y = bit_and_with(leaf(dtypes::Int32, 1), 7) + int_const(dtypes::Int32, 1);
  EXPECT_EQ(decompose(floor_div(x, y), bare_target(true)), apply(Op::TruncDiv, x, y));
  EXPECT_EQ(decompose(floor_mod(x, y), bare_target(true)), apply(Op::TruncMod, x, y));
  Node by_eight = decompose(floor_div(leaf(dtypes::Int32), int_const(dtypes::Int32, 8)), bare_target(true));
  EXPECT_EQ(by_eight, apply(Op::Shr, leaf(dtypes::Int32), int_const(dtypes::Int32, 3)));
}

TEST(Bool, BecomesLogic) {
  Block x = {0, 0, 1, 1}, y = {0, 1, 0, 1};
  const DType two[] = {dtypes::Bool, dtypes::Bool};
  const Block inputs[] = {x, y};
  for (Op op : {Op::Add, Op::Mul, Op::Max, Op::Min, Op::And, Op::Or, Op::Xor, Op::Less, Op::Eq, Op::Ne}) {
    expect_equal(op, dtypes::Bool, x, y, evaluate_decomposed(two, bare_target(true), inputs, [&](auto& v) {
                   return apply(op, v[0], v[1]);
                 }));
    Scope scope;
    Node out = decompose(apply(op, leaf(dtypes::Bool, 0), leaf(dtypes::Bool, 1)), bare_target(true));
    for (Node n : toposort(out)) {
      bool logic = n.is(Op::And) || n.is(Op::Or) || n.is(Op::Xor) || n.is(Op::Not);
      EXPECT_TRUE(logic || !is_scalar_op(n.op())) << info(n.op()).name;
    }
  }
}

// Lanes are combined in the order docs/ir.md fixes, rounding after each step.
TEST(Lanes, OfSmallFloatsAreCombinedHalvesFirst) {
  Scope scope;
  Node x = load(param(dtypes::Float16, 0, 4), index_const(0), Node(), 4);
  Node out = decompose(hreduce(Op::Add, x), bare_target(true, {Scalar::Float16}));
  auto sum = [](Node a, Node b) {
    return cast(cast(a, dtypes::Float32) + cast(b, dtypes::Float32), dtypes::Float16);
  };
  EXPECT_EQ(out, sum(sum(lane(x, 0), lane(x, 2)), sum(lane(x, 1), lane(x, 3))));
}

TEST(Reference, KeepsEveryFloatOp) {
  Scope scope;
  Node x = leaf(dtypes::Float16);
  Node sine = apply(Op::Sin, x);
  EXPECT_EQ(decompose(sine, named_target("ref")), sine);
}

}  // namespace
}  // namespace lathe::testing
