#include "engine/first_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>

#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "engine/fallback.h"
#include "engine/kernel_check.h"
#include "engine/made_up.h"
#include "engine/sample_positions.h"
#include "engine/trial.h"
#include "ir/ranges.h"

namespace lathe::engine {
namespace {

// What one use of a kernel may cost, in scalar operations of REF, and two outputs of a long reduce.
constexpr double kUseOps = 1e5, kLongOps = 4e6;
// Uses after which the samples that were not compared so far stay so.
constexpr std::uint64_t kUses = 4;
// Uses whose samples are all alike before the kernel is run on made-up inputs.
constexpr std::uint32_t kWeakUses = 3;

struct Counts {
  std::atomic<std::uint64_t> passed{0}, weak{0}, unchecked{0}, replaced{0};
};
Counts& counts() {
  static Counts all;
  return all;
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
    const CheckMode mode = check_mode();
    KernelCheck& check = *kernel_.check;
    if (mode != CheckMode::All && is_done()) return false;
    ++check.uses;
    Trial trial(step_, kernel_, device_, places_, bindings_);
    choose_positions(trial);
    if (positions_.empty()) return leave("");
    if (beyond_budget_ > 0)
      return leave(fmt::format("two of its outputs take REF {:.2g} operations", beyond_budget_));
    if (std::string reason = trial.expect(positions_, 4 * ops_ + kUseOps); !reason.empty())
      return leave(std::move(reason));
    const bool repeatable = trial.keep();
    trial.launch(kernel_, Trial::Counted::Yes);
    const Outcome outcome = trial.compare(kernel_);
    if (outcome.failed > 0) {
      replace(trial, outcome, repeatable);
    } else if (outcome.passed == 0) {
      leave(outcome.unsure > 0 ? "the roundings of its sums may explain any difference"
                               : "no bound says anything about its values");
    } else {
      show(step_, fmt::format("{} elements agree with REF", outcome.passed), 3);
      outcome.alike ? was_weak(trial, repeatable) : passed();
    }
    fault = trial.fault();
    return true;
  }

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

  // As many of the positions that are left as one use may cost, and at least two.
  void choose_positions(const Trial& trial) {
    const std::vector<reference::StoreAxes> stores = reference::store_axes(step_.ast, trial.values());
    const std::vector<double> costs = reference::position_costs(step_.ast, trial.values());
    std::uint64_t seed = hash_string(step_.name + to_string(kernel_.made->options));
    if (symbolic_) seed = hash_combine(seed, bits());
    if (check_mode() == CheckMode::All) seed = hash_combine(seed, kernel_.check->uses);
    std::vector<reference::Position> all = sample_positions(stores, units(), seed);
    const std::size_t begin = symbolic_ || check_mode() == CheckMode::All ? 0 : record_.next;
    std::size_t end = begin;
    for (; end < all.size(); ++end) {
      const double cost = costs[all[end].store];
      if (end >= begin + 2 && ops_ + cost > kUseOps) break;
      ops_ += cost;
    }
    if (ops_ > kLongOps) beyond_budget_ = ops_;
    whole_ = end == all.size();
    if (begin < end)
      positions_.assign(all.begin() + static_cast<std::ptrdiff_t>(begin),
                        all.begin() + static_cast<std::ptrdiff_t>(end));
  }

  // Nothing was compared. Without a reason there was nothing to compare.
  bool leave(std::string reason) {
    if (reason.empty()) return false;
    const bool first = record_.unchecked.empty();
    if (first) ++counts().unchecked;
    record_.unchecked = std::move(reason);
    show(step_,
         fmt::format("unchecked: {} ({} kernels so far)", record_.unchecked, counts().unchecked.load()), 2);
    if (kernel_.check->uses >= kUses) kernel_.check->due = false;  // of this process
    return false;
  }

  void passed() {
    record_.weak = 0;
    if (!symbolic_) record_.next += static_cast<std::uint32_t>(positions_.size());
    settle(whole_ || kernel_.check->uses >= kUses);
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
    if (record_.weak < kWeakUses) return keep_record(kernel_, device_);
    const MadeUp inputs(step_, device_, places_);
    Trial trial(step_, kernel_, device_, inputs.places(), bindings_);
    if (inputs.fits() && trial.expect(positions_, 4 * ops_ + kUseOps).empty()) {
      trial.keep();
      trial.launch(kernel_);
      if (const Outcome outcome = trial.compare(kernel_); outcome.failed > 0) {
        replace(trial, outcome, repeatable);
        real.restore();
        real.launch(kernel_);
        return;
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
  double ops_ = 0, beyond_budget_ = 0;
  bool whole_ = false;
};

}  // namespace

bool has_something_due(const ReadyKernel& kernel, Bindings bindings) {
  const KernelCheck& check = *kernel.check;
  if (check.replaced) return true;
  // LATHE_VERIFY compares everything.
  const CheckMode mode = check_mode();
  if (mode == CheckMode::Off || flag_on(Flag::Verify)) return false;
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
  return Use(step, kernel, device, places, bindings).run(fault);
}

CheckCounts check_counts() { return {counts().passed, counts().weak, counts().unchecked, counts().replaced}; }

}  // namespace lathe::engine
