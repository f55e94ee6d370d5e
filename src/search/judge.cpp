#include "search/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/atomic_file.h"
#include "reference/reference.h"
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
             std::vector<std::pair<std::string, std::int64_t>> bindings)
    : kernel_(kernel),
      folder_(std::move(folder)),
      buffers_(std::move(buffers)),
      bindings_(std::move(bindings)) {
  for (std::size_t slot = 0; slot < buffers_.size(); ++slot) {
    const reference::Array contents = made_up_contents(buffers_[slot], slot);
    scale_ = std::max(scale_, verify::magnitude_of(contents));
    write_file_atomic(input_file(folder_, slot), bytes_of(contents), Sync::No);
  }
  scale_ = std::max(scale_, scale_ * scale_);
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

Verdict Judge::accept_default() {
  if (std::string missing = read_results(expected_); !missing.empty()) return {missing};
  std::vector<reference::Array> arrays;
  for (std::size_t slot = 0; slot < buffers_.size(); ++slot)
    arrays.push_back(made_up_contents(buffers_[slot], slot));
  std::vector<reference::View> views;
  for (reference::Array& array : arrays) views.push_back(array.view());
  const reference::EvalReport report =
      reference::kernel_eval(kernel_, views, bindings_, {.seed = 1, .max_ops = kReferenceOps});
  if (report.incomplete) return {};  // too long even for a sample: the default is what would run anyway
  if (!report.faults.empty()) return {"as scheduled: " + report.faults[0]};
  for (std::size_t slot = 0; slot < buffers_.size(); ++slot) {
    if (!buffers_[slot].writes) continue;
    verify::Tolerance tolerance = verify::tolerance_of(kernel_, buffers_[slot].dtype);
    tolerance.scale = std::max(scale_, verify::magnitude_of(arrays[slot]));
    const verify::Comparison found = verify::compare(arrays[slot], expected_[slot], tolerance,
                                                     report.sampled ? &report.written[slot] : nullptr);
    if (!found.equal()) return {fmt::format("buffer {}: {}", slot, found.text()), true};
  }
  return {};
}

std::string Judge::judge() {
  std::vector<reference::Array> results;
  if (std::string missing = read_results(results); !missing.empty()) return missing;
  for (std::size_t slot = 0; slot < buffers_.size(); ++slot) {
    if (!buffers_[slot].writes || results[slot] == expected_[slot]) continue;
    verify::Tolerance tolerance = verify::tolerance_of(kernel_, buffers_[slot].dtype);
    tolerance.roundings *= 2;  // both are as far from the truth as one may be
    tolerance.scale = std::max(scale_, verify::magnitude_of(expected_[slot]));
    const verify::Comparison found = verify::compare(expected_[slot], results[slot], tolerance);
    if (!found.equal()) return fmt::format("buffer {}: {}", slot, found.text());
  }
  return "";
}

}  // namespace lathe::search
