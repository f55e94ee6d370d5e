#include "engine/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "codegen/codegen.h"
#include "engine/compile_context.h"
#include "engine/far_elements.h"
#include "engine/launch.h"
#include "ir/build.h"
#include "ir/launch.h"
#include "ir/walk.h"

namespace lathe::engine {
namespace {

// Of what is in memory that the host cannot reach, for one check.
constexpr std::size_t kCopyBytes = std::size_t{64} << 20;
// A buffer of this size is copied as quickly as some of its elements are fetched.
constexpr std::size_t kSmallBytes = std::size_t{64} << 10;
// How often: once, and once more for each index that was itself loaded.
constexpr int kFetches = 8;
// Of what is written over, for a second attempt: copying more would cost more than the check.
constexpr std::size_t kKeepBytes = std::size_t{64} << 20;
// Samples, and operations of REF, for the file about a difference.
constexpr std::size_t kShownSamples = 4;
constexpr double kShownOps = 1e7;
// Scalar operations of a run of REF that tells roundings from faults.
constexpr double kWholeRunOps = 5e6;

void copy_out(const Place& place, std::byte* to) {
  if (place.span.bytes == 0) return;
  const Place host{nullptr, {{0, place.span.bytes, to}, 0, place.span.bytes}};
  executor().wait(executor().copy(host, place));
}

void copy_on_all_cores(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kPart = std::size_t{1} << 20;
  const auto parts = static_cast<std::int64_t>((bytes + kPart - 1) / kPart);
  ThreadPool::shared().parallel_for(parts, [&](std::int64_t part) {
    const std::size_t first = static_cast<std::size_t>(part) * kPart;
    std::memcpy(to + first, from + first, std::min(kPart, bytes - first));
  });
}

std::byte* host_bytes(const Place& place) {
  return place.span.memory.host == nullptr
             ? nullptr
             : static_cast<std::byte*>(place.span.memory.host) + place.span.offset;
}

reference::Bindings by_name(Bindings bindings) {
  reference::Bindings values;
  for (const auto& [variable, value] : bindings) values.emplace_back(variable->text(), value);
  return values;
}

}  // namespace

Trial::Trial(const Step& step, const ReadyKernel& kernel, OpenDevice& device, std::span<const Place> places,
             Bindings bindings)
    : step_(step),
      device_(device),
      places_(places.begin(), places.end()),
      bindings_(bindings),
      values_(by_name(bindings)),
      bounded_(step.ast, values_),
      uses_(slot_uses(step.ast, places.size())),
      guarded_(!kernel.made->launch.checks.empty()) {
  const std::vector<Node> nodes = toposort(step.ast);
  reads_memory_ = std::ranges::any_of(nodes, [](Node n) { return n.is(Op::Load); });
}

void Trial::read_inputs() {
  copies_.assign(places_.size(), {});
  fetched_.assign(places_.size(), {});
  fetched_bytes_ = 0;
  views_.clear();
  for (std::size_t slot = 0; slot < places_.size(); ++slot) {
    const Place& place = places_[slot];
    const Node buffer = step_.buffers[slot];
    std::byte* data = host_bytes(place);
    executor().wait_written(*place.device, place.span);
    views_.push_back({buffer.dtype(), data, buffer_size(buffer), true});
    if (data != nullptr || !uses_[slot].reads || place.span.bytes == 0) continue;
    if (place.span.bytes > kSmallBytes) {
      views_.back().fetched = &fetched_[slot];
      continue;
    }
    copies_[slot].resize(place.span.bytes);
    copy_out(place, copies_[slot].data());
    views_.back().data = copies_[slot].data();
  }
}

// Fetches elements that REF requested. Returns why they cannot be fetched, or nothing.
std::string Trial::fetch(std::vector<std::pair<std::int64_t, std::int64_t>> missing) {
  std::ranges::sort(missing);
  missing.erase(std::ranges::unique(missing).begin(), missing.end());
  for (auto first = missing.begin(); first != missing.end();) {
    const std::int64_t of = first->first;
    const auto last = std::find_if(first, missing.end(), [&](const auto& m) { return m.first != of; });
    std::vector<std::int64_t> elements;
    for (; first != last; ++first) elements.push_back(first->second);
    const auto slot = static_cast<std::size_t>(of);
    const auto width = static_cast<std::size_t>(views_[slot].dtype.bytes());
    fetched_bytes_ += elements.size() * width;
    if (fetched_bytes_ > kCopyBytes)
      return fmt::format("it reads more than {} of device memory", human_bytes(kCopyBytes));
    fetch_elements(device_, places_[slot], width, elements, fetched_[slot]);
  }
  return "";
}

// What REF says once it has all the elements that it needs.
reference::BoundedReport Trial::eval_fetching(const reference::BoundedOptions& options) {
  for (int fetches = 0;; ++fetches) {
    reference::BoundedReport report = bounded_.eval(views_, positions_, options);
    if (report.missing.empty()) return report;
    reference::BoundedReport none;
    none.incomplete = true;
    none.reason = fetches == kFetches ? "its loads follow from one another too often"
                                      : fetch(std::move(report.missing));
    if (!none.reason.empty()) return none;
  }
}

std::string Trial::expect(std::span<const reference::Position> positions, double max_ops) {
  read_inputs();
  positions_.assign(positions.begin(), positions.end());
  reference::BoundedOptions options;
  options.max_ops = max_ops;
  options.threads = ThreadPool::shared().threads();
  options.native = device_.compiler->target().native;
  reference::BoundedReport report = eval_fetching(options);
  ops_ = report.ops;
  // The user is told where results are read: of an index that was given, and of accesses that are guarded
  // because nothing proves that they stay inside.
  if (report.index_fault || (guarded_ && !report.faults.empty())) return "an index is outside";
  if (!report.faults.empty())
    throw InternalError("check",
                        fmt::format("kernel {} is wrong as scheduled: {}", step_.name, report.faults[0]))
        .note("it came from " + step_.origin);
  if (report.incomplete) return report.reason.empty() ? "it is too long for REF" : report.reason;
  samples_ = std::move(report.samples);
  std::vector<const reference::Sample*> left_alone;
  for (const reference::Sample& sample : samples_)
    if (!sample.written && has_element(sample)) left_alone.push_back(&sample);
  const std::vector<reference::Cell> cells = read(left_alone);
  before_.clear();
  std::size_t next = 0;
  for (const reference::Sample& sample : samples_)
    before_.push_back(!sample.written && has_element(sample) ? cells[next++] : reference::Cell{});
  return "";
}

bool Trial::has_element(const reference::Sample& sample) const {
  return sample.element >= 0 &&
         sample.element < buffer_size(step_.buffers[static_cast<std::size_t>(sample.slot)]);
}

std::vector<reference::Cell> Trial::read(std::span<const reference::Sample* const> samples) const {
  std::vector<reference::Cell> cells(samples.size());
  for (std::size_t slot = 0; slot < places_.size(); ++slot) {
    const DType dtype = step_.buffers[slot].node().dtype();
    const auto width = static_cast<std::size_t>(dtype.bytes());
    const reference::Reader reader = reference::reader_of(dtype);
    const std::byte* data = host_bytes(places_[slot]);
    std::vector<std::int64_t> elements;
    for (const reference::Sample* sample : samples)
      if (sample->slot == static_cast<std::int64_t>(slot)) elements.push_back(sample->element);
    if (elements.empty()) continue;
    std::vector<std::byte> copy;
    reference::FetchedElements fetched;
    if (data == nullptr && places_[slot].span.bytes <= kSmallBytes) {
      copy.resize(places_[slot].span.bytes);
      copy_out(places_[slot], copy.data());
      data = copy.data();
    } else if (data == nullptr) {
      std::ranges::sort(elements);
      elements.erase(std::ranges::unique(elements).begin(), elements.end());
      fetch_elements(device_, places_[slot], width, elements, fetched);
    }
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (samples[i]->slot != static_cast<std::int64_t>(slot)) continue;
      const std::int64_t at = samples[i]->element;
      cells[i] = reader(data != nullptr ? data + static_cast<std::size_t>(at) * width : fetched.find(at));
    }
  }
  return cells;
}

reference::Cell Trial::result(const reference::Sample& sample) const {
  const reference::Sample* one = &sample;
  return read({&one, 1})[0];
}

void Trial::launch(const ReadyKernel& kernel, Counted counted) {
  disown_fault();
  const Grid grid = grid_of(kernel.made->launch, bindings_);
  if (is_empty(grid)) return;
  Launch launch(step_, device_, kernel, grid, bindings_,
                [&](std::size_t slot) -> const Place& { return places_[slot]; });
  fault_ = launch.fault();
  if (counted == Counted::Yes) return run_launch(step_, *kernel.made, launch, Wait::Yes);
  launch.leave_uncounted();
  executor().wait(executor().launch(launch.work()));
}

void Trial::disown_fault() {
  if (fault_ != nullptr) fault_->told = true;
  fault_ = nullptr;
}

Outcome Trial::compare(const ReadyKernel& ran) const {
  std::vector<DType> stored;
  std::vector<reference::Cell> device;
  std::vector<reference::Sample> samples = samples_;
  std::vector<const reference::Sample*> there;
  for (reference::Sample& sample : samples) {
    sample.open |= !has_element(sample);  // a gate that is closed may be before an index that is none
    stored.push_back(step_.buffers[static_cast<std::size_t>(sample.slot)].node().dtype());
    if (has_element(sample)) there.push_back(&sample);
  }
  const std::vector<reference::Cell> cells = read(there);
  std::size_t next = 0;
  for (const reference::Sample& sample : samples)
    device.push_back(has_element(sample) ? cells[next++] : reference::Cell{});
  verify::Judgement judgement = verify::judge(samples, stored, device, before_);
  if (judgement.failed == 0 && judgement.unsure > 0) {
    resolve_unsure(ran, device, judgement);
    judgement.recount(samples, stored, device, before_);
  }
  Outcome out;
  out.passed = judgement.passed;
  out.failed = judgement.failed;
  out.unsure = judgement.unsure;
  out.text = judgement.slot < 0 ? judgement.text()
                                : fmt::format("in buffer {} {}", judgement.slot, judgement.text());
  for (std::size_t i = 0; i < samples_.size(); ++i)
    if (judgement.verdicts[i] == verify::Verdict::Failed) out.differing.push_back(i);
  out.alike = reads_memory_ && some_store_is_constant(judgement);
  return out;
}

// What is between the likely bound and the worst may be an unlucky order of roundings, or a wrong kernel:
// the kernel with its options on REF, in float64 and in its own dtypes, tells which. Those are whole runs, so
// only where they are short; else the samples stay unsure.
void Trial::resolve_unsure(const ReadyKernel& ran, std::span<const reference::Cell> device,
                           verify::Judgement& judgement) const {
  const WholeRun wide = with_options(ran, true), plain = with_options(ran, false);
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const reference::Sample& sample = samples_[i];
    if (judgement.verdicts[i] != verify::Verdict::Unsure || !wide.has(sample) || !plain.has(sample)) continue;
    const auto slot = static_cast<std::size_t>(sample.slot);
    const bool rounding =
        verify::is_rounding(sample, wide.after[slot].dtype(), device[i],
                            wide.after[slot].cell(sample.element), plain.after[slot].cell(sample.element));
    judgement.verdicts[i] = rounding ? verify::Verdict::Passed : verify::Verdict::Failed;
  }
}

bool Trial::WholeRun::has(const reference::Sample& sample) const {
  const auto slot = static_cast<std::size_t>(sample.slot);
  return report.ok() && !after.empty() &&
         (!report.sampled || report.written[slot][static_cast<std::size_t>(sample.element)]);
}

// The kernel with its options on REF; without contents where its inputs are gone.
Trial::WholeRun Trial::with_options(const ReadyKernel& ran, bool wide_floats) const {
  WholeRun run;
  std::vector<reference::View> views;
  for (std::size_t slot = 0; slot < views_.size(); ++slot) {
    const std::byte* bytes = bytes_before(slot);
    if (uses_[slot].reads && bytes == nullptr) return {};
    reference::Array& array =
        run.after.emplace_back(views_[slot].dtype, uses_[slot].writes ? views_[slot].size : 0);
    if (uses_[slot].writes && bytes != nullptr) std::memcpy(array.data(), bytes, array.byte_count());
    reference::View before = views_[slot];
    before.data = const_cast<std::byte*>(bytes);  // only read
    before.fetched = nullptr;
    views.push_back(uses_[slot].writes ? array.view() : before);
  }
  const Scope scope;
  const Node kernel = apply_options(step_.ast, ran.made->options, compile_for(device_.compiler->target()));
  run.report = reference::kernel_eval(kernel, views, values_,
                                      {.seed = 1, .max_ops = kWholeRunOps, .wide_floats = wide_floats});
  return run;
}

// What a slot held before the launch; null where that is gone. The kernel may have written over it through
// another slot.
const std::byte* Trial::bytes_before(std::size_t slot) const {
  if (!copies_[slot].empty()) return copies_[slot].data();
  const ByteRange mine = byte_range(places_[slot]);
  for (const Kept& kept : kept_) {
    const ByteRange range = byte_range(places_[kept.slot]);
    if (!range.overlaps(mine)) continue;
    const bool whole = kept.bytes != nullptr && range.begin <= mine.begin && mine.end <= range.end;
    return whole ? kept.bytes + (mine.begin - range.begin) : nullptr;
  }
  if (views_[slot].data != nullptr || uses_[slot].writes || places_[slot].span.bytes > kCopyBytes)
    return views_[slot].data;
  copies_[slot].resize(places_[slot].span.bytes);  // nothing wrote over it
  copy_out(places_[slot], copies_[slot].data());
  return copies_[slot].data();
}

// Whether some store has no two samples that agree and differ from each other. Numbers that are not finite
// say little of how they came about; neither does a single zero.
bool Trial::some_store_is_constant(const verify::Judgement& judgement) const {
  struct Seen {
    std::int64_t written = 0, finite = 0;
    double first = 0;
    bool differs = false;
    bool says_little() const {
      return written > 0 && !differs && !(written == 1 && finite == 1 && first != 0);
    }
  };
  std::vector<Seen> stores;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const reference::Sample& sample = samples_[i];
    if (!sample.written) continue;
    const std::size_t store = positions_[i].store;
    if (store >= stores.size()) stores.resize(store + 1);
    Seen& seen = stores[store];
    ++seen.written;
    const bool is_float = step_.buffers[static_cast<std::size_t>(sample.slot)].node().dtype().is_float();
    const double value = is_float ? sample.value.f : static_cast<double>(sample.value.i);
    const verify::Verdict verdict = judgement.verdicts[i];
    if (!std::isfinite(value) || verdict == verify::Verdict::Unjudged) continue;
    if (seen.finite++ == 0) seen.first = value;
    seen.differs |= value != seen.first;
  }
  return std::ranges::any_of(stores, &Seen::says_little);
}

bool Trial::keep() {
  // What a store leaves alone is needed again, as is what is read.
  std::vector<double> written(places_.size(), 0);
  for (const reference::StoreAxes& store : bounded_.stores()) {
    if (store.store.arg_count() > 3) continue;
    double outputs = 1;
    for (const std::int64_t extent : store.extents) outputs *= static_cast<double>(extent);
    written[static_cast<std::size_t>(store.slot)] += outputs;
  }
  std::size_t total = 0;
  kept_.clear();
  for (std::size_t slot = 0; slot < places_.size(); ++slot) {
    if (!uses_[slot].writes) continue;
    bool needed = written[slot] < static_cast<double>(buffer_size(step_.buffers[slot]));
    for (std::size_t other = 0; other < places_.size(); ++other)
      needed |= uses_[other].reads && byte_range(places_[slot]).overlaps(byte_range(places_[other]));
    if (!needed) continue;
    total += places_[slot].span.bytes;
    kept_.push_back({slot, nullptr});
  }
  if (total > kKeepBytes) return false;  // bytes_before sees that they are gone
  std::byte* next = kept_block_.take(total);
  for (Kept& kept : kept_) {
    const Place& place = places_[kept.slot];
    kept.bytes = std::exchange(next, next + place.span.bytes);
    if (const std::byte* data = host_bytes(place))
      copy_on_all_cores(kept.bytes, data, place.span.bytes);
    else
      copy_out(place, kept.bytes);
  }
  return true;
}

std::vector<ElementRead> Trial::elements_read(const Outcome& outcome) const {
  std::vector<reference::Position> positions;
  for (std::size_t i = 0; i < std::min(outcome.differing.size(), kShownSamples); ++i)
    positions.push_back(positions_[outcome.differing[i]]);
  std::vector<reference::View> views = views_;
  std::vector<std::vector<std::int64_t>> reads(views.size());
  for (std::size_t slot = 0; slot < views.size(); ++slot) {
    if (views[slot].fetched == nullptr) {
      const std::byte* bytes = bytes_before(slot);
      if (uses_[slot].reads && bytes == nullptr) return {};
      views[slot].data = const_cast<std::byte*>(bytes);  // only read
    }
    views[slot].reads = &reads[slot];
  }
  bounded_.eval(views, positions, {.max_ops = kShownOps});
  std::vector<ElementRead> out;
  for (std::size_t slot = 0; slot < views.size(); ++slot) {
    std::sort(reads[slot].begin(), reads[slot].end());
    const auto end = std::unique(reads[slot].begin(), reads[slot].end());
    const reference::Reader read = reference::reader_of(views[slot].dtype);
    for (auto at = reads[slot].begin(); at != end; ++at) {
      const std::byte* bytes = views[slot].fetched != nullptr
                                   ? views[slot].fetched->find(*at)
                                   : views[slot].data + *at * views[slot].dtype.bytes();
      if (bytes != nullptr) out.push_back({static_cast<std::int64_t>(slot), *at, read(bytes)});
    }
  }
  return out;
}

void Trial::restore() {
  for (Kept& kept : kept_) {
    if (kept.bytes == nullptr) continue;
    const Place& place = places_[kept.slot];
    if (std::byte* data = host_bytes(place)) {
      copy_on_all_cores(data, kept.bytes, place.span.bytes);
      continue;
    }
    const Place host{nullptr, {{0, place.span.bytes, kept.bytes}, 0, place.span.bytes}};
    executor().wait(executor().copy(place, host));
  }
}

}  // namespace lathe::engine
