// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cmd/bisect/bisect.h"
#include "core/error.h"
#include "tests/support/files.h"
#include "tests/support/temp_directory.h"

namespace repro_check::cmd::bisect_log_test {
namespace {

using test_support::read_file;
using test_support::TempDirectory;

using comparators::TrialOutcome;

const LoggedTrial kFirst{{"/threads", "/env/A"}, TrialOutcome::kShows, "DIVERGED at op 0 \"x\""};
const LoggedTrial kSecond{{}, TrialOutcome::kPasses, "REPRODUCIBLE"};

core::ErrorKind kind_of(const std::filesystem::path& file, const std::string& key) {
  try {
    const BisectLog log(file, key);
  } catch (const core::Error& error) {
    return error.kind();
  }
  return core::ErrorKind::kInternal;
}

TEST_CASE("what was logged is there again") {
  const TempDirectory folder;
  const auto file = folder / "log";
  {
    BisectLog log(file, "key");
    CHECK_FALSE(log.resumed());
    log.append(kFirst);
    log.note_baseline("abc");
    log.append(kSecond);
  }
  const std::string before = read_file(file);
  const BisectLog log(file, "key");
  CHECK(log.resumed());
  CHECK(log.baseline() == "abc");
  CHECK(log.trials() == std::vector<LoggedTrial>{kFirst, kSecond});
  CHECK(read_file(file) == before);
}

TEST_CASE("killed at any byte, all whole lines are taken and the log goes on") {
  const TempDirectory folder;
  const auto file = folder / "log";
  {
    BisectLog log(file, "key");
    log.note_baseline("abc");
    log.append(kFirst);
    log.append(kSecond);
  }
  const std::string whole = read_file(file);
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    CAPTURE(size);
    std::ofstream(file, std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    const auto lines = static_cast<std::size_t>(
        std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size), '\n'));
    {
      BisectLog log(file, "key");
      CHECK(log.resumed() == (lines > 0));
      CHECK(log.baseline() == (lines > 1 ? "abc" : ""));
      CHECK(log.trials().size() == (lines > 2 ? lines - 2 : 0));
      log.append(kSecond);
    }
    const BisectLog again(file, "key");
    CHECK(again.trials().back() == kSecond);
  }
}

TEST_CASE("a log of something else is refused and left as it is") {
  const TempDirectory folder;
  const auto file = folder / "log";
  { const BisectLog log(file, "key"); }
  const std::string before = read_file(file);
  CHECK(kind_of(file, "another") == core::ErrorKind::kUsage);
  CHECK(read_file(file) == before);
  for (const char* text : {"no json\n", "[]\n", "{\"format\": 3}\n", "{\"format\": \"x\"}\n"}) {
    CAPTURE(text);
    std::ofstream(file, std::ios::trunc) << text;
    CHECK(kind_of(file, "key") == core::ErrorKind::kUsage);
    CHECK(read_file(file) == text);
  }
  std::ofstream(file, std::ios::trunc) << before << "{\"changes\": 3}\n";
  CHECK(kind_of(file, "key") == core::ErrorKind::kUsage);
}

}  // namespace
}  // namespace repro_check::cmd::bisect_log_test
