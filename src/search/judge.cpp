#include "search/judge.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <string_view>

#include "base/atomic_file.h"
#include "verify/compare.h"

namespace lathe::search {
namespace {

// REF looks at a sample of the results of longer kernels: a search has better things to do with its time.
constexpr double kReferenceOps = 2e7;

std::string_view bytes_of(const reference::Array& array) {
  return {reinterpret_cast<const char*>(array.data()), array.byte_count()};
}

}  // namespace

Judge::Judge(Node kernel, std::string folder, std::vector<JobBuffer> buffers,
             std::vector<std::pair<std::string, std::int64_t>> bindings, std::span<const OpError> native)
    : kernel_(kernel),
      folder_(std::move(folder)),
      buffers_(std::move(buffers)),
      bindings_(std::move(bindings)),
      native_(native) {
  for (std::size_t slot = 0; slot < buffers_.size(); ++slot) {
    before_.push_back(made_up_contents(buffers_[slot], slot));
    write_file_atomic(input_file(folder_, slot), bytes_of(before_.back()), Sync::No);
  }
}

std::string Judge::read_results(std::vector<reference::Array>& results) const {
  results.resize(buffers_.size());
  for (std::size_t slot = 0; slot < buffers_.size(); ++slot) {
    if (!buffers_[slot].writes) continue;
    const std::optional<std::string> bytes = read_file(output_file(folder_, slot));
    results[slot] = reference::Array(buffers_[slot].dtype, buffers_[slot].size);
    if (!bytes || bytes->size() != results[slot].byte_count())
      return fmt::format("buffer {} was not written", slot);
    std::memcpy(results[slot].data(), bytes->data(), bytes->size());
  }
  return "";
}

std::optional<Judge::Refusal> Judge::refuse_default(const WithOptions& with_options) {
  if (std::string missing = read_results(of_default_); !missing.empty()) return Refusal{true, missing};
  expected_.emplace(kernel_, before_, bindings_, kReferenceOps, native_);
  const reference::BoundedReport& report = expected_->report();
  if (report.incomplete) return Refusal{false, report.reason};
  if (!report.faults.empty()) return Refusal{true, "as scheduled: " + report.faults[0]};
  const verify::Judgement judged = expected_->judge(before_, of_default_, with_options);
  if (judged.failed > 0) return Refusal{true, fmt::format("buffer {}: {}", judged.slot, judged.text())};
  if (judged.passed == 0) return Refusal{false, "the bounds of its results are too wide"};
  return std::nullopt;
}

std::string Judge::judge(const WithOptions& with_options) {
  std::vector<reference::Array> results;
  if (std::string missing = read_results(results); !missing.empty()) return missing;
  const verify::Judgement judged = expected_->judge(before_, results, with_options);
  if (judged.failed > 0) return fmt::format("buffer {}: {}", judged.slot, judged.text());
  for (std::size_t slot = 0; slot < buffers_.size(); ++slot) {
    if (!buffers_[slot].writes || results[slot] == of_default_[slot]) continue;
    const double relative = expected_->relative_bound(static_cast<std::int64_t>(slot), buffers_[slot].dtype);
    const verify::Comparison found = verify::compare(of_default_[slot], results[slot], relative);
    if (!found.equal()) return fmt::format("buffer {}, against the default: {}", slot, found.text());
  }
  return "";
}

}  // namespace lathe::search
