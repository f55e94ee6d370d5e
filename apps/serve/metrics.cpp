#include "apps/serve/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

namespace lathe::llm::serve {
namespace {

std::string one(const std::string& name, const char* type, const char* help, std::int64_t value) {
  return fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, type, value);
}

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

std::string engine_text(const EngineStats& s) {
  std::string out;
  out += one("lathe_requests_waiting", "gauge", "Sequences that wait for a place.", s.waiting);
  out += one("lathe_requests_running", "gauge", "Sequences in the batch.", s.running);
  out += one("lathe_requests_finished_total", "counter", "Sequences written to their end.", s.finished);
  out += one("lathe_requests_cancelled_total", "counter",
             "Sequences whose client disconnected or ran out of time.", s.cancelled);
  out += one("lathe_requests_failed_total", "counter", "Sequences that could not be written.", s.failed);
  out += one("lathe_preemptions_total", "counter",
             "Sequences that gave back their pages and were computed again.", s.preempted);
  out += one("lathe_steps_total", "counter", "Steps of the engine.", s.steps);
  out += one("lathe_prompt_tokens_total", "counter", "Tokens of prompts.", s.prompt_tokens);
  out += one("lathe_cached_tokens_total", "counter", "Prompt tokens whose pages were already in the cache.",
             s.cached_tokens);
  out += one("lathe_written_tokens_total", "counter", "Tokens written.", s.written_tokens);
  out += one("lathe_pages", "gauge", "Pages of the key-value cache.", s.pages);
  out += one("lathe_pages_held", "gauge", "Pages that sequences hold.", s.pages_held);
  out += one("lathe_pages_remembered", "gauge", "Pages kept for prompts with the same prefix.",
             s.pages_remembered);
  return out;
}

}  // namespace

void Metrics::Histogram::add(double seconds) {
  for (std::size_t i = 0; i < kBounds.size(); ++i) at_most[i] += seconds <= kBounds[i] ? 1 : 0;
  ++count;
  sum += seconds;
}

std::string Metrics::Histogram::text(const std::string& name, const std::string& help) const {
  std::string out = fmt::format("# HELP {0} {1}\n# TYPE {0} histogram\n", name, help);
  for (std::size_t i = 0; i < kBounds.size(); ++i)
    out += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, kBounds[i], at_most[i]);
  return out + fmt::format("{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, count, sum);
}

void Metrics::answered(const std::string& path, int status) {
  const std::lock_guard lock(mutex_);
  ++answers_[{path, status}];
}

void Metrics::took(double seconds_to_first, double seconds) {
  const std::lock_guard lock(mutex_);
  first_.add(seconds_to_first);
  whole_.add(seconds);
}

void Metrics::embedded(std::size_t texts, std::size_t tokens) {
  const std::lock_guard lock(mutex_);
  embedded_texts_ += static_cast<std::int64_t>(texts);
  embedded_tokens_ += static_cast<std::int64_t>(tokens);
}

std::string Metrics::text(const Engine* engine) const {
  std::string out = engine != nullptr ? engine_text(engine->stats()) : "";
  out += one("process_resident_memory_bytes", "gauge", "Memory of the process.", resident_bytes());
  const std::lock_guard lock(mutex_);
  out += one("lathe_embedded_texts_total", "counter", "Texts made into vectors.", embedded_texts_);
  out += one("lathe_embedded_tokens_total", "counter", "Tokens of these texts.", embedded_tokens_);
  out +=
      "# HELP lathe_http_responses_total Answers by path and status.\n# TYPE lathe_http_responses_total "
      "counter\n";
  for (const auto& [key, count] : answers_)
    out += fmt::format("lathe_http_responses_total{{path=\"{}\",status=\"{}\"}} {}\n", key.first, key.second,
                       count);
  out += first_.text("lathe_first_token_seconds", "From a request to its first token.");
  out += whole_.text("lathe_request_seconds", "From a request to its end.");
  return out;
}

}  // namespace lathe::llm::serve
