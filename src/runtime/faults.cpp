#include "runtime/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/devices.h"
#include "runtime/executor.h"
#include "runtime/storage.h"

namespace lathe {
namespace {

// Bytes that depend on more launches than this wait for the oldest of them, which have long ended.
constexpr std::size_t kMostLaunches = 32;
// The op whose check guards a store into the tensor itself.
constexpr std::string_view kStoreOp = "setitem";

thread_local bool faults_stay = false;

// The lines of the tensors that were computed: one, or a few.
std::string made_text(std::span<const PlaceRef> made) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> lines;
  for (const PlaceRef& place : made) {
    std::string text = place == nullptr ? "" : place->text();
    if (!text.empty() && std::find(lines.begin(), lines.end(), text) == lines.end())
      lines.push_back(std::move(text));
  }
  const std::size_t more = lines.size() - std::min(lines.size(), kMost);
  lines.resize(lines.size() - more);
  std::string out = fmt::format("{}", fmt::join(lines, ", "));
  return more == 0 ? out : fmt::format("{} and {} more", out, more);
}

Faults packed(std::vector<LaunchFaultRef> all) {
  std::erase_if(all, [](const LaunchFaultRef& fault) { return fault->clean.load(); });
  for (std::size_t i = 0; all.size() > kMostLaunches && i < all.size() / 2; ++i) {
    executor().wait(all[i]->until);
    all[i]->clean = !all[i]->reported();
  }
  std::erase_if(all, [](const LaunchFaultRef& fault) { return fault->clean.load(); });
  if (all.size() > kMostLaunches) all.resize(kMostLaunches);  // one that reported is enough to tell
  return all.empty() ? nullptr : std::make_shared<const std::vector<LaunchFaultRef>>(std::move(all));
}

}  // namespace

LaunchFault::LaunchFault(OpenDevice& on, std::string_view kernel_name, std::string_view kernel_origin,
                         std::span<const ProgramCheck> kernel_checks)
    : cell(on),
      checks(kernel_checks.begin(), kernel_checks.end()),
      kernel(kernel_name),
      origin(kernel_origin),
      device(on.text),
      made(work_places()) {}

const ProgramCheck& LaunchFault::failed() const {
  return checks[static_cast<std::size_t>(cell.value() >> kFaultIndexBits) - 1];
}

bool LaunchFault::is_store() const { return failed().op == kStoreOp; }

void LaunchFault::raise() {
  if (!faults_stay) told = true;
  const ProgramCheck& check = failed();
  constexpr int kUpper = 64 - kFaultIndexBits;
  std::int64_t index =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(cell.value()) << kUpper) >> kUpper;
  std::string where = fmt::format("found by kernel {} on {}, which came from {}", kernel, device, origin);
  if (const std::string lines = made_text(made); !lines.empty())
    where += fmt::format(", for a tensor made at {}", lines);
  if (check.op == kUnprovedAccess)
    throw IndexError("realize", fmt::format("element {} is outside a buffer of {}", index, check.size))
        .note(where);
  if (index < 0 && check.size >= 0) index -= check.size;  // as it was before it counted from the end
  const std::string axis = check.size < 0 ? "its axis" : fmt::format("an axis of size {}", check.size);
  throw IndexError(check.op, fmt::format("index {} is outside {}", index, axis)).note(where);
}

Faults join(const Faults& a, const Faults& b) {
  if (a == b || b == nullptr) return a;
  if (a == nullptr) return b;
  std::vector<LaunchFaultRef> all = *a;
  for (const LaunchFaultRef& fault : *b)
    if (std::find(a->begin(), a->end(), fault) == a->end()) all.push_back(fault);
  return all.size() == a->size() ? a : packed(std::move(all));
}

Faults with(const Faults& faults, const LaunchFaultRef& own) {
  std::vector<LaunchFaultRef> all;
  if (faults != nullptr) all = *faults;
  all.push_back(own);
  return packed(std::move(all));
}

void check_faults(const Faults& faults) {
  if (faults == nullptr) return;
  for (const LaunchFaultRef& fault : *faults) {
    if (fault->reported()) fault->raise();
    fault->clean = true;
  }
}

void check_faults(Node buffer) {
  const Faults faults = faults_of(buffer);
  if (faults == nullptr) return;
  std::vector<LaunchFaultRef> left;
  LaunchFaultRef told;
  for (const LaunchFaultRef& fault : *faults) {
    if (!fault->reported())
      fault->clean = true;
    else if (told == nullptr && fault->is_store() && !faults_stay)
      told = fault;
    else
      left.push_back(fault);
  }
  set_faults(buffer, left.empty() ? nullptr : std::make_shared<const std::vector<LaunchFaultRef>>(left));
  if (told != nullptr) told->raise();
  if (!left.empty()) left.front()->raise();
}

bool keep_faults(bool on) { return std::exchange(faults_stay, on); }

}  // namespace lathe
