// A program of several computations and the one they are joined into do the same.
#include <gtest/gtest.h>

#include "capture/ramp.h"
#include "capture/trace.h"

namespace lathe {
namespace {

// Traces the function, and replays it as it is and joined over other arguments: both must give what the
// function gives, time after time.
class JoinTest : public testing::Test {
 protected:
  using Function = std::function<Tensors(const Tensors&)>;

  void expect_joined(const Function& f, const std::function<Tensors(int)>& arguments,
                     std::size_t computations, std::size_t after) {
    const capture::CallArguments first = capture::call_arguments(arguments(0), {});
    capture::Trace trace = capture::trace(first, [&] { return f(first.tensors); }, false);
    ASSERT_EQ(trace.problem, "");
    trace.outputs.clear();
    ASSERT_EQ(trace.program.computations.size(), computations);
    const capture::Captured traced = trace.program, joined = capture::joined(traced);
    ASSERT_EQ(joined.computations.size(), after);
    EXPECT_EQ(joined.written_states(), traced.written_states());
    for (int call = 1; call < 4; ++call) {
      const Tensors want = f(arguments(call));
      for (const capture::Captured* program : {&traced, &joined}) {
        const Tensors got = replayed(*program, arguments(call));
        ASSERT_EQ(got.size(), want.size());
        for (std::size_t i = 0; i < want.size(); ++i) {
          EXPECT_EQ(got[i].shape(), want[i].shape());
          EXPECT_EQ(got[i].tolist(), want[i].tolist())
              << (program == &joined ? "joined" : "as traced") << ", call " << call << ", output " << i;
        }
      }
    }
  }

 private:
  static Tensors replayed(const capture::Captured& program, const Tensors& inputs) {
    const Scope scope;
    const capture::CallArguments given = capture::call_arguments(inputs, {});
    std::vector<Node> buffers(given.buffers.begin(), given.buffers.end());
    Tensors out;
    const std::vector<NodeRef> values = capture::replay(program, buffers, given.bound);
    for (std::size_t i = 0; i < values.size(); ++i)
      out.push_back(make_tensor(values[i], program.outputs[i].device));
    return out;
  }
};

Tensor done(Tensor t) {
  t.realize();
  return t;
}

TEST_F(JoinTest, WhatPassesFromOneToTheNextIsReadThere) {
  expect_joined(
      [](const Tensors& in) -> Tensors {
        Tensor a = done(in[0] * 2), b = done(a.sum() + a);
        return {done(b * a), a};
      },
      [](int call) -> Tensors { return {ramp(5, call)}; }, 3, 1);
}

TEST_F(JoinTest, AResultThatIsAssignedToLaterIsOneBuffer) {
  expect_joined(
      [](const Tensors& in) -> Tensors {
        Tensor a = done((in[0] * 2).contiguous());
        Tensor before = done(a + 0.5);
        a.assign(a + in[0]);
        a.realize();
        Tensor part = a.shrink({{1, 3}});
        part.assign(part * 10);
        return {done(a + 1), before, a};
      },
      [](int call) -> Tensors { return {ramp(4, call)}; }, 4, 1);
}

TEST_F(JoinTest, AnEmptyResultOnTheWayIsNoTrouble) {
  expect_joined(
      [](const Tensors& in) -> Tensors {
        Tensor none = done(in[0].shrink({{2, 2}}) * 3);
        Tensor all = done(none.cat({in[0]}) + 1);
        return {all, none, done(none.sum() + all.sum())};
      },
      [](int call) -> Tensors { return {ramp(4, call)}; }, 3, 1);
}

TEST_F(JoinTest, ComputationsOnTwoDevicesAreJoined) {
  expect_joined(
      [](const Tensors& in) -> Tensors {
        Tensor there = done(in[0].to("REF") * 2);
        Tensor more = done(there + 1);
        return {done(more.to("CPU") * in[0]), more};
      },
      [](int call) -> Tensors { return {ramp(4, call)}; }, 3, 1);
}

TEST_F(JoinTest, AVariableBoundToTwoValuesKeepsThemApart) {
  const Variable n("n", 1, 8);
  expect_joined(
      [&](const Tensors& in) -> Tensors {
        Tensor few = done(in[0].shrink({{0, n.bind(2)}}).sum());
        Tensor more = done(in[0].shrink({{0, n.bind(5)}}).sum());
        return {few, more, done(few * more)};
      },
      [](int call) -> Tensors { return {ramp(8, call)}; }, 3, 3);
}

TEST_F(JoinTest, AVariableBoundToOneValueIsBoundOnce) {
  const Variable n("n", 1, 8);
  expect_joined(
      [&](const Tensors& in) -> Tensors {
        Tensor sum = done(in[0].shrink({{0, n.bind(3)}}).sum());
        return {sum, done(in[0].shrink({{0, n.bind(3)}}).max() + sum)};
      },
      [](int call) -> Tensors { return {ramp(8, call)}; }, 2, 1);
}

TEST_F(JoinTest, MemoryTheCallMakesIsSharedByWhatUsesIt) {
  expect_joined(
      [](const Tensors& in) -> Tensors {
        Tensor made = Tensor::empty({4});
        made.shrink({{0, 2}}).assign(in[0]);
        made.realize();
        made.shrink({{2, 4}}).assign(in[0] + 10);
        made.realize();
        return {made};
      },
      [](int call) -> Tensors { return {ramp(2, call)}; }, 2, 1);
}

TEST_F(JoinTest, StateIsWrittenOnceACall) {
  Tensor state = done(Tensor::zeros({3}).contiguous());
  const capture::CallArguments given = capture::call_arguments({ramp(3, 1)}, {});
  capture::Trace trace = capture::trace(
      given,
      [&]() -> Tensors {
        state.assign(state + given.tensors[0]);
        state.realize();
        return {done(state * 2)};
      },
      false);
  const capture::Captured joined = capture::joined(trace.program);
  ASSERT_EQ(joined.computations.size(), 1u);
  EXPECT_EQ(joined.written_states().size(), 1u);
  std::vector<Node> buffers(given.buffers.begin(), given.buffers.end());
  for (int call = 2; call < 5; ++call) {
    capture::replay(joined, buffers, {});
    EXPECT_EQ(state.tolist(), (std::vector<double>{1.0 * call, 2.0 * call, 3.0 * call}));
  }
}

}  // namespace
}  // namespace lathe
