#include "base/interruptible.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/error.h"
#include "base/interrupt.h"

namespace lathe {
namespace {

std::atomic<int> looks{0};
std::promise<void>* go_on = nullptr;

TEST(Interruptible, SomebodyLooksForAnInterruptWhileTheCallRuns) {
  looks = 0;
  std::promise<void> allowed;
  go_on = &allowed;
  bool ran = false;
  watch_interrupt_checks([] {
    if (++looks == 5) go_on->set_value();
  });
  run_interruptible(
      [&] {
        allowed.get_future().wait();
        ran = true;
      },
      "compiled", "k");
  watch_interrupt_checks(nullptr);
  EXPECT_TRUE(ran);
  EXPECT_GE(looks, 5);
}

TEST(Interruptible, ARequestEndsTheWaitAndNotTheCall) {
  looks = 0;
  std::promise<void> allowed, ended;
  std::future<void> may_go_on = allowed.get_future(), has_ended = ended.get_future();
  watch_interrupt_checks([] {
    if (++looks == 3) request_interrupt();
  });
  EXPECT_THROW(run_interruptible(
                   [&] {
                     may_go_on.wait();
                     ended.set_value();
                   },
                   "compiled", "k"),
               UserError);
  watch_interrupt_checks(nullptr);
  EXPECT_EQ(looks, 3);
  allowed.set_value();
  has_ended.wait();
  EXPECT_NO_THROW(run_interruptible([] {}, "compiled", "another"));
}

}  // namespace
}  // namespace lathe
