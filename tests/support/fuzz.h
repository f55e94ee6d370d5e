// The seeds of a random test. In the tests: 1 to `count`. With FUZZ_SEED, that seed alone, which repeats a
// failure; with FUZZ_SECONDS as well (make fuzz), all seeds from it on until the time is over.
//
//   for (FuzzSeeds seeds(1500); seeds.next();) check(seeds.seed());
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>

namespace lathe::test {

class FuzzSeeds {
 public:
  explicit FuzzSeeds(std::uint64_t count) {
    const char* first = std::getenv("FUZZ_SEED");
    const char* seconds = std::getenv("FUZZ_SECONDS");
    if (first != nullptr) {
      next_ = std::strtoull(first, nullptr, 10);
      count = 1;
    }
    last_ = next_ + count - 1;
    if (seconds != nullptr) until_ = Clock::now() + std::chrono::duration<double>(std::atof(seconds));
  }

  // Whether there is another seed; takes it.
  bool next() {
    if (next_ > last_ && Clock::now() >= until_) return false;
    seed_ = next_++;
    return true;
  }
  std::uint64_t seed() const { return seed_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::uint64_t next_ = 1, last_ = 0, seed_ = 0;
  std::chrono::time_point<Clock, std::chrono::duration<double>> until_{};
};

}  // namespace lathe::test
