// REF behind the device contract: compile, load, launch, and faults as errors.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "ir/text.h"
#include "runtime/registry.h"

namespace lathe::backends {
void register_ref_backend(Registry& registry);
}

namespace lathe {
namespace {

// out[i] = x[i + shift] * n over 2 groups of 4 threads.
std::string scaled(const char* shift) {
  return std::string(R"(program "scaled"
param 0 f32 8 -w
param 1 f32 8 r-
let %n = Var.idx "n" [1, 9] ()
let %two = Const.idx 2 ()
let %four = Const.idx 4 ()
variables %n
groups %two 1 1
locals %four 1 1
threads 1
let %g = Special.i32 "g0" [2] ()
let %l = Special.i32 "l0" [4] ()
let %out = Param.f32 [0, 8] ()
let %x = Param.f32 [1, 8] ()
let %four32 = Const.i32 4 ()
let %shift = Const.i32 )") +
         shift + R"( ()
%base = Mul.i32 (%g, %four32)
%i = Add.i32 (%base, %l)
%at = Add.i32 (%i, %shift)
%v = Load.f32 (%x, %at)
%n32 = Cast.f32 (%n)
%y = Mul.f32 (%v, %n32)
%s = Store.void (%out, %i, %y)
)";
}

class RefDeviceTest : public testing::Test {
 protected:
  RefDeviceTest() {
    backends::register_ref_backend(registry_);
    row_ = registry_.find("ref");
    device_ = row_->open(0);
  }

  void launch(const std::string& text, float* out, float* in, std::int64_t n) {
    Scope scope;
    Binary binary = row_->compiler("")->compile(parse_program(text));
    auto kernel = device_->load(binary);
    Memory a = device_->alloc(32), b = device_->alloc(32);
    taken_.insert(taken_.end(), {a, b});
    Span host_in{{0, 32, in}, 0, 32}, host_out{{0, 32, out}, 0, 32}, at_a{a, 0, 32}, at_b{b, 0, 32};
    std::memset(a.host, 0, 32);
    Event copied = device_->copy(0, at_b, host_in, {});
    Arg args[3] = {{Arg::Kind::Span, at_a, 0}, {Arg::Kind::Span, at_b, 0}, {Arg::Kind::Int, {}, n}};
    Event ran = device_->launch(0, *kernel, {{2, 1, 1}, {4, 1, 1}, 1, 0}, args, {&copied, 1});
    device_->wait(ran);
    EXPECT_GE(device_->elapsed_ns(ran, ran), 0);
    device_->copy(0, host_out, at_a, {&ran, 1});
  }

  ~RefDeviceTest() override {
    for (Memory m : taken_) device_->free(m);
  }

  std::vector<Memory> taken_;
  Registry registry_;
  const Backend* row_ = nullptr;
  std::unique_ptr<Device> device_;
};

TEST_F(RefDeviceTest, CompilesLoadsAndLaunches) {
  float in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8] = {};
  launch(scaled("0"), out, in, 3);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(out[i], in[i] * 3);
}

TEST_F(RefDeviceTest, AFaultIsADeviceErrorThatNamesTheKernelAndTheAccess) {
  float in[8] = {}, out[8] = {};
  try {
    launch(scaled("1"), out, in, 3);
    FAIL() << "the load at 8 was not noticed";
  } catch (const DeviceError& error) {
    std::string text = error.what();
    EXPECT_NE(text.find("kernel scaled: out of bounds: load of param 1 at 8"), std::string::npos) << text;
  }
}

TEST_F(RefDeviceTest, OtherTargetsAreRefused) { EXPECT_THROW(row_->compiler("sm_90a"), UserError); }

TEST_F(RefDeviceTest, ImportedMemoryIsReleasedOnce) {
  float data[4] = {};
  int released = 0;
  Memory m = device_->import(data, sizeof data, [&] { ++released; });
  EXPECT_EQ(m.host, data);
  device_->free(m);
  EXPECT_EQ(released, 1);
}

}  // namespace
}  // namespace lathe
