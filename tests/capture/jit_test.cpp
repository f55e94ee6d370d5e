// A captured call equals the plain call, or is a JitError.
#include "lathe/jit.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/env.h"
#include "capture/ramp.h"
#include "engine/engine.h"
#include "runtime/executor.h"

namespace lathe {
namespace {

std::string message(const std::function<void()>& action) {
  try {
    action();
  } catch (const JitError& error) {
    return error.what();
  }
  return "no JitError";
}
void expect_message(const std::function<void()>& action, const std::string& part) {
  const std::string text = message(action);
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Jit, AReplayGivesWhatTheFunctionGives) {
  auto f = jit([](const Tensors& in) -> Tensors { return {in[0] * 2 + in[1], in[0].sum()}; });
  for (int i = 0; i < 5; ++i) {
    Tensors out = f({ramp(5, i), ramp(5, 10 * i)});
    for (int k = 0; k < 5; ++k)
      EXPECT_EQ(out[0].data<float>()[static_cast<std::size_t>(k)], 2.f * (i + k) + 10 * i + k);
    EXPECT_EQ(out[1].item(), 5 * i + 10);
    EXPECT_EQ(f.captured(), i >= 1);
  }
}

TEST(Jit, WithoutCapturesTheFunctionRunsAtEveryCall) {
  int calls = 0;
  auto f = jit([&](const Tensors& in) -> Tensors {
    ++calls;
    return {in[0] * 2 + calls};
  });
  const FlagScope plain(Flag::Capture, "0");
  for (int i = 1; i <= 5; ++i) {
    EXPECT_EQ(f({ramp(3, i)})[0].data<float>()[1], 2.f * (i + 1) + i);
    EXPECT_EQ(calls, i);
    EXPECT_FALSE(f.captured());
  }
}

TEST(Jit, AReplayNeitherSchedulesNorCompiles) {
  auto f = jit([](const Tensors& in) -> Tensors { return {(in[0] * 3).sum() + in[0].max()}; });
  for (int i = 0; i < 2; ++i) f({ramp(7, i)});
  engine::reset_counters();
  EXPECT_EQ(f({ramp(7, 5)})[0].item(), 3 * (5 * 7 + 21) + 11);
  EXPECT_EQ(engine::counters().schedules, 0u);
  EXPECT_EQ(engine::counters().compiles, 0u);
  EXPECT_EQ(engine::counters().kernels, f.kernels());
}

// Three kernels, since what is turned round cannot be part of the kernel that reads it.
TEST(Jit, ARepeatedReplayIsGivenToItsDeviceAsOneList) {
  auto f = jit([](const Tensors& in) -> Tensors {
    Tensor x = (in[0].flip({0}) + 1).contiguous();
    x = (x.flip({0}) * in[1]).contiguous();
    return {(x.flip({0}) + 1).contiguous()};
  });
  Tensors held;
  for (int i = 0; i < 8; ++i) {
    executor().set_log(true);
    const Tensor x = ramp(5, i).to("REF").realize(), y = ramp(5, 2 * i).to("REF").realize();
    executor().synchronize();
    executor().take_log();
    Tensors out = f({x, y});
    const std::vector<float> values = out[0].data<float>();
    std::vector<std::string> works;
    for (const WorkRecord& work : executor().take_log())
      if (!work.host_wait && work.name != "copy") works.push_back(work.name);
    executor().set_log(false);
    for (int k = 0; k < 5; ++k)
      EXPECT_EQ(values[static_cast<std::size_t>(k)], (i + 5 - k) * (2 * i + 4 - k) + 1) << i << " " << k;
    if (i == 0) {
      EXPECT_EQ(works.size(), 3u);
    }
    if (i >= 5) {
      EXPECT_EQ(works, std::vector<std::string>{"3 kernels"}) << i;
    }
    if (i % 2 == 0) held.push_back(out[0]);  // so that memory moves between replays
  }
}

TEST(Jit, OutputsThatAreStillHeldKeepTheirValues) {
  auto f = jit([](const Tensors& in) -> Tensors { return {in[0] + 1}; });
  Tensors held;
  for (int i = 0; i < 6; ++i) held.push_back(f({ramp(4, 100 * i)})[0]);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(held[static_cast<std::size_t>(i)].data<float>()[3], 100 * i + 4);
}

TEST(Jit, TheSameArgumentMayBeGivenAgain) {
  auto f = jit([](const Tensors& in) -> Tensors { return {in[0] * in[0]}; });
  Tensor x = ramp(3, 1);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f({x})[0].data<float>()[2], 9);
  x.assign(ramp(3, 2));
  EXPECT_EQ(f({x})[0].data<float>()[2], 16);
}

TEST(Jit, StateIsReadAndWrittenInPlace) {
  Tensor count = Tensor::zeros({1}).contiguous();
  count.realize();
  auto f = jit([&](const Tensors& in) -> Tensors {
    count.assign(count + in[0].sum());
    return {count * 10};
  });
  double sum = 0;
  for (int i = 0; i < 6; ++i) {
    sum += 3 * i + 3;
    EXPECT_EQ(f({ramp(3, i)})[0].data<float>()[0], 10 * sum);
    EXPECT_EQ(count.data<float>()[0], sum);
  }
  count.assign(Tensor::zeros({1}));
  EXPECT_EQ(f({ramp(3, 0)})[0].data<float>()[0], 30);
}

TEST(Jit, AnUnrealizedReaderOfStateSeesTheValueBeforeTheCall) {
  Tensor state = ramp(4, 1);
  auto f = jit([&](const Tensors& in) -> Tensors {
    state.assign(state + in[0]);
    return {state.sum()};
  });
  for (int i = 0; i < 2; ++i) f({ramp(4)});
  const double before = state.clone().sum().item();
  Tensor later = state.sum() * 1;  // built now, computed after the replay
  f({ramp(4)});
  EXPECT_EQ(later.item(), before);
  EXPECT_EQ(state.sum().item(), before + 6);
}

TEST(Jit, ExpressionsOverStateAreComputedAnewAfterAReplay) {
  Tensor w = ramp(3, 1), x = ramp(3, 1);
  w.realize();
  w.requires_grad_();
  auto f = jit([&](const Tensors& in) -> Tensors {
    Tensor loss = (w * in[0]).sum();
    NoGradScope no_grad;
    w.assign(w + 1);
    return {loss};
  });
  Tensors held{(w * x).sum()};  // alive, with its expression, through all calls
  held[0].realize();
  for (int i = 0; i < 6; ++i) {
    held.push_back(f({x})[0]);
    EXPECT_EQ(held.back().item(), 14 + 6 * i) << i;
    held.push_back((w * x).sum());
    EXPECT_EQ(held.back().item(), 14 + 6 * (i + 1)) << i;
  }
  EXPECT_TRUE(f.captured());
  EXPECT_EQ(held[0].item(), 14);
  EXPECT_EQ(held[3].item(), 20);
}

TEST(Jit, AConstantThatMovesIsNamed) {
  double scale = 3;
  auto f = jit([&](const Tensors& in) -> Tensors { return {in[0] * scale}; });
  f({ramp(4)});
  scale = 4.5;
  expect_message([&] { f({ramp(4)}); }, "the constant 3 of one call is 4.5 in the next");
}

TEST(Jit, ReadingDataInsideIsRefused) {
  auto f = jit([](const Tensors& in) -> Tensors { return {in[0] * in[0].sum().item()}; });
  EXPECT_EQ(f({ramp(4)})[0].sum().item(), 36);  // the first call warms up and may read
  expect_message([&] { f({ramp(4)}); }, "reads a tensor's data while it is captured");
  EXPECT_EQ(ramp(4).sum().item(), 6);  // and allowed again afterwards
}

TEST(Jit, ArgumentsMustFitTheCapture) {
  auto f = jit([](const Tensors& in) -> Tensors { return {in[0] + in.back()}; });
  for (int i = 0; i < 3; ++i) f({ramp(4), ramp(4)});
  expect_message([&] { f({ramp(5), ramp(5)}); },
                 "argument 0 is (5,) float32 on CPU, captured with (4,) float32 on CPU");
  expect_message([&] { f({ramp(4), ramp(4).cast(dtypes::int32)}); }, "argument 1 is (4,) int32");
  expect_message([&] { f({ramp(4)}); }, "1 arguments were given, captured with 2");
  expect_message([&] { f({ramp(4), ramp(4).to("CPU:1")}); }, "on CPU:1");
  Tensor x = ramp(4);
  expect_message([&] { f({x, x}); }, "argument 1 shares the memory of another");
  f.reset();
  EXPECT_EQ(f({ramp(5), ramp(5)})[0].data<float>()[4], 8);
}

TEST(Jit, ViewsAndConstantsMayBeArguments) {
  auto f = jit([](const Tensors& in) -> Tensors { return {in[0] + in[1]}; });
  Tensor table = ramp(12).reshape({3, 4});
  for (int i = 0; i < 6; ++i) {
    Tensors out = f({table[i % 3], Tensor::full({4}, i)});
    EXPECT_EQ(out[0].data<float>()[1], 4 * (i % 3) + 1 + i);
  }
}

TEST(Jit, AnArgumentMayBeAssignedTo) {
  auto f = jit([](const Tensors& in) -> Tensors {
    Tensor x = in[0];
    x.assign(x * 2);
    return {};
  });
  for (int i = 0; i < 4; ++i) {
    Tensor x = ramp(3, 1);
    f({x});
    EXPECT_EQ(x.data<float>(), (std::vector<float>{2, 4, 6}));
  }
}

TEST(Jit, AssigningToAViewOfAnArgumentIsRefused) {
  auto f = jit([](const Tensors& in) -> Tensors {
    Tensor x = in[0];
    x.assign(x * 2);
    return {};
  });
  Tensor table = ramp(12).reshape({3, 4});
  table.realize();
  expect_message([&] { f({table[1]}); }, "assigns to argument 0, which is a view or a constant");
}

TEST(Jit, StateThatIsReplacedInsteadOfAssignedIsRefused) {
  Tensor state = ramp(3);
  auto f = jit([&](const Tensors& in) -> Tensors {
    state = (state + in[0]).contiguous();
    state.realize();
    return {state.sum()};
  });
  double sum = 3;
  std::string text;
  for (int i = 0; i < 6 && text.empty(); ++i) {
    try {
      sum += 3;
      EXPECT_EQ(f({ramp(3)})[0].item(), sum);
    } catch (const JitError& error) {
      text = error.what();
    }
  }
  EXPECT_NE(text.find("has new memory in every call"), std::string::npos) << text;
}

TEST(Jit, ACaptureInsideACaptureIsPartOfIt) {
  auto inner = jit([](const Tensors& in) -> Tensors { return {in[0] * 2}; });
  auto outer = jit([&](const Tensors& in) -> Tensors { return {inner({in[0] + 1})[0] + 3}; });
  for (int i = 0; i < 4; ++i) EXPECT_EQ(outer({ramp(3, i)})[0].data<float>()[0], 2 * (i + 1) + 3);
  EXPECT_FALSE(inner.captured());
  EXPECT_TRUE(outer.captured());
}

// R42: captured or not, a thousand lengths are compiled once.
TEST(Jit, OneCaptureServesEveryLength) {
  constexpr std::int64_t kMost = 1000;
  Tensor data = ramp(kMost);
  data.realize();
  const auto computed = [](const Tensors& in) -> Tensors { return {(in[0] * 2).sum(), in[0] + 1}; };
  auto f = jit(computed);
  auto cut = [&](std::int64_t n) { return data.shrink({{0, Variable("n", 1, kMost).bind(n)}}); };
  for (int n = 3; n < 5; ++n) {
    f({cut(n)});
    for (const Tensor& t : computed({cut(n)})) t.tolist();
  }
  engine::reset_counters();
  for (std::int64_t n = 1; n <= kMost; ++n) {
    const bool plain = n % 10 == 0;
    Tensors out = plain ? computed({cut(n)}) : f({cut(n)});
    ASSERT_EQ(out[0].item(), static_cast<double>(n * (n - 1)));
    ASSERT_EQ(out[1].numel().bound_value(), n);
    if (n % 50 == 1) {
      ASSERT_EQ(out[1].data<float>().size(), static_cast<std::size_t>(n));
      ASSERT_EQ(out[1].data<float>().back(), static_cast<float>(n));
    }
  }
  EXPECT_EQ(engine::counters().compiles, 0u);
}

TEST(Jit, AVariableCanBeAnArgumentItself) {
  Tensor data = ramp(10);
  data.realize();
  auto f = jit([&](const Tensors& in, const std::vector<Size>& at) -> Tensors {
    return {data.shrink({{at[0], at[0] + 1}}) + in[0]};
  });
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(f({ramp(1, 100)}, {Variable("i", 0, 9).bind(i)})[0].data<float>()[0], 100 + i);
}

TEST(Jit, MaskedSelectWithASizeFollowsTheMask) {
  auto f = jit([](const Tensors& in) -> Tensors { return {in[0].masked_select(in[0] > in[1], 4)}; });
  for (int i = 0; i < 5; ++i) {
    Tensor x = ramp(8), limit = Tensor::full({8}, 3 + i).contiguous();
    EXPECT_EQ(f({x, limit})[0].data<float>(), x.masked_select(x > limit, 4).data<float>()) << i;
  }
}

TEST(Jit, NonzeroWithASizeFollowsTheMask) {
  auto f = jit([](const Tensors& in) -> Tensors { return {(in[0] > in[1]).nonzero(5, -1)}; });
  for (int i = 0; i < 6; ++i) {
    Tensor x = ramp(8).reshape({2, 4}), limit = Tensor::full({2, 4}, 1 + i).contiguous();
    EXPECT_EQ(f({x, limit})[0].tolist(), (x > limit).nonzero(5, -1).tolist()) << i;
  }
}

TEST(Jit, AListOfAnyLengthIsArgumentsByPosition) {
  auto f = jit([](const Tensors& in) -> Tensors {
    Tensor sum = in[0];
    for (std::size_t i = 1; i < in.size(); ++i) sum = sum + in[i] * static_cast<double>(i + 1);
    return {sum};
  });
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(f({ramp(2, i), ramp(2, 10), ramp(2, 5 * i)})[0].data<float>()[0], i + 20 + 15 * i);
}

TEST(Jit, AConstantTensorThatChangesAfterTheCaptureIsRefused) {
  Tensor scale = Tensor::full({3}, 2.0), other = Tensor::full({}, 7.0);
  auto f = jit([&](const Tensors& in) -> Tensors { return {in[0] * scale + other}; });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f({ramp(3, i)})[0].data<float>()[0], 2 * i + 7);
  scale.realize();  // computed, and still the same value
  EXPECT_EQ(f({ramp(3, 5)})[0].data<float>()[0], 17);
  scale.assign(Tensor::full({3}, 9.0));
  expect_message([&] { f({ramp(3)}); },
                 "a constant tensor that the function reads, (3,) float32, was changed");
  f.reset();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f({ramp(3, i)})[0].data<float>()[0], 9 * i + 7);
  other = Tensor::full({}, 8.0);
  expect_message([&] { f({ramp(3)}); }, "a constant tensor that the function reads, () float32, was changed");
}

TEST(Jit, ATensorThatIsReplacedAfterTheCaptureIsRefused) {
  Tensor weight = Tensor({2.0}).realize();
  Jit f = jit([&](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0] * weight}; });
  for (int i = 0; i < 3; ++i) f({Tensor({3.0})});
  weight.assign(Tensor({4.0})).realize();
  EXPECT_EQ(f({Tensor({3.0})})[0].item(), 12);
  weight.replace(Tensor({5.0}));
  EXPECT_THROW(f({Tensor({3.0})}), JitError);
  f.reset();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f({Tensor({3.0})})[0].item(), 15);
}

TEST(Jit, ArgumentsThatAreEqualByChanceAreNoAliases) {
  Jit f = jit([](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0] * 3 + in[1] * 5}; });
  const Tensor x = Tensor({1.0}).realize();
  for (int i = 0; i < 3; ++i) {
    const Tensor a = x * 2, b = x * 2;
    EXPECT_EQ(f({a, b})[0].item(), 16);
  }
  EXPECT_EQ(f({Tensor({1.0}), Tensor({2.0})})[0].item(), 13);
  const Tensor a = x * 2, b = x * 2;
  EXPECT_EQ(f({a, b})[0].item(), 16);
}

TEST(Jit, StateThatIsEqualToAnArgumentByChanceIsState) {
  const Tensor x = Tensor({0.0}).realize();
  Tensor weight = x * 2, first = x * 2;
  Tensor::realize_all(std::vector<Tensor>{weight, first});
  Jit f = jit([&](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0] * 3 + weight * 5}; });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f({first})[0].item(), 0);
  EXPECT_EQ(f({Tensor({1.0})})[0].item(), 3);
}

TEST(Jit, AnArgumentThatIsWrittenSharesItsMemoryWithNobody) {
  Jit f = jit([](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    Tensor a = in[0];
    return {a.assign(a + 1)};
  });
  for (int i = 0; i < 3; ++i) f({Tensor({1.0}).realize()});
  const Tensor x = Tensor({1.0}).realize();
  Tensor a = x * 2, b = x * 2;
  Tensor::realize_all(std::vector<Tensor>{a, b});
  f({a});
  EXPECT_EQ(a.item(), 3);
  EXPECT_EQ(b.item(), 2);
}

TEST(Jit, WhatHoldsForTheWholeProgramIsWatched) {
  Jit f = jit([](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0].dropout(0.5)}; });
  const Tensor x = Tensor::ones({64}).contiguous().realize();
  {
    const TrainingScope training;
    for (int i = 0; i < 3; ++i) f({x});
  }
  EXPECT_THROW(f({x}), JitError);
  f.reset();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f({x})[0].sum().item(), 64);
}

TEST(Jit, ANumberIsNoTensorWithADtypeOfItsOwn) {
  Jit f = jit([](const std::vector<Tensor>& in) -> std::vector<Tensor> { return {in[0] * in[1]}; });
  const Tensor half = Tensor({1.0, 2.0}, {.dtype = dtypes::float16}).realize();
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(f({half, Tensor(static_cast<double>(i))})[0].dtype(), dtypes::float16);
  EXPECT_THROW(f({half, Tensor(2.0, {.dtype = dtypes::float32})}), JitError);
}

TEST(Jit, ConstantsMadeInsideAreNotWatched) {
  auto f =
      jit([](const Tensors& in) -> Tensors { return {in[0] + Tensor::arange(3).cast(dtypes::float32)}; });
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f({ramp(3, i)})[0].data<float>()[2], i + 4);
}

TEST(Jit, OutputsMayBeViewsOfArgumentsAndOfEachOther) {
  auto f = jit([](const Tensors& in) -> Tensors {
    Tensor y = in[0] * 2;
    return {in[0], y, y.reshape({2, 2}), y.flip(0), in[0].reshape({2, 2}).permute({1, 0})};
  });
  Tensors held;
  for (int i = 0; i < 5; ++i) {
    Tensors out = f({ramp(4, i)});
    EXPECT_EQ(out[0].tolist(), ramp(4, i).tolist());
    EXPECT_EQ(out[2].tolist(), (ramp(4, i) * 2).tolist());
    EXPECT_EQ(out[3].tolist(), (ramp(4, i) * 2).flip(0).tolist());
    EXPECT_EQ(out[4].tolist(), ramp(4, i).reshape({2, 2}).permute({1, 0}).tolist());
    held.push_back(out[2]);
  }
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(held[static_cast<std::size_t>(i)].tolist(), (ramp(4, i) * 2).tolist());
}

TEST(Jit, TwoCapturesOfOneFunctionKeepTheirOwnState) {
  struct Counter {
    Tensor sum = ramp(2);
    Jit step = jit([this](const Tensors& in) -> Tensors {
      sum.assign(sum + in[0]);
      return {sum * 1};
    });
  } a, b;
  for (int i = 1; i <= 5; ++i) {
    EXPECT_EQ(a.step({ramp(2)})[0].data<float>()[1], 1 + i);
    EXPECT_EQ(b.step({ramp(2, 10)})[0].data<float>()[1], 1 + 11 * i);
  }
}

TEST(Jit, AThousandReplaysLeaveNothingBehind) {
  Tensor state = ramp(64).realize();
  auto f = jit([&](const Tensors& in) -> Tensors {
    state.assign(state * 0.5 + in[0]);
    return {state.sum()};
  });
  for (int i = 0; i < 10; ++i) f({ramp(64)})[0].item();
  const std::size_t buffers = live_buffers().size();
  engine::synchronize();
  const std::size_t used = engine::counters().memory_used;
  for (int i = 0; i < 1000; ++i) f({ramp(64)})[0].item();
  EXPECT_EQ(live_buffers().size(), buffers);
  EXPECT_EQ(engine::counters().memory_used, used);
}

TEST(Jit, ATrainingStepIsTheSameCapturedOrNot) {
  auto losses = [](bool captured) {
    Tensor::manual_seed(3);
    nn::Linear layer(6, 3);
    nn::optim::Adam optimizer(nn::get_parameters(layer), 0.05);
    auto plain = [&](const Tensors& in) -> Tensors {
      TrainingScope training;
      optimizer.zero_grad();
      Tensor loss = (layer(in[0]) - in[1]).square().mean();
      loss.backward();
      optimizer.step();
      return {loss.detach()};
    };
    auto step = jit(plain);
    std::vector<double> out;
    for (int i = 0; i < 6; ++i) {
      Tensors in{ramp(12, i).reshape({2, 6}) / 10, ramp(6, -i).reshape({2, 3})};
      for (Tensor& t : in) t = t.contiguous().realize();
      out.push_back((captured ? step(in) : plain(in))[0].item());
    }
    return out;
  };
  EXPECT_EQ(losses(true), losses(false));
}

// What another thread computed has memory that no replay of this program would fill.
Tensor on_another_thread(const std::function<Tensor()>& make) {
  Tensor out;
  std::thread([&] {
    out = make();
    out.realize();
  }).join();
  return out;
}

TEST(Jit, WhatAnotherThreadComputesInEveryCallCannotBeCaptured) {
  auto f = jit([](const Tensors& in) -> Tensors {
    Tensor there = on_another_thread([&] { return in[0] * 2; });
    return {there + 1};
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f({ramp(3, i)})[0].data<float>()[2], 2 * (i + 2) + 1);
  expect_message([&] { f({ramp(3)}); }, "has new memory in every call");
}

TEST(Jit, WhatAnotherThreadComputedOnceIsState) {
  Tensor kept;
  auto f = jit([&](const Tensors& in) -> Tensors {
    if (!kept.defined()) kept = on_another_thread([&] { return ramp(3, 10) * 2; });
    return {in[0] + kept};
  });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(f({ramp(3, i)})[0].data<float>()[1], i + 1 + 22);
  EXPECT_TRUE(f.captured());
}

TEST(Jit, MemoryMadeInTheCallAndWrittenInPartIsMadeByEveryReplay) {
  auto f = jit([](const Tensors& in) -> Tensors {
    Tensor made = Tensor::empty({4});
    made.shrink({{0, 2}}).assign(in[0]);
    made.shrink({{2, 4}}).assign(in[0] + 10);
    return {made};
  });
  Tensors held;
  for (int i = 0; i < 4; ++i) held.push_back(f({ramp(2, i)})[0]);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(held[static_cast<std::size_t>(i)].data<float>()[3], static_cast<float>(i + 11));
  EXPECT_TRUE(f.captured());
}

class SavedJit : public testing::Test {
 protected:
  std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("lathe_jit_" + std::to_string(getpid()) + ".captured");
  void TearDown() override { std::filesystem::remove(file); }
};

TEST_F(SavedJit, ALoadedProgramGoesOnWhereTheOtherStopped) {
  Tensor state = ramp(4, 1);
  state.realize();
  auto f = jit([&](const Tensors& in) -> Tensors {
    state.assign(state * in[0].sum() + 1);
    return {state.sum() + in[0].max(), state};
  });
  for (int i = 0; i < 3; ++i) f({ramp(3, 0.25 * i)});
  f.save(file);
  Jit loaded = Jit::load(file);
  for (int i = 0; i < 3; ++i) {
    Tensors a = f({ramp(3, 0.5 * i)}), b = loaded({ramp(3, 0.5 * i)});
    EXPECT_EQ(a[0].data<float>(), b[0].data<float>());
    EXPECT_EQ(a[1].data<float>(), b[1].data<float>());
  }
  expect_message([&] { loaded({ramp(4)}); }, "captured with (3,)");
}

TEST_F(SavedJit, ALoadedProgramInsideACaptureIsRefused) {
  auto f = jit([](const Tensors& in) -> Tensors { return {in[0] * 3}; });
  for (int i = 0; i < 2; ++i) f({ramp(3, i)});
  f.save(file);
  Jit loaded = Jit::load(file);
  auto outer = jit([&](const Tensors& in) -> Tensors { return {loaded({in[0]})[0] + 1}; });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outer({ramp(3, i)})[0].data<float>()[2], 3 * (i + 2) + 1);
  expect_message([&] { outer({ramp(3)}); }, "cannot be captured");
}

TEST_F(SavedJit, AnotherProcessGivesTheSameBits) {
  auto f = jit([](const Tensors& in) -> Tensors { return {in[0].exp() * (in[0] * 1.1f).sum()}; });
  for (int i = 0; i < 2; ++i) f({ramp(5, i)});
  f.save(file);
  const std::string results = file.string() + ".results";
  const pid_t child = fork();
  if (child == 0) {
    setenv("JIT_TEST_PROGRAM", file.c_str(), 1);
    setenv("JIT_TEST_RESULTS", results.c_str(), 1);
    setenv("LATHE_CACHE", "off", 1);
    execl("/proc/self/exe", "test_capture", "--gtest_filter=OtherProcess.*", "--gtest_brief=1", nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::ifstream in(results, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  std::filesystem::remove(results);
  const std::vector<std::byte> here = f({ramp(5, 3)})[0].bytes();
  ASSERT_EQ(bytes.size(), here.size());
  EXPECT_EQ(std::memcmp(bytes.data(), here.data(), here.size()), 0);
}

// The other process of the test above.
TEST(OtherProcess, RunsASavedProgram) {
  const char *program = std::getenv("JIT_TEST_PROGRAM"), *results = std::getenv("JIT_TEST_RESULTS");
  if (program == nullptr || results == nullptr)
    GTEST_SKIP() << "run by SavedJit.AnotherProcessGivesTheSameBits";
  const std::vector<std::byte> bytes = Jit::load(program)({ramp(5, 3)})[0].bytes();
  EXPECT_EQ(engine::counters().compiles, 0u);  // the file brought its kernels
  std::ofstream(results, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

TEST_F(SavedJit, BrokenFilesAreRefused) {
  auto f = jit([](const Tensors& in) -> Tensors { return {in[0] + 1}; });
  expect_message([&] { f.save(file); }, "nothing is captured yet");
  EXPECT_THROW(Jit::load("/nonexistent/file"), UserError);
  for (int i = 0; i < 2; ++i) f({ramp(5, i)});
  f.save(file);
  const auto size = std::filesystem::file_size(file);
  for (std::uintmax_t keep : {size - 1, size / 2, std::uintmax_t{40}, std::uintmax_t{3}}) {
    std::filesystem::resize_file(file, keep);
    EXPECT_THROW(Jit::load(file), UserError) << keep;
  }
}

}  // namespace
}  // namespace lathe
