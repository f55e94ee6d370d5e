// The steps that move loads and stores of matrix units' fragments (src/codegen/lower): each changes some
// program, and none changes a bit of what is stored.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "codegen/evaluate.h"
#include "codegen/kernels.h"
#include "ir/text.h"
#include "target/target.h"

namespace lathe::test {
namespace {

const std::vector<std::string> kSteps{"keep_fragments", "prefetch_fragments", "read_in_place",
                                      "defer_rows",     "prefetch_results",   "store_in_place"};

// Caches so small that little kernels meet what large ones do.
Target tile_target(std::int64_t l1, std::int64_t l2) {
  Target target = named_target("x86-64-v4+avx512bf16+avx512vnni+amx-tile+amx-bf16+amx-int8");
  target.l1 = l1, target.l2 = l2, target.cores = 1;
  return target;
}

struct Changed : StepSink {
  void program(const StepInfo& step, Program& program) override {
    std::string text = print_program(program);
    if (!last.empty() && text != last) ++steps[step.name];
    last = std::move(text);
  }
  std::string last;
  std::map<std::string, int> steps;
};

TEST(Fragments, StepsOfFragmentsChangeProgramsAndNotABitOfWhatTheyStore) {
  Scope scope;
  const DType b = dtypes::BFloat16, f = dtypes::Float32, i8 = dtypes::Int8, i32 = dtypes::Int32;
  struct Case {
    const char* name;
    Node kernel;
    std::int64_t l1, l2;
    const char* opts;  // "" for those of the heuristic
  };
  const char* panels = "TC(1, 0, 1, 1) UPCAST(1, 2) UPCAST(0, 2) STAGE(0, 5, 0) STAGE(1, 4, 0)";
  const Case cases[] = {
      {"rounded 64x64x544", bf16_matmul(64, 64, 544), 48 << 10, 2 << 20, panels},
      {"rounded 64x96x544 and a constant", bf16_matmul(64, 96, 544, 1.0), 256 << 10, 2 << 20, panels},
      {"bf16 96x64x96", small_matmul(96, 64, 96, b, b, f), 48 << 10, 4 << 10, ""},
      {"bf16 70x90x100", small_matmul(70, 90, 100, b, b, f), 48 << 10, 4 << 10, ""},
      {"i8 64x96x1088", small_matmul(64, 96, 1088, i8, i8, i32), 8 << 10, 16 << 10, ""},
      {"i8 96x96x1088", small_matmul(96, 96, 1088, i8, i8, i32), 48 << 10, 16 << 10,
       "TC(1, 0, 1, 1) UPCAST(1, 2) UPCAST(0, 2) STAGE(-1, 9, 0) STAGE(-1, 8, 0)"},
  };
  Changed all;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Target target = tile_target(c.l1, c.l2);
    const std::vector<Opt> opts = *c.opts == 0 ? choose_options(c.kernel, target) : parse_opts(c.opts);
    all.last.clear();
    Compile usual(target), watched(target);
    watched.sink = &all;
    lower_kernel(c.kernel, opts, watched, "k");
    std::vector<std::vector<std::string>> without{kSteps};
    for (const std::string& step : kSteps) without.push_back({step});
    for (const std::vector<std::string>& disabled : without) {
      Compile other(target);
      other.rules.disabled = disabled;
      EXPECT_EQ(compare_bits(c.kernel, opts, usual, other), "") << disabled[0];
    }
  }
  for (const std::string& step : kSteps) EXPECT_GT(all.steps[step], 0) << step;
}

}  // namespace
}  // namespace lathe::test
