// The seeds of a random test. In the tests: 1 to `count`. With FUZZ_SEED, that seed alone, which repeats a
// failure; with FUZZ_SECONDS as well (make fuzz), all seeds from it on until the time is over; with
// FUZZ_COUNT (scripts/fuzz_files.sh) so many seeds, each told before it is tried and given five minutes, so
// that a crash or a hang names its seed too.
//
//   for (FuzzSeeds seeds(1500); seeds.next();) check(seeds.seed());
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace lathe::test {

class FuzzSeeds {
 public:
  explicit FuzzSeeds(std::uint64_t count) {
    const char* first = std::getenv("FUZZ_SEED");
    const char* seconds = std::getenv("FUZZ_SECONDS");
    const char* wanted = std::getenv("FUZZ_COUNT");
    if (first != nullptr) {
      next_ = std::strtoull(first, nullptr, 10);
      count = 1;
    }
    if (wanted != nullptr) count = std::strtoull(wanted, nullptr, 10);
    tells_ = wanted != nullptr;
    last_ = next_ + count - 1;
    if (seconds != nullptr) until_ = Clock::now() + std::chrono::duration<double>(std::atof(seconds));
  }
  ~FuzzSeeds() {
    if (tells_) alarm(0);
  }
  FuzzSeeds(const FuzzSeeds&) = delete;
  FuzzSeeds& operator=(const FuzzSeeds&) = delete;

  // Whether there is another seed; takes it.
  bool next() {
    if (next_ > last_ && Clock::now() >= until_) return false;
    seed_ = next_++;
    if (tells_) {
      std::fprintf(stderr, "FUZZ_SEED=%llu\n", static_cast<unsigned long long>(seed_));
      constexpr unsigned kPatience = 300;
      alarm(kPatience);
    }
    return true;
  }
  std::uint64_t seed() const { return seed_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::uint64_t next_ = 1, last_ = 0, seed_ = 0;
  bool tells_ = false;
  std::chrono::time_point<Clock, std::chrono::duration<double>> until_{};
};

}  // namespace lathe::test
