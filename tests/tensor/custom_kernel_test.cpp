// Kernels written by hand, and options attached to a tensor.
#include <gtest/gtest.h>

#include "lathe/lathe.h"

namespace lathe {
namespace {

TEST(CustomKernel, ComputesWhatItSays) {
  Tensor a(std::vector<float>{1, 2, 3, 4, 5}), b(std::vector<float>{10, 20, 30, 40, 50});
  Tensor out = Tensor::empty({5});
  custom_kernel({out, a + 1, b}, [](KernelBuilder& k) {
    KernelValue i = k.range(5);
    k.store(0, i, k.load(1, i) * k.load(2, i) + 0.5);
  });
  EXPECT_EQ(out.data<float>(), (std::vector<float>{20.5f, 60.5f, 120.5f, 200.5f, 300.5f}));
}

TEST(CustomKernel, ReducesOverRangesOfItsOwnAndStoresToSeveralTensors) {
  Tensor x = Tensor::arange(12).reshape({3, 4}).cast(dtypes::float32);
  Tensor sums = Tensor::empty({3}), peaks = Tensor::zeros({3});
  custom_kernel({sums, peaks, x.T()}, [](KernelBuilder& k) {
    KernelValue row = k.range(3), j = k.reduce_range(4);
    KernelValue element = k.load(2, j * 3 + row);
    k.store(0, row, k.reduce("Add", element, {j}));
    k.store(1, row, k.reduce("Max", element, {j}));
  });
  EXPECT_EQ(sums.data<float>(), (std::vector<float>{6, 22, 38}));
  EXPECT_EQ(peaks.data<float>(), (std::vector<float>{3, 7, 11}));
}

TEST(CustomKernel, IsAVersionOfTheTensorsMemory) {
  Tensor x(std::vector<float>{1, 2, 3});
  x.realize();
  Tensor before = x * 10;  // means the tensor as it is now
  custom_kernel({x}, [](KernelBuilder& k) {
    KernelValue i = k.range(3);
    k.store(0, i, k.load(0, i) + 1.0);
  });
  Tensor after = x * 10;
  EXPECT_EQ(before.data<float>(), (std::vector<float>{10, 20, 30}));
  EXPECT_EQ(after.data<float>(), (std::vector<float>{20, 30, 40}));
}

TEST(CustomKernel, GatesKeepWhatIsOutside) {
  Tensor x(std::vector<std::int32_t>{7, 8, 9, 10});
  x.realize();
  custom_kernel({x}, [](KernelBuilder& k) {
    KernelValue i = k.range(4);
    k.store(0, i, i * 100, i < 2);
  });
  EXPECT_EQ(x.data<std::int32_t>(), (std::vector<std::int32_t>{0, 100, 9, 10}));
}

TEST(CustomKernel, ServesACustomOpWithAGradient) {
  static bool registered = [] {
    register_op({"hand_square",
                 [](const std::vector<Tensor>& in) {
                   Tensor out = Tensor::empty(in[0].shape());
                   const std::int64_t n = in[0].numel().bound_value();
                   custom_kernel({out, in[0]}, [n](KernelBuilder& k) {
                     KernelValue i = k.range(n), x = k.load(1, i);
                     k.store(0, i, x * x);
                   });
                   return out;
                 },
                 [](const std::vector<Tensor>& in, const Tensor&, const Tensor& grad) {
                   return std::vector<Tensor>{grad * in[0] * 2};
                 }});
    return true;
  }();
  ASSERT_TRUE(registered);
  Tensor x(std::vector<float>{1, 2, 3});
  x.requires_grad_();
  custom("hand_square", {x}).sum().backward();
  EXPECT_EQ(x.grad()->data<float>(), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(custom("hand_square", {x}).data<float>(), (std::vector<float>{1, 4, 9}));
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(CustomKernel, RefusesWhatIsNotAKernel) {
  Tensor x = Tensor::empty({4}), y = Tensor::empty({4}, {.dtype = dtypes::int32});
  EXPECT_EQ(refusal([&] { custom_kernel({x}, [](KernelBuilder&) {}); }),
            "lathe: custom_kernel: the kernel stores nothing\n  help: call store() for at least one tensor");
  EXPECT_EQ(refusal([&] {
              custom_kernel({x, y}, [](KernelBuilder& k) {
                KernelValue i = k.range(4);
                k.store(0, i, k.load(0, i) + k.load(1, i));
              });
            }),
            "lathe: custom_kernel: Add of f32 and i32\n  help: cast one of them");
  EXPECT_EQ(refusal([&] { custom_kernel({x}, [](KernelBuilder& k) { k.store(3, k.range(4), 1.0); }); }),
            "lathe: custom_kernel: tensor 3 of a list of 1");
  EXPECT_EQ(refusal([&] {
              custom_kernel({x, x}, [](KernelBuilder& k) {
                KernelValue i = k.range(4);
                k.store(0, i, k.load(1, i));
              });
            }),
            "lathe: custom_kernel: tensors 0 and 1 share memory that the kernel writes\n"
            "  help: clone() one of them");
}

TEST(AttachedOptions, ChooseTheKernelAnywhereInAGraph) {
  Tensor a = Tensor::arange(64).cast(dtypes::float32).contiguous().realize();
  Tensor inner = (a * 2).contiguous(parse_opts("UPCAST(0, 4)"));
  Tensor outer = inner.reshape({8, 8}).sum({1});
  std::vector<ScheduledKernel> kernels = outer.schedule();
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].options, "UPCAST(0, 4)");
  EXPECT_EQ(outer.data<float>()[0], 56.0f);
  Tensor plain = (a * 3).contiguous(std::vector<Opt>{});
  EXPECT_EQ(plain.schedule()[0].options, "");
  EXPECT_THROW((a * 5).contiguous(parse_opts("UPCAST(9, 4)")).realize(), KernelOptError);
}

TEST(Schedule, SaysWhatWillRunAndRunsNothing) {
  Tensor a = Tensor::rand({32}).realize(), b = a + 1;
  std::vector<ScheduledKernel> kernels = b.schedule();
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].device, "CPU");
  EXPECT_EQ(kernels[0].bytes, 256);
  EXPECT_NE(kernels[0].text.find("Add.f32"), std::string::npos);
  EXPECT_FALSE(b.is_realized());
  b.kernelize();
  EXPECT_FALSE(b.is_realized());
  b.realize();
  EXPECT_TRUE(b.schedule().empty());
}

}  // namespace
}  // namespace lathe
