#include "engine/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/text.h"
#include "engine/launch.h"
#include "ir/build.h"
#include "ir/launch.h"
#include "ir/walk.h"
#include "verify/judge.h"

namespace lathe::engine {
namespace {

// Of inputs in memory that the host cannot reach, for one check.
constexpr std::size_t kCopyBytes = std::size_t{8} << 20;
// Of what is written over, for a second attempt.
constexpr std::size_t kKeepBytes = std::size_t{512} << 20;
// Of each input, for the file about a difference.
constexpr std::int64_t kShownElements = 4096;

void copy_out(const Place& place, std::byte* to) {
  if (place.span.bytes == 0) return;
  const Place host{nullptr, {{0, place.span.bytes, to}, 0, place.span.bytes}};
  executor().wait(executor().copy(host, place));
}

std::byte* host_bytes(const Place& place) {
  return place.span.memory.host == nullptr
             ? nullptr
             : static_cast<std::byte*>(place.span.memory.host) + place.span.offset;
}

}  // namespace

Trial::Trial(const Step& step, OpenDevice& device, std::span<const Place> places, Bindings bindings)
    : step_(step), device_(device), places_(places.begin(), places.end()), bindings_(bindings) {
  for (const auto& [variable, value] : bindings_) values_.emplace_back(variable->text(), value);
  const std::vector<Node> nodes = toposort(step.ast);
  reads_memory_ = std::ranges::any_of(nodes, [](Node n) { return n.is(Op::Load); });
}

std::string Trial::read_inputs() {
  const std::vector<SlotUse> uses = slot_uses(step_.ast, places_.size());
  std::size_t copied = 0;
  copies_.resize(places_.size());
  views_.clear();
  for (std::size_t slot = 0; slot < places_.size(); ++slot) {
    const Place& place = places_[slot];
    const Node buffer = step_.buffers[slot];
    std::byte* data = host_bytes(place);
    executor().wait_written(*place.device, place.span);
    if (data == nullptr && uses[slot].reads && place.span.bytes > 0) {
      copied += place.span.bytes;
      if (copied > kCopyBytes)
        return fmt::format("it reads {} of device memory", human_bytes(place.span.bytes));
      copies_[slot].resize(place.span.bytes);
      copy_out(place, copies_[slot].data());
      data = copies_[slot].data();
    }
    views_.push_back({buffer.dtype(), data, buffer_size(buffer), true});
  }
  return "";
}

std::string Trial::expect(std::span<const reference::Position> positions, double max_ops) {
  if (std::string reason = read_inputs(); !reason.empty()) return reason;
  positions_.assign(positions.begin(), positions.end());
  reference::BoundedOptions options;
  options.max_ops = max_ops;
  reference::BoundedReport report =
      reference::bounded_eval(step_.ast, views_, values_, positions_, options);
  ops_ = report.ops;
  if (report.index_fault) return "an index is outside";  // the user is told where results are read
  if (!report.faults.empty())
    throw InternalError("check", fmt::format("kernel {} is wrong as scheduled: {}", step_.name, report.faults[0]))
        .note("it came from " + step_.origin);
  if (report.incomplete) return report.reason.empty() ? "it is too long for REF" : report.reason;
  samples_ = std::move(report.samples);
  before_.clear();
  for (const reference::Sample& sample : samples_)
    before_.push_back(sample.written || sample.element < 0 ? reference::Cell{}
                                                           : read(sample.slot, sample.element));
  return "";
}

reference::Cell Trial::read(std::int64_t slot, std::int64_t element) const {
  const auto s = static_cast<std::size_t>(slot);
  const DType dtype = step_.buffers[s].node().dtype();
  const auto width = static_cast<std::size_t>(dtype.bytes());
  Place place = places_[s];
  const auto at = static_cast<std::size_t>(element) * width;
  if (const std::byte* data = host_bytes(place)) return reference::reader_of(dtype)(data + at);
  std::byte bytes[16];
  place.span.offset += at;
  place.span.bytes = width;
  copy_out(place, bytes);
  return reference::reader_of(dtype)(bytes);
}

reference::Cell Trial::result(const reference::Sample& sample) const {
  return read(sample.slot, sample.element);
}

void Trial::launch(const ReadyKernel& kernel, Counted counted) {
  const Grid grid = grid_of(kernel.made->launch, bindings_);
  if (is_empty(grid)) return;
  const Launch launch(step_, device_, kernel, grid, bindings_,
                      [&](std::size_t slot) -> const Place& { return places_[slot]; });
  if (counted == Counted::Yes)
    run_launch(step_, *kernel.made, launch, Wait::Yes);
  else
    executor().wait(executor().launch(launch.work()));
}

Outcome Trial::compare() const {
  Outcome out;
  std::vector<bool> differs;  // by store: two values were seen
  std::vector<bool> seen;
  std::vector<double> value;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const reference::Sample& sample = samples_[i];
    if (sample.element < 0) continue;
    const DType dtype = step_.buffers[static_cast<std::size_t>(sample.slot)].node().dtype();
    const reference::Cell got = result(sample);
    verify::Judged judged;
    if (sample.written)
      judged = verify::judge(sample, got, dtype);
    else if (got.i != before_[i].i)
      judged = {verify::Judgement::Failed, "it was to keep its contents"};
    else
      judged = {verify::Judgement::Passed, ""};
    if (judged.judgement == verify::Judgement::Unjudged) continue;
    ++out.judged;
    if (judged.judgement == verify::Judgement::Failed && out.failed++ == 0) {
      out.first = i;
      out.text = fmt::format("element {} of buffer {}: {}", sample.element, sample.slot, judged.text);
    }
    if (!sample.written) continue;
    const std::size_t store = positions_[i].store;
    if (store >= seen.size()) {
      seen.resize(store + 1);
      differs.resize(store + 1);
      value.resize(store + 1);
    }
    const double now = dtype.is_float() ? sample.value.f : static_cast<double>(sample.value.i);
    if (!seen[store])
      seen[store] = true, value[store] = now;
    else if (now != value[store])
      differs[store] = true;
  }
  if (reads_memory_)
    for (std::size_t s = 0; s < seen.size(); ++s) out.alike |= seen[s] && !differs[s];
  return out;
}

bool Trial::keep(const ReadyKernel& kernel) {
  const Program& launch = kernel.made->launch;
  std::size_t total = 0;
  kept_.clear();
  for (const ProgramParam& param : buffer_params(launch)) {
    if (!param.writes) continue;
    const auto slot = static_cast<std::size_t>(param.slot);
    bool needed = false;
    for (const ProgramParam& other : buffer_params(launch))
      needed |= other.reads &&
                byte_range(places_[slot]).overlaps(byte_range(places_[static_cast<std::size_t>(other.slot)]));
    // What a store leaves alone is needed too.
    double written = 0;
    for (const reference::StoreAxes& store : reference::store_axes(step_.ast, values_)) {
      if (store.slot != param.slot || store.store.arg_count() > 3) continue;
      double outputs = 1;
      for (const std::int64_t extent : store.extents) outputs *= static_cast<double>(extent);
      written += outputs;
    }
    needed |= written < static_cast<double>(buffer_size(step_.buffers[slot]));
    if (!needed) continue;
    total += places_[slot].span.bytes;
    if (total > kKeepBytes) {
      kept_.clear();
      return false;
    }
    kept_.push_back({slot, {}});
  }
  for (Kept& kept : kept_) {
    const Place& place = places_[kept.slot];
    kept.bytes.resize(place.span.bytes);
    if (const std::byte* data = host_bytes(place))
      std::memcpy(kept.bytes.data(), data, kept.bytes.size());
    else
      copy_out(place, kept.bytes.data());
  }
  return true;
}

std::vector<ElementRead> Trial::elements_read() const {
  std::vector<ElementRead> out;
  const std::vector<SlotUse> uses = slot_uses(step_.ast, places_.size());
  for (std::size_t slot = 0; slot < views_.size(); ++slot) {
    const reference::View& view = views_[slot];
    const std::byte* data = view.data;
    for (const Kept& kept : kept_)
      if (kept.slot == slot) data = kept.bytes.data();
    if (!uses[slot].reads || data == nullptr) continue;
    const reference::Reader read = reference::reader_of(view.dtype);
    for (std::int64_t i = 0; i < std::min(view.size, kShownElements); ++i)
      out.push_back({static_cast<std::int64_t>(slot), i, read(data + i * view.dtype.bytes())});
  }
  return out;
}

void Trial::restore() {
  for (Kept& kept : kept_) {
    const Place& place = places_[kept.slot];
    if (std::byte* data = host_bytes(place)) {
      std::memcpy(data, kept.bytes.data(), kept.bytes.size());
      continue;
    }
    const Place host{nullptr, {{0, kept.bytes.size(), kept.bytes.data()}, 0, kept.bytes.size()}};
    executor().wait(executor().copy(place, host));
  }
}

}  // namespace lathe::engine
