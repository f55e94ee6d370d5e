// One launch of a kernel under check. REF computes the sampled outputs before the launch, because a kernel
// may overwrite its inputs; afterwards they are compared. Overwritten inputs are kept, so that the launch can
// be repeated with another kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/kept_block.h"
#include "engine/kernels.h"
#include "ir/launch.h"
#include "reference/array.h"
#include "reference/bounded.h"
#include "runtime/executor.h"
#include "runtime/faults.h"
#include "schedule/schedule.h"
#include "verify/judge.h"

namespace lathe::engine {

struct Outcome {
  std::int64_t passed = 0, failed = 0;  // samples
  std::int64_t unsure = 0;              // beyond the likely bound of rounding, within the worst
  bool alike = false;                   // of some store no two values were told apart, so little was seen
  std::vector<std::size_t> differing;   // samples that failed
  std::string text;  // of the sample that is furthest off: "element 3 of buffer 0 is 2, not 1.5: ..."
};

// An input of the kernel as it was before the launch.
struct ElementRead {
  std::int64_t slot = 0, element = 0;
  reference::Cell value{};
};

class Trial {
 public:
  // Of this kernel, or of others made from the same step; `places` are the bytes of the param slots.
  Trial(const Step& step, const ReadyKernel& kernel, OpenDevice& device, std::span<const Place> places,
        Bindings bindings);

  // Asks REF for these positions. Returns why it cannot say, or nothing.
  std::string expect(std::span<const reference::Position> positions, double max_ops);

  // Runs the kernel and waits for it. What the program asked for is counted and shown, further attempts are
  // not.
  enum class Counted : std::uint8_t { No, Yes };
  void launch(const ReadyKernel& kernel, Counted counted = Counted::No);
  // What the last launch may report of indices; null where it checks none.
  const LaunchFaultRef& fault() const { return fault_; }
  // Nobody is told of it: what the last launch left is not used.
  void disown_fault();
  // Compares what this kernel left with what REF expects.
  Outcome compare(const ReadyKernel& ran) const;

  // Keeps what a second attempt would find overwritten; false where that is too much to keep.
  bool keep();
  void restore();

  const std::vector<reference::Sample>& samples() const { return samples_; }
  // What REF reads for some of the samples that differ.
  std::vector<ElementRead> elements_read(const Outcome& outcome) const;
  const Step& step() const { return step_; }
  const reference::Bindings& values() const { return values_; }
  const reference::BoundedKernel& bounded() const { return bounded_; }
  bool has_element(const reference::Sample& sample) const;
  reference::Cell result(const reference::Sample& sample) const;  // what the device holds there now
  double ops() const { return ops_; }

 private:
  struct Kept {
    std::size_t slot;
    std::byte* bytes;  // in kept_block_; null: too much to keep
  };
  void read_inputs();
  std::string fetch(std::vector<std::pair<std::int64_t, std::int64_t>> missing);
  reference::BoundedReport eval_fetching(const reference::BoundedOptions& options);
  // What the device holds at these places now: of each slot that the host does not reach all at once.
  std::vector<reference::Cell> read(std::span<const reference::Sample* const> samples) const;
  bool some_store_is_constant(const verify::Judgement& judgement) const;
  const std::byte* bytes_before(std::size_t slot) const;
  struct WholeRun {
    std::vector<reference::Array> after;  // of slots that are written
    reference::EvalReport report;
    bool has(const reference::Sample& sample) const;
  };
  WholeRun with_options(const ReadyKernel& ran, bool wide_floats) const;
  void resolve_unsure(const ReadyKernel& ran, std::span<const reference::Cell> device,
                      verify::Judgement& judgement) const;

  const Step& step_;
  OpenDevice& device_;
  std::vector<Place> places_;
  Bindings bindings_;
  reference::Bindings values_;          // the same by name
  reference::BoundedKernel bounded_;    // the kernel as scheduled, on REF
  std::vector<reference::View> views_;  // by slot, as the host sees them
  mutable std::vector<std::vector<std::byte>>
      copies_;  // of what the host does not reach, once it is wanted whole
  std::vector<reference::FetchedElements> fetched_;  // by slot: of what is too much to be copied
  std::size_t fetched_bytes_ = 0;
  std::vector<reference::Position> positions_;
  std::vector<reference::Sample> samples_;
  std::vector<reference::Cell> before_;  // of samples that are not written
  std::vector<Kept> kept_;
  KeptBlock kept_block_;
  LaunchFaultRef fault_;
  std::vector<SlotUse> uses_;
  bool reads_memory_ = true;  // some value stored comes from memory
  bool guarded_ = false;      // some access is only known to stay inside when the kernel runs
  double ops_ = 0;
};

}  // namespace lathe::engine
