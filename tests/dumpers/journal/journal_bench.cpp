// SPDX-License-Identifier: Apache-2.0
// Prints what one enter() and one append() cost; not a test, run it by hand.
#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "dumpers/journal/journal_writer.h"
#include "tests/dumpers/journal/random_record.h"
#include "tests/support/temp_directory.h"

int main() {
  using Clock = std::chrono::steady_clock;
  constexpr std::uint64_t kRecords = 200'000;
  constexpr double kNanoseconds = 1e9;
  const repro_check::test_support::TempDirectory directory;
  std::vector<repro_check::core::OpRecord> records;
  for (std::uint64_t i = 0; i < 64; ++i) {
    records.push_back(repro_check::test_support::small_record(i));
  }
  repro_check::journal::JournalWriter writer(directory / "journal.bin");
  double entering = 0;
  double appending = 0;
  for (std::uint64_t round = 0; round < kRecords / records.size(); ++round) {
    const auto begin = Clock::now();
    for (const auto& record : records) {
      writer.enter(record);
    }
    const auto middle = Clock::now();
    for (const auto& record : records) writer.append(record);
    entering += std::chrono::duration<double>(middle - begin).count();
    appending += std::chrono::duration<double>(Clock::now() - middle).count();
  }
  writer.close();
  const auto size = std::filesystem::file_size(directory / "journal.bin");
  fmt::print("enter {:.0f} ns, append {:.0f} ns, {:.0f} bytes a call\n",
             entering / kRecords * kNanoseconds,
             appending / kRecords * kNanoseconds,
             static_cast<double>(size) / kRecords);
}
