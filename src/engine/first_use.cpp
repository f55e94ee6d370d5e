#include "engine/first_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <utility>

#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread_clock.h"
#include "engine/fallback.h"
#include "engine/kernel_check.h"
#include "engine/made_up.h"
#include "engine/sample_positions.h"
#include "engine/trial.h"
#include "ir/ranges.h"

namespace lathe::engine {
namespace {

// What a check costs is counted in operations of REF on one position (BoundedKernel::cost): one is about 2
// ns. The first check of a kernel may cost this much, and two outputs of a long reduce somewhat more. What
// costs more, and what is left for later uses, waits until the launches of kernels that are due have earned
// it, at about a twentieth of what they take; so the budget depends on the program alone, not on the clock.
constexpr double kFirstUnits = 2e5, kFirstLongUnits = 3e6;
constexpr double kUnitsPerLaunch = 5e3, kUnitsPerFlop = 2.5e-4, kUnitsPerByte = 2.5e-3;
// Two outputs that cost more than this are never looked at.
constexpr double kMostUnits = 1e9;
// Checks after which the samples that were not compared so far stay so.
constexpr std::uint64_t kChecks = 4;
// What REF may do beyond what was foreseen.
constexpr double kLeastOps = 1e5;
// Uses whose samples are all alike before the kernel is run on made-up inputs.
constexpr std::uint32_t kWeakUses = 3;

struct Counts {
  std::atomic<std::uint64_t> compared{0}, passed{0}, weak{0}, unchecked{0}, replaced{0};
  std::atomic<double> seconds{0};
};
Counts& counts() {
  static Counts all;
  return all;
}

std::atomic<double> earned{0};

double earn(const Program& launch) {
  return earned += kUnitsPerLaunch + kUnitsPerFlop * launch.flops + kUnitsPerByte * launch.bytes;
}

void show(const Step& step, std::string_view text, std::int64_t level) {
  if (flag_number(Flag::Debug) >= level) log_note("check", fmt::format("{}: {}", step.name, text));
}

// Kinds of sizes, one bit each: remainders of the variables by the options' splits, all least, all greatest.
constexpr int kRemainders = 62;

std::int64_t size_modulus(const SplitUnits& units) {
  std::int64_t modulus = 1;
  for (const auto& [range, sizes] : units) {
    if (range.arg(0).is_const()) continue;
    for (const std::int64_t size : sizes)
      if (const std::int64_t both = std::lcm(modulus, size); both <= kRemainders) modulus = both;
  }
  return modulus;
}

std::uint64_t size_bits(const Program& launch, Bindings bindings, std::int64_t modulus) {
  if (launch.variables.empty()) return 1;
  std::int64_t kind = 0;
  bool least = true, greatest = true;
  for (const NodeRef& variable : launch.variables) {
    const std::int64_t value = evaluate_index(variable, bindings);
    kind = (kind * modulus + ((value % modulus) + modulus) % modulus) % kRemainders;
    least &= value == variable->lo();
    greatest &= value == variable->hi();
  }
  const std::uint64_t one = 1;
  return (one << kind) | (least ? one << 62 : 0) | (greatest ? one << 63 : 0);
}

// One use of a kernel that is due, with its check locked.
class Use {
 public:
  Use(const Step& step, ReadyKernel& kernel, OpenDevice& device, std::span<const Place> places,
      Bindings bindings)
      : step_(step),
        kernel_(kernel),
        device_(device),
        places_(places),
        bindings_(bindings),
        record_(kernel.check->record),
        symbolic_(!kernel.made->launch.variables.empty()) {}

  bool run(LaunchFaultRef& fault) {
    KernelCheck& check = *kernel_.check;
    if (check_mode() != CheckMode::All && is_done()) return false;
    Trial trial(step_, kernel_, device_, places_, bindings_);
    choose_positions(trial);
    if (positions_.empty())
      return writes_something(trial.bounded()) && leave("its stores write over each other", true);
    if (units_needed_ > kMostUnits) return leave("two of its outputs take REF too long", true);
    const bool first = (check.checks == 0 || symbolic_) && units_needed_ <= kFirstLongUnits;
    if (!first) {
      check.need = units_needed_;
      if (earned < units_needed_ && check_mode() != CheckMode::All)
        return leave("two of its outputs take REF longer than a first check may take", false);
      earned -= units_needed_;
    }
    ++check.checks;
    if (!symbolic_) check.need = units_needed_;  // about what the rest costs, if there is one
    if (std::string reason = trial.expect(positions_, most_ops()); !reason.empty())
      return leave(std::move(reason), check.checks >= kChecks);
    const bool repeatable = trial.keep();
    const double before = thread_seconds();
    trial.launch(kernel_, Trial::Counted::Yes);
    launching_ += thread_seconds() - before;
    const Outcome outcome = trial.compare(kernel_);
    if (outcome.failed > 0) {
      replace(trial, outcome, repeatable);
    } else if (outcome.passed == 0) {
      leave(outcome.unsure > 0 ? "the roundings of its sums may explain any difference"
                               : "no bound says anything about its values",
            check.checks >= kChecks);
    } else {
      show(step_, fmt::format("{} elements agree with REF", outcome.passed), 3);
      if (!std::exchange(check.compared, true)) ++counts().compared;
      outcome.alike ? was_weak(trial, repeatable) : passed();
    }
    fault = trial.fault();
    return true;
  }

  double launching() const { return launching_; }  // seconds of this thread

 private:
  std::uint64_t bits() {
    KernelCheck& check = *kernel_.check;
    if (symbolic_ && check.modulus == 0) {
      check.sizes = record_.sizes;
      check.modulus = size_modulus(units());
    }
    return size_bits(kernel_.made->launch, bindings_, check.modulus);
  }
  bool is_done() {
    if (symbolic_) return (bits() & ~record_.sizes) == 0;
    if (!record_.settled) return false;
    kernel_.check->due = false;
    return true;
  }

  const SplitUnits& units() {
    if (!units_) units_ = split_units(step_.ast, kernel_.made->options, target(), bindings_);
    return *units_;
  }
  const Target& target() const { return device_.compiler->target(); }

  // As many of the positions that are left as one check may cost, and at least two.
  void choose_positions(const Trial& trial) {
    const reference::BoundedKernel& bounded = trial.bounded();
    std::uint64_t seed = hash_string(step_.name + to_string(kernel_.made->options));
    if (symbolic_) seed = hash_combine(seed, bits());
    if (check_mode() == CheckMode::All) seed = hash_combine(seed, kernel_.check->checks);
    std::vector<reference::Position> all = sample_positions(bounded.stores(), units(), seed);
    const std::size_t begin = symbolic_ || check_mode() == CheckMode::All ? 0 : record_.next;
    if (begin >= all.size()) return;
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(begin));
    const std::size_t taken = affordable(bounded, all);
    whole_ = taken == all.size();
    all.resize(taken);
    units_needed_ = units_of(bounded, all);
    for (const reference::Position& position : all) ops_ += bounded.operations(position.store);
    positions_ = std::move(all);
  }

  double most_ops() const { return 4 * std::max(ops_, units_needed_) + kLeastOps; }

  static bool writes_something(const reference::BoundedKernel& bounded) {
    return std::ranges::any_of(bounded.stores(), [](const reference::StoreAxes& store) {
      return std::ranges::all_of(store.extents, [](std::int64_t extent) { return extent > 0; });
    });
  }

  static double units_of(const reference::BoundedKernel& bounded,
                         std::span<const reference::Position> positions) {
    std::vector<std::size_t> of_store(bounded.stores().size());
    for (const reference::Position& position : positions) ++of_store[position.store];
    double units = 0;
    for (std::size_t store = 0; store < of_store.size(); ++store)
      if (of_store[store] > 0) units += bounded.cost(store, of_store[store]);
    return units;
  }
  static std::size_t affordable(const reference::BoundedKernel& bounded,
                                std::span<const reference::Position> positions) {
    std::size_t least = std::min<std::size_t>(positions.size(), 2), most = positions.size();
    while (least < most) {
      const std::size_t middle = most == positions.size() ? most : (least + most + 1) / 2;
      if (units_of(bounded, positions.first(middle)) <= kFirstUnits)
        least = middle;
      else
        most = middle - 1;
    }
    return least;
  }

  // Nothing was compared. `for_good`: in this process it is not tried again.
  bool leave(std::string reason, bool for_good) {
    if (record_.unchecked.empty()) ++counts().unchecked;
    record_.unchecked = std::move(reason);
    show(step_,
         fmt::format("unchecked: {} ({} kernels so far)", record_.unchecked, counts().unchecked.load()), 2);
    if (for_good && check_mode() != CheckMode::All) kernel_.check->due = false;
    return false;
  }

  void passed() {
    record_.weak = 0;
    if (!symbolic_) record_.next += static_cast<std::uint32_t>(positions_.size());
    settle(whole_ || kernel_.check->checks >= kChecks);
  }

  void settle(bool done) {
    record_.unchecked.clear();
    record_.sizes |= bits();
    kernel_.check->sizes = record_.sizes;
    if (done && !symbolic_) {
      record_.settled = true;
      if (check_mode() != CheckMode::All) kernel_.check->due = false;
    }
    if (done) ++counts().passed;
    keep_record(kernel_, device_);
  }

  void replace(Trial& trial, const Outcome& outcome, bool repeatable) {
    ++counts().replaced;
    kernel_ = fall_back(trial, kernel_, device_, outcome, {symbolic_ ? bits() : 1, repeatable});
  }

  // All samples of some store are one value: a zero says little about a sum of products. The next uses may
  // bring other inputs; else the kernel runs once on made-up ones.
  void was_weak(Trial& real, bool repeatable) {
    if (record_.weak++ == 0) ++counts().weak;
    show(step_, "weak: all samples of a store are one value", 2);
    if (record_.weak < kWeakUses) return;
    if (const MadeUp inputs(step_, device_, places_); inputs.fits()) {
      Trial trial(step_, kernel_, device_, inputs.places(), bindings_);
      if (trial.expect(positions_, most_ops()).empty()) {
        trial.keep();
        trial.launch(kernel_);
        if (const Outcome outcome = trial.compare(kernel_); outcome.failed > 0) {
          replace(trial, outcome, repeatable);
          real.restore();
          return real.launch(kernel_);
        }
      }
    }
    settle(true);
  }

  const Step& step_;
  ReadyKernel& kernel_;
  OpenDevice& device_;
  std::span<const Place> places_;
  Bindings bindings_;
  CheckRecord& record_;
  const bool symbolic_;
  std::optional<SplitUnits> units_;
  std::vector<reference::Position> positions_;
  double ops_ = 0, units_needed_ = 0, launching_ = 0;
  bool whole_ = false;
};

}  // namespace

bool has_something_due(const ReadyKernel& kernel, Bindings bindings) {
  const KernelCheck& check = *kernel.check;
  if (check.replaced) return true;
  // LATHE_VERIFY compares everything.
  const CheckMode mode = check_mode();
  if (mode == CheckMode::Off || flag_on(Flag::Verify)) return false;
  if (const double have = earn(kernel.made->launch); check.need > have && mode != CheckMode::All)
    return false;
  const std::int64_t modulus = check.modulus;
  if (modulus == 0 || mode == CheckMode::All) return true;
  return (size_bits(kernel.made->launch, bindings, modulus) & ~check.sizes) != 0;
}

bool launch_checked(const Step& step, ReadyKernel& kernel, OpenDevice& device, std::span<const Place> places,
                    Bindings bindings, LaunchFaultRef& fault) {
  if (kernel.check->replaced) {
    kernel = current_kernel(kernel, device);
    if (!kernel.check->due || !has_something_due(kernel, bindings)) return false;
  }
  std::unique_lock lock(kernel.check->mutex);
  if (!kernel.check->due) return false;
  const double begin = thread_seconds();
  Use use(step, kernel, device, places, bindings);
  const bool launched = use.run(fault);
  counts().seconds += thread_seconds() - begin - use.launching();
  return launched;
}

CheckCounts check_counts() {
  const Counts& all = counts();
  return {all.compared, all.passed, all.weak, all.unchecked, all.replaced, all.seconds};
}

}  // namespace lathe::engine
