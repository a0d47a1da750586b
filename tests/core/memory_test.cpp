// SPDX-License-Identifier: Apache-2.0
#include "core/system/memory.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace repro_check::core {
namespace {

constexpr std::size_t kMany = std::size_t{1} << 20U;

/// Puts the limit back.
class Limited {
 public:
  explicit Limited(std::size_t bytes) : before_(limit_large_memory(bytes)) {}
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;
  Limited(Limited&&) = delete;
  Limited& operator=(Limited&&) = delete;
  ~Limited() { limit_large_memory(before_); }

 private:
  std::size_t before_;
};

/// A line of /proc/self/status in MiB.
std::size_t status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) {
      return std::strtoull(line.c_str() + name.size() + 1, nullptr, 10) / 1024;
    }
  }
  return 0;
}

TEST_CASE("small arrays are ordinary memory and are not counted") {
  const LargeMemoryUse before = large_memory_use();
  const LargeVector<std::uint32_t> few(1000, 7);
  CHECK(large_memory_use().in_memory == before.in_memory);
  CHECK(large_memory_use().in_files == before.in_files);
}

TEST_CASE("what the limit leaves no room for lies in files, and is given back") {
  const Limited limited(large_memory_use().in_memory + 4 * kMany);
  const LargeMemoryUse before = large_memory_use();
  {
    const LargeVector<std::uint32_t> first(kMany, 1);
    CHECK(large_memory_use().in_memory == before.in_memory + 4 * kMany);
    const LargeVector<std::uint32_t> second(kMany, 2);
    CHECK(large_memory_use().in_memory == before.in_memory + 4 * kMany);
    CHECK(large_memory_use().in_files == before.in_files + 4 * kMany);
    CHECK(std::accumulate(first.begin(), first.end(), std::uint64_t{0}) == kMany);
    CHECK(std::accumulate(second.begin(), second.end(), std::uint64_t{0}) == 2 * kMany);
  }
  CHECK(large_memory_use().in_memory == before.in_memory);
  CHECK(large_memory_use().in_files == before.in_files);
}

TEST_CASE("arrays of files keep what is written, and their pages are handed back") {
  const Limited limited(0);
  constexpr std::size_t kCount = std::size_t{64} << 20U;  // 256 MiB
  constexpr std::size_t kAllowed = 168;                   // MiB
  const std::size_t before = status("RssFile") + status("RssShmem");
  LargeVector<std::uint32_t> numbers;
  // Grown step by step, so that old and new are there together; and read while pages are dropped.
  for (std::uint32_t i = 0; i < kCount; ++i) numbers.push_back(i * 2654435761U);
  CHECK(large_memory_use().in_files >= 4 * kCount);
  CHECK(status("RssFile") + status("RssShmem") <= before + kAllowed);
  bool same = true;
  for (std::uint32_t i = 0; i < kCount; ++i) same = same && numbers[i] == i * 2654435761U;
  CHECK(same);
  CHECK(status("RssFile") + status("RssShmem") <= before + kAllowed);
}

TEST_CASE("looking up elements keeps to what may be resident, for however long") {
  const Limited limited(0);
  constexpr std::size_t kCount = std::size_t{96} << 20U;  // 384 MiB
  constexpr std::size_t kWindow = kMostLargeResident >> 20U;
  constexpr std::size_t kBetween = 32;  // MiB, that come in between two readings
  const std::size_t before = status("RssFile") + status("RssShmem");
  LargeVector<std::uint32_t> numbers(kCount);
  std::uint64_t at = 1;
  std::size_t most = 0;
  for (int i = 0; i < 120'000; ++i) {
    at = at * 6364136223846793005U + 1442695040888963407U;
    numbers[(at >> 24U) % kCount] = 1;
    if (i % 256 == 0) most = std::max(most, status("RssFile") + status("RssShmem"));
  }
  CHECK(most <= before + kWindow + kBetween);
}

TEST_CASE("from several threads") {
  const Limited limited(0);
  std::array<bool, 4> right{};
  {
    std::vector<std::jthread> threads;
    threads.reserve(right.size());
    for (bool& of_thread : right) {
      threads.emplace_back([&of_thread] {
        bool same = true;
        for (std::uint32_t round = 0; round < 8; ++round) {
          const LargeVector<std::uint32_t> mine(kMany, round);
          for (const std::uint32_t number : mine) same = same && number == round;
        }
        of_thread = same;
      });
    }
  }
  for (const bool same : right) CHECK(same);
}

TEST_CASE("where no file can be made it is ordinary memory") {
  const Limited limited(0);
  const LargeMemoryUse before = large_memory_use();
  SUBCASE("no directory for temporary files") {
    const char* set = std::getenv("TMPDIR");
    const std::string was = set == nullptr ? "" : set;
    ::setenv("TMPDIR", "/nonexistent/for/this/test", 1);
    {
      const LargeVector<std::uint32_t> numbers(kMany, 3);
      CHECK(large_memory_use().in_memory == before.in_memory + 4 * kMany);
      CHECK(numbers.back() == 3);
    }
    if (set == nullptr) {
      ::unsetenv("TMPDIR");
    } else {
      ::setenv("TMPDIR", was.c_str(), 1);
    }
  }
  SUBCASE("files may not be so large") {
    struct rlimit limit {};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &limit) == 0);
    struct rlimit small = limit;
    small.rlim_cur = kMany;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    {
      const LargeVector<std::uint32_t> numbers(kMany, 4);
      CHECK(large_memory_use().in_memory == before.in_memory + 4 * kMany);
      CHECK(numbers.back() == 4);
    }
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  CHECK(large_memory_use().in_memory == before.in_memory);
}

}  // namespace
}  // namespace repro_check::core
