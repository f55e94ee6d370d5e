// What a broken kernel leaves is refused: for each kind of mistake, dtype, length of the reduce and kind of
// kernel, wherever it moves an element by more than its likely bound and two units in the last place.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "reference/rounding.h"
#include "verify/expected.h"
#include "verify/judging.h"

namespace lathe::test {
namespace {

using reference::Array;
using reference::Cell;
using reference::Sample;
using verify::Expected;
using verify::Judgement;

constexpr std::int64_t kRows = 8, kColumns = 8, kWidth = 4;
constexpr double kAll = 1e12;

Node global(std::int64_t extent, std::int64_t id) {
  return range(index_const(extent), id, RangeKind::Global);
}
Node over(std::int64_t extent, std::int64_t id) { return range(index_const(extent), id, RangeKind::Reduce); }
Node c(std::int64_t v) { return index_const(v); }

// Sums are in float32 (float64 for itself); what is stored has the dtype of what is loaded. `used` of the k
// steps are taken: fewer than k is one of the mistakes.
struct Family {
  const char* name;
  Node (*build)(DType dtype, std::int64_t k, std::int64_t used);
};

DType sum_dtype(DType d) { return d.bits() < 32 ? dtypes::Float32 : d; }
Node read(DType d, std::int64_t slot, std::int64_t size, Node at) {
  return cast(load(param(d, slot, size), at), sum_dtype(d));
}
Node total(Op op, Node element, Node range) { return reduce_ranges(op, element, {&range, 1}); }
Node stored(DType d, std::int64_t columns, Node i, Node j, Node value) {
  Node ranges[] = {i, j};
  Node effect = end(store(param(d, 0, kRows * columns), i * c(columns) + j, cast(value, d)), ranges);
  return sink({&effect, 1});
}

Node product(DType d, std::int64_t k, std::int64_t used) {
  Node i = global(kRows, 0), j = global(kColumns, 1), l = over(used, 2);
  Node a = read(d, 1, kRows * k, i * c(k) + l), b = read(d, 2, k * kColumns, l * c(kColumns) + j);
  return stored(d, kColumns, i, j, total(Op::Add, a * b, l));
}

// Windows of k along one axis, with a border of zeros on the left.
Node convolution(DType d, std::int64_t k, std::int64_t used) {
  Node i = global(kRows, 0), j = global(kColumns, 1), l = over(used, 2);
  Node at = j + l + c(-1);
  Node pixel = cast(load(param(d, 1, k + kColumns), at, less(c(-1), at)), sum_dtype(d));
  return stored(d, kColumns, i, j, total(Op::Add, read(d, 2, kRows * k, i * c(k) + l) * pixel, l));
}

// The first columns of each row.
Node softmax(DType d, std::int64_t k, std::int64_t used) {
  const std::int64_t columns = std::min(k, kColumns);
  Node i = global(kRows, 0), j = global(columns, 1), l = over(k, 2), m = over(used, 3);
  auto x = [&](Node at) { return read(d, 1, kRows * k, i * c(k) + at); };
  Node most = total(Op::Max, x(l), l), scale = float_const(sum_dtype(d), 1.4426950408889634);
  auto power = [&](Node at) { return apply(Op::Exp2, (x(at) - most) * scale); };
  return stored(d, columns, i, j, power(j) / total(Op::Add, power(m), m));
}

Node norm(DType d, std::int64_t k, std::int64_t used) {
  const std::int64_t columns = std::min(k, kColumns);
  Node i = global(kRows, 0), j = global(columns, 1), l = over(used, 2), m = over(used, 3);
  auto x = [&](Node at) { return read(d, 1, kRows * k, i * c(k) + at); };
  Node part = float_const(sum_dtype(d), 1.0 / static_cast<double>(k));
  Node mean = total(Op::Add, x(l), l) * part;
  Node variance = total(Op::Add, (x(m) - mean) * (x(m) - mean), m) * part;
  Node scale = apply(Op::Recip, apply(Op::Sqrt, variance + float_const(sum_dtype(d), 0.01)));
  return stored(d, columns, i, j, (x(j) - mean) * scale);
}

Node attention(DType d, std::int64_t k, std::int64_t used) {
  Node i = global(kRows, 0), j = global(kColumns, 1), e = over(kWidth, 5);
  Node l = over(used, 2), m = over(used, 3), n = over(used, 4);
  auto score = [&](Node at) {
    return total(Op::Add,
                 read(d, 1, kRows * kWidth, i * c(kWidth) + e) * read(d, 2, k * kWidth, at * c(kWidth) + e),
                 e);
  };
  Node most = total(Op::Max, score(l), l);
  auto power = [&](Node at) { return apply(Op::Exp2, score(at) - most); };
  Node weighted = total(Op::Add, power(m) * read(d, 3, k * kColumns, m * c(kColumns) + j), m);
  return stored(d, kColumns, i, j, weighted / total(Op::Add, power(n), n));
}

constexpr Family kFamilies[] = {{"product", product},
                                {"convolution", convolution},
                                {"softmax", softmax},
                                {"norm", norm},
                                {"attention", attention}};
constexpr DType kFloats[] = {dtypes::Float64, dtypes::Float32, dtypes::Float16,     dtypes::BFloat16,
                             dtypes::Fp8e4m3, dtypes::Fp8e5m2, dtypes::Fp8e4m3fnuz, dtypes::Fp8e5m2fnuz};

std::vector<Array> run(Node kernel, std::vector<Array> arrays) {
  reference::EvalOptions options;
  options.max_ops = kAll;
  const reference::EvalReport report = reference::kernel_eval(kernel, views_of(arrays), {}, options);
  EXPECT_TRUE(report.ok());
  return arrays;
}

double ulp(DType d, double v) {
  const reference::Rounding& r = reference::rounding_of(d);
  const double size = std::fabs(v);
  if (!(size > 0) || !std::isfinite(size)) return 2 * r.tiny;
  return std::max(std::ldexp(2 * r.unit, std::ilogb(size)), 2 * r.tiny);
}

// The codes of a small float in the order of their values.
int code_order(const Array& array, std::int64_t i) {
  const int bits = static_cast<int>(array.data()[i]);
  return bits < 128 ? bits : -(bits - 128);
}

// Whether the mistake shows: some element is beyond its likely bound and two ulp, or two codes of an fp8 away
// from the right one.
bool shows(DType d, const Expected& expected, const Array& right, const Array& wrong) {
  for (const Sample& s : expected.report().samples) {
    if (s.open) continue;
    const double v = wrong.number(s.element), off = std::fabs(v - s.value.f);
    if (std::isnan(v) != std::isnan(s.value.f)) return true;
    if (d.bits() == 8 ? std::abs(code_order(right, s.element) - code_order(wrong, s.element)) >= 2
                      : off > s.likely + 2 * ulp(d, s.value.f))
      return true;
  }
  return false;
}

struct Mistake {
  std::string name;
  Array results;
};

std::vector<Mistake> mistakes(const Family& family, DType d, std::int64_t k, const std::vector<Array>& before,
                              const Expected& expected, const Array& right) {
  const std::int64_t columns = right.size() / kRows;
  auto changed = [&](auto change) {
    Array out = right;
    for (std::int64_t i = 0; i < out.size(); ++i)
      out.set(i, convert(d, dtypes::Float64, {0, change(i / columns, i % columns)}));
    return out;
  };
  auto at = [&](std::int64_t i, std::int64_t j) { return right.number(i * columns + j); };
  std::vector<Mistake> out;
  out.push_back({"zeros", changed([](auto, auto) { return 0.0; })});
  out.push_back({"signs", changed([&](auto i, auto j) { return -at(i, j); })});
  out.push_back({"rows", changed([&](auto i, auto j) { return at(i == 2 ? 5 : i == 5 ? 2 : i, j); })});
  if (columns == kRows) out.push_back({"transposed", changed([&](auto i, auto j) { return at(j, i); })});
  out.push_back({"stale", before[0]});
  out.push_back({"tile", changed([&](auto i, auto j) {
                   return i >= 4 && j >= columns / 2 ? before[0].number(i * columns + j) : at(i, j);
                 })});
  if (k > 1) {
    const std::int64_t used = k - std::max<std::int64_t>(k / 16, 1);
    out.push_back({"dropped", run(family.build(d, k, used), before)[0]});
  }
  for (std::size_t which : {std::size_t{0}, expected.report().samples.size() / 2}) {
    const Sample& s = expected.report().samples[which];
    const std::int64_t place = s.element;
    double moved = s.value.f + s.likely * 1.01 + 3 * ulp(d, s.value.f);
    Array one = right;
    one.set(place, convert(d, dtypes::Float64, {0, moved}));
    while (d.bits() == 8 && std::abs(code_order(right, place) - code_order(one, place)) < 2 &&
           std::isfinite(one.number(place))) {
      moved += ulp(d, s.value.f) / 4;
      one.set(place, convert(d, dtypes::Float64, {0, moved}));
    }
    out.push_back({fmt::format("one element, {}", place), one});
  }
  return out;
}

// All lengths for all dtypes take minutes: JUDGE_ALL=1.
bool is_quick(const Family& family, DType d, std::int64_t k) {
  static const bool all = std::getenv("JUDGE_ALL") != nullptr;
  const bool cheap = family.build == product || family.build == convolution;
  return all || k < 16384 || (cheap && (d == dtypes::Float32 || d == dtypes::BFloat16));
}

TEST(Judge, EveryMistakeThatShowsIsRefused) {
  Scope scope;
  std::map<std::string, int> refused;
  for (const Family& family : kFamilies)
    for (DType d : kFloats)
      for (std::int64_t k : {1, 2, 7, 64, 255, 1024, 16384}) {
        if (!is_quick(family, d, k)) continue;
        Scope inner;
        Node kernel = family.build(d, k, k);
        const std::string what = fmt::format("{} {} k {}", family.name, d.str(), k);
        const std::vector<Array> before = random_contents(kernel, static_cast<std::uint64_t>(k));
        const Expected expected(kernel, before, {}, kAll);
        ASSERT_FALSE(expected.report().incomplete) << what << ": " << expected.report().reason;
        const std::vector<Array> right = run(kernel, before);
        auto itself = [&] { return kernel; };
        const Judgement accepted = expected.judge(before, right, itself);
        EXPECT_EQ(accepted.failed, 0) << what << ": " << accepted.text();
        // Results around the smallest or largest numbers of a dtype say nothing.
        const double scale = verify::scale_of(expected.report().samples, 0, d);
        const reference::Rounding& r = reference::rounding_of(d);
        EXPECT_TRUE(accepted.unjudged == 0 || scale < 16 * r.tiny || scale > r.limit / 4) << what;
        for (const Mistake& mistake : mistakes(family, d, k, before, expected, right[0])) {
          if (!shows(d, expected, right[0], mistake.results)) continue;
          std::vector<Array> wrong = right;
          wrong[0] = mistake.results;
          const Judgement judged = expected.judge(before, wrong, itself);
          EXPECT_GT(judged.failed, 0) << what << ", " << mistake.name << ": " << judged.text();
          ++refused[mistake.name.substr(0, mistake.name.find(','))];
        }
      }
  for (const char* name : {"zeros", "signs", "rows", "transposed", "stale", "tile", "dropped", "one element"})
    EXPECT_GT(refused[name], 100) << name;
}

// The bound over the larger of the error seen and one ulp, by dtype and length of the sum: the table of
// docs/numerics.md.
TEST(Judge, TheTableOfBounds) {
  Scope scope;
  const std::int64_t lengths[] = {1, 2, 7, 64, 255, 1024, 16384};
  std::string table = "| dtype |";
  for (std::int64_t k : lengths) table += fmt::format(" k {} |", k);
  for (DType d : {dtypes::Float64, dtypes::Float32, dtypes::Float16, dtypes::BFloat16, dtypes::Fp8e4m3}) {
    table += fmt::format("\n| {} |", d.name());
    for (std::int64_t k : lengths) {
      Node kernel = product(d, k, k);
      const std::vector<Array> before = random_contents(kernel, static_cast<std::uint64_t>(k));
      const Expected expected(kernel, before, {}, kAll);
      const std::vector<Array> device = run(kernel, before);
      double sum = 0, count = 0;
      for (const Sample& s : expected.report().samples) {
        if (s.open) continue;
        const double error = std::fabs(device[0].number(s.element) - s.value.f);
        sum += s.likely / std::max(error, ulp(d, s.value.f));
        count += 1;
      }
      table += fmt::format(" {:.1f} |", sum / count);
      EXPECT_LT(sum / count, 1000) << d.str() << " k " << k;
    }
  }
  fmt::print("{}\n", table);
}

}  // namespace
}  // namespace lathe::test
