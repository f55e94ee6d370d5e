// The functions REF computes with, against the definition of each op.
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "base/error.h"
#include "helpers.h"
#include "reference/scalar.h"

namespace lathe::reference {
namespace {

constexpr Scalar kScalars[] = {
#define LATHE_DTYPE(name, ...) Scalar::name,
#include "ir/dtypes.def"
#undef LATHE_DTYPE
};

std::vector<Element> samples(DType d) {
  std::vector<Element> out;
  if (d.is_float()) {
    for (double v :
         {0.0, -0.0, 1.0, -1.5, 3.25, 1e-3, 200.0, double(INFINITY), -double(INFINITY), double(NAN)})
      out.push_back({0, round_to(d, v)});
  } else if (d.is_bool()) {
    out = {{0, 0}, {1, 0}};
  } else {
    for (std::int64_t v : {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, std::int64_t{7},
                           std::int64_t{-13}, std::int64_t{100}, d.min_int(), d.max_int()})
      out.push_back({wrap(d, v), 0});
  }
  return out;
}

bool same(DType d, Element a, Element b) {
  if (!d.is_float()) return a.i == b.i;
  return (std::isnan(a.f) && std::isnan(b.f)) ||
         std::bit_cast<std::uint64_t>(a.f) == std::bit_cast<std::uint64_t>(b.f);
}

TEST(ReferenceScalar, EveryOpOnEveryDtypeEqualsItsDefinition) {
  int compared = 0;
  for (Scalar scalar : kScalars) {
    DType d(scalar);
    if (scalar == Scalar::Void) continue;
    std::vector<Element> values = samples(d);
    for (int o = 0; o < kScalarOps; ++o) {
      Op op = static_cast<Op>(o);
      const OpInfo& row = info(op);
      if (op == Op::Where || !(d.is_bool() ? row.on_bool : d.is_float() ? row.on_float : row.on_int))
        continue;
      ScalarFn fn = scalar_function(op, d);
      DType result = row.result == ResultKind::Boolean ? dtypes::Bool : d;
      for (Element x : values)
        for (Element y : values)
          for (std::size_t k = 0; k < (row.args == 3 ? values.size() : 1); ++k) {
            Element z = values[k];
            Cell a = cell_of(d, x), b = cell_of(d, y), c = cell_of(d, z), out{};
            fn(&out, &a, &b, &c, 1);
            Element want = evaluate(op, d, x, y, z);
            ASSERT_TRUE(same(result, element_of_cell(result, out), want))
                << row.name << " on " << d.str() << " of " << x.i << "/" << x.f << " and " << y.i << "/"
                << y.f;
            ++compared;
          }
    }
  }
  EXPECT_GT(compared, 10000);
}

TEST(ReferenceScalar, AnOpOutsideItsDomainIsRefused) {
  EXPECT_THROW(scalar_function(Op::Sqrt, dtypes::Int32), InternalError);
  EXPECT_THROW(scalar_function(Op::Shl, dtypes::Float32), InternalError);
}

TEST(ReferenceScalar, LanesAreCombinedHalvesFirstOrOneAfterTheOther) {
  ScalarFn add = scalar_function(Op::Add, dtypes::Float32);
  auto combine = [&](std::vector<double> v) {
    std::vector<Cell> x(v.size()), scratch(v.size());
    for (std::size_t i = 0; i < v.size(); ++i) x[i].f = v[i];
    return reduce_lanes(add, x.data(), static_cast<int>(v.size()), scratch.data()).f;
  };
  // (1e8 + -1e8) + (1 + 1) in halves; ((1e8 + 1) - 1e8) loses the one when taken in order.
  EXPECT_EQ(combine({1e8, 1, -1e8, 1}), 2);
  EXPECT_EQ(combine({1e8, 1, -1e8}), 0);
}

TEST(ReferenceArray, EveryDtypeIsStoredInItsOwnWidth) {
  for (Scalar scalar : kScalars) {
    DType d(scalar);
    if (scalar == Scalar::Void) continue;
    std::vector<Element> values = samples(d);
    Array a(d, static_cast<std::int64_t>(values.size()));
    EXPECT_EQ(a.byte_count(), values.size() * static_cast<std::size_t>(d.bytes()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      a.set(static_cast<std::int64_t>(i), values[i]);
      EXPECT_TRUE(same(d, a.at(static_cast<std::int64_t>(i)), values[i])) << d.str() << " " << i;
    }
  }
}

}  // namespace
}  // namespace lathe::reference
