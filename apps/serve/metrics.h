// Counters in the text form that Prometheus reads.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <string>

#include "lathe/llm/engine.h"

namespace lathe::llm::serve {

class Metrics {
 public:
  void answered(const std::string& path, int status);
  void took(double seconds_to_first, double seconds);  // a request that was served to its end
  void embedded(std::size_t texts, std::size_t tokens);
  std::string text(const Engine* engine) const;  // null: nothing writes

 private:
  static constexpr std::array kBounds{0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0};
  struct Histogram {
    std::array<std::int64_t, kBounds.size()> at_most{};
    std::int64_t count = 0;
    double sum = 0;
    void add(double seconds);
    std::string text(const std::string& name, const std::string& help) const;
  };
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, std::int64_t> answers_;
  std::int64_t embedded_texts_ = 0, embedded_tokens_ = 0;
  Histogram first_, whole_;
};

}  // namespace lathe::llm::serve
