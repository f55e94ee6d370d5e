// Loads, stores, gates, gathers, loops, accumulators, lane order and threads, by both compilers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "codegen/lower/join_stores.h"
#include "codegen/lower/stream_stores.h"
#include "cpu/harness.h"
#include "ir/machine_ops.h"

namespace lathe::test {
namespace {

Node i64(std::int64_t v) { return int_const(dtypes::Int64, v); }
Node i32(std::int64_t v) { return int_const(dtypes::Int32, v); }

std::vector<float> counting(int n, float step = 1) {
  std::vector<float> out(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) out[static_cast<std::size_t>(i)] = static_cast<float>(i) * step;
  return out;
}

// A pointer far outside any buffer would fault: a false gate must keep it from being touched.
TEST(CpuMemory, AFalseScalarGateTouchesNothingAndGivesZero) {
  Scope scope;
  for (std::uint16_t lanes : {1, 4, 5})
    for (const auto& compiler : compilers()) {
      ProgramBuilder b("gated");
      Node out = b.buffer(dtypes::Float32, 40), in = b.buffer(dtypes::Float32, 10);
      Node r = b.loop(i64(8));
      Node at = r * i64(std::int64_t{1} << 40), gate = less(r, i64(1));
      b.add(store(out, r * i64(lanes), load(in, at, gate, lanes)));
      b.close();
      Bytes buffers[] = {bytes_of(std::vector<float>(40, 7.0f)), bytes_of(counting(10))};
      run(compiler->compile(b.take()), buffers);
      std::vector<float> got = values_of<float>(buffers[0]);
      for (int i = 0; i < 8 * lanes; ++i) EXPECT_EQ(got[i], i < lanes ? static_cast<float>(i) : 0.0f) << i;
    }
}

TEST(CpuMemory, AFalseScalarGateStoresNothing) {
  Scope scope;
  for (std::uint16_t lanes : {1, 3, 8})
    for (const auto& compiler : compilers()) {
      ProgramBuilder b("gated_store");
      Node out = b.buffer(dtypes::Int16, 64);
      Node r = b.loop(i64(8));
      Node gate = equal(apply(Op::TruncMod, r, i64(2)), i64(0));
      b.add(store(out, where(gate, r * i64(lanes), i64(std::int64_t{1} << 40)),
                  splat(int_const(dtypes::Int16, 5), lanes), gate));
      b.close();
      Bytes buffers[] = {bytes_of(std::vector<std::int16_t>(64, -1))};
      run(compiler->compile(b.take()), buffers);
      std::vector<std::int16_t> got = values_of<std::int16_t>(buffers[0]);
      for (int i = 0; i < 64; ++i) EXPECT_EQ(got[i], i < 8 * lanes && i / lanes % 2 == 0 ? 5 : -1) << i;
    }
}

// The buffer ends where memory ends: lanes beyond it must not be read or written.
TEST(CpuMemory, VectorGatesMaskEachLane) {
  Scope scope;
  for (DType dtype : {dtypes::Float32, dtypes::Float64, dtypes::Int8, dtypes::Bool, dtypes::Float16})
    for (std::uint16_t lanes : {4, 7, 16})
      for (const auto& compiler : compilers()) {
        constexpr int kSize = 27;
        ProgramBuilder b("masked");
        Node out = b.buffer(dtype, kSize), in = b.buffer(dtype, kSize);
        Node base = b.loop(i64((kSize + lanes - 1) / lanes)) * i64(lanes);
        Node at = splat(base, lanes) + iota(dtypes::Int64, lanes);
        Node gate = less(at, splat(i64(kSize), lanes));
        b.add(store(out, base, load(in, base, gate, lanes), gate));
        b.close();
        std::vector<Element> edge = edge_values(dtype), values;
        for (std::size_t i = 0; i < kSize; ++i) values.push_back(edge[i % edge.size()]);
        Bytes buffers[] = {Bytes(static_cast<std::size_t>(kSize * dtype.bytes())), elements(dtype, values)};
        run(compiler->compile(b.take()), buffers);
        EXPECT_EQ(buffers[0], buffers[1]) << dtype.name() << " " << lanes;
      }
}

TEST(CpuMemory, VectorIndicesGatherAndScatter) {
  Scope scope;
  for (DType dtype : {dtypes::Float32, dtypes::Int64, dtypes::UInt8, dtypes::Bool})
    for (DType index : {dtypes::Int32, dtypes::Int64})
      for (std::uint16_t lanes : {2, 3, 8})
        for (const auto& compiler : compilers()) {
          constexpr int kSize = 24;
          ProgramBuilder b("reverse");
          Node out = b.buffer(dtype, kSize), in = b.buffer(dtype, kSize);
          Node base = b.loop(int_const(index, kSize / lanes), index) * int_const(index, lanes);
          Node at = splat(base, lanes) + iota(index, lanes);
          Node back = apply(Op::Sub, splat(int_const(index, kSize - 1), lanes), at);
          // Even elements through a gather, odd ones through a gated one; all through a scatter.
          Node gate =
              equal(apply(Op::And, at, splat(int_const(index, 1), lanes)), splat(int_const(index, 0), lanes));
          Node even = load(in, back), odd = load(in, back, logical_not(gate));
          b.add(store(out, at, where(gate, even, odd), gate));
          b.add(store(out, at, odd, logical_not(gate)));
          b.close();
          std::vector<Element> edge = edge_values(dtype), values;
          for (std::size_t i = 0; i < kSize; ++i) values.push_back(edge[(i * i + i / 3) % edge.size()]);
          Bytes buffers[] = {Bytes(static_cast<std::size_t>(kSize * dtype.bytes())), elements(dtype, values)};
          std::reverse(values.begin(), values.end());
          run(compiler->compile(b.take()), buffers);
          EXPECT_EQ(buffers[0], elements(dtype, values)) << dtype.name() << " " << lanes;
        }
}

TEST(CpuMemory, ABoolIsOneByteAndAnyByteButZeroIsTrue) {
  Scope scope;
  for (std::uint16_t lanes : {1, 4})
    for (const auto& compiler : compilers()) {
      ProgramBuilder b("flags");
      Node out = b.buffer(dtypes::Bool, 4), in = b.buffer(dtypes::Bool, 4);
      Node i = b.loop(i64(4 / lanes)) * i64(lanes);
      b.add(store(out, i, load(in, i, Node(), lanes)));
      b.close();
      Bytes buffers[] = {Bytes(4), bytes_of(std::vector<std::uint8_t>{0, 1, 2, 255})};
      run(compiler->compile(b.take()), buffers);
      EXPECT_EQ(values_of<std::uint8_t>(buffers[0]), (std::vector<std::uint8_t>{0, 1, 1, 1}));
    }
}

struct ReduceCase {
  std::uint16_t lanes;
  Op op;
  DType dtype;
};

std::vector<Element> reduce_input(const ReduceCase& c) {
  std::vector<Element> values;
  for (int i = 0; i < c.lanes; ++i)
    values.push_back(c.dtype.is_float() ? Element{0, round_to(c.dtype, (i % 3 - 1) * 1e8 + i * 0.3)}
                                        : Element{wrap(c.dtype, i * 37 + 5), 0});
  return values;
}

Element reduce_in_order(const ReduceCase& c, std::vector<Element> left) {
  bool halves = (c.lanes & (c.lanes - 1)) == 0;
  while (left.size() > 1) {
    std::size_t n = left.size() / 2;
    if (halves) {
      for (std::size_t i = 0; i < n; ++i) left[i] = evaluate(c.op, c.dtype, left[i], left[i + n]);
      left.resize(n);
    } else {
      left[1] = evaluate(c.op, c.dtype, left[0], left[1]);
      left.erase(left.begin());
    }
  }
  return left[0];
}

// Large and small terms of both signs: the result tells the order of the additions.
TEST(CpuMemory, LanesAreReducedInHalvesOrOneByOne) {
  Scope scope;
  std::vector<ReduceCase> cases;
  std::vector<Program> programs;
  for (std::uint16_t lanes : {2, 3, 4, 7, 8, 16, 32})
    for (Op op : {Op::Add, Op::Mul, Op::Max, Op::Min})
      for (DType dtype : {dtypes::Float32, dtypes::BFloat16, dtypes::Int8, dtypes::Bool}) {
        ProgramBuilder b("reduce" + std::to_string(cases.size()));
        Node out = b.buffer(dtype, 1), in = b.buffer(dtype, lanes);
        b.add(store(out, i64(0), hreduce(op, load(in, i64(0), Node(), lanes))));
        cases.push_back({lanes, op, dtype});
        programs.push_back(b.take());
      }
  for (const auto& compiler : compilers()) {
    std::vector<Binary> binaries = compiler->compile_all(programs);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const ReduceCase& c = cases[i];
      std::vector<Element> values = reduce_input(c);
      Bytes buffers[] = {Bytes(static_cast<std::size_t>(c.dtype.bytes())), elements(c.dtype, values)};
      run(binaries[i], buffers);
      Element want = reduce_in_order(c, values), got = read_element(c.dtype, buffers[0].data());
      EXPECT_TRUE(same(c.dtype, want, got))
          << info(c.op).name << " " << c.dtype.name() << " x" << c.lanes << ": " << text_of(c.dtype, got)
          << " for " << text_of(c.dtype, want);
    }
  }
}

TEST(CpuMemory, VectorsAreBuiltAndTakenApart) {
  Scope scope;
  for (const auto& compiler : compilers()) {
    ProgramBuilder b("swap");
    Node out = b.buffer(dtypes::Float32, 3), in = b.buffer(dtypes::Float32, 3);
    Node v = load(in, i64(0), Node(), 3);
    Node parts[] = {lane(v, 2), lane(v, 0), lane(v, 1)};
    b.add(store(out, i64(0), vec(parts)));
    Bytes buffers[] = {Bytes(12), bytes_of(std::vector<float>{1, 2, 3})};
    run(compiler->compile(b.take()), buffers);
    EXPECT_EQ(values_of<float>(buffers[0]), (std::vector<float>{3, 1, 2}));
  }
}

// acc = 0; for k: acc += in[k*4 ..]; out = acc: what codegen makes of a sum with UPCAST.
Program accumulate(std::uint16_t lanes, std::int64_t rows, DType dtype) {
  ProgramBuilder b("sum");
  Node out = b.buffer(dtype, lanes), in = b.buffer(dtype, rows * lanes);
  Node acc = define(dtype.vec(lanes), 0, 1, Space::Register);
  Node start = b.add(store(acc, i64(0), splat(zero_of(dtype), lanes)));
  Node k = b.loop(i64(rows));
  Node inside[] = {start, k};
  Node before = load(after(acc, inside), i64(0), Node(), lanes);
  Node step = b.add(store(acc, i64(0), before + load(in, k * i64(lanes), Node(), lanes)));
  b.close();
  Node done[] = {step};
  b.add(store(out, i64(0), load(after(acc, done), i64(0), Node(), lanes)));
  return b.take();
}

TEST(CpuMemory, AccumulatorsOfEveryKindLiveAcrossALoop) {
  Scope scope;
  constexpr int kRows = 50;
  for (DType dtype :
       {dtypes::Float32, dtypes::Float16, dtypes::Fp8e5m2, dtypes::Int8, dtypes::UInt64, dtypes::Bool})
    for (std::uint16_t lanes : {1, 3, 8}) {
      std::vector<Element> in, want(lanes);
      for (int i = 0; i < kRows * lanes; ++i)
        in.push_back(convert(dtype, dtypes::Float64, {0, dtype.is_bool() ? i % 31 == 5 : i * 0.37}));
      for (std::size_t i = 0; i < in.size(); ++i)
        want[i % lanes] = evaluate(Op::Add, dtype, want[i % lanes], in[i]);
      for (const auto& compiler : compilers()) {
        Bytes buffers[] = {Bytes(static_cast<std::size_t>(lanes * dtype.bytes())), elements(dtype, in)};
        Binary binary = compiler->compile(accumulate(lanes, kRows, dtype));
        run(binary, buffers);
        EXPECT_EQ(buffers[0], elements(dtype, want)) << dtype.name() << " x" << lanes << "\n"
                                                     << binary.source;
      }
    }
}

// Which of two zeros a maximum takes is not promised, but both compilers take the same, and NaN is passed on.
TEST(CpuMemory, MaximaOfZerosWithSignsHaveTheSameBitsByBothCompilers) {
  Scope scope;
  const float nan = std::nanf("");
  for (std::uint16_t lanes : {1, 8})
    for (Op op : {Op::Max, Op::Min})
      for (const auto& [first, second] : {std::pair(0.0f, -0.0f), {-0.0f, 0.0f}, {nan, 1.0f}, {1.0f, nan}}) {
        ProgramBuilder b("zeros");
        Node out = b.buffer(dtypes::Float32, 2 * lanes), in = b.buffer(dtypes::Float32, 2);
        Node acc = define(dtypes::Float32.vec(lanes), 0, 1, Space::Register);
        Node start = b.add(store(acc, i64(0), splat(load(in, i64(0)), lanes)));
        Node k = b.loop(i64(1)), inside[] = {start, k};
        Node x = splat(load(in, i64(1)), lanes);
        Node step = b.add(store(acc, i64(0), apply(op, load(after(acc, inside), i64(0), Node(), lanes), x)));
        b.close();
        Node done[] = {step};
        b.add(store(out, i64(0), load(after(acc, done), i64(0), Node(), lanes)));
        b.add(store(out, i64(lanes), apply(op, x, splat(float_const(dtypes::Float32, 0), lanes))));
        const Program program = b.take();
        std::vector<Bytes> results;
        for (const auto& compiler : compilers()) {
          Bytes buffers[] = {Bytes(static_cast<std::size_t>(8 * lanes)), bytes_of<float>({first, second})};
          run(compiler->compile(program), buffers);
          EXPECT_EQ(std::isnan(values_of<float>(buffers[0])[0]), std::isnan(first + second));
          results.push_back(buffers[0]);
        }
        for (const Bytes& result : results) EXPECT_EQ(result, results[0]) << first << " " << second;
      }
}

// Small arrays are on the stack, large ones in scratch memory; both are filled and read back reversed.
TEST(CpuMemory, ArraysInsideAKernelOfAnySize) {
  Scope scope;
  for (std::int64_t size : {100, 100'000, 3'000'000})
    for (const auto& compiler : compilers()) {
      ProgramBuilder b("panel");
      Node out = b.buffer(dtypes::Int32, size);
      Node panel = define(dtypes::Int32, 0, size, Space::Shared);
      Node i = b.loop(i64(size));
      Node fill = b.add(store(panel, i, cast(i, dtypes::Int32)));
      b.close();
      Node j = b.loop(i64(size));
      Node filled[] = {fill};
      b.add(store(out, j, load(after(panel, filled), apply(Op::Sub, i64(size - 1), j))));
      b.close();
      Bytes buffers[] = {Bytes(static_cast<std::size_t>(size) * 4)};
      run(compiler->compile(b.take()), buffers);
      std::vector<std::int32_t> want(static_cast<std::size_t>(size));
      std::iota(want.rbegin(), want.rend(), 0);
      EXPECT_EQ(values_of<std::int32_t>(buffers[0]), want) << size;
    }
}

TEST(CpuMemory, LoopsOfVariableLengthMayBeEmpty) {
  Scope scope;
  for (const auto& compiler : compilers())
    for (DType dtype : {dtypes::Int32, dtypes::Int64}) {
      ProgramBuilder b("fill");
      Node out = b.buffer(dtypes::Int32, 10);
      Node n = b.variable("n", 0, 10);
      if (dtype == dtypes::Int32) n = cast(n, dtype);
      Node i = b.loop(n, dtype);
      b.add(store(out, i, i32(9)));
      b.close();
      Binary binary = compiler->compile(b.take());
      for (std::int64_t n_value : {0, 1, 7, 10}) {
        Bytes buffers[] = {Bytes(40)};
        run(binary, buffers, {{n_value}});
        std::vector<std::int32_t> want(10);
        std::fill_n(want.begin(), n_value, 9);
        EXPECT_EQ(values_of<std::int32_t>(buffers[0]), want);
      }
    }
}

TEST(CpuMemory, BlocksUnderAConditionRunOnlyWhereItHolds) {
  Scope scope;
  for (const auto& compiler : compilers()) {
    ProgramBuilder b("some");
    Node out = b.buffer(dtypes::Float64, 9);
    Node i = b.loop(i64(9));
    b.when(less(i64(4), i));
    b.add(store(out, i, cast(i, dtypes::Float64) * float_const(dtypes::Float64, 0.5)));
    b.close();
    b.close();
    Bytes buffers[] = {bytes_of(std::vector<double>(9, -1))};
    run(compiler->compile(b.take()), buffers);
    EXPECT_EQ(values_of<double>(buffers[0]), (std::vector<double>{-1, -1, -1, -1, -1, 2.5, 3, 3.5, 4}));
  }
}

// acc = 1; n times: acc = acc * 3; where n > 4: acc = acc + 100, under an If and then under a gate; out =
// acc.
TEST(CpuMemory, ARegisterKeepsItsValuePastBlocksThatDoNotRun) {
  Scope scope;
  ProgramBuilder b("keeps");
  Node out = b.buffer(dtypes::Int64, 2), n = b.variable("n", 0, 10);
  Node outer = b.loop(i64(2));
  Node acc = define(dtypes::Int64, 0, 1, Space::Register);
  const auto now = [&](Node effect) {
    Node effects[] = {effect};
    return load(after(acc, effects), i64(0));
  };
  Node start = b.add(store(acc, i64(0), i64(1) + outer));
  b.loop(n);
  Node step = b.add(store(acc, i64(0), now(start) * i64(3)));
  b.close();
  b.when(less(i64(4), n));
  Node more = b.add(store(acc, i64(0), now(step) + i64(100)));
  b.close();
  Node gated = b.add(store(acc, i64(0), now(more) + i64(100), less(i64(4), n)));
  b.add(store(out, outer, now(gated)));
  b.close();
  const Program program = b.take();
  for (const auto& compiler : compilers()) {
    Binary binary = compiler->compile(program);
    for (std::int64_t count : {0, 1, 4, 5}) {
      Bytes buffers[] = {Bytes(16)};
      run(binary, buffers, {{count}});
      const auto want = [&](std::int64_t acc) {
        for (std::int64_t i = 0; i < count; ++i) acc *= 3;
        return count > 4 ? acc + 200 : acc;
      };
      EXPECT_EQ(values_of<std::int64_t>(buffers[0]), (std::vector<std::int64_t>{want(1), want(2)}))
          << count << "\n"
          << binary.source;
    }
  }
}

// Lanes apart under one scalar gate: a branch, or a mask where the machine has one.
TEST(CpuMemory, AFalseScalarGateScattersNothing) {
  Scope scope;
  for (DType dtype : {dtypes::Float32, dtypes::Int64, dtypes::UInt8})
    for (const auto& compiler : compilers()) {
      constexpr int kLanes = 8;
      ProgramBuilder b("scatter");
      Node out = b.buffer(dtype, 2 * kLanes * kLanes);
      Node r = b.loop(i64(kLanes));
      Node at = splat(r, kLanes) + iota(dtypes::Int64, kLanes) * splat(i64(2 * kLanes), kLanes);
      b.add(store(out, at, splat(number(dtype, 3), kLanes), less(r, i64(3))));
      b.close();
      Bytes buffers[] = {Bytes(static_cast<std::size_t>(2 * kLanes * kLanes * dtype.bytes()))};
      run(compiler->compile(b.take()), buffers);
      std::vector<Element> want;
      for (int i = 0; i < 2 * kLanes * kLanes; ++i)
        want.push_back(convert(dtype, dtypes::Int64, {i % (2 * kLanes) < 3 ? 3 : 0, 0}));
      EXPECT_EQ(buffers[0], elements(dtype, want)) << dtype.name();
    }
}

// The same for reads: 0 where the gate is false, and nothing is touched there.
TEST(CpuMemory, AFalseScalarGateGathersZeros) {
  Scope scope;
  for (DType dtype : {dtypes::Float32, dtypes::Int64, dtypes::UInt8, dtypes::Bool})
    for (bool constant : {true, false})
      for (const auto& compiler : compilers()) {
        constexpr int kLanes = 8, kRows = 4;
        ProgramBuilder b("gather");
        Node out = b.buffer(dtype, kRows * kLanes), in = b.buffer(dtype, 2 * kLanes);
        Node lanes = iota(dtypes::Int64, kLanes), two = splat(i64(2), kLanes);
        if (!constant) {
          Node places = b.buffer(dtypes::Int64, kLanes);
          lanes = load(places, i64(0), Node(), kLanes);
        }
        Node r = b.loop(i64(kRows)), gate = less(r, i64(2));
        Node at = splat(where(gate, r, i64(std::int64_t{1} << 40)), kLanes) + lanes * two;
        b.add(store(out, r * i64(kLanes), load(in, at, gate)));
        b.close();
        std::vector<Element> values, want;
        for (int i = 0; i < 2 * kLanes; ++i) values.push_back(convert(dtype, dtypes::Int64, {i + 1, 0}));
        for (int i = 0; i < kRows * kLanes; ++i)
          want.push_back(i / kLanes < 2 ? values[static_cast<std::size_t>(i / kLanes + i % kLanes * 2)]
                                        : convert(dtype, dtypes::Int64, {0, 0}));
        std::vector<Bytes> buffers = {Bytes(static_cast<std::size_t>(kRows * kLanes * dtype.bytes())),
                                      elements(dtype, values)};
        std::vector<std::int64_t> places(kLanes);
        std::iota(places.begin(), places.end(), 0);
        if (!constant) buffers.push_back(bytes_of(places));
        run(compiler->compile(b.take()), buffers);
        EXPECT_EQ(buffers[0], elements(dtype, want)) << dtype.name() << " " << constant;
      }
}

// Stores under two gates in turn: those to other places may share branches, and the last one to a place wins.
TEST(CpuMemory, StoresUnderSeveralGatesKeepTheirOrderWhereTheyMeet) {
  Scope scope;
  for (const auto& compiler : compilers()) {
    ProgramBuilder b("order");
    Node out = b.buffer(dtypes::Int32, 64);
    Node r = b.loop(i64(4)), base = r * i64(16), low = less(r, i64(3)), high = less(i64(0), r);
    b.add(store(out, base, splat(i32(1), 4), low));
    b.add(store(out, base + i64(4), splat(i32(2), 4), high));
    b.add(store(out, base + i64(8), splat(i32(3), 4), low));
    b.add(store(out, base + i64(10), splat(i32(4), 4), high));
    b.add(store(out, base + i64(3), splat(i32(5), 4), low));
    b.close();
    Bytes buffers[] = {Bytes(64 * 4)};
    run(compiler->compile(b.take()), buffers);
    std::vector<std::int32_t> want(64);
    for (std::size_t k = 0; k < 4; ++k) {
      const auto put = [&](std::size_t at, bool open, std::int32_t x) {
        if (open) std::fill_n(want.begin() + static_cast<std::ptrdiff_t>(16 * k + at), 4, x);
      };
      put(0, k < 3, 1), put(4, k > 0, 2), put(8, k < 3, 3), put(10, k > 0, 4), put(3, k < 3, 5);
    }
    EXPECT_EQ(values_of<std::int32_t>(buffers[0]), want);
  }
}

TEST(CpuMemory, PartsOfALaunchRunOnceEach) {
  Scope scope;
  for (const auto& compiler : compilers())
    for (DType dtype : {dtypes::Int32, dtypes::Int64}) {
      constexpr int kParts = 37, kEach = 100;
      ProgramBuilder b("parts");
      Node out = b.buffer(dtypes::Int32, kParts * kEach);
      Node t = b.add(special("t", kParts, dtype));
      Node i = b.loop(int_const(dtype, kEach), dtype);
      Node at = t * int_const(dtype, kEach) + i;
      b.add(store(out, at, load(out, at) + cast(at, dtypes::Int32)));
      b.close();
      Bytes buffers[] = {Bytes(kParts * kEach * 4)};
      run(compiler->compile(b.take()), buffers, {}, kParts);
      std::vector<std::int32_t> want(kParts * kEach);
      std::iota(want.begin(), want.end(), 0);
      EXPECT_EQ(values_of<std::int32_t>(buffers[0]), want);
    }
}

// Places are counted modulo the length of a table, below 0 too.
TEST(CpuMemory, NumbersOfATableAreTheSameByBothCompilers) {
  Scope scope;
  for (const std::vector<std::int64_t>& numbers : {std::vector<std::int64_t>{5, -7, 11}, {1, 2, 4, -8}})
    for (DType index : {dtypes::Int32, dtypes::Int64}) {
      ProgramBuilder b("table");
      Node out = b.buffer(dtypes::Int64, 40);
      Node i = b.loop(int_const(index, 20), index);
      Node below = table(dtypes::Int64, numbers, i + int_const(index, -9));
      const auto size = static_cast<std::int64_t>(numbers.size());
      Node inside = table(dtypes::Int64, numbers, apply(Op::Min, i, int_const(index, size - 1)));
      b.add(store(out, i, below));
      b.add(store(out, i + int_const(index, 20), inside));
      b.close();
      Program program = b.take();
      std::vector<std::int64_t> want(40);
      for (std::int64_t at = 0; at < 20; ++at) {
        want[static_cast<std::size_t>(at)] =
            numbers[static_cast<std::size_t>(((at - 9) % size + size) % size)];
        want[static_cast<std::size_t>(at + 20)] = numbers[static_cast<std::size_t>(std::min(at, size - 1))];
      }
      for (const auto& compiler : compilers()) {
        Bytes buffers[] = {Bytes(want.size() * 8)};
        run(compiler->compile(program), buffers);
        EXPECT_EQ(values_of<std::int64_t>(buffers[0]), want) << compiler->version();
      }
    }
}

// A matrix product as codegen tiles it, on random sizes of the vector: the two printers agree to the bit.
TEST(CpuMemory, AFusedMultiplyAddTileIsBitEqualByBothCompilers) {
  Scope scope;
  constexpr int kM = 5, kK = 64;
  for (std::uint16_t lanes : {4, 16}) {
    ProgramBuilder b("tile");
    Node out = b.buffer(dtypes::Float32, kM * lanes), x = b.buffer(dtypes::Float32, kM * kK),
         y = b.buffer(dtypes::Float32, kK * lanes);
    std::vector<Node> acc, start;
    for (int m = 0; m < kM; ++m) {
      acc.push_back(define(dtypes::Float32.vec(lanes), m, 1, Space::Register));
      start.push_back(b.add(store(acc.back(), i64(0), splat(float_const(dtypes::Float32, 0), lanes))));
    }
    Node k = b.loop(i64(kK));
    std::vector<Node> step;
    for (int m = 0; m < kM; ++m) {
      Node inside[] = {start[static_cast<std::size_t>(m)], k};
      Node sum =
          apply(Op::Fma, splat(load(x, k + i64(m * kK)), lanes), load(y, k * i64(lanes), Node(), lanes),
                load(after(acc[static_cast<std::size_t>(m)], inside), i64(0), Node(), lanes));
      step.push_back(b.add(store(acc[static_cast<std::size_t>(m)], i64(0), sum)));
    }
    b.close();
    for (int m = 0; m < kM; ++m) {
      Node done[] = {step[static_cast<std::size_t>(m)]};
      b.add(store(out, i64(m * lanes),
                  load(after(acc[static_cast<std::size_t>(m)], done), i64(0), Node(), lanes)));
    }
    Program program = b.take();
    std::vector<float> left = counting(kM * kK, 0.013f), right = counting(kK * lanes, -0.7f);
    std::vector<float> want(kM * lanes);
    for (int m = 0; m < kM; ++m)
      for (int i = 0; i < lanes; ++i)
        for (int j = 0; j < kK; ++j)
          want[m * lanes + i] = std::fma(left[m * kK + j], right[j * lanes + i], want[m * lanes + i]);
    for (const auto& compiler : compilers()) {
      Bytes buffers[] = {Bytes(want.size() * 4), bytes_of(left), bytes_of(right)};
      run(compiler->compile(program), buffers);
      EXPECT_EQ(values_of<float>(buffers[0]), want);
    }
  }
}

// A result larger than the last cache is stored past it, which needs whole aligned lines: memory that begins
// elsewhere gets ordinary stores.
TEST(CpuMemory, StoresPastTheCachesWriteWhatOthersDoWhereverTheMemoryBegins) {
  SKIP_WITHOUT_LLVM();
  Scope scope;
  constexpr std::int64_t kSize = 4096;
  Target target = backends::host_target();
  target.l3 = 1024;
  const int lanes = target.vector_bytes / 4;
  ProgramBuilder b("copy");
  Node x = b.buffer(dtypes::Float32, kSize), out = b.buffer(dtypes::Float32, kSize);
  Node i = b.loop(int_const(dtypes::Int64, kSize / 64));
  for (std::int64_t at = 0; at < 64; at += lanes) {
    Node index = i * int_const(dtypes::Int64, 64) + int_const(dtypes::Int64, at);
    b.add(store(out, index, load(x, index, Node(), lanes)));
  }
  b.close();
  Program program = b.take();
  program.params[1].reads = false;
  program = join_stores(stream_stores(std::move(program), target), target);
  const Binary binary = backends::make_llvm_compiler(target)->compile(program);
  EXPECT_NE(binary.source.find("!nontemporal"), std::string::npos) << binary.source;

  std::unique_ptr<Device> device = backends::open_cpu_device(0);
  std::unique_ptr<Kernel> kernel = device->load(binary);
  std::vector<float> from(kSize);
  for (std::size_t k = 0; k < from.size(); ++k) from[k] = static_cast<float>(k) * 0.5f;
  for (std::size_t offset : {0, 4, 32}) {
    Memory memory = device->alloc(kSize * 4 + 64);
    std::memset(memory.host, 0, memory.bytes);
    const Arg args[] = {{Arg::Kind::Span, {{0, kSize * 4, from.data()}, 0, kSize * 4}, 0},
                        {Arg::Kind::Span, {memory, offset, kSize * 4}, 0}};
    device->wait(device->launch(0, *kernel, Grid(), args, {}));
    EXPECT_EQ(std::memcmp(static_cast<char*>(memory.host) + offset, from.data(), kSize * 4), 0) << offset;
    const auto* end = static_cast<const char*>(memory.host) + offset + kSize * 4;
    EXPECT_EQ(*end, 0) << "something behind the end was written, with offset " << offset;
    device->free(memory);
  }
}

}  // namespace
}  // namespace lathe::test
