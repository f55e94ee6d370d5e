#include "search/search.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/atomic_file.h"
#include "base/child_process.h"
#include "base/env.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "engine/engine.h"
#include "ir/build.h"
#include "ir/text.h"
#include "lathe/tensor.h"
#include "schedule/schedule.h"
#include "search/job.h"
#include "search/judge.h"
#include "search/kernel_text.h"
#include "search/space.h"
#include "search/store.h"
#include "search/tuned_options.h"
#include "search/worker.h"
#include "tensor/impl.h"

namespace lathe::search {
namespace {

namespace fs = std::filesystem;

std::string self() { return fs::read_symlink("/proc/self/exe").string(); }

std::string fresh_folder(const std::string& name) {
  const std::string folder = testing::TempDir() + "lathe_search_" + name;
  for (const char* more : {"", "-tuned", "-tuned-repros"}) fs::remove_all(folder + more);
  return folder;
}

// The one kernel a tensor needs.
NodeRef kernel_of(const Tensor& t) {
  const Scope scope;
  const Schedule made = schedule(std::vector<Node>{node_of(t)});
  EXPECT_EQ(made.steps.size(), 1u);
  return made.steps.at(0).ast;
}

NodeRef product_kernel(std::int64_t n = 48) {
  return kernel_of(Tensor::empty({n, n}).matmul(Tensor::empty({n, n})));
}
NodeRef row_sum_kernel() { return kernel_of(Tensor::empty({64, 96}).sum(1)); }

Limits small_limits(std::vector<std::string> faults = {}) {
  Limits limits;
  limits.seconds = 2;
  limits.compile_processes = 2;
  limits.worker = {self(), "--worker"};
  limits.worker.insert(limits.worker.end(), faults.begin(), faults.end());
  return limits;
}

Result search_cpu(const NodeRef& kernel, const Limits& limits) {
  return search_kernel({kernel, "kernel", &open_device("CPU"), {}}, limits);
}

// A kernel that ran: its buffers before, and what it left in buffer 0.
std::optional<Judge::Refusal> refusal_of(Node kernel, const reference::Array& left) {
  const JobFolder folder;
  Judge judge(kernel, folder.path(), buffers_of(kernel), bindings_of(kernel), {});
  write_file_atomic(output_file(folder.path(), 0),
                    {reinterpret_cast<const char*>(left.data()), left.byte_count()}, Sync::No);
  return judge.refuse_default([&] { return kernel; });
}

TEST(Judge, ADefaultThatRefCannotFinishIsNotAccepted) {
  const Scope scope;
  Node i = range(index_const(1 << 20), 0, RangeKind::Reduce),
       j = range(index_const(1 << 20), 1, RangeKind::Reduce);
  Node both[] = {i, j};
  Node sum = reduce_ranges(Op::Add, cast(i * j, dtypes::Float32), both);
  Node effect = store(param(dtypes::Float32, 0, 1), index_const(0), sum);
  const std::optional<Judge::Refusal> refusal =
      refusal_of(sink({&effect, 1}), reference::Array(dtypes::Float32, 1));
  ASSERT_TRUE(refusal);
  EXPECT_FALSE(refusal->wrong);
  EXPECT_NE(refusal->text.find("operations"), std::string::npos) << refusal->text;
}

TEST(Judge, ABfloat16ProductOfZerosOrWithFlippedSignsIsWrong) {
  const Scope scope;
  const TensorOptions bf16{dtypes::bfloat16, "CPU"};
  const NodeRef kernel = kernel_of(Tensor::empty({8, 256}, bf16).matmul(Tensor::empty({256, 8}, bf16)));
  std::vector<reference::Array> arrays;
  std::vector<reference::View> views;
  const std::vector<JobBuffer> buffers = buffers_of(kernel);
  for (std::size_t slot = 0; slot < buffers.size(); ++slot)
    arrays.push_back(made_up_contents(buffers[slot], slot));
  for (reference::Array& array : arrays) views.push_back(array.view());
  ASSERT_TRUE(reference::kernel_eval(kernel, views).ok());
  EXPECT_FALSE(refusal_of(kernel, arrays[0]));
  reference::Array flipped = arrays[0];
  for (std::int64_t i = 0; i < flipped.size(); ++i) flipped.set(i, {0, -flipped.at(i).f});
  for (const reference::Array& wrong : {reference::Array(arrays[0].dtype(), arrays[0].size()), flipped}) {
    const std::optional<Judge::Refusal> refusal = refusal_of(kernel, wrong);
    ASSERT_TRUE(refusal);
    EXPECT_TRUE(refusal->wrong) << refusal->text;
  }
}

TEST(Space, EveryNeighbourIsAcceptedByTheKernelAndDiffers) {
  const NodeRef kernel = product_kernel();
  for (const char* name : {"x86-64-v3", "x86-64-v4", "sm_90a"}) {
    const Target target = named_target(name);
    const std::vector<Opt> list = choose_options(kernel, target);
    const StepKinds kinds = neighbours(kernel, list, target, {});
    EXPECT_GT(kinds.size(), 4u) << name;
    for (const std::vector<std::vector<Opt>>& kind : kinds)
      for (const std::vector<Opt>& one : kind) {
        EXPECT_NE(to_string(one), to_string(list));
        EXPECT_NO_THROW(apply_options(kernel, one, target)) << name << ": " << to_string(one);
      }
    for (const std::vector<Opt>& one : starting_lists(kernel, target, {}))
      EXPECT_NO_THROW(apply_options(kernel, one, target)) << name << ": " << to_string(one);
  }
}

TEST(Space, TheLimitsOnUpcastsAndLocalsHold) {
  const NodeRef kernel = product_kernel(64);
  Limits limits;
  limits.max_upcast = 8;
  limits.max_locals = 16;
  const Target cpu = named_target("x86-64-v4"), gpu = named_target("sm_90a");
  EXPECT_FALSE(allowed(kernel, parse_opts("UPCAST(0, 4) UPCAST(1, 4)"), cpu, limits));
  EXPECT_TRUE(allowed(kernel, parse_opts("UPCAST(0, 4) UPCAST(1, 2)"), cpu, limits));
  EXPECT_FALSE(allowed(kernel, parse_opts("LOCAL(0, 32)"), gpu, limits));
  EXPECT_TRUE(allowed(kernel, parse_opts("LOCAL(0, 16)"), gpu, limits));
  for (const std::vector<std::vector<Opt>>& kind : neighbours(kernel, {}, gpu, limits))
    for (const std::vector<Opt>& one : kind) EXPECT_TRUE(allowed(kernel, one, gpu, limits)) << to_string(one);
}

// The loops of a row stand one after the other, so their copies do not multiply.
TEST(Space, TheNestsOfARowAreCopiedApart) {
  const NodeRef kernel = kernel_of(Tensor::empty({4096, 1024}).softmax(1));
  const Target cpu = named_target("x86-64-v4");
  const std::vector<Opt> list = choose_options(kernel, cpu);
  EXPECT_TRUE(allowed(kernel, list, cpu, {})) << to_string(list);
  EXPECT_GT(neighbours(kernel, list, cpu, {}).size(), 4u);
}

// A fact that cannot be halved stays: a target without groups of threads has groups of one.
TEST(Space, EveryChangedTargetCanStillChooseOptions) {
  Target target = named_target("x86-64-v4+avx512vnni");
  Tensor words = Tensor::empty({64, 16, 16}, {.dtype = dtypes::int8}).cast(dtypes::int32),
         x = Tensor::empty({16, 16}, {.dtype = dtypes::int8}).cast(dtypes::int32),
         scale = Tensor::empty({64, 16});
  const NodeRef kernel = kernel_of(((words * x).sum({2}).cast(dtypes::float32) * scale).sum({1}));
  EXPECT_NE(to_string(choose_options(kernel, target)).find("TC("), std::string::npos);
  EXPECT_NO_THROW(starting_lists(kernel, target, {}));
}

TEST(Job, ItsTextReadsBack) {
  const NodeRef kernel = product_kernel();
  const JobText job{"CPU", "r_48", 1234, {{"n", 7}, {"m", 9}}, kernel};
  const JobText back = job_from_text(to_text(job));
  EXPECT_EQ(back.device, "CPU");
  EXPECT_EQ(back.name, "r_48");
  EXPECT_EQ(back.max_nodes, 1234);
  EXPECT_EQ(back.bindings, job.bindings);
  EXPECT_EQ(back.kernel, kernel);
  EXPECT_THROW(job_from_text("CPU\nname\n12\n3\n"), UserError);
}

TEST(Search, WhatItFindsComputesTheSameAndIsNeverSlower) {
  const FlagScope cache(Flag::Cache, fresh_folder("finds"));
  const Result result = search_cpu(product_kernel(), small_limits());
  ASSERT_TRUE(result.searched) << result.why;
  EXPECT_GT(result.tried, 4);
  EXPECT_EQ(result.wrong + result.crashed + result.hung, 0)
      << (result.repros.empty() ? "" : result.repros[0]);
  EXPECT_LE(result.best_ns, result.default_ns);
  ASSERT_FALSE(result.curve.empty());
  for (std::size_t i = 1; i + 1 < result.curve.size(); ++i) {
    EXPECT_GE(result.curve[i].seconds, result.curve[i - 1].seconds);
    EXPECT_LE(result.curve[i].best_ns, result.curve[i - 1].best_ns);
  }
  EXPECT_NO_THROW(apply_options(product_kernel(), result.options, open_device("CPU").compiler->target()));
}

TEST(Search, ADefaultThatIsHardToBeatStays) {
  const FlagScope cache(Flag::Cache, fresh_folder("stays"));
  Limits limits = small_limits();
  limits.least_gain = 0.9999;  // nothing is that much faster
  const Result result = search_cpu(product_kernel(), limits);
  ASSERT_TRUE(result.searched) << result.why;
  EXPECT_EQ(result.options, result.default_options);
  EXPECT_EQ(result.best_ns, result.default_ns);
}

TEST(Search, CrashingAndHangingCandidatesBecomeReprosAndItGoesOn) {
  const std::string folder = fresh_folder("faults");
  const FlagScope cache(Flag::Cache, folder);
  Limits limits = small_limits({"crash", "UPCAST(0, 2)", "hang", "UPCAST(0, 3)"});
  limits.candidate_seconds = 1;
  limits.seconds = 60;
  limits.patience = 4;
  limits.beam = 1;
  // Begins with the planted ones.
  const NodeRef kernel = product_kernel();
  const Result result = search_kernel(
      {kernel, "kernel", &open_device("CPU"), {parse_opts("UPCAST(0, 2)"), parse_opts("UPCAST(0, 3)")}},
      limits);
  ASSERT_TRUE(result.searched) << result.why;
  EXPECT_GE(result.crashed, 1);
  EXPECT_GE(result.hung, 1);
  EXPECT_GT(result.tried, result.crashed + result.hung) << "it ended at the first that failed";
  ASSERT_GE(result.repros.size(), 2u);
  bool crash = false, hang = false;
  for (const std::string& path : result.repros) {
    const KernelText repro = read_kernel_file(path);
    EXPECT_EQ(repro.kernel, kernel);
    const std::string options = to_string(repro.options), text = read_file(path).value();
    if (options == "UPCAST(0, 2)") crash = text.find("crashed on CPU") != std::string::npos;
    if (options == "UPCAST(0, 3)") hang = text.find("hung on CPU") != std::string::npos;
  }
  EXPECT_TRUE(crash);
  EXPECT_TRUE(hang);
  EXPECT_EQ(to_string(result.options).find("UPCAST(0, 2)"), std::string::npos);
}

TEST(Search, ADefaultThatDiffersFromTheReferenceIsNotUsed) {
  const FlagScope cache(Flag::Cache, fresh_folder("wrong"));
  const NodeRef kernel = product_kernel();
  const std::string usual = to_string(choose_options(kernel, open_device("CPU").compiler->target()));
  ASSERT_FALSE(usual.empty());
  const Result result = search_cpu(kernel, small_limits({"wrong", usual}));
  ASSERT_TRUE(result.searched) << result.why;
  EXPECT_FALSE(result.distrusted.empty());
  EXPECT_FALSE(result.unusable);
  EXPECT_FALSE(result.keeps_default());
  EXPECT_TRUE(result.default_options.empty());
  EXPECT_NE(to_string(result.options), usual);
  ASSERT_FALSE(result.repros.empty());
  EXPECT_EQ(to_string(read_kernel_file(result.repros[0]).options), usual);
}

// Vectors are many times as fast as the kernel without options, and here every list that has them is wrong.
TEST(Search, AWrongCandidateLosesHoweverFastItIs) {
  const FlagScope cache(Flag::Cache, fresh_folder("fast_and_wrong"));
  const Result result = search_cpu(product_kernel(), small_limits({"wrong", "UPCAST"}));
  ASSERT_TRUE(result.searched) << result.why;
  EXPECT_FALSE(result.distrusted.empty());  // the default is one of them
  EXPECT_GT(result.wrong, 0);
  EXPECT_EQ(to_string(result.options).find("UPCAST"), std::string::npos) << to_string(result.options);
  EXPECT_GE(result.repros.size(), static_cast<std::size_t>(result.wrong));
}

TEST(Search, AKernelThatIsWrongWithoutOptionsTooIsUnusable) {
  const FlagScope cache(Flag::Cache, fresh_folder("unusable"));
  const Result result = search_cpu(product_kernel(), small_limits({"wrong", ""}));
  EXPECT_FALSE(result.searched);
  EXPECT_TRUE(result.unusable);
  EXPECT_NE(result.why.find("without options it differs from REF"), std::string::npos) << result.why;
  EXPECT_EQ(result.repros.size(), 2u);
}

TEST(Search, AKernelWithAnEmptyOrHugeBufferIsNotSearched) {
  Limits limits = small_limits();
  limits.max_bytes = 1000;
  const Result result = search_cpu(product_kernel(), limits);
  EXPECT_FALSE(result.searched);
  EXPECT_NE(result.why.find("bytes"), std::string::npos);
}

TEST(Search, AMissingOrForeignWorkerIsAClearError) {
  Limits limits = small_limits();
  limits.worker = {"/nonexistent/lathe-worker"};
  EXPECT_THROW(search_cpu(product_kernel(), limits), DeviceError);
  limits.worker = {"/bin/sh", "-c", "read line; echo ok another"};
  EXPECT_THROW(search_cpu(product_kernel(), limits), UserError);
}

// R23: over 200 kernels, which are small, and whose search ends after its default.
TEST(Search, MemoryDoesNotGrowWithTheNumberOfKernels) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer keeps freed memory for a while";
#endif
  const FlagScope cache(Flag::Cache, fresh_folder("memory"));
  Limits limits = small_limits();
  limits.seconds = 0.001;
  limits.compile_processes = 1;
  auto resident = [] {
    std::ifstream file("/proc/self/statm");
    std::int64_t total = 0, pages = 0;
    file >> total >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  auto kernel_at = [](std::int64_t i) { return kernel_of(Tensor::empty({16 + i, 8}).sum(1)); };
  auto search_one = [&](std::int64_t i) {
    const Scope scope;
    const Result result = search_cpu(kernel_at(i), limits);
    EXPECT_TRUE(result.searched) << result.why;
  };
  // The sizes themselves are constants that stay: made before, they are no growth.
  constexpr std::int64_t kKernels = 200;
  for (std::int64_t i = 0; i < kKernels; ++i) {
    const Scope scope;
    kernel_at(i);
  }
  for (std::int64_t i = 0; i < 10; ++i) search_one(i);
  const std::int64_t bytes = resident();
  const std::uint64_t nodes = interner_stats().live;
  for (std::int64_t i = 10; i < kKernels; ++i) search_one(i);
  EXPECT_LE(interner_stats().live, nodes);
  EXPECT_LT(static_cast<double>(resident() - bytes), 0.01 * static_cast<double>(bytes) + (1 << 20));
}

TEST(Store, KeepsWhatItIsGivenAndKnowsDefaultsFromFinds) {
  for (const std::string& folder : {fresh_folder("store"), std::string("off")}) {
    const FlagScope cache(Flag::Cache, folder);
    const std::string key = store_key(row_sum_kernel(), open_device("CPU"));
    keep_tuned(key, {parse_opts("UNROLL(0, 32) THREAD(0, 2)"), false, 2000, 1000, 3});
    const std::optional<Tuned> found = find_tuned(key);
    ASSERT_TRUE(found);
    EXPECT_EQ(to_string(found->options), "UNROLL(0, 32) THREAD(0, 2)");
    EXPECT_FALSE(found->is_default);
    EXPECT_EQ(found->default_ns, 2000);
    EXPECT_EQ(found->best_ns, 1000);
    keep_tuned(key, {{}, true, 2000, 2000, 3});
    EXPECT_TRUE(find_tuned(key)->is_default);
    EXPECT_FALSE(find_tuned(key + " of another chip"));
  }
}

TEST(Store, ItsKeyHoldsKernelChipFlagsAndCode) {
  const OpenDevice& cpu = open_device("CPU");
  const NodeRef kernel = row_sum_kernel();
  const std::string key = store_key(kernel, cpu);
  EXPECT_NE(key.find(code_version()), std::string::npos);
  EXPECT_NE(key.find(cpu.compiler->version()), std::string::npos);
  EXPECT_NE(key.find(cpu.compiler->target().key()), std::string::npos);
  EXPECT_NE(key, store_key(product_kernel(), cpu));
  EXPECT_NE(key, store_key(kernel, open_device("NULL:sm_90a")));
}

// A process that does nothing but write entries is killed again and again; whatever it leaves can be read.
TEST(Store, IsValidAfterAKillAtAnyMoment) {
  const std::string folder = fresh_folder("kill");
  for (int round = 0; round < 8; ++round) {
    ChildProcess writer(
        {self(), "--gtest_also_run_disabled_tests", "--gtest_filter=Store.DISABLED_WritesForever"},
        {{"LATHE_CACHE", folder}});
    ASSERT_TRUE(writer.alive());
    // Killed by the destructor after it wrote some, a little later each time.
    for (int i = 0; i < 600 && !fs::exists(folder + "-tuned/tuned"); ++i) usleep(10'000);
    usleep(static_cast<useconds_t>(1000 + round * 1700));
  }
  const FlagScope cache(Flag::Cache, folder);
  int found = 0, missing_after = 0;
  for (int i = 0; i < 200; ++i) {
    const std::optional<Tuned> entry = find_tuned("entry " + std::to_string(i));
    if (!entry) {
      ++missing_after;
      continue;
    }
    ++found;
    EXPECT_EQ(to_string(entry->options), "UNROLL(0, 32)");
    EXPECT_EQ(entry->best_ns, 1000);
  }
  EXPECT_GT(found, 0) << missing_after << " missing";
  // Whole or absent: nothing that was found damaged had to be skipped.
  for (const auto& file : fs::recursive_directory_iterator(folder + "-tuned")) {
    const bool is_entry = file.is_regular_file() && file.path().filename().string().size() == 32;
    EXPECT_TRUE(!is_entry || file.file_size() > 60) << file.path();
  }
}

// Two processes write the same entries, with different answers, while a third reads: each entry it finds is
// one of the two, whole.
TEST(Store, TwoWritersOfTheSameEntriesLeaveWholeOnes) {
  const std::string folder = fresh_folder("writers");
  const FlagScope cache(Flag::Cache, folder);
  const std::vector<std::string> command = {self(), "--gtest_also_run_disabled_tests",
                                            "--gtest_filter=Store.DISABLED_WritesForever"};
  int found = 0;
  {
    ChildProcess first(command, {{"LATHE_CACHE", folder}}),
        second(command, {{"LATHE_CACHE", folder}, {"STORE_OPTIONS", "UNROLL(0, 64)"}});
    for (int i = 0; i < 600 && !find_tuned("entry 0"); ++i) usleep(10'000);  // both have begun, or nearly
    for (int i = 0; i < 2000; ++i) {
      const std::optional<Tuned> entry = find_tuned("entry " + std::to_string(i % 200));
      if (!entry) continue;
      ++found;
      const std::string options = to_string(entry->options);
      ASSERT_TRUE(options == "UNROLL(0, 32)" || options == "UNROLL(0, 64)") << options;
      ASSERT_EQ(entry->best_ns, 1000);
    }
    ASSERT_TRUE(first.alive() && second.alive());
  }
  EXPECT_GT(found, 0);
}

TEST(Store, DISABLED_WritesForever) {
  const char* options = std::getenv("STORE_OPTIONS");
  for (int i = 0;; ++i)
    keep_tuned("entry " + std::to_string(i % 200),
               {parse_opts(options != nullptr ? options : "UNROLL(0, 32)"), false, 2000, 1000, 3});
}

TEST(Beam, TheEngineUsesWhatTheStoreHas) {
  const FlagScope cache(Flag::Cache, fresh_folder("engine"));
  const FlagScope beam(Flag::Beam, "2");
  const FlagScope seconds(Flag::BeamSeconds, "0");
  const Tensor x = Tensor::arange(Number(64 * 96), {.dtype = dtypes::float32}).reshape({64, 96});
  Tensor input = x.contiguous();
  input.realize();
  const NodeRef kernel = kernel_of(input.sum(1));
  keep_tuned(store_key(kernel, open_device("CPU")), {parse_opts("UNROLL(0, 16)"), false, 2, 1, 3});
  engine::drop_caches();
  engine::set_profiling(true);
  const std::vector<double> sums = input.sum(1).tolist();
  engine::set_profiling(false);
  bool used = false;
  for (const engine::KernelProfile& p : engine::profile()) used = used || p.options == "UNROLL(0, 16)";
  EXPECT_TRUE(used);
  EXPECT_EQ(sums.at(1), 96 * 96 + 96 * 95 / 2);
}

TEST(Beam, SearchesOnFirstCompileAndFindsItTheSecondTime) {
  const FlagScope cache(Flag::Cache, fresh_folder("first"));
  const FlagScope beam(Flag::Beam, "2");
  const FlagScope seconds(Flag::BeamSeconds, "1");
  Tensor input = Tensor::ones({40, 56}).contiguous();
  {
    const FlagScope off(Flag::Beam, "0");
    input.realize();
  }
  const std::string key = store_key(kernel_of(input.sum(1)), open_device("CPU"));
  EXPECT_FALSE(find_tuned(key));
  engine::drop_caches();
  EXPECT_EQ(input.sum(1).tolist().at(3), 56);
  const std::optional<Tuned> found = find_tuned(key);
  if (find_program("lathe-worker").empty()) GTEST_SKIP() << "lathe-worker is not built";
  ASSERT_TRUE(found);
  EXPECT_GT(found->default_ns, 0);
}

TEST(Beam, WithoutItTheStoreIsNotAsked) {
  const FlagScope cache(Flag::Cache, fresh_folder("off"));
  Tensor input = Tensor::ones({24, 56}).contiguous();
  input.realize();
  const NodeRef kernel = kernel_of(input.sum(1));
  {
    const FlagScope beam(Flag::Beam, "1");
    keep_tuned(store_key(kernel, open_device("CPU")), {parse_opts("UNROLL(0, 8)"), false, 2, 1, 3});
  }
  engine::drop_caches();
  engine::set_profiling(true);
  input.sum(1).tolist();
  engine::set_profiling(false);
  for (const engine::KernelProfile& p : engine::profile()) EXPECT_NE(p.options, "UNROLL(0, 8)");
}

TEST(KernelFile, ASavedKernelReplaysToTheSameSource) {
  const std::string folder = fresh_folder("save");
  {
    const FlagScope save(Flag::Save, folder);
    const FlagScope cache(Flag::Cache, "off");
    engine::drop_caches();
    Tensor a = Tensor::ones({32, 24}).contiguous(), b = Tensor::ones({24, 40}).contiguous();
    Tensor::realize_all(std::vector<Tensor>{a, b});
    (a.matmul(b) + 1).relu().tolist();
  }
  int files = 0;
  for (const auto& file : fs::directory_iterator(folder)) {
    const Scope scope;
    const KernelText saved = read_kernel_file(file.path());
    const Compiler& compiler = *open_device("CPU").compiler;
    const Program program = lower_kernel(saved.kernel, saved.options, compiler.target(), saved.name);
    EXPECT_EQ(compiler.compile(program).source, saved.source) << file.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST(KernelFile, WhatIsNoKernelFileIsRefused) {
  const std::string path = testing::TempDir() + "lathe_no_kernel.txt";
  EXPECT_THROW(read_kernel_file(path + ".absent"), UserError);
  write_file_atomic(path, "hello\n");
  EXPECT_THROW(read_kernel_file(path), UserError);
  write_file_atomic(path, "# name\n# options (user): UPCAST(0, x)\n");
  EXPECT_THROW(read_kernel_file(path), Error);
}

}  // namespace
}  // namespace lathe::search
