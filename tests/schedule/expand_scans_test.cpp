// Running values, values by row and sorts, computed in every way that some device is best at: kernel by
// kernel on REF against their meaning in the tensor graph.
#include <random>

#include "ir/shape.h"
#include "schedule/cost.h"
#include "schedule/evaluate.h"

namespace lathe::test {
namespace {

using Sizes = std::vector<std::int64_t>;

constexpr unsigned kSeed = 20261118;

class ExpandScans : public ::testing::TestWithParam<bool> {
 protected:
  ExpandScans() {
    options_.fast_threads = [](const std::string&) { return GetParam(); };
  }

  // Whole numbers from -most to most, so that sums are exact in every dtype.
  Node input(DType dtype, const Sizes& sizes, int most) {
    std::int64_t n = 1;
    std::vector<Node> shape;
    for (std::int64_t s : sizes) {
      n *= s;
      shape.push_back(index_const(s));
    }
    reference::Array values(dtype, n);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto v = static_cast<std::int64_t>(random_() % static_cast<unsigned>(2 * most + 1)) - most;
      values.set(i, {dtype.is_unsigned() ? v + most : v, static_cast<double>(v)});
    }
    Node buffer = new_buffer(dtype, n, "CPU");
    contents_[buffer] = std::move(values);
    return reshape(buffer, shape);
  }
  void expect_meaning(Node target) {
    SCOPED_TRACE(::testing::Message() << "seed " << kSeed << "\n" << print_graph(target));
    expect_equal(contiguous(target), contents_, 0, options_);
  }

  Scope scope_;
  std::mt19937 random_{kSeed};
  reference::BufferContents contents_;
  ScheduleOptions options_;
};
INSTANTIATE_TEST_SUITE_P(Devices, ExpandScans, ::testing::Bool(), [](const auto& way) {
  return std::string(way.param ? "FastThreads" : "SlowThreads");
});

TEST_P(ExpandScans, RunningValuesAlongEveryAxis) {
  for (const Sizes& sizes :
       {Sizes{1}, Sizes{70}, Sizes{3, 1, 2}, Sizes{2, 65, 3}, Sizes{1, 130}, Sizes{4, 3, 64}, Sizes{0, 3}})
    for (DType dtype : {dtypes::Float32, dtypes::Int32, dtypes::Int64, dtypes::Float64})
      for (Op op : {Op::Add, Op::Max, Op::Min})
        for (std::size_t axis = 0; axis < sizes.size(); ++axis)
          expect_meaning(scan(op, input(dtype, sizes, 9), static_cast<std::int64_t>(axis)));
}

TEST_P(ExpandScans, ValuesByRowWithAnyNumberOfAxes) {
  struct Case {
    Sizes index, rest;
    std::int64_t rows;
  };
  for (const Case& c :
       {Case{{1}, {}, 1}, Case{{9}, {}, 4}, Case{{9}, {2}, 4}, Case{{3, 5}, {}, 7}, Case{{2, 3, 6}, {2}, 5},
        Case{{1, 7}, {3, 1}, 1}, Case{{2, 0}, {}, 3}, Case{{2, 4}, {}, 0}})
    for (DType dtype : {dtypes::Float32, dtypes::Int32})
      for (Op op : {Op::Add, Op::Mul, Op::Max, Op::Min}) {
        Sizes values = c.index;
        values.insert(values.end(), c.rest.begin(), c.rest.end());
        // Some numbers lie outside on both sides: they belong to no row.
        Node index =
            input(c.rows % 2 == 0 ? dtypes::Int32 : dtypes::Int64, c.index, static_cast<int>(c.rows) + 1);
        expect_meaning(scatter(op, input(dtype, values, 3), index, index_const(c.rows)));
      }
}

// Enough of them that lists pay where they are not walked.
TEST_P(ExpandScans, ManyValuesByRow) {
  const std::int64_t batch = 2, rows = 200, values = 301, width = 8;
  EXPECT_EQ(row_way({static_cast<double>(batch), 200, 301, 8, true}, false), RowWay::Lists);
  Node index = input(dtypes::Int32, {batch, values}, 220),
       line = reshape(arange(dtypes::Int32, index_const(values)), dims(Sizes{1, values}).args());
  expect_meaning(
      scatter(Op::Add, input(dtypes::Float32, {batch, values, width}, 3), index, index_const(rows)));
  expect_meaning(
      scatter(Op::Max, input(dtypes::Float32, {batch, values, width}, 3), index, index_const(rows)));
  Node many = input(dtypes::Int32, {batch, 2000}, 900);
  Node counted = reshape(arange(dtypes::Int32, index_const(2000)), dims(Sizes{1, 2000}).args());
  const std::vector<Node> shape(many.shape().begin(), many.shape().end());
  // What lists alone tell: how many values a row has, and its last.
  expect_meaning(scatter(Op::Add, expand(int_const(dtypes::Int32, 1), shape), many, index_const(800)));
  expect_meaning(
      scatter(Op::Max, expand(counted + int_const(dtypes::Int32, 1), shape), many, index_const(800)));
  // Numbers over the whole batch look like positions and are not.
  Node all = reshape(arange(dtypes::Int32, index_const(batch * 2000)), shape);
  expect_meaning(scatter(Op::Max, all + int_const(dtypes::Int32, 1), many, index_const(800)));
  expect_meaning(scatter(Op::Add, expand(line, index.shape()), index, index_const(rows)));
}

TEST_P(ExpandScans, SortsOfEveryLength) {
  for (DType dtype : {dtypes::Int32, dtypes::Int64, dtypes::UInt8, dtypes::Int16})
    for (const Sizes& sizes : {Sizes{1}, Sizes{2}, Sizes{33}, Sizes{2, 32}, Sizes{3, 65}, Sizes{2, 2, 40},
                               Sizes{1, 150}, Sizes{0, 5}}) {
      const std::int64_t n = sizes.back();
      for (std::int64_t keep : {n, std::int64_t{1}, (n + 1) / 2, std::int64_t{0}})
        expect_meaning(sort_positions(input(dtype, sizes, 20), keep));
    }
}

TEST_P(ExpandScans, TheFirstFewOfALongRow) {
  EXPECT_EQ(sort_way(1500, 3, GetParam()), SortWay::Blocks);
  expect_meaning(sort_positions(input(dtypes::Int32, {2, 1500}, 100), 3));
}

// Of several devices each gets its own way.
TEST(ExpandScansOfDevices, EachNodeAsItsOwnDeviceIsBestAt) {
  Scope scope;
  Node here = new_buffer(dtypes::Float32, 40, "CPU"), there = new_buffer(dtypes::Float32, 40, "REF");
  const std::vector<Node> targets{scan(Op::Add, here, 0), scan(Op::Add, there, 0)};
  ScheduleOptions options;
  options.fast_threads = [](const std::string& device) { return device == "CPU"; };
  for (const Step& step : schedule(targets, options).steps)
    EXPECT_EQ(step.origin.find("Scan") != std::string::npos, step.device == "CPU")
        << step.device << " " << step.origin;
}

}  // namespace
}  // namespace lathe::test
