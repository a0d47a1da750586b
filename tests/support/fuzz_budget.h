// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace repro_check::test_support {

/// How long a mutation test goes on: a number of trials as a rule; `REPRO_CHECK_FUZZ_SECONDS`
/// seconds, from the seed `REPRO_CHECK_FUZZ_SEED`, for `scripts/fuzz`. Says both in the end.
class FuzzBudget {
 public:
  FuzzBudget(const char* name, std::uint64_t seed, std::uint64_t trials)
      : name_(name), seed_(number("REPRO_CHECK_FUZZ_SEED", seed)), trials_(trials), random_(seed_) {
    seconds_ = number("REPRO_CHECK_FUZZ_SECONDS", 0);
  }
  FuzzBudget(const FuzzBudget&) = delete;
  FuzzBudget& operator=(const FuzzBudget&) = delete;
  FuzzBudget(FuzzBudget&&) = delete;
  FuzzBudget& operator=(FuzzBudget&&) = delete;
  ~FuzzBudget() {
    std::printf("%s: %llu mutations from seed %llu\n",
                name_.c_str(),
                static_cast<unsigned long long>(done_),
                static_cast<unsigned long long>(seed_));
  }

  /// Whether there is another trial to make.
  bool next() {
    const std::chrono::duration<double> elapsed = Clock::now() - start_;
    const bool more =
        seconds_ == 0 ? done_ < trials_ : elapsed.count() < static_cast<double>(seconds_);
    done_ += more ? 1U : 0U;
    return more;
  }
  [[nodiscard]] std::uint64_t done() const noexcept { return done_; }
  std::mt19937_64& random() noexcept { return random_; }

 private:
  using Clock = std::chrono::steady_clock;

  static std::uint64_t number(const char* variable, std::uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
  }

  std::string name_;
  std::uint64_t seed_;
  std::uint64_t trials_;
  std::uint64_t seconds_ = 0;
  std::uint64_t done_ = 0;
  std::mt19937_64 random_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace repro_check::test_support
