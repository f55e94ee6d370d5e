#include "lathe/llm/stop_text.h"

#include <algorithm>
#include <utility>

#include "lathe/error.h"

namespace lathe::llm {
namespace {

// The longest end of the text that a stop sequence begins with, without being all of it.
std::size_t unsure(std::string_view text, const std::string& stop) {
  for (std::size_t size = std::min(text.size(), stop.size() - 1); size > 0; --size)
    if (text.ends_with(std::string_view(stop).substr(0, size))) return size;
  return 0;
}

}  // namespace

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    if (stop.empty()) throw UserError("stop", "a stop sequence is empty");
}

std::string StopText::push(std::string_view text) {
  if (stopped_) return "";
  held_ += text;
  // The one that is complete first counts, of several the longest: so it does not matter in which pieces the
  // text comes.
  std::size_t first = std::string::npos, end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at == std::string::npos || at + stop.size() > end || (at + stop.size() == end && at >= first))
      continue;
    first = at;
    end = at + stop.size();
    which_ = stop;
  }
  if (first != std::string::npos) {
    stopped_ = true;
    return std::exchange(held_, {}).substr(0, first);
  }
  std::size_t keep = 0;
  for (const std::string& stop : stops_) keep = std::max(keep, unsure(held_, stop));
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string StopText::finish() { return stopped_ ? "" : std::exchange(held_, {}); }

}  // namespace lathe::llm
