// REF's bounds say something: over the kernels of the op suite and of the nets, at most one result in fifty
// is unjudged. Only the positions asked for are computed, so that nets of full size cost little; their memory
// is a few pages of noise, mapped again and again.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <random>

#include <fmt/format.h>

#include "ir/build.h"
#include "ir/walk.h"
#include "replay/kernels_of.h"
#include "verify/expected.h"

namespace lathe::test {
namespace {

using reference::Array;
using reference::Cell;
using reference::Sample;

constexpr std::size_t kBlock = 1 << 20;

// A file of normally distributed numbers, or of small integers.
int noise(DType dtype, std::uint64_t seed) {
  static std::map<std::pair<Scalar, std::uint64_t>, int> files;
  const auto [place, is_new] = files.try_emplace({dtype.scalar, seed}, -1);
  if (!is_new) return place->second;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(kBlock / static_cast<std::size_t>(dtype.bytes()));
  for (double& v : values)
    v = dtype.is_float() ? normal(random) : static_cast<double>(random() % (dtype.is_bool() ? 2 : 3));
  const Array block = Array::of(dtype, values);
  place->second = memfd_create("noise", 0);
  if (write(place->second, block.data(), kBlock) != static_cast<ssize_t>(kBlock)) std::abort();
  return place->second;
}

// A range of addresses that repeats one block of noise.
class RepeatedMemory {
 public:
  RepeatedMemory(DType dtype, std::int64_t size, std::uint64_t seed) : dtype_(dtype), size_(size) {
    const auto bytes = static_cast<std::size_t>(size) * static_cast<std::size_t>(dtype.bytes());
    mapped_ = (bytes + kBlock - 1) / kBlock * kBlock;
    data_ = static_cast<std::byte*>(
        mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (std::size_t at = 0; at < mapped_; at += kBlock)
      if (mmap(data_ + at, kBlock, PROT_READ, MAP_SHARED | MAP_FIXED, noise(dtype, seed), 0) == MAP_FAILED)
        std::abort();
  }
  ~RepeatedMemory() { munmap(data_, mapped_); }
  RepeatedMemory(const RepeatedMemory&) = delete;
  RepeatedMemory& operator=(const RepeatedMemory&) = delete;
  reference::View view() const { return {dtype_, data_, size_, true}; }

 private:
  DType dtype_;
  std::int64_t size_;
  std::size_t mapped_ = 0;
  std::byte* data_ = nullptr;
};

struct Counts {
  std::int64_t samples = 0, unjudged = 0, kernels = 0, incomplete = 0;
};

void count(Node kernel, Counts& counts, std::map<std::string, int>& reasons) {
  std::vector<std::unique_ptr<RepeatedMemory>> memory;
  std::vector<reference::View> views;
  reference::Bindings bindings;
  for (Node n : toposort(kernel)) {
    if (n.is(Op::Var)) bindings.emplace_back(n.text(), n.hi());
    if (!n.is(Op::Param)) continue;
    const auto slot = static_cast<std::size_t>(param_slot(n));
    if (views.size() <= slot) views.resize(slot + 1);
    if (views[slot].data != nullptr) continue;
    memory.push_back(
        std::make_unique<RepeatedMemory>(n.dtype(), std::max<std::int64_t>(memory_size(n), 1), slot + 1));
    views[slot] = memory.back()->view();
  }
  const std::vector<reference::StoreAxes> stores = reference::store_axes(kernel, bindings);
  const std::vector<double> costs = reference::position_costs(kernel, bindings);
  const std::vector<reference::Position> positions = verify::choose_positions(stores, costs, 2e4, 1);
  const reference::BoundedReport report =
      reference::bounded_eval(kernel, views, bindings, positions, {.max_ops = 2e7});
  ++counts.kernels;
  if (report.incomplete) {
    ++counts.incomplete;
    ++reasons[report.reason];
    return;
  }
  // REF's own values as a device's: passed, or unjudged.
  std::vector<Sample> written;
  std::vector<DType> stored;
  std::vector<Cell> values;
  for (const Sample& s : report.samples) {
    if (!s.written) continue;
    written.push_back(s);
    stored.push_back(views[static_cast<std::size_t>(s.slot)].dtype);
    values.push_back(s.value);
  }
  counts.samples += static_cast<std::int64_t>(written.size());
  counts.unjudged += verify::judge(written, stored, values).unjudged;
}

TEST(Bounds, SayNothingAboutAtMostOneResultInFiftyOfTheOpSuiteAndTheNets) {
  double samples = 0, unjudged = 0, kernels = 0, incomplete = 0;
  std::map<std::string, int> reasons;
  std::vector<ReplayGraph> graphs = replay_graphs();
  for (DataType dtype : {dtypes::float16, dtypes::bfloat16, dtypes::float64})
    for (ReplayGraph& graph : op_graphs(dtype)) graphs.push_back(std::move(graph));
  for (const ReplayGraph& graph : graphs) {
    Counts counts;
    Scope scope;
    for (const NodeRef& kernel : scheduled_kernels(graph.build(), "x86-64-v3"))
      count(kernel, counts, reasons);
    // Each graph counts alike, however large its kernels are.
    const double all = std::max<double>(static_cast<double>(counts.samples), 1);
    samples += 1;
    unjudged += static_cast<double>(counts.unjudged) / all;
    kernels += static_cast<double>(counts.kernels);
    incomplete += static_cast<double>(counts.incomplete);
    if (counts.unjudged > 0 || counts.incomplete > 0)
      fmt::print("{}: {} of {} results unjudged, {} of {} kernels incomplete\n", graph.name, counts.unjudged,
                 counts.samples, counts.incomplete, counts.kernels);
  }
  for (const auto& [why, n] : reasons) fmt::print("{} kernels: {}\n", n, why);
  fmt::print("{:.2f} % of the results are unjudged; {} of {} kernels are incomplete\n",
             100 * unjudged / samples, incomplete, kernels);
  EXPECT_LE(unjudged / samples, 0.02);
  EXPECT_LE(incomplete / kernels, 0.02);
}

}  // namespace
}  // namespace lathe::test
