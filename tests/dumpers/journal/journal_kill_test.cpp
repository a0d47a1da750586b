// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <random>

#include "dumpers/journal/journal_reader.h"
#include "dumpers/journal/journal_writer.h"
#include "tests/dumpers/journal/random_record.h"
#include "tests/dumpers/journal/same_record.h"
#include "tests/support/shared_counter.h"
#include "tests/support/temp_directory.h"

namespace repro_check::journal {
namespace {

[[noreturn]] void record_for_ever(const std::filesystem::path& file,
                                  std::atomic<std::uint64_t>& appended) {
  JournalWriter writer(file);
  for (std::uint64_t i = 0;; ++i) {
    const core::OpRecord record = test_support::small_record(i);
    writer.enter(record);
    writer.append(record);
    appended.store(i + 1);
  }
}

TEST_CASE("killed at any instant, every appended record is recovered") {
  std::mt19937_64 random(20240607);
  for (int trial = 0; trial < 16; ++trial) {
    const test_support::TempDirectory directory;
    const auto file = directory / "journal.bin";
    const test_support::SharedCounter appended;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) record_for_ever(file, *appended);
    while ((*appended).load() == 0) ::usleep(50);
    ::usleep(static_cast<useconds_t>(random() % 20'000));
    REQUIRE(::kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);

    const std::uint64_t promised = (*appended).load();
    JournalReader reader(file);
    std::uint64_t read = 0;
    bool right = true;
    while (const auto record = test_support::next_record(reader)) {
      right = right && test_support::same_record(*record, test_support::small_record(read));
      ++read;
    }
    CHECK(right);
    CHECK(read >= promised);
    CHECK(read <= promised + 1);
    const JournalSummary summary = summarise(file);
    CHECK(summary.completed == read);
    if (summary.entered) {
      CHECK(*summary.entered == read);
    }
    CHECK_FALSE(is_being_written(file));
  }
}

}  // namespace
}  // namespace repro_check::journal
