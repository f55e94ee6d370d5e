#include "engine/first_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
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
// What a launch takes on a target with groups follows from its facts, and a twentieth of each second pays for
// so many operations. Its compiler takes half a second and more for a kernel: a first check may be a tenth.
constexpr double kUnitsPerSecond = 0.05 / 2e-9, kFirstGroupUnits = 2.5e7;
// Two outputs that cost more than this are never looked at.
constexpr double kMostUnits = 1e9;
// Checks after which the samples that were not compared so far stay so.
constexpr std::uint64_t kChecks = 4;
// Kinds of sizes that are looked at when they first come; further ones wait until that was earned.
constexpr std::size_t kFreeSizes = 64;
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

double earned_by(const Program& launch, const Target& target) {
  const GroupRates& rates = target.group_rates;
  if (!target.groups || rates.launch_seconds == 0)
    return kUnitsPerLaunch + kUnitsPerFlop * launch.flops + kUnitsPerByte * launch.bytes;
  const double seconds =
      rates.launch_seconds + launch.flops / (2 * rates.panel_products) + launch.bytes / rates.moved_bytes;
  return kUnitsPerSecond * seconds;
}

double earn(const Program& launch, const Target& target) { return earned += earned_by(launch, target); }

void show(const Step& step, std::string_view text, std::int64_t level) {
  if (flag_number(Flag::Debug) >= level) log_note("check", fmt::format("{}: {}", step.name, text));
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
        check_(*kernel.check),
        symbolic_(!kernel.made->launch.variables.empty()),
        kind_(symbolic_ ? kind() : 0) {
    if (const auto known = check_.record.sizes.find(kind_); known != check_.record.sizes.end())
      size_ = known->second;
  }

  bool run(LaunchFaultRef& fault) {
    const bool ran = look(fault);
    put_size();
    return ran;
  }

  double launching() const { return launching_; }  // seconds of this thread

 private:
  bool look(LaunchFaultRef& fault) {
    if (check_mode() != CheckMode::All && is_done()) return false;
    Trial trial(step_, kernel_, device_, places_, bindings_);
    choose_positions(trial);
    if (positions_.empty()) return nothing_to_compare();
    if (units_needed_ > kMostUnits) return leave("two of its outputs take REF too long", true);
    const bool cheap = units_needed_ <= (target().groups ? kFirstGroupUnits : kFirstLongUnits),
               few = check_.record.sizes.size() < kFreeSizes;
    set_need(units_needed_);  // about what the rest costs, if there is one
    if (size_.checks > 0 || !cheap || !few) {
      if (earned < units_needed_ && check_mode() != CheckMode::All)
        return leave(few ? "two of its outputs take REF longer than a first check may take"
                         : "its launches so far do not justify checking another size",
                     false);
      earned -= units_needed_;
    }
    ++size_.checks;
    if (std::string reason = trial.expect(positions_, most_ops()); !reason.empty())
      return leave(std::move(reason), size_.checks >= kChecks);
    const bool repeatable = trial.keep();
    const double before = thread_seconds();
    trial.launch(kernel_, Trial::Counted::Yes);
    launching_ += thread_seconds() - before;
    const Outcome outcome = trial.compare(kernel_);
    if (outcome.failed > 0) {
      replace(trial, outcome, repeatable);
    } else if (outcome.passed == 0) {
      leave(outcome.unsure > 0 ? "the roundings of its sums may explain any difference"
                               : "no error bound is known for its values",
            size_.checks >= kChecks);
    } else {
      show(step_, fmt::format("{} elements agree with REF", outcome.passed), 3);
      if (!std::exchange(check_.compared, true)) ++counts().compared;
      outcome.alike ? was_weak(trial, repeatable) : passed();
    }
    fault = trial.fault();
    return true;
  }

  std::uint64_t kind() {
    if (!check_.has_splits) {
      check_.splits = size_splits(step_.ast, kernel_.made->options, target());
      check_.has_splits = true;
    }
    return size_kind(kernel_.made->launch, bindings_, check_.splits);
  }
  bool is_done() {
    if (size_.settled && !symbolic_) check_.due = false;
    return size_.settled || size_.left;
  }
  void set_need(double units) {
    size_.need = units;
    if (!symbolic_) check_.need = units;
  }
  void put_size() {
    const std::lock_guard guard(check_.sizes_mutex);
    check_.record.sizes[kind_] = size_;
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
    seed = hash_combine(seed, kind_);
    if (check_mode() == CheckMode::All) seed = hash_combine(seed, size_.checks);
    std::vector<reference::Position> all = sample_positions(bounded.stores(), units(), bindings_, seed);
    known_ = all.size();
    stores_something_ = writes_something(bounded);
    const std::size_t begin = check_mode() == CheckMode::All ? 0 : size_.next;
    whole_ = true;
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

  // No positions: all of them passed, the kernel stores nothing at this size, or they cannot be told apart.
  bool nothing_to_compare() {
    if (known_ > 0)
      settle(true);
    else if (stores_something_)
      leave("its stores write over each other", true);
    return false;
  }

  // Nothing was compared. `for_good`: in this process it is not tried again, at sizes of this kind.
  bool leave(std::string reason, bool for_good) {
    std::string& unchecked = check_.record.unchecked;
    if (unchecked.empty()) ++counts().unchecked;
    unchecked = std::move(reason);
    show(step_, fmt::format("unchecked: {} ({} kernels so far)", unchecked, counts().unchecked.load()), 2);
    if (for_good && check_mode() != CheckMode::All) {
      size_.left = true;
      if (!symbolic_) check_.due = false;
    }
    return false;
  }

  // Samples agreed. With other random positions at every launch there is no telling which are left.
  void passed() {
    check_.record.unchecked.clear();
    if (check_mode() == CheckMode::All) {
      ++counts().passed;
      return;
    }
    const std::uint32_t checks = size_.checks - size_.weak;  // those that said something
    size_.next += static_cast<std::uint32_t>(positions_.size());
    settle(whole_ || checks >= kChecks);
  }

  void settle(bool done) {
    if (done) {
      size_.settled = true;
      if (!symbolic_) check_.due = false;
      ++counts().passed;
    }
    put_size();
    keep_record(kernel_, device_);
  }

  void replace(Trial& trial, const Outcome& outcome, bool repeatable) {
    ++counts().replaced;
    const bool whole = whole_ && size_.next == 0 && check_mode() != CheckMode::All;
    kernel_ = fall_back(trial, kernel_, device_, outcome, {whole, repeatable});
  }

  // Of some store no two values were told apart: a zero says little about a sum of products. The next uses
  // may bring other inputs; else the kernel runs once on made-up ones. Where those say no more, it stays due,
  // and each further look waits until more was earned.
  void was_weak(Trial& real, bool repeatable) {
    if (size_.weak++ == 0) ++counts().weak;
    show(step_, "weak: all samples of a store are one value", 2);
    if (size_.weak < kWeakUses) return;
    if (size_.weak == kWeakUses && agrees_on_made_up_inputs(real, repeatable)) return;
    set_need(units_needed_ * std::pow(size_.weak, 2));
    leave("all its samples are one value", false);
  }

  // False where that says nothing either.
  bool agrees_on_made_up_inputs(Trial& real, bool repeatable) {
    const MadeUp inputs(step_, device_, places_);
    if (!inputs.fits()) return false;
    Trial trial(step_, kernel_, device_, inputs.places(), bindings_);
    if (!trial.expect(positions_, most_ops()).empty()) return false;
    trial.keep();
    trial.launch(kernel_);
    const Outcome outcome = trial.compare(kernel_);
    trial.disown_fault();
    if (outcome.failed > 0) {
      replace(trial, outcome, repeatable);
      trial.disown_fault();
      real.restore();
      real.launch(kernel_);
      return true;
    }
    if (outcome.passed == 0 || outcome.alike) return false;
    passed();
    return true;
  }

  const Step& step_;
  ReadyKernel& kernel_;
  OpenDevice& device_;
  std::span<const Place> places_;
  Bindings bindings_;
  KernelCheck& check_;  // of the kernel that was to run
  const bool symbolic_;
  const std::uint64_t kind_;
  SizeCheck size_;
  std::optional<SplitUnits> units_;
  std::vector<reference::Position> positions_;
  double ops_ = 0, units_needed_ = 0, launching_ = 0;
  std::size_t known_ = 0;  // positions of all checks together
  bool whole_ = false, stores_something_ = false;
};

}  // namespace

bool has_something_due(const ReadyKernel& kernel, const OpenDevice& device, Bindings bindings) {
  const KernelCheck& check = *kernel.check;
  if (check.replaced) return true;
  // LATHE_VERIFY compares everything.
  const CheckMode mode = check_mode();
  if (mode == CheckMode::Off || flag_on(Flag::Verify)) return false;
  const double have = earn(kernel.made->launch, device.compiler->target());
  if (mode == CheckMode::All) return true;
  if (kernel.made->launch.variables.empty()) return check.need <= have;
  if (!check.has_splits) return true;
  const std::uint64_t kind = size_kind(kernel.made->launch, bindings, check.splits);
  const std::lock_guard guard(kernel.check->sizes_mutex);
  const auto known = check.record.sizes.find(kind);
  if (known == check.record.sizes.end()) return true;
  return !known->second.settled && !known->second.left && known->second.need <= have;
}

bool launch_checked(const Step& step, ReadyKernel& kernel, OpenDevice& device, std::span<const Place> places,
                    Bindings bindings, LaunchFaultRef& fault) {
  if (kernel.check->replaced) {
    kernel = current_kernel(kernel, device);
    if (!kernel.check->due || !has_something_due(kernel, device, bindings)) return false;
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
