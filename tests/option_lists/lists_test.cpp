// Whatever options a kernel gets, the device computes what REF says the kernel means. Kernels come from the
// op suite, from nets and from the program fuzzer; lists are drawn from nothing, and around the default as
// the search does. In the tests every third kernel gets one list; OPTION_LISTS=20 tries so many of each, and
// OPTION_KERNELS=folder adds what LATHE_SAVE wrote there (make fuzz does both).
#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <set>

#include <fmt/format.h>

#include "base/env.h"
#include "base/error.h"
#include "codegen/codegen.h"
#include "codegen/random_options.h"
#include "engine/engine.h"
#include "engine/kernels.h"
#include "ir/text.h"
#include "option_lists/pool.h"
#include "option_lists/run_kernel.h"
#include "search/job.h"
#include "search/kernel_text.h"
#include "search/space.h"
#include "support/fuzz.h"
#include "test_folders.h"
#include "verify/compare.h"
#include "verify/expected.h"

namespace lathe::test {
namespace {

using reference::Array;

// Of REF, for one kernel; of longer ones a sample is judged, and the rest against the default.
constexpr double kReferenceOps = 1e6;
// Bodies copied so often that compiling them takes seconds tell nothing new.
search::Limits few_copies() {
  search::Limits limits;
  limits.max_upcast = 128;
  return limits;
}
const search::Limits kLimits = few_copies();

// Says which list was running when a kernel crashed the process.
char running[4096];
void say_running(int number) {
  const std::size_t length = std::char_traits<char>::length(running);
  if (write(STDERR_FILENO, running, length) < 0) _exit(1);
  signal(number, SIG_DFL);
  raise(number);
}

std::vector<Opt> any_of(const std::vector<std::vector<Opt>>& lists, std::mt19937& random) {
  return lists[random() % lists.size()];
}

// One to three steps away from where a search begins.
std::vector<Opt> near_the_default(Node kernel, const Target& target, std::mt19937& random) {
  std::vector<std::vector<Opt>> starts = {choose_options(kernel, target)};
  if (random() % 2 == 0)
    for (std::vector<Opt>& start : search::starting_lists(kernel, target, kLimits))
      starts.push_back(std::move(start));
  std::vector<Opt> list = any_of(starts, random);
  for (std::size_t steps = 1 + random() % 3; steps > 0; --steps) {
    const search::StepKinds kinds = search::neighbours(kernel, list, target, kLimits);
    if (kinds.empty()) break;
    list = any_of(kinds[random() % kinds.size()], random);
  }
  return list;
}

std::vector<Opt> drawn_list(Node kernel, const Target& target, std::mt19937& random) {
  return random() % 2 == 0 ? random_options(kernel, target, random)
                           : near_the_default(kernel, target, random);
}

// A kernel with contents, what REF says of them and what the default leaves.
class Subject {
 public:
  Subject(const PoolKernel& from, OpenDevice& device)
      : name_(from.from), kernel_(from.kernel), device_(device), bindings_(search::bindings_of(kernel_)) {
    for (const search::JobBuffer& buffer : search::buffers_of(kernel_))
      before_.push_back(search::made_up_contents(buffer, before_.size()));
    expected_.emplace(kernel_, before_, bindings_, kReferenceOps);
    if (names_outside()) {
      use_small_integers();
      expected_.emplace(kernel_, before_, bindings_, kReferenceOps);
    }
    if (const reference::BoundedReport& report = expected_->report(); report.incomplete)
      unjudged_ = report.reason;
    else if (names_outside())
      unjudged_ = "an index is outside";
  }

  const std::string& unjudged() const { return unjudged_; }  // why REF can say nothing; else empty
  const std::string& name() const { return name_; }
  Node kernel() const { return kernel_; }

  // What is wrong with a list's results, or nothing.
  std::string try_list(const std::vector<Opt>& list) {
    const RunResult ran = run_kernel(kernel_, list, device_, before_, bindings_);
    if (!ran.fault.empty()) return ran.fault;
    const Target& target = device_.compiler->target();
    const verify::Judgement judged =
        expected_->judge(before_, ran.after, [&] { return apply_options(kernel_, list, target); });
    passed += judged.passed;
    unjudged_elements += judged.unjudged;
    if (judged.failed > 0) return fmt::format("buffer {}: {}", judged.slot, judged.text());
    return expected_->everywhere() ? "" : against_default(ran.after);
  }

  std::int64_t passed = 0, unjudged_elements = 0;

 private:
  // Where an integer of the contents is an index.
  bool names_outside() const {
    return expected_->report().index_fault || !expected_->report().faults.empty();
  }
  void use_small_integers() {
    for (Array& array : before_)
      if (array.dtype().is_int())
        for (std::int64_t i = 0; i < array.size(); ++i) array.set(i, {array.at(i).i & 1, 0});
  }
  std::string against_default(const std::vector<Array>& after) {
    if (of_default_.empty())
      of_default_ = run_kernel(kernel_, choose_options(kernel_, device_.compiler->target()), device_, before_,
                               bindings_)
                        .after;
    for (std::size_t slot = 0; slot < after.size(); ++slot) {
      if (after[slot] == of_default_[slot]) continue;
      const double bound = expected_->relative_bound(static_cast<std::int64_t>(slot), after[slot].dtype());
      const verify::Comparison found = verify::compare(of_default_[slot], after[slot], bound);
      if (!found.equal()) return fmt::format("buffer {}, against the default: {}", slot, found.text());
    }
    return "";
  }

  std::string name_, unjudged_;
  NodeRef kernel_;
  OpenDevice& device_;
  reference::Bindings bindings_;
  std::vector<Array> before_, of_default_;
  std::optional<verify::Expected> expected_;
};

struct Totals {
  std::size_t kernels = 0, lists = 0, unjudged = 0;
  std::int64_t passed = 0, unjudged_elements = 0;
};

// As many different lists as asked for, or as many as can be found.
void try_kernel(const PoolKernel& from, std::size_t wanted, std::uint64_t seed, Totals& totals) {
  const Scope scope;
  OpenDevice& device = open_device("CPU");
  const Target& target = device.compiler->target();
  Subject subject(from, device);
  if (!subject.unjudged().empty()) {
    fmt::print("{}: {}\n", from.from, subject.unjudged());
    ++totals.unjudged;
    return;
  }
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  std::set<std::string> tried;
  for (std::size_t draws = 0; tried.size() < wanted && draws < 6 * wanted; ++draws) {
    const std::vector<Opt> list = drawn_list(subject.kernel(), target, random);
    if (!search::allowed(subject.kernel(), list, target, kLimits)) continue;
    if (!tried.insert(to_string(list)).second) continue;
    const std::string what = fmt::format("{} with '{}', FUZZ_SEED={}", from.from, to_string(list), seed);
    fmt::format_to_n(running, sizeof(running) - 1, "{}\n{}", what, '\0');
    std::string wrong;
    try {
      wrong = subject.try_list(list);
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    EXPECT_EQ(wrong, "") << what << "\n" << print_graph(subject.kernel());
  }
  ++totals.kernels;
  totals.lists += tried.size();
  totals.passed += subject.passed;
  totals.unjudged_elements += subject.unjudged_elements;
  engine::drop_kernels();
}

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Kernels and lists that were found wrong, each a file as LATHE_SAVE writes it.
TEST(OptionLists, WhatOnceFailedIsRight) {
  const FlagScope cache(Flag::Cache, "off");
  std::size_t files = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(LATHE_SOURCE_DIR "/tests/option_lists/failed")) {
    const Scope scope;
    const search::KernelText saved = search::read_kernel_file(file.path().string());
    Subject subject({saved.name, saved.kernel}, open_device("CPU"));
    EXPECT_EQ(subject.unjudged(), "") << saved.name;
    EXPECT_EQ(subject.try_list(saved.options), "") << saved.name;
    EXPECT_GT(subject.passed, 0) << saved.name;
    ++files;
  }
  EXPECT_GE(files, 2u);
}

TEST(OptionLists, WhateverTheListTheDeviceComputesWhatTheReferenceSays) {
  const FlagScope cache(Flag::Cache, "off");
  for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) signal(number, say_running);
  std::vector<PoolKernel> pool = kernel_pool();
  if (const char* folder = std::getenv("OPTION_KERNELS"))
    for (PoolKernel& kernel : saved_kernels(folder)) pool.push_back(std::move(kernel));
  EXPECT_GE(pool.size(), 400u);
  const std::uint64_t seed = number_of("FUZZ_SEED", 1), lists = number_of("OPTION_LISTS", 0);
  Totals totals;
  for (std::size_t i = 0; i < pool.size(); i += lists == 0 ? 3 : 1)
    try_kernel(pool[i], std::max<std::size_t>(lists, 1), seed, totals);
  fmt::print("{} lists over {} kernels; {} kernels unjudged; {} elements passed, {} unjudged\n", totals.lists,
             totals.kernels, totals.unjudged, totals.passed, totals.unjudged_elements);
  EXPECT_GE(totals.kernels, 400u);
  EXPECT_LE(static_cast<double>(totals.unjudged_elements), 0.02 * static_cast<double>(totals.passed));
}

}  // namespace
}  // namespace lathe::test
