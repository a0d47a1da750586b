// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "core/error.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/journal/journal_writer.h"
#include "tests/dumpers/journal/random_record.h"
#include "tests/support/temp_directory.h"

namespace repro_check::journal {
namespace {

constexpr int kRefusedAsAgreed = 42;

/// Runs in a child: a file size limit stands in for a full disk.
int record_until_refused(const std::filesystem::path& file) {
  constexpr rlim_t kLimit = rlim_t{1} << 20U;
  const rlimit limit{kLimit, kLimit};
  std::signal(SIGXFSZ, SIG_DFL);
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
  JournalWriter writer(file);
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    try {
      writer.append(test_support::small_record(i));
    } catch (const core::Error& error) {
      writer.fail("out of room after " + std::to_string(i) + std::string(100'000, '!'));
      const bool named = std::string(error.what()).find(file.string()) != std::string::npos;
      const bool right = error.kind() == core::ErrorKind::kIo && !error.hint().empty() && named;
      return right && i > 0 ? kRefusedAsAgreed : 2;
    }
  }
  return 3;
}

TEST_CASE("when the file cannot grow, an error says so and the failure is still noted") {
  const test_support::TempDirectory directory;
  const auto file = directory / "journal.bin";
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(record_until_refused(file));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == kRefusedAsAgreed);

  const JournalSummary summary = summarise(file);
  CHECK(summary.completed > 100);
  CHECK(summary.failure.starts_with("out of room after " + std::to_string(summary.completed)));
}

TEST_CASE("a directory that does not exist is named") {
  try {
    const JournalWriter writer("/nonexistent-directory/journal.bin");
    FAIL("a journal was created nowhere");
  } catch (const core::Error& error) {
    CHECK(error.kind() == core::ErrorKind::kIo);
    CHECK(std::string(error.what()).find("/nonexistent-directory/journal.bin") !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace repro_check::journal
